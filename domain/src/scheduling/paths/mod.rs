//! Decides which tasks change the same files, and which of them may run at once (`--avoid-conflicts`).
//!
//! | module | content |
//! | --- | --- |
//! | `pattern` | a declared path, and whether two of them can name the same file |
//! | `footprint` | known paths of a task: declared, and learned from its attempts |
//! | `turns` | which ready tasks may start beside running ones |

mod footprint;
mod pattern;
#[cfg(test)]
mod properties;
mod turns;

pub use footprint::Footprint;
pub use pattern::{BadPath, MAX_PATH_CHARS, MAX_PATHS, Pattern};
pub use turns::{Admission, Busy, Candidate, MAX_WAITING, Waiting, admit};
