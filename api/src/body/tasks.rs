//! The tasks of a submission: as JSON, or as the text of a task file.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Schema};

/// A task graph as text, YAML or JSON (SPEC 2.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphText {
    /// Origin of the text; errors begin with it.
    pub source: String,
    /// The text.
    pub text: String,
}

/// Reads tasks in any of three forms: a list of tasks, the text of a task file, or such a text with the name
/// of its source.
pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<GraphText>, D::Error> {
    let Some(raw) = Option::<Box<RawValue>>::deserialize(from)? else {
        return Ok(None);
    };
    let text = raw.get();
    let graph = |text: String| {
        Some(GraphText {
            source: "tasks".to_owned(),
            text,
        })
    };
    match text.as_bytes().first() {
        // JSON may contain surrogate pairs, which YAML does not support.
        Some(b'[') if text.contains("\\u") => {
            let whole: Value = serde_json::from_str(text).map_err(D::Error::custom)?;
            Ok(graph(whole.to_string()))
        }
        Some(b'[') => Ok(graph(text.to_owned())),
        Some(b'"') => Ok(graph(serde_json::from_str(text).map_err(D::Error::custom)?)),
        _ => match serde_json::from_str(text) {
            Ok(named) => Ok(Some(named)),
            Err(error) => Err(D::Error::custom(format!(
                "give a list of tasks, the text of a task file, or an object with its `source` and `text`: {error}"
            ))),
        },
    }
}

/// The schema of the three forms.
pub fn schema() -> RefOr<Schema> {
    let list = ArrayBuilder::new()
        .items(Ref::from_schema_name("TaskEntry"))
        .description(Some("The tasks"));
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("The text of a task file, YAML or JSON"));
    OneOfBuilder::new()
        .item(list)
        .item(text)
        .item(Ref::from_schema_name("GraphText"))
        .into()
}
