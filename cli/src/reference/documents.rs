//! Documents of `--output json`: each kind with its name and its JSON Schema.
//!
//! The field `schema` of a document names its kind, for example `ralph/v1/task_list`. Within a version,
//! fields and kinds may be added, so readers ignore unknown ones; any other change raises
//! [`ralph_shared::document::VERSION`]. The schemas are those of the API's types, so the two always agree.

use std::collections::BTreeMap;

use ralph_api::body;
use ralph_api::view::{self, BudgetsView, CostsView, HookView, Page, ScheduleView, TokenView};
use ralph_shared::document::name;
use ralph_shared::wire::TranscriptEntry;
use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema as _, ToSchema};

use crate::config::Setting;
use crate::feature::text::TextOfFeature;
use crate::machine::finding::Finding;
use crate::machine::init::SetUp;
use crate::machine::open::Link;
use crate::reference::document::Document;
use crate::submit::CheckedGraph;
use crate::task::dependencies::EdgesOfTask;

/// A kind's schema, and the schemas that it refers to; for a list, also that of its items.
struct Described {
    kind: &'static str,
    schema: fn() -> RefOr<Schema>,
    parts: fn(&mut Vec<(String, RefOr<Schema>)>),
}

macro_rules! documents {
    ($($kind:literal => $type:ty $(, of $item:ty)?;)+) => {
        $(impl Document for $type {
            const KIND: &'static str = $kind;
        })+

        const DESCRIBED: &[Described] = &[$(Described {
            kind: $kind,
            schema: <$type>::schema,
            parts: |parts| {
                <$type as ToSchema>::schemas(parts);
                $(parts.push((<$item as ToSchema>::name().into_owned(), <$item>::schema()));)?
            },
        }),+];
    };
}

documents! {
    "set_up" => SetUp;
    "checked_graph" => CheckedGraph;
    "status" => view::SystemView;
    "inbox" => view::InboxView;
    "link" => Link;
    "event_list" => Page<view::EventView>, of view::EventView;
    "accepted" => body::Accepted;
    "feature_list" => Page<view::FeatureView>, of view::FeatureView;
    "feature_progress" => view::Progress;
    "feature_text" => TextOfFeature;
    "feature_review" => Page<view::Examined>, of view::Examined;
    "started" => body::Started;
    "operating" => body::BranchOperations;
    "pruning" => body::Pruning;
    "task_list" => Page<view::TaskView>, of view::TaskView;
    "task" => view::TaskDetail;
    "task_log" => Page<view::LogEntry>, of view::LogEntry;
    "task_edges" => EdgesOfTask;
    "done" => body::Done;
    "transcript" => body::Transcript;
    "transcript_entry" => TranscriptEntry;
    "prompt" => body::PromptSent;
    "prompt_preview" => body::PromptNext;
    "run_list" => Page<view::RunView>, of view::RunView;
    "run" => view::RunView;
    "costs" => CostsView;
    "budgets" => BudgetsView;
    "worker_list" => Page<view::WorkerView>, of view::WorkerView;
    "worker" => view::WorkerView;
    "memory_list" => Page<view::MemoryView>, of view::MemoryView;
    "memory_entry" => view::MemoryView;
    "memory_answer" => body::Answered;
    "memory_explained" => body::Explained;
    "memory_report" => body::MemoryReport;
    "memory_imported" => body::Imported;
    "memory_taken" => body::RetractResult;
    "memory_revoked" => body::RevokedMemory;
    "memory_purged" => body::Purged;
    "schedule_list" => Page<ScheduleView>, of ScheduleView;
    "schedule" => ScheduleView;
    "hook_list" => Page<HookView>, of HookView;
    "hook" => body::CreatedHook;
    "token_list" => Page<TokenView>, of TokenView;
    "token" => body::CreatedToken;
    "setting_list" => Page<Setting>, of Setting;
    "finding_list" => Page<Finding>, of Finding;
}

/// The JSON Schema of all output of `--output json`, published as `docs/output.schema.json`.
pub fn schema() -> Value {
    let mut parts = Vec::new();
    let mut definitions: BTreeMap<String, Value> = BTreeMap::new();
    for described in DESCRIBED {
        (described.parts)(&mut parts);
        let named = json!({
            "type": "object",
            "properties": { "schema": { "const": name(described.kind) } },
            "required": ["schema"],
        });
        let own = json!({ "allOf": [named, plain((described.schema)())] });
        definitions.insert(described.kind.to_owned(), own);
    }
    for (name, part) in parts {
        definitions.entry(name).or_insert_with(|| plain(part));
    }
    let kinds: Vec<Value> = DESCRIBED
        .iter()
        .map(|described| json!({ "$ref": format!("#/$defs/{}", described.kind) }))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What ralph prints with --output json",
        "description": "One document a command, or one a line where a command goes on. Its field `schema` names its kind and the \
                        version of all kinds. Within a version, fields and kinds may be added: readers ignore what they don't know.",
        "anyOf": kinds,
        "$defs": definitions.into_iter().collect::<Map<_, _>>(),
    })
}

/// Converts an OpenAPI schema into JSON Schema: the two differ in the path of references.
fn plain(schema: RefOr<Schema>) -> Value {
    let mut value = serde_json::to_value(schema).unwrap_or_default();
    refer(&mut value);
    value
}

fn refer(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get_mut("$ref") {
                *to = to.replace("#/components/schemas/", "#/$defs/");
            }
            fields.values_mut().for_each(refer);
        }
        Value::Array(all) => all.iter_mut().for_each(refer),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    /// `RALPH_UPDATE_SCHEMA=1 cargo nextest run -p ralph-cli published_output` rewrites the file.
    #[test]
    fn the_published_output_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/output.schema.json");
        let current = schema();
        if std::env::var_os("RALPH_UPDATE_SCHEMA").is_some() {
            std::fs::write(path, format!("{current:#}\n")).unwrap();
        }
        let published: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(
            published == current,
            "{path} is old; write it with RALPH_UPDATE_SCHEMA=1, and raise `document::VERSION` if something was taken out or changed"
        );
    }

    #[test]
    fn all_references_resolve_and_names_are_unique() {
        let schema = schema();
        fn check(schema: &Value, part: &Value) {
            if let Some(to) = part.get("$ref").and_then(Value::as_str) {
                assert!(schema.pointer(to.trim_start_matches('#')).is_some(), "{to}");
            }
            match part {
                Value::Object(fields) => fields.values().for_each(|part| check(schema, part)),
                Value::Array(all) => all.iter().for_each(|part| check(schema, part)),
                _ => {}
            }
        }
        check(&schema, &schema);
        let kinds: BTreeSet<&str> = DESCRIBED.iter().map(|described| described.kind).collect();
        assert_eq!(kinds.len(), DESCRIBED.len());
        let mut parts = Vec::new();
        for described in DESCRIBED {
            (described.parts)(&mut parts);
        }
        let mut seen: BTreeMap<String, Value> = BTreeMap::new();
        for (name, part) in parts {
            let part = plain(part);
            assert!(!kinds.contains(name.as_str()), "{name}");
            let first = seen.entry(name.clone()).or_insert_with(|| part.clone());
            assert!(*first == part, "two types are called {name}");
        }
    }
}
