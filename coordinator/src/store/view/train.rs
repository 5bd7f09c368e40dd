//! The train of a feature: the attempts that wait to land, and their checks.

pub use ralph_api::view::{CarStatus, CarView, TrainView};
use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;

use crate::domain::train::{CheckResult, Landing, MAX_BATCH};
use crate::store::git::integration::IntegrationState;

/// Most cars to name; the length counts all.
const NAMED: i64 = 20;

/// `None` while nothing waits.
pub(super) async fn train(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Option<TrainView>> {
    let Some((cars, length, passed)) = cars(conn, feature).await? else {
        return Ok(None);
    };
    let facts = sqlx::query!(
        r#"select r.landing, r.max_speculation, r.gate <> '{}' as "is_gated!",
                  (select g.duration_ms from gate_checks g
                   where g.repo_id = f.repo_id and g.gate_hash = md5(array_to_json(r.gate)::text) and g.passed
                   order by g.checked_at desc limit 1) as gate_ms,
                  (select coalesce(sum(i.checks), 0) from integrations i where i.feature_id = f.id) as "checks!",
                  (select coalesce(sum(i.checks_wasted), 0) from integrations i where i.feature_id = f.id) as "wasted!"
           from features f
           cross join lateral (
             select landing, max_speculation, gate
             from runs
             where feature_id = f.id
             order by id is not distinct from f.current_run desc, started_at desc
             limit 1
           ) r
           where f.id = $1"#,
        feature.0,
    )
    .fetch_optional(conn)
    .await?;
    let Some(facts) = facts else {
        return Ok(None);
    };
    let landing: Landing = facts.landing.parse().unwrap_or_default();
    let gate_ms = facts.gate_ms.filter(|_| facts.is_gated);
    let at_once = match landing {
        Landing::Each => i64::from(facts.max_speculation) + 1,
        Landing::Batch => i64::try_from(MAX_BATCH).unwrap_or(1),
        Landing::Serial => 1,
    };
    let unchecked = (length - passed).max(0);
    let rounds = (unchecked + at_once - 1) / at_once;
    Ok(Some(TrainView {
        landing,
        length,
        cars,
        gate_ms,
        expected_ms: gate_ms.map(|ms| ms.saturating_mul(rounds)),
        checks: facts.checks,
        wasted: facts.wasted,
    }))
}

/// The first cars, the number of all cars, and the number of cars that passed ahead of their turn.
async fn cars(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Option<(Vec<CarView>, i64, i64)>> {
    let rows = sqlx::query!(
        r#"select i.task_id, x.title, i.attempt, i.state as "state: IntegrationState", i.queued_at,
                  i.dispatch_id is not null as "runs!", i.check_result as "check_result: CheckResult",
                  coalesce(cardinality(i.ahead), 0)::bigint as "behind!", count(*) over () as "length!",
                  count(*) filter (where i.check_result = 'passed') over () as "passed!"
           from integrations i
           join tasks t on t.id = i.task_id
           join task_texts x on x.task_id = i.task_id
           where i.feature_id = $1 and i.state in ('waiting', 'turn', 'decided')
           order by i.state = 'waiting', t.conflicts < 2, t.priority, i.queued_at, i.id
           limit $2"#,
        feature.0,
        NAMED,
    )
    .fetch_all(conn)
    .await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let (length, passed) = (first.length, first.passed);
    let cars = rows.into_iter().map(|row| CarView {
        task: TaskId(row.task_id).short(),
        title: row.title,
        attempt: row.attempt,
        status: match (row.state, row.runs, row.check_result) {
            (IntegrationState::Waiting, true, _) => CarStatus::Checking,
            (IntegrationState::Waiting, _, Some(CheckResult::Passed)) => CarStatus::Passed,
            (IntegrationState::Waiting, _, Some(CheckResult::Failed)) => CarStatus::Failed,
            (IntegrationState::Waiting, _, Some(CheckResult::Conflict)) => CarStatus::Conflict,
            (IntegrationState::Waiting, ..) => CarStatus::Waiting,
            _ => CarStatus::Landing,
        },
        behind: row.behind,
        since: row.queued_at,
    });
    Ok(Some((cars.collect(), length, passed)))
}
