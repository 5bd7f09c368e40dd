//! The effective sandbox of a mode on this machine.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effective {
    /// No sandbox.
    Open,
    Landlock,
    Bubblewrap,
}
