//! The confinement that a mode comes to on this machine.

/// What a mode comes to on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effective {
    /// Nothing confines agents.
    Open,
    Landlock,
    Bubblewrap,
}
