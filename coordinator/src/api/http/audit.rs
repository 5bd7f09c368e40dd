//! Who asks for a change, and that it is noted: one place for all routes.
//!
//! Whoever's token a request brought is an argument of its handler, and what the flow logs of tasks has that name. Around every handler
//! that changes something, [`noted`] writes who did what to which thing: into the log, and into the table `changes`. A request that is
//! refused changes nothing and is not noted; one that is sent again under its key is noted again only if its coordinator died.

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

/// The values of larger bodies are not noted: they hold texts and graphs, which are stored elsewhere. Bytes.
const MAX_READ: usize = 16 * 1024;
/// So much of one value is noted. Characters.
const VALUE_CHARS: usize = 200;
/// Fields that are noted elsewhere, may be large, or may hold a login.
const NOT_NOTED: [&str; 6] = ["repo", "dir", "tasks", "text", "items", "before"];

/// The names of the operations that change something, by method and path.
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

/// Serves a request, and notes the change that it made.
pub async fn noted(
    State(app): State<App>,
    caller: Caller,
    path: MatchedPath,
    params: RawPathParams,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let place = (request.method().clone(), path.as_str().to_owned());
    let Some(operation) = OPERATIONS.get(&place) else {
        return Ok(next.run(request).await);
    };
    let params: Vec<(String, String)> = params.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    // Before it is done: afterwards what is deleted has no name any more.
    let known = named(&mut *app.db().await?, path.as_str(), &params).await?;
    let values = values(&mut request).await?;
    let made = request
        .extensions()
        .get::<NewId>()
        .copied()
        .unwrap_or_else(NewId::fresh);
    request.extensions_mut().insert(made);
    let response = next.run(request).await;
    if !response.status().is_success() || values.get("dry_run") == Some(&Value::Bool(true)) {
        return Ok(response);
    }
    let noted = async {
        let mut conn = app.deps.db.acquire().await?;
        let object = match known {
            Some(object) => object,
            None => made_of(&mut conn, operation, made.id, &values).await?,
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
    if let Err(error) = noted.await {
        tracing::warn!(%error, actor = caller.name(), operation, "a change could not be noted");
    }
    Ok(response)
}

/// What the path names: a feature or a task as people know it, anything else by the word that stands there.
async fn named(
    conn: &mut PgConnection,
    path: &str,
    params: &[(String, String)],
) -> Result<Option<Object>, Problem> {
    let Some((_, name)) = params.first() else {
        return Ok(None);
    };
    let kind = kind_in(path);
    // What can't be found, the handler refuses with the right words.
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

/// What the first part of a path behind the version is about.
fn kind_in(path: &str) -> &str {
    let parts = path.trim_start_matches("/api/v1/");
    let part = parts.split('/').next().unwrap_or_default();
    match part {
        "memory" => "entry",
        part => part.strip_suffix('s').unwrap_or(part),
    }
}

/// What a request without a name in its path made or changed.
async fn made_of(
    conn: &mut PgConnection,
    operation: &str,
    made: Uuid,
    values: &Map<String, Value>,
) -> sqlx::Result<Object> {
    if let Some(object) = store::changes::object(conn, made).await? {
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

/// What was done, in the words of the operation: `pause`, `add blockers`, `write text plan`; of a command its own name.
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

/// The fields of a request's body, which is put back.
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

/// The values that were given, in a line.
fn shown(values: &Map<String, Value>) -> Option<String> {
    let noted = values.iter().filter(|(field, value)| {
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        !NOT_NOTED.contains(&field.as_str()) && !empty
    });
    let shown: Vec<String> = noted
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
    fn an_operation_is_called_as_people_call_it() {
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
    fn what_is_noted_of_a_body_is_bounded_and_holds_no_address() {
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
