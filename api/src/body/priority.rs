//! What decides which features go first, and when.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use ralph_domain::scheduling::concurrency::Concurrency;
use ralph_domain::scheduling::precedence::Precedence;

/// When a feature goes before others; what isn't given stays as it is, or has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PrecedenceOptions {
    /// Its part of the slots beside that of others; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub weight: Option<i32>,
    /// Nothing of it begins before this time: RFC 3339, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// When it should be finished: RFC 3339, or `none`. Of features with the same part of the slots, the earliest deadline goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// Whether its run ends at the deadline; it doesn't by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at_deadline: Option<bool>,
    /// The key that sessions of its tasks have which name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
}

impl PrecedenceOptions {
    /// As it is stored.
    ///
    /// # Errors
    /// In words, when it makes no sense.
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
