//! Every key, with what it is when nobody sets it and who reads it.

mod all;
mod coordinator;
mod program;
mod run;
mod worker;

pub use all::KEYS;
pub(super) use all::WITHOUT_EFFECT;
