//! Changes of what stands.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::limits::RunOptions;
use super::priority::PrecedenceOptions;

/// `PATCH /api/v1/tasks/{id}`: what isn't given stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditTask {
    /// One line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r"^[^\n]*\S[^\n]*$")]
    pub title: Option<String>,
    /// What the agent needs to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The description that the change started from; when it isn't the stored one any more, nothing is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Lower goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Pool of workers that may take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9-]{1,40}$")]
    pub pool: Option<String>,
    /// A configured agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A model or a tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_retries: Option<i32>,
    /// Whether attempts are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// Paths that it changes, such as `src/api/**`, instead of those that were declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
}

/// `PATCH /api/v1/features/{id}`: what isn't given stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditFeature {
    /// What it is about, as agents are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The description that the change started from; when it isn't the stored one any more, nothing is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Sessions that may run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_parallel: Option<i32>,
    /// How often the whole is reviewed at most when its tasks are done, with those reviews that it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 20)]
    pub review_rounds: Option<i32>,
    /// Retries of its tasks that are not over and that nobody works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_retries: Option<i32>,
    /// Whether attempts at these tasks are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// When it goes before others.
    #[serde(default, deserialize_with = "by_name")]
    pub precedence: PrecedenceOptions,
    /// Whether its run goes on if it ended at a limit that is raised; `true` when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
    /// Limits and choices of the last run, or of the first one where none was; what isn't given stays.
    #[serde(default, deserialize_with = "by_name")]
    pub run: RunOptions,
}

/// Reads fields by their names alone; by itself, serde takes a list of their values as well.
fn by_name<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let fields = Map::deserialize(deserializer)?;
    T::deserialize(Value::Object(fields)).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_wished_of_a_run_is_named() {
        let read = |text: &str| serde_json::from_str::<EditFeature>(text);
        let edit = read(r#"{"run": {"cost_usd": 2.5, "iterations": 3}}"#);
        assert_eq!(edit.unwrap().run.iterations, Some(3));
        assert_eq!(read("{}").unwrap(), EditFeature::default());
        for wrong in [
            r#"{"run": [null, null]}"#,
            r#"{"run": {"cost_udd": 1}}"#,
            r#"{"run": null}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
