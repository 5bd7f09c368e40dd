//! A world without agents: the test reports agents' words itself, and so chooses their order.

use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::apply::ReportFate;
use ralph_coordinator::flow::memory::upkeep;
use ralph_shared::ids::{FeatureId, RunId};
use ralph_shared::wire::{Assignment, Ended, Finished, SessionReport, Work};
use ralph_tests::harness::{FeatureOptions, World};

use super::pool::Pool;
use super::trust::settings;

/// A world whose coordinator is the test, with memory for every session.
pub async fn world() -> World {
    World::start_with(settings()).await.unwrap()
}

/// Submits a feature without a repository; returns its id.
pub async fn submit(world: &World, name: &str, graph: &str) -> FeatureId {
    let mut options = FeatureOptions::default();
    options.run.backoff_ms = 0;
    world.submit(name, None, graph, &options).await.unwrap().0
}

/// Waits for the run's end, which must be complete.
pub async fn completes(world: &World, run: RunId) {
    let outcome = world.ended(run).await.unwrap();
    assert_eq!(outcome, RunOutcome::Complete, "{}", world.tell().await);
}

/// Claims the one task that is ready.
pub async fn claims(pool: &Pool<'_>) -> Assignment {
    let assigned = pool.claim_once(&[["default"]]).await;
    assigned.into_iter().next().expect("a task is ready")
}

/// Reports that the session ended its turn with this text.
pub async fn says(pool: &Pool<'_>, of: &Assignment, text: &str) {
    says_after(pool, of, text, |_| ()).await;
}

/// Like [`says`], with a change to the report first.
pub async fn says_after(
    pool: &Pool<'_>,
    of: &Assignment,
    text: &str,
    change: impl FnOnce(&mut SessionReport),
) {
    let ended = Ended::Turn {
        stop_reason: "end_turn".into(),
    };
    let mut report = pool.session(of, ended, text, 0);
    if let Finished::Session(session) = &mut report.report.finished {
        change(session);
    }
    assert_eq!(pool.report(vec![report]).await, [ReportFate::Applied]);
}

/// Claims the one ready task and reports `text` and its completion.
pub async fn does(pool: &Pool<'_>, text: &str) -> Assignment {
    let of = claims(pool).await;
    says(pool, &of, &format!("{text}\n<task-done>{}</task-done>", of.task)).await;
    of
}

/// Claims the one ready task and reports `text` and its failure.
pub async fn fails(pool: &Pool<'_>, text: &str) -> Assignment {
    let of = claims(pool).await;
    says(
        pool,
        &of,
        &format!("{text}\n<task-failed>{}</task-failed>", of.task),
    )
    .await;
    of
}

/// The prompt in a session's order.
pub fn prompt(of: &Assignment) -> String {
    let Work::Session(order) = &of.work else {
        panic!("no session: {of:?}");
    };
    match &order.prompt {
        ralph_shared::wire::Text::Inline(text) => text.clone(),
        parts => panic!("it came in parts: {parts:?}"),
    }
}

/// Runs upkeep once; no step may fail.
pub async fn upkeep(world: &World) -> upkeep::Upkept {
    let upkept = upkeep::tick(&world.db).await.unwrap();
    assert_eq!(upkept.failed, 0, "{upkept:?}");
    upkept
}
