//! What a span says, in no exporter's terms.

use time::OffsetDateTime;

use super::ids::{SpanId, TraceId};

/// Longest text of an attribute. Characters.
const TEXT_CHARS: usize = 500;

/// Something that took time.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its trace.
    pub trace: TraceId,
    /// Its own name there.
    pub id: SpanId,
    /// What it is a part of; `None` for all of it.
    pub parent: Option<SpanId>,
    /// What else belongs to it, in another trace.
    pub link: Option<(TraceId, SpanId)>,
    /// What happened, in a few words for people.
    pub name: String,
    /// Whether it is a call to something outside: an agent.
    pub is_client: bool,
    /// From when.
    pub start: OffsetDateTime,
    /// Until when; never before `start`.
    pub end: OffsetDateTime,
    /// Facts, by names of the semantic conventions (`gen_ai.*`) or `ralph.*`.
    pub attributes: Vec<(&'static str, Value)>,
    /// What happened in the middle of it.
    pub moments: Vec<Moment>,
    /// Why it failed, if it did.
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

    pub(super) fn linked(mut self, trace: TraceId, span: SpanId) -> Self {
        self.link = Some((trace, span));
        self
    }

    /// A text; what isn't known is left out.
    pub(super) fn text(mut self, name: &'static str, text: Option<&str>) -> Self {
        let text = text.filter(|text| !text.is_empty()).map(short);
        self.attributes.extend(text.map(|text| (name, Value::Text(text))));
        self
    }

    /// A whole number; what isn't known is left out.
    pub(super) fn count(mut self, name: &'static str, n: Option<i64>) -> Self {
        self.attributes.extend(n.map(|n| (name, Value::Count(n))));
        self
    }

    /// A number; what isn't known is left out.
    pub(super) fn number(mut self, name: &'static str, n: Option<f64>) -> Self {
        self.attributes.extend(n.map(|n| (name, Value::Number(n))));
        self
    }

    pub(super) fn failed(mut self, why: Option<&str>) -> Self {
        self.error = why.map(short);
        self
    }
}

/// A fact.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Text(String),
    Count(i64),
    Number(f64),
}

/// Something at one point in time.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// When.
    pub at: OffsetDateTime,
    /// What kind of thing.
    pub name: &'static str,
    /// What exactly.
    pub text: String,
}

/// So much of a text as belongs into a trace.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
