//! The OpenAPI document: the descriptions of the routes, and additions for all of them.

pub(crate) mod examples;
pub(crate) mod links;
pub(crate) mod page;
pub(crate) mod routes;

use serde_json::{Map, Value, json};
use utoipa::PartialSchema as _;
use utoipa::openapi::OpenApi;

use super::body::{GraphText, ProblemBody};
use crate::api::http::idempotency;
use crate::domain::graph;

/// Name of the only authentication scheme.
pub const SECURITY: &str = "token";

/// The introduction of the document.
const ABOUT: &str = "\
Everything that `ralph` does on the command line.

A list answers `{\"items\": […], \"next\": cursor}`; `next` is null at the end, else it is the `cursor` of the next page. An \
error is a problem document (RFC 9457) whose `detail` says what is wrong and what to do next. An id may be shortened to a \
unique prefix; a task may be named `FEATURE/KEY`, with the slash as `%2F`. If features of several repositories have the same \
name, `repo` selects the repository. Times are RFC 3339. Texts may hold every character but NUL. A version may add fields, so \
clients should ignore unknown ones. A request that changes something takes an `Idempotency-Key`, so that a client can repeat \
it when its answer got lost.

Each operation names the role that its token needs: `read`, `submit` or `admin`; each role includes the previous ones.";

/// Groups of operations, in the order of the page.
const TAGS: [(&str, &str); 7] = [
    ("features", "Submit, show and control features"),
    ("tasks", "Single tasks, their sessions, transcripts and prompts"),
    ("memory", "Learned entries, and their measured benefit"),
    ("runs", "Limits, usage and results of runs"),
    ("workers", "Workers and their state"),
    ("tokens", "Access to the API"),
    ("health", "The coordinator itself"),
];

/// Problems that an operation may answer with: status, name under `components/responses`, meaning.
const PROBLEMS: [(&str, &str, &str); 11] = [
    ("400", "Invalid", "The request violates this description"),
    (
        "401",
        "NoToken",
        "No token, or one that is unknown, revoked or expired; `type` says which: `no-token`, `wrong-token`, `token-expired`",
    ),
    ("403", "NotAllowed", "The token's role is not sufficient"),
    ("404", "NotFound", "Nothing has that id or name"),
    ("408", "TooSlow", "The body did not arrive within 60 seconds"),
    (
        "409",
        "Conflict",
        "Not possible in the current state, or several objects have that id",
    ),
    (
        "413",
        "TooLarge",
        "The body is larger than 64 MB, or than 8 MB for a search",
    ),
    (
        "422",
        "Refused",
        "The request matches this description, but its content is refused: fields that don't fit together, an invalid task graph (`errors` lists its problems), a text with NUL",
    ),
    ("429", "TooFast", "The token exceeds its request rate"),
    ("500", "Internal", "The coordinator failed; its log has the cause"),
    (
        "503",
        "Unavailable",
        "The database or the broker doesn't answer, or too many streams are open; try again in a moment",
    ),
];

/// The complete document for clients.
pub fn complete(described: &OpenApi) -> Value {
    let mut document = serde_json::to_value(described).unwrap_or_default();
    document["info"] = json!({
        "title": "Ralph",
        "version": env!("CARGO_PKG_VERSION"),
        "description": ABOUT,
        "license": { "name": "MIT", "identifier": "MIT" },
    });
    document["tags"] = TAGS
        .map(|(name, description)| json!({ "name": name, "description": description }))
        .into();
    document["components"]["securitySchemes"] = json!({
        SECURITY: { "type": "http", "scheme": "bearer", "description": "A token from `ralph token create`" }
    });
    document["components"]["responses"] = PROBLEMS
        .map(|(status, name, meaning)| (name.to_owned(), problem(status, meaning)))
        .into_iter()
        .collect::<Map<_, _>>()
        .into();
    // Relative to the address of the document.
    document["servers"] =
        json!([{ "url": "/", "description": "The coordinator that this document comes from" }]);
    document["webhooks"] = examples::webhooks();
    let schemas = &mut document["components"]["schemas"];
    schemas["Problem"] = serde_json::to_value(ProblemBody::schema()).unwrap_or_default();
    schemas["GraphText"] = serde_json::to_value(GraphText::schema()).unwrap_or_default();
    schemas["Notice"] = examples::notice();
    add_tasks(schemas);
    bound_integers(&mut document["components"]["schemas"]);
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in paths {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            complete_operation(path, method, operation);
        }
    }
    document
}

/// Adds the published schema of a task file's entries.
fn add_tasks(schemas: &mut Value) {
    let published = serde_json::to_string(&graph::file::schema()).unwrap_or_default();
    let published = published.replace("#/$defs/", "#/components/schemas/");
    let mut published: Value = serde_json::from_str(&published).unwrap_or_default();
    if let (Some(schemas), Value::Object(defs)) = (schemas.as_object_mut(), published["$defs"].take()) {
        for (name, schema) in defs {
            schemas.entry(name).or_insert(schema);
        }
    }
}

fn problem(status: &str, meaning: &str) -> Value {
    let mut response = json!({
        "description": meaning,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    });
    if status == "429" {
        let seconds = json!({ "type": "integer", "minimum": 1 });
        response["headers"] = json!({ "Retry-After": { "description": "Seconds to wait", "required": true, "schema": seconds } });
    }
    response
}

fn complete_operation(path: &str, method: &str, operation: &mut Value) {
    describe_path(path, operation);
    if takes_names(path, method) {
        describe_repo(operation);
    }
    let takes_key = method == "post" && takes_key(operation);
    if takes_key {
        describe_key(operation);
    }
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        never_null(&mut parameter["schema"]);
    }
    let possible = possible_problems(path, operation, takes_key);
    describe_role(operation);
    let name = operation["operationId"].as_str().unwrap_or_default().to_owned();
    if let (Some(example), Some(content)) = (
        examples::of(&name),
        operation.pointer_mut("/requestBody/content/application~1json"),
    ) {
        content["example"] = example;
    }
    let Some(responses) = operation["responses"].as_object_mut() else {
        return;
    };
    for status in possible {
        responses.insert(status.to_owned(), Value::Null);
    }
    for (status, response) in responses.iter_mut() {
        complete_response(status, response);
        if let Some(links) = links::of(&name, status) {
            response["links"] = links;
        }
        if takes_key && status.starts_with('2') {
            response["headers"][idempotency::REPLAYED.as_str()] = json!({
                "description": "`true` when this is the answer of an earlier request with the same key",
                "schema": { "type": "string", "enum": ["true"] },
            });
        }
    }
}

/// The statuses of the problems that an operation may answer with.
fn possible_problems(path: &str, operation: &Value, takes_key: bool) -> Vec<&'static str> {
    let role = role(operation);
    let parameters = operation["parameters"].as_array();
    let has_body = operation.get("requestBody").is_some();
    let mut possible = Vec::new();
    if role.is_some() {
        possible.extend(["401", "429", "500", "503"]);
    }
    if role.is_some_and(|role| role != "read") {
        possible.push("403");
    }
    if has_body || parameters.is_some_and(|all| !all.is_empty()) {
        possible.extend(["400", "422"]);
    }
    if has_body {
        possible.extend(["408", "413"]);
    }
    if path.contains('{') {
        possible.extend(["404", "409"]);
    }
    if takes_key {
        possible.extend(["400", "408", "409", "413", "422"]);
    }
    possible
}

fn describe_role(operation: &mut Value) {
    if let Some(role) = role(operation) {
        let description = operation["description"].as_str().unwrap_or_default();
        let description = format!("{description}\n\nNeeds a token with the role `{role}`.");
        operation["description"] = Value::String(description.trim_start().to_owned());
    }
}

/// The role that an operation's token needs.
fn role(operation: &Value) -> Option<&str> {
    operation["security"][0][SECURITY][0].as_str()
}

fn complete_response(status: &str, response: &mut Value) {
    let known = PROBLEMS.iter().find(|(problem, ..)| *problem == status);
    if let Some((_, name, _)) = known {
        *response = json!({ "$ref": format!("#/components/responses/{name}") });
    } else if response["description"].as_str().is_none_or(str::is_empty) {
        response["description"] = json!(if status == "201" {
            "Created"
        } else {
            "Done or found"
        });
    }
    if let Some(stream) = response.pointer_mut("/content/text~1event-stream") {
        stream["schema"] = event(stream["schema"].take());
    }
}

/// Whether an operation changes something and so accepts a key.
fn takes_key(operation: &Value) -> bool {
    matches!(role(operation), Some("submit" | "admin"))
}

/// Describes the header with the key.
fn describe_key(operation: &mut Value) {
    let parameter = json!({
        "name": "Idempotency-Key",
        "in": "header",
        "required": false,
        "description": "Identifies this request, for example a random UUID: a repetition within 24 hours gets the first answer \
                        and has no further effect. 409 while the first request is being served (`Retry-After` says when to \
                        repeat it), 422 when the key was used with another request. Only successes are stored",
        "schema": { "type": "string", "pattern": "^[!-~]{1,255}$" },
    });
    add_parameter(operation, parameter);
}

/// Whether an operation accepts names of features in its path, query or body.
fn takes_names(path: &str, method: &str) -> bool {
    path.contains("/features/{")
        || path.contains("/tasks/{")
        || path.ends_with("/runs")
        || (path.ends_with("/tasks") && method == "post")
}

/// Describes the parameter that names the repository of feature names.
fn describe_repo(operation: &mut Value) {
    add_parameter(
        operation,
        json!({
            "name": "repo",
            "in": "query",
            "required": false,
            "description": "Identity of a repository: selects its feature if several repositories have a feature of the given \
                            name. Without it such a name is ambiguous (409)",
            "schema": { "type": "string" },
        }),
    );
}

fn add_parameter(operation: &mut Value, parameter: Value) {
    match operation["parameters"].as_array_mut() {
        Some(all) => all.push(parameter),
        None => operation["parameters"] = json!([parameter]),
    }
}

/// Removes null from a parameter's schema: outside of JSON a parameter is either present or absent.
fn never_null(schema: &mut Value) {
    let kinds = schema["type"].as_array();
    let kind = kinds.and_then(|kinds| kinds.iter().find(|kind| *kind != "null").cloned());
    if let Some(kind) = kind {
        schema["type"] = kind;
    }
    let choices = schema["oneOf"].as_array();
    let choice = choices.and_then(|all| all.iter().find(|one| one["type"] != "null").cloned());
    if let Some(choice) = choice {
        *schema = choice;
    }
}

/// The schema of a stream's event with JSON as data.
fn event(data: Value) -> Value {
    json!({
        "type": "object",
        "required": ["data"],
        "properties": {
            "id": { "type": "string" },
            "event": { "type": "string" },
            "data": { "type": "string", "contentMediaType": "application/json", "contentSchema": data },
        },
    })
}

/// Describes path parameters that have no description yet.
fn describe_path(path: &str, operation: &mut Value) {
    let parts = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    for part in parts {
        let known = operation["parameters"].as_array().into_iter().flatten();
        if known.into_iter().any(|parameter| parameter["name"] == part) {
            continue;
        }
        let meaning = match (part, path) {
            ("id", path) if path.contains("/features/") => "Name, or a prefix of the id",
            ("id", path) if path.contains("/tasks/") => "A prefix of the id, or `FEATURE/KEY`",
            ("id", _) => "A prefix of the id",
            _ => "Name",
        };
        let mut schema = json!({ "type": "string", "minLength": 1 });
        match part {
            "id" if path.contains("/tasks/") => {
                schema["pattern"] = "^(t-[0-9a-fA-F]{1,12}|[^/]+/[^/]+)$".into()
            }
            "id" if path.contains("/runs/") => schema["pattern"] = "^run-[0-9a-fA-F]{1,12}$".into(),
            _ => {}
        }
        let parameter = json!({
            "name": part, "in": "path", "required": true, "description": meaning, "schema": schema,
        });
        match operation["parameters"].as_array_mut() {
            Some(all) => all.insert(0, parameter),
            None => operation["parameters"] = json!([parameter]),
        }
    }
}

/// Adds bounds to integers, since a format is only a hint.
fn bound_integers(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let bounds = match fields.get("format").and_then(Value::as_str) {
                Some("int32") => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
                Some("int64") => Some((i64::MIN, i64::MAX)),
                _ => None,
            };
            if let Some((low, high)) = bounds {
                fields.entry("minimum").or_insert(low.into());
                fields.entry("maximum").or_insert(high.into());
            }
            fields.values_mut().for_each(bound_integers);
        }
        Value::Array(all) => all.iter_mut().for_each(bound_integers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;
    use crate::api::routes;

    fn operations(document: &Value) -> Vec<(String, Value)> {
        let paths = document["paths"].as_object().unwrap();
        let all = paths.iter().flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (format!("{method} {path}"), operation.clone()))
        });
        all.collect()
    }

    #[test]
    fn every_operation_has_a_unique_name_a_group_a_summary_and_answers() {
        let document = complete(&routes::description());
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
        let groups: BTreeSet<&str> = TAGS.iter().map(|(name, _)| *name).collect();
        let mut names = BTreeSet::new();
        for (at, operation) in operations(&document) {
            let name = operation["operationId"].as_str().unwrap().to_owned();
            assert!(names.insert(name), "{at}");
            assert!(groups.contains(operation["tags"][0].as_str().unwrap()), "{at}");
            assert!(!operation["summary"].as_str().unwrap().is_empty(), "{at}");
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with('2')), "{at}");
            let open = !at.contains("/api/v1/") && !at.contains("/metrics");
            assert_eq!(operation.get("security").is_none(), open, "{at}");
            // A hook has its own authentication.
            assert_eq!(
                answers.contains_key("401"),
                !open || at.contains("/hooks/"),
                "{at}"
            );
        }
    }

    #[test]
    fn every_body_has_an_example_and_the_document_names_a_server() {
        let document = complete(&routes::description());
        assert_eq!(document["servers"][0]["url"], "/");
        assert_eq!(document["webhooks"].as_object().unwrap().len(), 6);
        for (at, operation) in operations(&document) {
            let content = &operation["requestBody"]["content"]["application/json"];
            assert_eq!(content.is_null(), content["example"].is_null(), "{at}");
        }
    }

    #[test]
    fn every_reference_has_a_target() {
        let document = complete(&routes::description());
        fn check(document: &Value, part: &Value) {
            if let Some(to) = part.get("$ref").and_then(Value::as_str) {
                assert!(
                    document.pointer(to.trim_start_matches('#')).is_some(),
                    "{to} in {part}"
                );
            }
            match part {
                Value::Object(fields) => fields.values().for_each(|part| check(document, part)),
                Value::Array(all) => all.iter().for_each(|part| check(document, part)),
                _ => {}
            }
        }
        check(&document, &document);
    }
}
