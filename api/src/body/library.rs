//! Entries, questions and changes of the memory.

use ralph_domain::recall::Kind;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// An entry of an import.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportLine {
    /// Its name elsewhere; the same name is imported once.
    pub id: String,
    /// When it was learned.
    #[serde(with = "utc")]
    pub date: OffsetDateTime,
    /// What it is about.
    pub title: String,
    /// What was learned.
    #[serde(default)]
    pub body: String,
    /// Files that it is about.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Keywords.
    #[serde(default)]
    pub tags: Vec<String>,
    /// A learning, or a knowledge entry.
    #[serde(default = "learning")]
    pub kind: Kind,
    /// Of a learning.
    #[serde(default)]
    pub category: Option<String>,
    /// Of a knowledge entry.
    #[serde(default)]
    pub feature: Option<String>,
}

fn learning() -> Kind {
    Kind::Learning
}

/// A line of a file of questions.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueryLine {
    /// Comes back with the answer.
    pub query_id: String,
    /// When it is asked: only entries older than it count.
    #[serde(with = "utc")]
    pub date: OffsetDateTime,
    /// As a task's.
    pub title: String,
    /// As a task's.
    #[serde(default)]
    pub description: String,
}

/// Points in time in RFC 3339, of any offset. Refuses those without a UTC time of four-digit years.
pub mod utc {
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};
    use time::serde::rfc3339;
    use time::{OffsetDateTime, UtcOffset};

    pub fn serialize<S: Serializer>(at: &OffsetDateTime, serializer: S) -> Result<S::Ok, S::Error> {
        rfc3339::serialize(at, serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OffsetDateTime, D::Error> {
        let at = rfc3339::deserialize(deserializer)?;
        written(at).ok_or_else(|| D::Error::custom(format!("{at} is beyond the years that UTC can tell")))
    }

    /// The time in UTC, when it can be written so.
    pub fn written(at: OffsetDateTime) -> Option<OffsetDateTime> {
        at.checked_to_offset(UtcOffset::UTC)
            .filter(|at| (0..=9999).contains(&at.year()))
    }
}

/// What an edit changes; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditMemory {
    pub title: Option<String>,
    pub category: Option<String>,
    pub body: Option<String>,
    pub tags: Option<Vec<String>>,
}
