//! What is known of agents and models before any of them runs: presets, requirements, prices.

pub mod presets;
pub mod prices;
pub mod requires;
