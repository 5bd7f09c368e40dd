//! Progress of a feature, small and complete, so that each answer replaces the one before (DESIGN 1.5).

pub use ralph_api::view::{FailureView, Progress};
use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;

use super::attention::{Asking, AttentionScope, asking};
use super::dispatch::sessions;
use super::feature::{FeatureView, features};
use super::task::TaskRef;
use super::train::train;
use crate::domain::budget::levels::Hold;
use crate::domain::budget::limit::{self, Reached};
use crate::domain::states::{FeatureState, Outcome};
use crate::domain::status::condition::Word;
use crate::domain::status::next::{self, Next};
use crate::domain::status::why_waiting::line;
use crate::store;
use crate::store::view::availability::waiting_of;

/// Most sessions, tasks and failures to name; the counters include the rest.
const NAMED: i64 = 20;

/// `None` when the feature does not exist. A worker without a heartbeat within `lease_ms` counts as unable to
/// start anything.
pub async fn progress(
    conn: &mut PgConnection,
    id: FeatureId,
    lease_ms: i64,
) -> sqlx::Result<Option<Progress>> {
    let Some(feature) = features(conn, &[id.0]).await?.pop() else {
        return Ok(None);
    };
    let trouble = feature.tasks.failed + feature.tasks.needs_review > 0;
    let may_wait = feature.status == FeatureState::Running && feature.tasks.pending > 0;
    let attention = match trouble {
        true => asking(conn, AttentionScope::Of(id), NAMED).await?,
        false => Vec::new(),
    };
    Ok(Some(Progress {
        waiting: if may_wait {
            waiting_of(conn, id, lease_ms).await?
        } else {
            Vec::new()
        },
        sessions: sessions(conn, Some(id), NAMED).await?,
        train: if feature.tasks.pending + feature.tasks.in_progress > 0 {
            train(conn, id).await?
        } else {
            None
        },
        failures: match feature.run {
            Some(_) => failures(conn, id).await?,
            None => Vec::new(),
        },
        next: next_of(conn, id, &feature, &attention).await?,
        attention: attention.into_iter().map(TaskRef::from).collect(),
        feature,
    }))
}

/// A person's next step with a feature.
pub(super) async fn next_of(
    conn: &mut PgConnection,
    id: FeatureId,
    feature: &FeatureView,
    attention: &[Asking],
) -> sqlx::Result<Option<Next>> {
    let word = feature.condition.word;
    let of_task = |task: &Asking| task.choices.decide.first().cloned();
    let mut decision = attention.first().and_then(of_task);
    if decision.is_none() && word == Word::Blocked {
        decision = match feature.tasks.cancelled + feature.tasks.skipped {
            0 => None,
            _ => asking(conn, AttentionScope::Cancelled(id), 1)
                .await?
                .first()
                .and_then(of_task),
        };
    }
    if decision.is_none() && word == Word::Blocked && feature.tasks.open() == 0 {
        // Its steps made no tasks, so a person retries the step that makes them.
        decision = store::feature::step(conn, id, SessionKind::Build)
            .await?
            .map(|step| format!("ralph task retry {}", step.short()));
    }
    let has_texts = match word {
        Word::Draft => store::feature::texts(conn, id).await?.is_some_and(|texts| {
            let filled = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.trim().is_empty());
            !texts.description.trim().is_empty() || filled(&texts.spec) || filled(&texts.plan)
        }),
        _ => false,
    };
    let (reached, hold) = match word {
        Word::Limit => (
            reached(conn, id).await?,
            feature.held_by_limit.as_deref().and_then(Hold::read),
        ),
        _ => (None, None),
    };
    let facts = next::Facts {
        feature: &feature.name,
        needs_run: feature.needs_run,
        has_texts,
        reached: reached.as_ref(),
        hold: hold.as_ref(),
        decision: decision.as_deref(),
    };
    Ok(next::of(&feature.condition, &facts))
}

/// The limit that a feature's last run has reached, if any.
pub(super) async fn reached(conn: &mut PgConnection, id: FeatureId) -> sqlx::Result<Option<Reached>> {
    let last = store::run::last(conn, id).await?;
    Ok(last.and_then(|run| limit::reached(&run)))
}

/// The last failed sessions of a feature's newest run, oldest first.
async fn failures(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Vec<FailureView>> {
    let rows = sqlx::query!(
        r#"select d.id, d.task_id, x.title, d.kind as "kind: SessionKind", d.attempt, d.outcome as "outcome!: Outcome", d.reason,
                  case when t.dispatch_id is not distinct from d.id or t.dispatch_id is null
                       then (select not_before from ready_tasks where task_id = t.id and not_before > now() limit 1)
                  end as again_at
           from (
             select id, task_id, kind, attempt, outcome, reason, run_id
             from dispatches
             where feature_id = $1 and outcome in ('failed', 'no_sigil', 'error', 'conflict', 'lost', 'door')
             order by id desc
             limit $2
           ) d
           join tasks t on t.id = d.task_id
           join task_texts x on x.task_id = d.task_id
           where d.run_id = (select id from runs where feature_id = $1 order by started_at desc limit 1)
           order by d.id"#,
        feature.0,
        NAMED,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| FailureView {
            id: DispatchId(row.id).short(),
            task: TaskId(row.task_id).short(),
            title: row.title,
            kind: row.kind,
            attempt: row.attempt,
            outcome: row.outcome,
            reason: row.reason.as_deref().map(line),
            again_at: row.again_at,
        })
        .collect())
}
