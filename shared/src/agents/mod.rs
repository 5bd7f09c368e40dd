//! TODO agents

pub mod presets;
pub mod prices;
pub mod requires;
