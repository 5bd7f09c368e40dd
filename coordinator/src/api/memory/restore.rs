//! Restores hidden memory entries.

use axum::Json;
use axum::extract::State;
use uuid::Uuid;

use super::entries::locate_all;
use crate::api::body::{RestoreMemory, RetractResult};
use crate::api::http::app::App;
use crate::api::http::problem::Problem;
use crate::api::http::request::Body;
use crate::domain::recall::Kind;
use crate::domain::recall::lifecycle::NotRestorable;
use crate::flow::memory::library::{self, Restored};
use crate::store;
use crate::store::memory::library::RestoreCandidate;
use crate::store::view;

/// Most entries that a refusal names.
const SHOWN: usize = 10;

/// Restores hidden entries: all of them, or none.
#[utoipa::path(
    post,
    path = "/memory/restore",
    operation_id = "restore_memory",
    tag = "memory",
    request_body = RestoreMemory,
    responses((status = 200, body = RetractResult), (status = 404), (status = 409))
)]
pub async fn restore(
    State(app): State<App>,
    Body(restore): Body<RestoreMemory>,
) -> Result<Json<RetractResult>, Problem> {
    if restore.ids.is_empty() {
        return Err(Problem::invalid("name the entries: give `ids`"));
    }
    let ids = locate_all(&app, &restore.ids).await?;
    let db = &app.deps.db;
    match store::retry_serialization(|| library::restore(db, &ids)).await? {
        Restored::Entries(entries) => Ok(Json(RetractResult { entries })),
        Restored::Refused(stay) => {
            let why: Vec<String> = stay
                .iter()
                .take(SHOWN)
                .map(|(entry, stays)| refusal(entry, *stays))
                .collect();
            Err(Problem::conflict(format!(
                "nothing is restored: {}",
                why.join("; ")
            )))
        }
    }
}

fn refusal(entry: &RestoreCandidate, stays: NotRestorable) -> String {
    let id = view::memory_id(entry.kind, entry.id);
    match stays {
        NotRestorable::Revoked => format!(
            "`{id}` was taken back with the attempt that it comes from; if it is right nevertheless, add it with `ralph memory add`"
        ),
        NotRestorable::Purged => format!("`{id}` has the same content as an entry that was purged since"),
        NotRestorable::Replaced => replaced(entry.kind, entry.id, entry.superseded_by),
        NotRestorable::LostItsFile => {
            format!("`{id}` comes from a file of the repository that is gone or has other content now")
        }
    }
}

/// The message about an entry that another one has replaced.
pub(in crate::api) fn replaced(kind: Kind, id: Uuid, by: Option<Uuid>) -> String {
    let by = by.map(|by| view::memory_id(kind, by)).unwrap_or_default();
    format!("`{}` was replaced by `{by}`", view::memory_id(kind, id))
}
