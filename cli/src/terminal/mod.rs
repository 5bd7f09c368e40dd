//! Shared terminal code: tables, colours, times, questions, pager and editor.

pub mod color;
pub(crate) mod condition;
pub(crate) mod confirm;
pub mod duration;
pub(crate) mod editor;
pub mod gate_times;
pub mod local_time;
pub(crate) mod moment;
pub mod output;
pub(crate) mod pager;
pub(crate) mod plural;
pub(crate) mod table;
