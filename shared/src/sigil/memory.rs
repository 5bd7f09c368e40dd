//! The sigils that leave memory: knowledge, learnings, and notes of the session's memory.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::cut::{cut_after_words, cut_at_word};
use super::value::{Fault, one_line, required, required_attribute, required_list};

/// A knowledge body keeps this many words (SPEC 4.1).
pub const KNOWLEDGE_WORDS: usize = 500;
/// A knowledge title keeps this many characters, whole words where it has any.
pub const TITLE_CHARS: usize = 300;
/// Maximum number of kept tags of one entry, and of characters of each.
pub const MOST_TAGS: usize = 30;
/// See [`MOST_TAGS`].
pub const TAG_CHARS: usize = 100;

/// `<knowledge>`: a fact about the whole project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knowledge {
    /// On one line, never empty, at most [`TITLE_CHARS`] characters.
    pub title: String,
    /// One to [`MOST_TAGS`], lower-case, each once, in the order given.
    pub tags: Vec<String>,
    /// At most [`KNOWLEDGE_WORDS`] words; ends with `[truncated]` if there were more.
    pub body: String,
}

impl Knowledge {
    pub(super) fn read(attributes: Attributes<'_>, body: &str) -> Result<Self, Fault> {
        let title = one_line(required_attribute(attributes.title)?);
        let title = cut_at_word(&title, TITLE_CHARS).to_owned();
        let tags = tags(attributes, str::to_lowercase)?;
        let body = required(body)?;
        let body = match cut_after_words(body, KNOWLEDGE_WORDS) {
            Some(kept) => format!("{kept} [truncated]"),
            None => body.to_owned(),
        };
        Ok(Self { title, tags, body })
    }
}

/// The kept tags of an entry.
fn tags(attributes: Attributes<'_>, fold: fn(&str) -> String) -> Result<Vec<String>, Fault> {
    let mut kept: Vec<String> = Vec::new();
    for tag in required_list(attributes.tags, fold)? {
        let tag = cut_at_word(&tag, TAG_CHARS);
        if kept.len() < MOST_TAGS && !kept.iter().any(|other| other == tag) {
            kept.push(tag.to_owned());
        }
    }
    Ok(kept)
}

/// `<learning>`: an insight from an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learning {
    pub category: LearningCategory,
    /// One to [`MOST_TAGS`], in the agent's own case, each once.
    pub tags: Vec<String>,
    /// Never empty.
    pub body: String,
    /// Ids of the learnings that it replaces, as written; they count only in a `distill` session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merges: Vec<String>,
}

impl Learning {
    pub(super) fn read(attributes: Attributes<'_>, body: &str) -> Result<Self, Fault> {
        let category = one_line(required_attribute(attributes.category)?);
        let category = cut_at_word(&category, TAG_CHARS).to_owned().into();
        let tags = tags(attributes, str::to_owned)?;
        Ok(Self {
            category,
            tags,
            body: required(body)?.to_owned(),
            merges: required_list(attributes.merges, str::to_lowercase).unwrap_or_default(),
        })
    }
}

/// The subject of a learning (SPEC 4.1). Text form: the word in the sigil.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum LearningCategory {
    /// An approach that worked.
    SuccessPattern,
    /// A mistake to avoid.
    Pitfall,
    /// How to use a tool.
    ToolUsage,
    /// How the code is built.
    CodeStructure,
    /// How to test a kind of change.
    TestingStrategy,
    /// A way to find a cause.
    DebuggingTechnique,
    /// Anything else.
    Other,
    /// A category of the agent's own, as written.
    Named(String),
}

impl LearningCategory {
    const KNOWN: [Self; 7] = [
        Self::SuccessPattern,
        Self::Pitfall,
        Self::ToolUsage,
        Self::CodeStructure,
        Self::TestingStrategy,
        Self::DebuggingTechnique,
        Self::Other,
    ];

    /// The word in the sigil.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::SuccessPattern => "success_pattern",
            Self::Pitfall => "pitfall",
            Self::ToolUsage => "tool_usage",
            Self::CodeStructure => "code_structure",
            Self::TestingStrategy => "testing_strategy",
            Self::DebuggingTechnique => "debugging_technique",
            Self::Other => "other",
            Self::Named(name) => name,
        }
    }
}

impl From<String> for LearningCategory {
    fn from(word: String) -> Self {
        Self::KNOWN
            .into_iter()
            .find(|known| known.as_str() == word)
            .unwrap_or(Self::Named(word))
    }
}

impl From<LearningCategory> for String {
    fn from(category: LearningCategory) -> Self {
        match category {
            LearningCategory::Named(name) => name,
            known => known.as_str().to_owned(),
        }
    }
}

impl fmt::Display for LearningCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// `<memory>`, or an `AGENTIUM_MEMORY:` line (SPEC 4.2): one entry of the session memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub kind: NoteKind,
    /// Never empty.
    pub text: String,
    /// The reason; only a decision has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
}

impl Note {
    pub(super) fn read(attributes: Attributes<'_>, body: &str) -> Result<Self, Fault> {
        let kind = NoteKind::from_word(required_attribute(attributes.kind)?).ok_or(Fault::Malformed)?;
        let rationale =
            (kind == NoteKind::Decision).then(|| attributes.rationale.and_then(|text| required(text).ok()));
        Ok(Self {
            kind,
            text: required(body)?.to_owned(),
            rationale: rationale.flatten().map(str::to_owned),
        })
    }

    /// Reads the text after `AGENTIUM_MEMORY:` on its line.
    pub(super) fn read_line(rest: &str) -> Result<Self, Fault> {
        let (word, text) = rest.split_once(char::is_whitespace).ok_or(Fault::Malformed)?;
        let kind = NoteKind::from_word(word).ok_or(Fault::Malformed)?;
        Ok(Self {
            kind,
            text: required(text)?.to_owned(),
            rationale: None,
        })
    }
}

/// The kind of a note (SPEC 4.1, 6.4). Text form: snake_case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum NoteKind {
    KeyFact,
    Decision,
    /// A completed step of the task.
    StepDone,
    /// A pending step of the task.
    StepPending,
    /// A changed path.
    FileModified,
}

impl NoteKind {
    const ALL: [Self; 5] = [
        Self::KeyFact,
        Self::Decision,
        Self::StepDone,
        Self::StepPending,
        Self::FileModified,
    ];

    /// The word in the sigil.
    #[must_use]
    /// Ignores case, since the lines of SPEC 4.2 use capitals.
    fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.into_str().eq_ignore_ascii_case(word))
    }
}

impl fmt::Display for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.into_str())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_knowledge_body_is_cut_after_its_last_whole_word() {
        let attributes = Attributes {
            title: Some("A\n title "),
            tags: Some("CI, Größe"),
            ..Attributes::default()
        };
        let words = |count: usize| vec!["wörd"; count].join("\n");
        let read = |count| Knowledge::read(attributes, &words(count)).unwrap();
        assert_eq!(read(500).body, words(500));
        assert_eq!(read(501).body, format!("{} [truncated]", words(500)));
        assert_eq!(
            (read(1).title.as_str(), read(1).tags),
            ("A title", vec!["ci".to_owned(), "größe".to_owned()])
        );
    }

    #[test]
    fn titles_tags_and_categories_of_any_length_are_cut_at_words() {
        let long = "größe ".repeat(1_000);
        let many: Vec<String> = (0..50).map(|n| format!("tag {n}")).collect();
        let tags = format!("{long},{}", many.join(","));
        let attributes = Attributes {
            title: Some(&long),
            tags: Some(&tags),
            category: Some(&long),
            ..Attributes::default()
        };
        let knowledge = Knowledge::read(attributes, "body").unwrap();
        assert_eq!(knowledge.title, "größe ".repeat(TITLE_CHARS / 6).trim_end());
        assert_eq!(knowledge.tags.len(), MOST_TAGS);
        assert_eq!(knowledge.tags[0], "größe ".repeat(TAG_CHARS / 6).trim_end());
        assert_eq!(knowledge.tags[1], "tag 0");
        let learning = Learning::read(attributes, "body").unwrap();
        assert_eq!(
            (learning.category.as_str(), &learning.tags),
            (knowledge.tags[0].as_str(), &knowledge.tags)
        );
    }

    #[test]
    fn categories_keep_their_word_through_text_and_json() {
        for word in ["success_pattern", "pitfall", "other", "Pitfall", "wörkflow"] {
            let category = LearningCategory::from(word.to_owned());
            assert_eq!(
                matches!(category, LearningCategory::Named(_)),
                !word.is_ascii() || word == "Pitfall"
            );
            let json = serde_json::to_string(&category).unwrap();
            assert_eq!(json, format!("\"{word}\""));
            assert_eq!(serde_json::from_str::<LearningCategory>(&json).unwrap(), category);
        }
    }

    #[test]
    fn only_a_decision_has_a_rationale() {
        let read = |kind| {
            let attributes = Attributes {
                kind: Some(kind),
                rationale: Some(" because "),
                ..Attributes::default()
            };
            Note::read(attributes, " text ").unwrap().rationale
        };
        assert_eq!(read("decision"), Some("because".to_owned()));
        assert_eq!(read("key_fact"), None);
    }
}
