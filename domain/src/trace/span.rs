//! The content of a span, independent of an exporter.

use time::OffsetDateTime;

use super::ids::{SpanId, TraceId};

/// Longest text of an attribute. Characters.
const TEXT_CHARS: usize = 500;

/// An operation that takes time.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub trace: TraceId,
    pub id: SpanId,
    /// Its parent; `None` for the root.
    pub parent: Option<SpanId>,
    /// A related span of another trace.
    pub link: Option<(TraceId, SpanId)>,
    /// A short name for people.
    pub name: String,
    /// Whether it is a call to an outside system: an agent.
    pub is_client: bool,
    pub start: OffsetDateTime,
    /// Never before `start`.
    pub end: OffsetDateTime,
    /// Facts, by names of the semantic conventions (`gen_ai.*`) or `ralph.*`.
    pub attributes: Vec<(&'static str, Value)>,
    pub moments: Vec<Moment>,
    /// The reason of its failure, if it failed.
    pub error: Option<String>,
}

impl Span {
    /// A span without facts.
    pub(super) fn new(
        trace: TraceId,
        id: SpanId,
        name: impl Into<String>,
        start: OffsetDateTime,
        end: OffsetDateTime,
    ) -> Self {
        Self {
            trace,
            id,
            parent: None,
            link: None,
            name: name.into(),
            is_client: false,
            start,
            end: end.max(start),
            attributes: Vec::new(),
            moments: Vec::new(),
            error: None,
        }
    }

    pub(super) fn under(mut self, parent: SpanId) -> Self {
        self.parent = Some(parent);
        self
    }

    pub(super) fn with_link(mut self, trace: TraceId, span: SpanId) -> Self {
        self.link = Some((trace, span));
        self
    }

    /// Adds a text; omits an unknown one.
    pub(super) fn text(mut self, name: &'static str, text: Option<&str>) -> Self {
        let text = text.filter(|text| !text.is_empty()).map(short);
        self.attributes.extend(text.map(|text| (name, Value::Text(text))));
        self
    }

    /// Adds a whole number; omits an unknown one.
    pub(super) fn count(mut self, name: &'static str, n: Option<i64>) -> Self {
        self.attributes.extend(n.map(|n| (name, Value::Count(n))));
        self
    }

    /// Adds a number; omits an unknown one.
    pub(super) fn number(mut self, name: &'static str, n: Option<f64>) -> Self {
        self.attributes.extend(n.map(|n| (name, Value::Number(n))));
        self
    }

    pub(super) fn failed(mut self, why: Option<&str>) -> Self {
        self.error = why.map(short);
        self
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Count(i64),
    Number(f64),
}

/// An event at a point in time.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    pub at: OffsetDateTime,
    pub name: &'static str,
    pub text: String,
}

/// The part of a text that fits into a trace.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
