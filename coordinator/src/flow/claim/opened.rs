//! A dispatch that a claim opened.

use ralph_shared::ids::{DispatchId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::Share;
use uuid::Uuid;

use crate::domain::routing::strategy;

/// A dispatch that a claim opened, now or when it arrived before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub dispatch: DispatchId,
    pub task: TaskId,
    pub kind: SessionKind,
    pub attempt: i32,
    pub run: RunId,
    pub model: Option<strategy::Choice>,
    /// Its agent among the worker's; `None` for the default one.
    pub agent: Option<String>,
    /// Row of its prompt.
    pub prompts: Option<Uuid>,
    pub share: Share,
}
