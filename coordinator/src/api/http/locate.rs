//! Resolves ids, prefixes and names in requests, or refuses them with a suggestion.
//!
//! If several repositories have a feature of that name, the request's repository decides (`repo` of its
//! query). Names occur in paths, queries and bodies, so a layer around the handlers records the repository.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use ralph_shared::ids::{FeatureId, RunId, TaskId};
use serde::Deserialize;
use sqlx::PgConnection;

use super::problem::Problem;
use super::request::QueryParams;
use crate::domain::graph::nearest;
use crate::domain::ids;
use crate::store::view::{self, Match};

/// Most names or ids that a suggestion considers.
pub(in crate::api) const MAX_CANDIDATES: i64 = 1000;

tokio::task_local! {
    /// The identity of the current request's repository.
    static REQUEST_REPOSITORY: Option<String>;
}

/// The query parameter with the request's repository.
#[derive(Debug, Deserialize)]
pub struct Scope {
    #[serde(default)]
    repo: Option<String>,
}

/// Serves a request with its repository recorded.
pub async fn with_repository(
    QueryParams(scope): QueryParams<Scope>,
    request: Request,
    next: Next,
) -> Response {
    REQUEST_REPOSITORY.scope(scope.repo, next.run(request)).await
}

/// Finds the feature with this name or prefix of an id.
pub async fn feature(conn: &mut PgConnection, text: &str) -> Result<FeatureId, Problem> {
    let repo = REQUEST_REPOSITORY.try_with(Clone::clone).unwrap_or_default();
    match view::find_feature(conn, text, repo.as_deref()).await? {
        Match::Several(some) if FeatureId::parse_prefix(text).is_err() => Err(Problem::ambiguous(format!(
            "features of several repositories have the name `{text}`; give the id of the feature, or run the command in its \
             repository: {}",
            some.join(", ")
        ))),
        Match::Nothing if FeatureId::parse_prefix(text).is_err() => {
            let names = view::names_of_features(conn, MAX_CANDIDATES).await?;
            let near = nearest(text, names.iter().map(String::as_str));
            Err(unknown("feature", text, near))
        }
        found => one("feature", text, found),
    }
}

/// Finds the task with this prefix of an id, or this `FEATURE/KEY`.
pub async fn task(conn: &mut PgConnection, text: &str) -> Result<TaskId, Problem> {
    if let Some((of, key)) = text.split_once('/') {
        let feature = feature(conn, of).await?;
        return match view::find_task_by_key(conn, feature, key).await? {
            Match::Nothing => {
                let keys = view::keys_of_tasks(conn, feature, MAX_CANDIDATES).await?;
                let near = nearest(key, keys.iter().map(String::as_str)).map(|near| format!("{of}/{near}"));
                Err(unknown("task", text, near.as_deref()))
            }
            found => one("task", text, found),
        };
    }
    let prefix =
        TaskId::parse_prefix(text).map_err(|error| Problem::invalid(format!("{error}, or FEATURE/KEY")))?;
    one("task", text, view::find_task(conn, &prefix).await?)
}

/// Finds the run with this prefix of an id.
pub async fn run(conn: &mut PgConnection, text: &str) -> Result<RunId, Problem> {
    let prefix = RunId::parse_prefix(text).map_err(|error| Problem::invalid(error.to_string()))?;
    match view::find_run(conn, &prefix).await? {
        Match::Nothing => {
            let runs = view::newest_runs(conn, MAX_CANDIDATES).await?;
            let runs: Vec<String> = runs.iter().map(RunId::short).collect();
            let near = ids::nearest(text, runs.iter().map(String::as_str));
            Err(unknown("run", text, near))
        }
        found => one("run", text, found),
    }
}

fn one<Id>(what: &str, text: &str, found: Match<Id>) -> Result<Id, Problem> {
    match found {
        Match::One(id) => Ok(id),
        Match::Nothing => Err(unknown(what, text, None)),
        Match::Several(some) => Err(Problem::conflict(format!(
            "`{text}` matches several {what}s; give more of the id: {}",
            some.join(", ")
        ))),
    }
}

/// The error for an unknown name, with a similar one.
pub(in crate::api) fn unknown(what: &str, text: &str, near: Option<&str>) -> Problem {
    Problem::not_found(format!(
        "there is no {what} `{text}`; {}`ralph {what} list` shows all {what}s",
        did_you_mean(near)
    ))
}

/// Suggests the similar name, before other advice.
pub(in crate::api) fn did_you_mean(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("did you mean `{near}`? "))
}
