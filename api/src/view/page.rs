//! Pages of lists.

use serde::{Deserialize, Serialize};

/// A page of a list (SPEC 9.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Page<T> {
    /// Items of the page.
    pub items: Vec<T>,
    /// Cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// The only page of a list.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}
