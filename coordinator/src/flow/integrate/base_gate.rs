//! Tries the gate on a feature's base commit while its first sessions work. Until it passes there, or a
//! person allows it to fail, nothing of the feature lands (see [`crate::domain::gate`]).
//!
//! A task with the role `check` tries it, without an agent and without room under `max_parallel`. Where its
//! pool has two slots or more it goes first, so that a hopeless gate costs one run of it. A single slot works
//! on the tasks first, since a long gate would delay the first session. There the check goes first as soon as
//! an attempt is ready to land (`store::git::gate::hurry`).

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::GitOperation;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::failure::retry::Trouble;
use crate::domain::gate::{self, Facts, PendingCheck, Plan};
use crate::domain::run::RunSettings;
use crate::domain::run::defaults::TaskDefaults;
use crate::domain::states::TaskState;
use crate::flow::cascade::{self, Features};
use crate::flow::{Signals, control};
use crate::store;
use crate::store::feature::Locked;
use crate::store::git::gate::{Base, OpenCheck};
use crate::store::task::{NewTask, Task};

/// The actor in a task's log.
const BY_GATE: &str = "the gate";
/// Before and behind all work of a feature in the queue.
const FIRST: i32 = i32::MIN + 1;
const LAST: i32 = i32::MAX - 1;

/// Why the gate may need a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flow) enum GateCause {
    /// Another gate or base, or a poll for another feature's result.
    Changed,
    /// A person wants to retry a failed check.
    Again,
    /// The gate's failures on attempts look like the environment's fault.
    Doubt(String),
}

/// Makes sure that the result of a locked feature's gate on its base is known, or will be. The caller writes
/// the feature back, and looks for attempts that may land.
pub(in crate::flow) async fn ensure(
    conn: &mut PgConnection,
    held: &mut Locked,
    settings: &RunSettings,
    why: GateCause,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    if !held.has_repository {
        return Ok(());
    }
    let Some(base) = store::git::gate::base(conn, held.id).await? else {
        return Ok(());
    };
    let wanted = !settings.gate.is_empty() && !settings.gate_may_fail;
    if !wanted && base.check.is_none() {
        return Ok(());
    }
    if let GateCause::Doubt(_) = why {
        store::git::gate::doubt(conn, &base.repo_id, &base.commit, &settings.gate).await?;
    }
    let open = store::git::gate::open(conn, &[held.id.0]).await?.remove(&held.id);
    let task = match &open {
        Some(open) => store::task::lock(conn, &[open.task.0]).await?.pop(),
        None => None,
    };
    let facts = Facts {
        wanted,
        passes: wanted && store::git::gate::passes(conn, &base.repo_id, &base.commit, &settings.gate).await?,
        open: task.as_ref().map(|task| PendingCheck {
            same: open.as_ref().is_some_and(|open| is_same(open, &base, settings)),
            runs: task.state == TaskState::InProgress,
            waits: matches!(task.state, TaskState::Failed | TaskState::NeedsReview),
        }),
        again: why == GateCause::Again,
    };
    match (gate::plan(&facts), task) {
        // A person may have retried the task alone.
        (Plan::Leave, Some(_)) => store::git::gate::hold_back(conn, held.id).await?,
        (Plan::Leave | Plan::Again | Plan::Pass | Plan::Skip, None) => {}
        (Plan::Make, task) => {
            if let Some(task) = task {
                let why = "the gate or the base has changed";
                resolve(conn, held, task, TaskState::Cancelled, why, signals).await?;
            }
            make(conn, held, &base, settings, why, signals).await?;
        }
        (Plan::Again, Some(task)) => again(conn, held, task, signals).await?,
        (Plan::Pass, Some(task)) => {
            let why = "the same gate passed on the same commit meanwhile";
            resolve(conn, held, task, TaskState::Done, why, signals).await?;
        }
        (Plan::Skip, Some(task)) => {
            let why = "the gate need not be tried on the base";
            resolve(conn, held, task, TaskState::Skipped, why, signals).await?;
        }
    }
    Ok(())
}

fn is_same(open: &OpenCheck, base: &Base, settings: &RunSettings) -> bool {
    match &open.operation {
        GitOperation::Check { commit, gate, .. } => *commit == base.commit && *gate == settings.gate,
        _ => false,
    }
}

/// Like [`ensure`], for a running feature with its run's gate.
pub(in crate::flow) async fn follow(
    conn: &mut PgConnection,
    features: &mut Features,
    feature: FeatureId,
    why: GateCause,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let Some(held) = features.get_mut(&feature) else {
        return Ok(());
    };
    let Some(run) = held.current_run else {
        return Ok(());
    };
    let Some(run) = store::run::read(conn, &[run.0]).await?.pop() else {
        return Ok(());
    };
    ensure(conn, held, &run.settings, why, signals).await
}

/// Looks for a pass of another feature's check, for a running feature whose check has not started.
pub(in crate::flow) async fn reuse_pass(
    conn: &mut PgConnection,
    features: &mut Features,
    feature: FeatureId,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    if store::git::gate::open(conn, &[feature.0]).await?.is_empty() {
        return Ok(());
    }
    follow(conn, features, feature, GateCause::Changed, signals).await
}

/// Ends a check that is no longer needed.
async fn resolve(
    conn: &mut PgConnection,
    held: &mut Locked,
    mut task: Task,
    to: TaskState,
    why: &str,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    control::fence_off(conn, &mut task, signals).await?;
    store::queue::ready::withdraw(conn, &[task.id.0]).await?;
    held.counts.moved(task.state, to);
    task.state = to;
    task.trouble = Trouble::default();
    store::task::explain(conn, task.id, None).await?;
    store::task::save(conn, &[&task]).await?;
    let verb = match to {
        TaskState::Done => "done",
        TaskState::Skipped => "skip",
        _ => "cancel",
    };
    store::task::log(conn, task.id, BY_GATE, verb, Some(why)).await
}

async fn make(
    conn: &mut PgConnection,
    held: &mut Locked,
    base: &Base,
    settings: &RunSettings,
    why: GateCause,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let is_roomy = store::git::gate::slots(conn, &base.pool).await? > 1;
    let because = match why {
        GateCause::Doubt(because) => Some(because),
        GateCause::Changed | GateCause::Again => None,
    };
    let commands: Vec<String> = settings
        .gate
        .iter()
        .map(|command| format!("`{command}`"))
        .collect();
    let defaults = TaskDefaults {
        pool: base.pool.clone(),
        verify: false,
        ..TaskDefaults::default()
    };
    let task = NewTask {
        key: format!("check-{}", base.checks + 1),
        title: "Try the gate on the base".to_owned(),
        description: format!(
            "Run {} on the base commit {}; nothing lands before it passes there.",
            commands.join(", "),
            base.commit
        ),
        priority: if is_roomy || because.is_some() {
            FIRST
        } else {
            LAST
        },
        operation: Some(GitOperation::Check {
            commit: base.commit.clone(),
            gate: settings.gate.clone(),
            because,
        }),
        ..NewTask::blank(SessionKind::Check, &defaults)
    };
    let id = task.id;
    store::task::insert(conn, held.id, &[task], &[]).await?;
    store::git::gate::set_task(conn, held.id, id).await?;
    store::git::gate::hold_back(conn, held.id).await?;
    held.counts.add(TaskState::Pending, 1);
    signals.got_work(store::queue::ready::enqueue(conn, &[id.0], &[0]).await?);
    Ok(())
}

async fn again(
    conn: &mut PgConnection,
    held: &mut Locked,
    mut task: Task,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let waiting = task.waiting();
    held.counts.moved(task.state, waiting);
    task.state = waiting;
    task.next_kind = Some(task.role);
    task.trouble = Trouble::default();
    store::task::explain(conn, task.id, None).await?;
    store::task::save(conn, &[&task]).await?;
    store::queue::ready::forget_pauses(conn, &[task.id.0]).await?;
    signals.got_work(store::queue::ready::enqueue(conn, &[task.id.0], &[0]).await?);
    Ok(())
}

/// The gate fails on the base, so its recent refusals do not count. Attempts without a successor wait to land
/// again, and the others lose that failure.
pub(in crate::flow) async fn forgive(
    conn: &mut PgConnection,
    features: &mut Features,
    feature: FeatureId,
) -> sqlx::Result<()> {
    let refused = store::git::gate::refused(conn, feature).await?;
    if refused.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = refused.iter().map(|one| one.task.0).collect();
    let mut tasks = store::task::lock(conn, &ids).await?;
    let mut reopened = Vec::new();
    let mut waiting = Vec::new();
    for task in &mut tasks {
        task.trouble.failures = (task.trouble.failures - 1).max(0);
        let last = refused.iter().rfind(|one| one.task == task.id);
        let is_idle = matches!(task.state, TaskState::Pending | TaskState::NeedsReview);
        let Some(last) = last.filter(|last| is_idle && last.attempt == task.attempt) else {
            continue;
        };
        cascade::moved(features, feature, task.state, TaskState::InProgress);
        task.state = TaskState::InProgress;
        task.next_kind = Some(SessionKind::Integrate);
        reopened.push(last.integration);
        waiting.push(task.id.0);
    }
    store::queue::ready::withdraw(conn, &waiting).await?;
    store::task::save(conn, &tasks.iter().collect::<Vec<_>>()).await?;
    for task in &waiting {
        store::task::explain(conn, TaskId(*task), None).await?;
    }
    store::git::gate::reopen(conn, &reopened).await
}
