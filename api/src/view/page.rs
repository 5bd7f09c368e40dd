//! Lists in pages.

use serde::{Deserialize, Serialize};

/// A part of a list (SPEC 9.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Page<T> {
    /// What it holds.
    pub items: Vec<T>,
    /// Asks for what follows; `None` at the end.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A list that is whole.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}
