//! What a request's ids stand for: prefixes and names, found or refused with words.

use ralph_shared::ids::{FeatureId, RunId, TaskId};
use sqlx::PgConnection;

use super::problem::Problem;
use crate::store::view::{self, Found};

/// A feature by its name or the beginning of its id.
pub async fn feature(conn: &mut PgConnection, text: &str) -> Result<FeatureId, Problem> {
    one("feature", text, view::find_feature(conn, text).await?)
}

/// A task by the beginning of its id, or as `FEATURE/KEY`.
pub async fn task(conn: &mut PgConnection, text: &str) -> Result<TaskId, Problem> {
    if let Some((of, key)) = text.split_once('/') {
        let feature = feature(conn, of).await?;
        return one("task", text, view::find_task_by_key(conn, feature, key).await?);
    }
    let prefix =
        TaskId::parse_prefix(text).map_err(|error| Problem::invalid(format!("{error}, or FEATURE/KEY")))?;
    one("task", text, view::find_task(conn, &prefix).await?)
}

/// A run by the beginning of its id.
pub async fn run(conn: &mut PgConnection, text: &str) -> Result<RunId, Problem> {
    let prefix = RunId::parse_prefix(text).map_err(|error| Problem::invalid(error.to_string()))?;
    one("run", text, view::find_run(conn, &prefix).await?)
}

fn one<Id>(what: &str, text: &str, found: Found<Id>) -> Result<Id, Problem> {
    match found {
        Found::One(id) => Ok(id),
        Found::Nothing => Err(Problem::not_found(format!(
            "there is no {what} `{text}`; `ralph-coordinator {what} list` shows which there are"
        ))),
        Found::Several(some) => Err(Problem::conflict(format!(
            "`{text}` stands for several {what}s; give more of the id: {}",
            some.join(", ")
        ))),
    }
}
