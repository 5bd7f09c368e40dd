//! The OpenAPI document: the routes' own descriptions, and additions for all of them.

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

/// What the whole is about.
const ABOUT: &str = "\
Everything that `ralph` does on the command line.

A list answers `{\"items\": […], \"next\": cursor}`; `next` is null at its end, else it is the `cursor` of the next page. An \
error is a problem document (RFC 9457) whose `detail` says what is wrong and what to do next. Ids may be shortened to a \
beginning that is unique; tasks may be named `FEATURE/KEY`, with the slash as `%2F`. Of features of one name in several \
repositories, that of `repo` is meant. Times are RFC 3339. Texts hold every character but NUL. Fields may be added within a \
version, so readers ignore those that they don't know. What changes something takes an `Idempotency-Key`, so that it can be \
sent again when its answer got lost.

Each operation names the role that its token needs: `read`, `submit` or `admin`, each of which includes the ones before.";

/// Groups of operations, in the order of the page.
const TAGS: [(&str, &str); 7] = [
    ("features", "Submitted, looked at, steered"),
    ("tasks", "Single tasks, their sessions, transcripts and prompts"),
    ("memory", "What was learned, and what it is worth"),
    ("runs", "Limits, usage and ends"),
    ("workers", "Who works"),
    ("tokens", "Who may ask"),
    ("health", "The coordinator itself"),
];

/// Problems that an operation may answer with: status, name under `components/responses`, meaning.
const PROBLEMS: [(&str, &str, &str); 11] = [
    ("400", "Invalid", "Not of the form that is described here"),
    (
        "401",
        "NoToken",
        "No token, or one that is unknown, revoked or expired; `type` tells which: `no-token`, `wrong-token`, `token-expired`",
    ),
    ("403", "NotAllowed", "The token's role is too small"),
    ("404", "NotFound", "Nothing has that id or name"),
    ("408", "TooSlow", "The body did not come within 60 seconds"),
    (
        "409",
        "Conflict",
        "Not possible as things stand, or several things have that id",
    ),
    (
        "413",
        "TooLarge",
        "The body is larger than 64 MB, or 8 MB where it only asks",
    ),
    (
        "422",
        "Refused",
        "Of the form described here, but without a meaning: fields that don't go together, a task graph that is refused (`errors` has each problem of it), a text with NUL",
    ),
    ("429", "TooFast", "The token's requests come too fast"),
    ("500", "Internal", "The coordinator failed; its log has the cause"),
    (
        "503",
        "Unavailable",
        "The database or the broker doesn't answer, or as much is followed as may be; try again in a moment",
    ),
];

/// The document that clients read.
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
        SECURITY: { "type": "http", "scheme": "bearer", "description": "A token that `ralph token create` made" }
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
    name_parts(path, operation);
    if takes_names(path, method) {
        name_place(operation);
    }
    let takes_key = method == "post" && takes_key(operation);
    if takes_key {
        name_key(operation);
    }
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        never_null(&mut parameter["schema"]);
    }
    let possible = possible_problems(path, operation, takes_key);
    tell_role(operation);
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

/// The statuses of the problems that an operation may have.
fn possible_problems(path: &str, operation: &Value, takes_key: bool) -> Vec<&'static str> {
    let role = role(operation);
    let parameters = operation["parameters"].as_array();
    let tells = operation.get("requestBody").is_some();
    let mut possible = Vec::new();
    if role.is_some() {
        possible.extend(["401", "429", "500", "503"]);
    }
    if role.is_some_and(|role| role != "read") {
        possible.push("403");
    }
    if tells || parameters.is_some_and(|all| !all.is_empty()) {
        possible.extend(["400", "422"]);
    }
    if tells {
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

fn tell_role(operation: &mut Value) {
    if let Some(role) = role(operation) {
        let words = format!("\n\nNeeds a token with the role `{role}`.");
        let said = operation["description"].as_str().unwrap_or_default().to_owned();
        operation["description"] = Value::String((said + &words).trim_start().to_owned());
    }
}

/// The role of the tokens that an operation takes.
fn role(operation: &Value) -> Option<&str> {
    operation["security"][0][SECURITY][0].as_str()
}

fn complete_response(status: &str, response: &mut Value) {
    let known = PROBLEMS.iter().find(|(problem, ..)| *problem == status);
    if let Some((_, name, _)) = known {
        *response = json!({ "$ref": format!("#/components/responses/{name}") });
    } else if response["description"].as_str().is_none_or(str::is_empty) {
        response["description"] = json!(if status == "201" {
            "It stands"
        } else {
            "Done, or found"
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
fn name_key(operation: &mut Value) {
    let parameter = json!({
        "name": "Idempotency-Key",
        "in": "header",
        "required": false,
        "description": "Names this request, a random UUID say: sent again within 24 hours, it is answered as the first time \
                        and done once. 409 while the first one is being served (`Retry-After` says when to ask again), 422 \
                        when the key came with another request. Only successes are kept",
        "schema": { "type": "string", "pattern": "^[!-~]{1,255}$" },
    });
    add_parameter(operation, parameter);
}

/// Whether an operation takes names of features, in its path, query or body.
fn takes_names(path: &str, method: &str) -> bool {
    path.contains("/features/{")
        || path.contains("/tasks/{")
        || path.ends_with("/runs")
        || (path.ends_with("/tasks") && method == "post")
}

/// Describes the parameter that names the repository of feature names.
fn name_place(operation: &mut Value) {
    add_parameter(
        operation,
        json!({
            "name": "repo",
            "in": "query",
            "required": false,
            "description": "Identity of a repository: where several have a feature of the name that is given, its own is meant. \
                            Without one such a name is ambiguous (409)",
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

/// Outside of JSON there is no null: a parameter is either present or absent.
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

/// One event of a stream, with JSON as data.
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

/// Describes parts of the path without a description of their own.
fn name_parts(path: &str, operation: &mut Value) {
    let parts = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    for part in parts {
        let known = operation["parameters"].as_array().into_iter().flatten();
        if known.into_iter().any(|parameter| parameter["name"] == part) {
            continue;
        }
        let meaning = match (part, path) {
            ("id", path) if path.contains("/features/") => "Its name, or the beginning of its id",
            ("id", path) if path.contains("/tasks/") => "The beginning of its id, or `FEATURE/KEY`",
            ("id", _) => "The beginning of its id",
            _ => "Its name",
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

/// A format is only a hint, so bounds state the range of an integer.
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
    fn every_operation_has_a_name_of_its_own_a_group_words_and_answers() {
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
            // A hook has its own proof.
            assert_eq!(
                answers.contains_key("401"),
                !open || at.contains("/hooks/"),
                "{at}"
            );
        }
    }

    #[test]
    fn every_body_has_an_example_and_where_to_send_it_is_described() {
        let document = complete(&routes::description());
        assert_eq!(document["servers"][0]["url"], "/");
        assert_eq!(document["webhooks"].as_object().unwrap().len(), 6);
        for (at, operation) in operations(&document) {
            let content = &operation["requestBody"]["content"]["application/json"];
            assert_eq!(content.is_null(), content["example"].is_null(), "{at}");
        }
    }

    #[test]
    fn nothing_is_referred_to_that_is_not_there() {
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
