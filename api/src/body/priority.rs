//! Options that decide which features go first, and when.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use ralph_domain::scheduling::concurrency::Concurrency;
use ralph_domain::scheduling::precedence::Precedence;

/// When a feature goes before others; omitted fields stay unchanged, or have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PrecedenceOptions {
    /// Weight of the feature's share of the slots relative to other features; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub weight: Option<i32>,
    /// No task of the feature starts before this time: RFC 3339, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// Time by which it should be finished: RFC 3339, or `none`. Among features with the same share of the
    /// slots, the earliest deadline goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// Whether its run ends at the deadline; `false` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at_deadline: Option<bool>,
    /// Concurrency key of its tasks that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
}

impl PrecedenceOptions {
    /// Validates the options for storage.
    ///
    /// # Errors
    /// A message when an option is invalid.
    pub fn checked(&self) -> Result<Precedence, String> {
        if self.weight.is_some_and(|weight| !(1..=1000).contains(&weight)) {
            return Err("`weight` is 1 to 1000".to_owned());
        }
        if let Some(concurrency) = &self.concurrency {
            concurrency.check()?;
        }
        Ok(Precedence {
            weight: self.weight,
            not_before: moment("not_before", self.not_before.as_deref())?,
            deadline: moment("deadline", self.deadline.as_deref())?,
            stop_at_deadline: self.stop_at_deadline,
            concurrency: self.concurrency.clone(),
        })
    }
}

fn moment(field: &str, text: Option<&str>) -> Result<Option<Option<OffsetDateTime>>, String> {
    match text {
        None => Ok(None),
        Some("none") => Ok(Some(None)),
        Some(text) => match OffsetDateTime::parse(text, &Rfc3339) {
            Ok(at) => Ok(Some(Some(at))),
            Err(_) => Err(format!(
                "`{field}` is a time such as 2026-12-01T08:00:00+01:00, or `none`, not `{text}`"
            )),
        },
    }
}
