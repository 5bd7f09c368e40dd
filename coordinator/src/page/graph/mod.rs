//! The graph of a feature as SVG.

pub(crate) mod drawing;
pub(crate) mod layers;
