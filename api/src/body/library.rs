//! Memory entries, queries and edits.

use ralph_domain::recall::Kind;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A memory entry to import.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportLine {
    /// The entry's external name; the same name is imported only once.
    pub id: String,
    /// Time at which it was learned.
    #[serde(with = "utc")]
    pub date: OffsetDateTime,
    /// What it is about.
    pub title: String,
    /// The text of the entry.
    #[serde(default)]
    pub body: String,
    /// Files that the entry concerns.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Keywords.
    #[serde(default)]
    pub tags: Vec<String>,
    /// A learning, or a knowledge entry.
    #[serde(default = "learning")]
    pub kind: Kind,
    /// Category of a learning.
    #[serde(default)]
    pub category: Option<String>,
    /// Feature of a knowledge entry.
    #[serde(default)]
    pub feature: Option<String>,
}

fn learning() -> Kind {
    Kind::Learning
}

/// A line of a query file.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueryLine {
    /// Id that the answer repeats.
    pub query_id: String,
    /// Time of the query: only older entries count.
    #[serde(with = "utc")]
    pub date: OffsetDateTime,
    /// Title, as of a task.
    pub title: String,
    /// Description, as of a task.
    #[serde(default)]
    pub description: String,
}

/// Times in RFC 3339 with any offset. Refuses a time whose year in UTC does not have four digits.
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
        written(at).ok_or_else(|| D::Error::custom(format!("{at} is outside of the years 0 to 9999 in UTC")))
    }

    /// The time in UTC, if its year there has four digits.
    pub fn written(at: OffsetDateTime) -> Option<OffsetDateTime> {
        at.checked_to_offset(UtcOffset::UTC)
            .filter(|at| (0..=9999).contains(&at.year()))
    }
}

/// Changes to an entry; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditMemory {
    pub title: Option<String>,
    pub category: Option<String>,
    pub body: Option<String>,
    pub tags: Option<Vec<String>>,
}
