//! Lists in pages.

pub use ralph_api::view::Page;
use uuid::Uuid;

/// Items that a page has at most.
pub const MAX_PAGE: i64 = 1000;

/// Where a page begins: after the row with this key. Opaque to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor(pub Option<Uuid>);

impl Cursor {
    /// Reads what an earlier page gave as `next`; `None` when it can't have been that.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(Self(None)),
            Some(text) => Uuid::try_parse(text).ok().map(|id| Self(Some(id))),
        }
    }
}

/// Cuts `ids`, of which one more than `limit` was asked for, and says how to go on.
pub(super) fn cut(mut ids: Vec<Uuid>, limit: i64) -> (Vec<Uuid>, Option<String>) {
    let limit = usize::try_from(limit).unwrap_or(0);
    if ids.len() <= limit {
        return (ids, None);
    }
    ids.truncate(limit);
    let next = ids.last().map(|id| id.simple().to_string());
    (ids, next)
}
