//! The task-graph file as its author writes it, and its published JSON Schema (SPEC 2.6).

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::problem::Problem;
use crate::scheduling::concurrency::Concurrency;

/// A task graph, read but not checked: [`super::validate`] does that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Shape")]
#[schemars(
    title = "Ralph task graph",
    description = "The tasks of a feature, with their blockers and parents, as YAML or JSON."
)]
pub struct GraphFile {
    /// The tasks, in the order of the file.
    pub tasks: Vec<TaskEntry>,
    /// Name of the file or another source; errors begin with it.
    #[serde(skip)]
    pub source_name: String,
    /// Ignored fields (the first 20).
    #[serde(skip)]
    pub warnings: Vec<Problem>,
}

/// A task graph: a list of tasks, or a mapping whose `tasks` is that list.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Shape {
    /// The tasks alone.
    List(Vec<TaskEntry>),
    /// The tasks under a name.
    Mapping {
        /// The tasks.
        tasks: Vec<TaskEntry>,
    },
}

impl From<Shape> for GraphFile {
    fn from(shape: Shape) -> Self {
        let (Shape::List(tasks) | Shape::Mapping { tasks }) = shape;
        Self {
            tasks,
            source_name: "tasks".to_owned(),
            warnings: Vec::new(),
        }
    }
}

/// One task of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskEntry {
    /// Name of the task within this file, for `after` and `parent`.
    #[schemars(length(max = 100), regex(pattern = r"^[\p{L}\p{N}_][\p{L}\p{N}._:/-]*$"))]
    pub key: Located<String>,
    /// The work to do, on one line.
    #[schemars(length(min = 1, max = 500))]
    pub title: String,
    /// Everything that the agent needs to know, in any form, up to 200,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200_000))]
    pub description: Option<String>,
    /// Keys of the tasks that must be done before this one (and its children) may start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Located<String>>,
    /// Key of the parent task. No session works on a task with children: it is done when they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Located<String>>,
    /// Among ready tasks, the one with the lower number goes first; 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Pool of workers that may take the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-z0-9-]{1,40}$"))]
    pub pool: Option<String>,
    /// Name of a configured agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub agent: Option<String>,
    /// Model, or a tier of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub model: Option<String>,
    /// Number of retries after failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub max_retries: Option<u32>,
    /// Whether another session judges the result before it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// Paths that the task changes, from the repository's top, such as `src/api/**`, with `*`, `?` and `**`.
    /// A feature that avoids conflicts doesn't run tasks with overlapping paths at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 500)))]
    pub paths: Vec<String>,
    /// A key that the task's sessions share with others, and the maximum number of live sessions with it in
    /// the whole installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// The task doesn't start before this time: RFC 3339, as 2026-12-01T08:00:00+01:00.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
}

/// A value and its line. JSON and the schema contain the value alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    /// Line in the text, from 1; 0 when it did not come from a text.
    pub line: u32,
}

impl<T: Serialize> Serialize for Located<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self {
            value: T::deserialize(deserializer)?,
            line: 0,
        })
    }
}

impl<T: JsonSchema> JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// The JSON Schema of the file, as `docs/task-graph.schema.json` publishes it.
pub fn schema() -> Schema {
    schemars::schema_for!(GraphFile)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;
    use crate::graph::entry::FIELDS;
    use crate::graph::{Limits, load};

    #[test]
    fn the_page_on_task_files_lists_every_field_and_a_valid_example() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/task-files.md");
        let page = std::fs::read_to_string(path).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let fields: BTreeSet<&str> = rows.filter_map(|row| row.split('`').next()).collect();
        assert_eq!(fields, BTreeSet::from(FIELDS));
        let (_, example) = page.split_once("```yaml\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        let graph = load("task-files.md", example, &Limits::file()).unwrap();
        assert_eq!((graph.nodes.len(), graph.warnings.len()), (2, 0));
    }

    /// `RALPH_UPDATE_SCHEMA=1 cargo nextest run -p ralph-domain published_schema` rewrites the file.
    #[test]
    fn published_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/task-graph.schema.json");
        // Compared as values: the order of fields depends on a feature of serde_json that any crate of the
        // build may set.
        let current = serde_json::to_value(schema()).unwrap();
        if std::env::var_os("RALPH_UPDATE_SCHEMA").is_some() {
            std::fs::write(path, format!("{current:#}\n")).unwrap();
        }
        let published: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(
            published == current,
            "{path} is old; write it with RALPH_UPDATE_SCHEMA=1"
        );
    }

    #[test]
    fn a_request_may_hold_the_list_or_the_mapping() {
        let list: GraphFile =
            serde_json::from_str(r#"[{"key": "a", "title": "A", "after": ["b"]}]"#).unwrap();
        let mapping: GraphFile =
            serde_json::from_str(r#"{"tasks": [{"key": "a", "title": "A", "after": ["b"]}]}"#).unwrap();
        assert_eq!(list, mapping);
        assert_eq!(
            list.tasks[0].after,
            [Located {
                value: "b".to_owned(),
                line: 0
            }]
        );
        assert_eq!(
            serde_json::to_string(&list).unwrap(),
            r#"{"tasks":[{"key":"a","title":"A","after":["b"]}]}"#
        );
    }
}
