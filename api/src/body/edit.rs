//! Changes to existing tasks and features.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::limits::RunOptions;
use super::priority::PrecedenceOptions;

/// `PATCH /api/v1/tasks/{id}`: omitted fields stay unchanged.
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
    /// The description that the change started from; nothing is stored when the stored one has changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// A task with a lower value goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Pool of workers that may take the task.
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
    /// Paths that the task changes, such as `src/api/**`; replaces the declared paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
}

/// `PATCH /api/v1/features/{id}`: omitted fields stay unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditFeature {
    /// What the feature is about; agents read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The description that the change started from; nothing is stored when the stored one has changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Sessions that may run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_parallel: Option<i32>,
    /// Most reviews of the whole feature once its tasks are done, including past reviews.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 20)]
    pub review_rounds: Option<i32>,
    /// Retries of its tasks that have not ended and have no session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_retries: Option<i32>,
    /// Whether attempts at these tasks are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// The feature's priority over other features.
    #[serde(default, deserialize_with = "by_name")]
    pub precedence: PrecedenceOptions,
    /// Whether to resume the run if it ended at a limit that this change raises; `true` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
    /// Limits and choices of the last run, or of the first one if there was none; omitted fields stay
    /// unchanged.
    #[serde(default, deserialize_with = "by_name")]
    pub run: RunOptions,
}

/// Accepts only an object with named fields; serde alone would also accept a list of values.
fn by_name<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let fields = Map::deserialize(deserializer)?;
    T::deserialize(Value::Object(fields)).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn run_options_are_an_object_of_known_fields() {
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
