//! Lists in pages.

pub use ralph_api::view::Page;
use uuid::Uuid;

/// Most items of a page.
pub const MAX_PAGE: i64 = 1000;

/// Start of a page: after the row with this key. Opaque to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor(pub Option<Uuid>);

impl Cursor {
    /// Parses the `next` of an earlier page; `None` when it cannot be one.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(Self(None)),
            Some(text) => Uuid::try_parse(text).ok().map(|id| Self(Some(id))),
        }
    }
}

/// Cuts `ids`, which were read with one more than `limit`, and returns the next page's cursor.
pub(super) fn cut(mut ids: Vec<Uuid>, limit: i64) -> (Vec<Uuid>, Option<String>) {
    let limit = usize::try_from(limit).unwrap_or(0);
    if ids.len() <= limit {
        return (ids, None);
    }
    ids.truncate(limit);
    let next = ids.last().map(|id| id.simple().to_string());
    (ids, next)
}
