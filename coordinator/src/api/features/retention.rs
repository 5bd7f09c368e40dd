//! Removes refs of attempts from the remote.

use std::time::Duration;

use axum::Json;
use axum::extract::State;

use crate::api::body::{PruneAttempts, Pruning, StayingBranch};
use crate::api::http::app::App;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PathParams};
use crate::flow::maintenance::retention::{self, PruneRequestOutcome};
use crate::store;

/// Largest age, about 126 years. Milliseconds.
const MAX_AGE_MS: u64 = 4_000_000_000_000;

/// Removes refs of a feature's attempts that are no longer needed.
#[utoipa::path(
    post,
    path = "/features/{id}/prune",
    operation_id = "prune_feature",
    tag = "features",
    request_body = PruneAttempts,
    responses((status = 200, body = Pruning))
)]
pub async fn prune(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    Body(options): Body<PruneAttempts>,
) -> Result<Json<Pruning>, Problem> {
    if options.older_than_ms.is_some_and(|age| age > MAX_AGE_MS) {
        return Err(Problem::invalid(format!(
            "`older_than_ms` is at most {MAX_AGE_MS}"
        )));
    }
    let feature = locate::feature(&mut *app.db().await?, &id).await?;
    let (db, settings) = (&app.deps.db, &app.deps.settings);
    let age = options.older_than_ms.map(Duration::from_millis);
    let change =
        store::retry_serialization(|| retention::request_prune(db, settings, feature, age, options.dry_run))
            .await?;
    let plan = match change {
        (PruneRequestOutcome::Planned(plan), signals) => {
            app.deps.bus.emit(signals).await;
            plan
        }
        (PruneRequestOutcome::NotFound, _) => {
            return Err(Problem::deleted("feature"));
        }
        (PruneRequestOutcome::Refused(why), _) => return Err(Problem::conflict(why)),
    };
    let branch = |name: String| match name.strip_prefix("refs/heads/") {
        Some(branch) => branch.to_owned(),
        None => name,
    };
    let staying = |(name, why): (String, crate::domain::retention::RetentionReason)| StayingBranch {
        branch: branch(name),
        why: why.as_str().to_owned(),
    };
    Ok(Json(Pruning {
        feature: feature.short(),
        staying: plan.staying.into_iter().map(staying).collect(),
        recent: u64::try_from(plan.recent).unwrap_or(u64::MAX),
        older_than_ms: u64::try_from(plan.age.as_millis()).unwrap_or(u64::MAX),
        going: plan.going.into_iter().map(branch).collect(),
        error: plan.error,
    }))
}
