//! Links of the OpenAPI document: a link says which answer contains the parameter of another operation.
//! Readers navigate by links, and the fuzzer uses them to continue with created objects.

use serde_json::{Map, Value, json};

// Paths of ids in answers.
const FEATURE: &str = "$response.body#/feature/id";
const TASK: &str = "$response.body#/task";
const RUN: &str = "$response.body#/run";
const ID: &str = "$response.body#/id";
const FIRST: &str = "$response.body#/items/0/id";

/// Operation, status of its answer, next operation, that operation's parameter, and the parameter's value.
const LINKS: &[(&str, &str, &str, &str, &str)] = &[
    ("submit_feature", "201", "show_feature", "id", FEATURE),
    ("submit_feature", "201", "show_progress", "id", FEATURE),
    ("submit_feature", "201", "list_tasks_of_feature", "id", FEATURE),
    ("submit_feature", "201", "show_texts", "id", FEATURE),
    ("submit_feature", "201", "run_feature", "id", FEATURE),
    ("submit_feature", "201", "build_feature", "id", FEATURE),
    ("submit_feature", "201", "edit_feature", "id", FEATURE),
    ("submit_feature", "201", "pause_feature", "id", FEATURE),
    ("submit_feature", "201", "cancel_feature", "id", FEATURE),
    ("submit_feature", "201", "show_run", "id", RUN),
    ("submit_task", "201", "show_task", "id", TASK),
    ("submit_task", "201", "show_tree", "id", TASK),
    ("submit_task", "201", "show_log", "id", TASK),
    ("submit_task", "201", "edit_task", "id", TASK),
    ("submit_task", "201", "command_task", "id", TASK),
    ("submit_task", "201", "add_blockers", "id", TASK),
    ("submit_task", "201", "delete_task", "id", TASK),
    (
        "pause_feature",
        "200",
        "resume_feature",
        "id",
        "$response.body#/feature",
    ),
    (
        "cancel_feature",
        "200",
        "review_feature",
        "id",
        "$response.body#/feature",
    ),
    (
        "cancel_feature",
        "200",
        "delete_feature",
        "id",
        "$response.body#/feature",
    ),
    ("list_features", "200", "show_feature", "id", FIRST),
    ("list_tasks", "200", "show_task", "id", FIRST),
    ("list_tasks_of_feature", "200", "show_task", "id", FIRST),
    ("list_runs", "200", "show_run", "id", FIRST),
    ("add_entry", "200", "show_entry", "id", ID),
    ("add_entry", "200", "edit_entry", "id", ID),
];

/// The links of an operation's answers with this status, if any.
pub fn of(operation: &str, status: &str) -> Option<Value> {
    let links: Map<String, Value> = LINKS
        .iter()
        .filter(|(from, with, ..)| *from == operation && *with == status)
        .map(|(_, _, to, parameter, value)| {
            let link = json!({ "operationId": to, "parameters": { (*parameter): value } });
            ((*to).to_owned(), link)
        })
        .collect();
    (!links.is_empty()).then(|| links.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::{openapi, routes};

    #[test]
    fn links_lead_from_existing_answers_to_existing_parameters() {
        let document = openapi::complete(&routes::description());
        let operations: Vec<Value> = document["paths"]
            .as_object()
            .into_iter()
            .flat_map(|paths| paths.values())
            .flat_map(|item| {
                item.as_object()
                    .into_iter()
                    .flat_map(|item| item.values().cloned())
            })
            .collect();
        let find = |id: &str| operations.iter().find(|operation| operation["operationId"] == id);
        let mut seen = BTreeSet::new();
        for link in LINKS {
            let (from, status, to, parameter, _) = link;
            assert!(seen.insert(link), "{link:?} is there twice");
            let answer = find(from).map(|operation| &operation["responses"][*status]);
            assert!(
                answer.is_some_and(|answer| answer["links"][*to].is_object()),
                "{link:?}"
            );
            let parameters = find(to).and_then(|operation| operation["parameters"].as_array().cloned());
            let known = parameters
                .into_iter()
                .flatten()
                .any(|one| one["name"] == *parameter);
            assert!(known, "{link:?}");
        }
    }
}
