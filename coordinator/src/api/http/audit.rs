//! Records changes and their actors, for all routes.
//!
//! A handler gets the [`Caller`] as an argument, and the flow logs its name with changes to tasks. Around
//! every handler that changes something, [`record`] writes actor, verb and object into the log and into the
//! table `changes`. A refused request changes nothing and is not recorded. A request that a client repeats
//! under its key is recorded again only if its coordinator died.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Map, Value};
use sqlx::PgConnection;
use uuid::Uuid;

use super::app::App;
use super::locate;
use super::problem::Problem;
use super::request::whole;
use crate::api::http::caller::Caller;
use crate::api::http::idempotency::NewId;
use crate::api::routes;
use crate::store;
use crate::store::changes::Object;

/// Largest body whose values are recorded. Larger ones hold texts and graphs, which are stored elsewhere.
/// Bytes.
const MAX_READ: usize = 16 * 1024;
/// Most recorded characters of a value.
const VALUE_CHARS: usize = 200;
/// Fields that are not recorded: they are recorded elsewhere, may be large, or may hold a login.
const NOT_RECORDED: [&str; 6] = ["repo", "dir", "tasks", "text", "items", "before"];

/// Names of the operations that change something, by method and path.
static OPERATIONS: LazyLock<HashMap<(Method, String), String>> = LazyLock::new(|| {
    let mut operations = HashMap::new();
    for (path, item) in routes::description().paths.paths {
        let methods = [
            (Method::PUT, item.put),
            (Method::POST, item.post),
            (Method::PATCH, item.patch),
            (Method::DELETE, item.delete),
        ];
        for (method, operation) in methods {
            if let Some(id) = operation.and_then(|operation| operation.operation_id) {
                operations.insert((method, path.clone()), id);
            }
        }
    }
    operations
});

/// Serves a request, and records its change.
pub async fn record(
    State(app): State<App>,
    caller: Caller,
    path: MatchedPath,
    params: RawPathParams,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let route = (request.method().clone(), path.as_str().to_owned());
    let Some(operation) = OPERATIONS.get(&route) else {
        return Ok(next.run(request).await);
    };
    let params: Vec<(String, String)> = params.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    // Looked up before the request, since a deleted object has no name afterwards.
    let known = object_in_path(&mut *app.db().await?, path.as_str(), &params).await?;
    let values = values(&mut request).await?;
    let new = request
        .extensions()
        .get::<NewId>()
        .copied()
        .unwrap_or_else(NewId::fresh);
    request.extensions_mut().insert(new);
    let response = next.run(request).await;
    if !response.status().is_success() || values.get("dry_run") == Some(&Value::Bool(true)) {
        return Ok(response);
    }
    let recorded = async {
        let mut conn = app.deps.db.acquire().await?;
        let object = match known {
            Some(object) => object,
            None => created_object(&mut conn, operation, new.id, &values).await?,
        };
        let verb = verb(operation, &object.kind, &params);
        store::changes::note(
            &mut conn,
            caller.name(),
            &verb,
            &object,
            shown(&values).as_deref(),
        )
        .await
    };
    if let Err(error) = recorded.await {
        tracing::warn!(%error, actor = caller.name(), operation, "could not record a change");
    }
    Ok(response)
}

/// The object that the path names: a feature or a task by its name for people, anything else by the word in
/// the path.
async fn object_in_path(
    conn: &mut PgConnection,
    path: &str,
    params: &[(String, String)],
) -> Result<Option<Object>, Problem> {
    let Some((_, name)) = params.first() else {
        return Ok(None);
    };
    let kind = kind_in(path);
    // The handler refuses an unknown name with a better message.
    let id = match kind {
        "feature" => locate::feature(conn, name).await.ok().map(|id| id.0),
        "task" => locate::task(conn, name).await.ok().map(|id| id.0),
        _ => {
            let object = Object {
                kind: kind.to_owned(),
                name: name.clone(),
                feature: None,
            };
            return Ok(Some(object));
        }
    };
    match id {
        Some(id) => Ok(store::changes::object(conn, id).await?),
        None => Ok(None),
    }
}

/// The kind of object that the first part of a path after the version names.
fn kind_in(path: &str) -> &str {
    let parts = path.trim_start_matches("/api/v1/");
    let part = parts.split('/').next().unwrap_or_default();
    match part {
        "memory" => "entry",
        part => part.strip_suffix('s').unwrap_or(part),
    }
}

/// The object that a request without a name in its path created or changed.
async fn created_object(
    conn: &mut PgConnection,
    operation: &str,
    new: Uuid,
    values: &Map<String, Value>,
) -> sqlx::Result<Object> {
    if let Some(object) = store::changes::object(conn, new).await? {
        return Ok(object);
    }
    let name = ["name", "title"]
        .iter()
        .find_map(|field| values.get(*field)?.as_str());
    let kind = operation.split_once('_').map_or(operation, |(_, kind)| kind);
    Ok(Object {
        kind: kind.to_owned(),
        name: name.unwrap_or_default().to_owned(),
        feature: None,
    })
}

/// The verb of the operation: `pause`, `add blockers`, `write text plan`; for a command, its name.
fn verb(operation: &str, kind: &str, params: &[(String, String)]) -> String {
    let words = operation
        .strip_suffix(kind)
        .map_or(operation, |rest| rest.trim_end_matches('_'));
    let mut words: Vec<String> = vec![words.replace('_', " ")];
    words.extend(params.iter().skip(1).map(|(_, value)| value.clone()));
    if words.len() > 1 && words[0] == "command" {
        words.remove(0);
    }
    words.join(" ")
}

/// The fields of a request's body. Leaves the body in the request.
async fn values(request: &mut Request) -> Result<Map<String, Value>, Problem> {
    if length(request.headers()).is_none_or(|length| length > MAX_READ) {
        return Ok(Map::new());
    }
    let body = std::mem::take(request.body_mut());
    let bytes = whole(request.extensions(), body, MAX_READ).await?;
    let values = serde_json::from_slice(&bytes).unwrap_or_default();
    *request.body_mut() = Body::from(bytes);
    Ok(values)
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The given values on one line.
fn shown(values: &Map<String, Value>) -> Option<String> {
    let recorded = values.iter().filter(|(field, value)| {
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        !NOT_RECORDED.contains(&field.as_str()) && !empty
    });
    let shown: Vec<String> = recorded
        .map(|(field, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let cut: String = value.chars().take(VALUE_CHARS).collect();
            let dots = if cut.len() < value.len() { "…" } else { "" };
            format!("{field}: {cut}{dots}")
        })
        .collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_recorded_verb_is_the_one_of_the_command_line() {
        let check = |operation: &str, path: &str, params: &[&str], expected: &str| {
            let params: Vec<_> = params.iter().map(|p| (String::new(), (*p).to_owned())).collect();
            assert_eq!(verb(operation, kind_in(path), &params), expected, "{path}");
        };
        check("pause_feature", "/api/v1/features/{id}/pause", &["f"], "pause");
        check(
            "command_task",
            "/api/v1/tasks/{id}/{command}",
            &["t", "retry"],
            "retry",
        );
        check(
            "write_text",
            "/api/v1/features/{id}/texts/{which}",
            &["f", "plan"],
            "write text plan",
        );
        check(
            "remove_blocker",
            "/api/v1/tasks/{id}/deps/{blocker}",
            &["t", "u"],
            "remove blocker u",
        );
        check("set_budget", "/api/v1/budgets/{level}", &["day"], "set");
        check("create_token", "/api/v1/tokens", &[], "create");
        check("edit_entry", "/api/v1/memory/{id}", &["l-1"], "edit");
    }

    #[test]
    fn recorded_values_are_bounded_and_hold_no_address() {
        let body = json!({
            "name": "f", "why": null, "run": {}, "text": "long",
            "repo": {"address": "https://me:secret@host/x"}, "reason": "x".repeat(300),
        });
        let shown = shown(body.as_object().unwrap()).unwrap();
        assert!(
            shown.contains("name: f") && shown.contains('…') && shown.len() < 300,
            "{shown}"
        );
        assert!(
            !shown.contains("secret") && !shown.contains("long") && !shown.contains("run"),
            "{shown}"
        );
    }
}
