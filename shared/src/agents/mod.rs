//! Built-in knowledge of agents and models: presets, requirements, prices.

pub mod presets;
pub mod prices;
pub mod requires;
