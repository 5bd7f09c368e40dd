//! Work whose session is over but that has not reached its server yet, or that nobody was told of: of an earlier life of the
//! worker, or of a push that failed.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{
    Access, Assignment, EndReason, Ended, Finished, Report, Snapshot, Work, WorkspaceOrder,
};

use super::{commit_message, folder, keep_work, report, spool, unstarted, with_snapshot};
use crate::instance::Life;
use crate::instance::heartbeat::publish_spooled;
use crate::session::Redactor;
use crate::workspace::{CommitMessage, Workspace};
use crate::{dispatch::outgoing, session};

/// After this work that could not be pushed is tried again, then after twice as long each time: it may be large, and refused for good.
const UNPUSHED: Duration = Duration::from_secs(60);
/// The longest such pause.
const UNPUSHED_MOST: Duration = Duration::from_secs(15 * 60);

/// What the life before left with work in it: its workspaces, and the assignments they belong to.
pub async fn held_by_earlier_life(life: &Life, left: &[Assignment]) -> Vec<(Assignment, Workspace)> {
    let mut held = Vec::new();
    for workspace in life.workspaces.unpushed().await {
        let of = left
            .iter()
            .find(|assignment| folder(assignment.dispatch) == workspace.dispatch());
        if let Some(assignment) = of {
            held.push((assignment.clone(), workspace));
        }
    }
    held
}

/// Reports sessions that left no work here: those that were over when their worker died, with what they said; and those that a worker
/// which was told to stop was killed over. They didn't bring it down, as the coordinator would take it for once their leases are
/// given up. What changes branches is looked up by whoever does it next.
pub fn report_over(
    life: &Life,
    left: &[Assignment],
    held: &[(Assignment, Workspace)],
    drained: &BTreeSet<DispatchId>,
) {
    let reported = life.spool.dispatches();
    for assignment in left {
        let dispatch = assignment.dispatch;
        let is_told = reported.contains(&dispatch) || held.iter().any(|(held, _)| held.dispatch == dispatch);
        let Work::Session(order) = &assignment.work else {
            continue;
        };
        if is_told {
            continue;
        }
        let is_thrown_away = order.access != Access::Workspace;
        let report = match life.said.of(dispatch).filter(|_| is_thrown_away) {
            Some(said) => said_earlier(life, said, Snapshot::default()),
            None if drained.contains(&dispatch) => {
                broken_off(life, assignment, Snapshot::default(), EndReason::Drain)
            }
            None => continue,
        };
        // Tried once: the worker has to say hello before its leases end.
        if let Err(error) = life.spool.put(&report) {
            tracing::warn!(%dispatch, error = format!("{error:#}"), "a session of an earlier life can't be reported");
        }
    }
}

/// Pushes what the life before left, and reports it: with what the session said, where it was over; else while the fence still
/// stands, the next attempt goes on from there. What that life reported itself stays as it is; that it is pushed is told besides.
/// `left` is all that ran when it died, `drained` what of it did when it was told to stop.
pub async fn report_earlier_life(
    life: &Life,
    left: &[Assignment],
    held: Vec<(Assignment, Workspace)>,
    drained: &BTreeSet<DispatchId>,
) {
    let reported = life.spool.dispatches();
    let is_lost = |one: &&Assignment| !reported.contains(&one.dispatch) && !drained.contains(&one.dispatch);
    let alone = left.iter().filter(is_lost).count() == 1;
    let is_held = |one: &&Assignment| held.iter().any(|(held, _)| held.dispatch == one.dispatch);
    for assignment in left.iter().filter(|one| !is_held(one)) {
        life.forget(assignment.dispatch);
    }
    // Beside each other, since one may wait for its server.
    let reports = held.into_iter().map(|(assignment, workspace)| {
        let is_reported = reported.contains(&assignment.dispatch);
        let reason = if drained.contains(&assignment.dispatch) {
            EndReason::Drain
        } else if alone {
            EndReason::DiedAlone
        } else {
            EndReason::DiedWithOthers
        };
        report_or_leave(life, assignment, workspace, reason, is_reported)
    });
    join_all(reports).await;
    publish_spooled(life).await;
}

/// Reports what one session left. A panic holds neither the others nor the task: what is left stays for the next life.
async fn report_or_leave(
    life: &Life,
    assignment: Assignment,
    workspace: Workspace,
    reason: EndReason,
    is_reported: bool,
) {
    let dispatch = assignment.dispatch;
    let report = report_held(life, assignment, workspace, reason, is_reported);
    if AssertUnwindSafe(report).catch_unwind().await.is_err() {
        tracing::error!(%dispatch, "what an earlier life left can't be reported: the worker failed");
        life.ended(dispatch);
    }
}

/// Pushes what one session left, and reports it unless its own life did.
async fn report_held(
    life: &Life,
    assignment: Assignment,
    workspace: Workspace,
    reason: EndReason,
    is_reported: bool,
) {
    let dispatch = assignment.dispatch;
    let said = life.said.of(dispatch);
    let message = match &said {
        Some(said) => commit_message(&assignment, &said.finished),
        None => broken_off_message(&assignment, reason),
    };
    if let Some(Finished::Session(session)) = said.as_ref().map(|said| &said.finished)
        && let Ended::Door { .. } = session.ended
    {
        workspace.push_nothing_empty();
    }
    let snapshot = match life.told(dispatch) {
        Some(mut told) if said.is_some() && !is_reported => {
            tokio::select! {
                snapshot = keep_work(life, &workspace, &message, &mut told) => snapshot,
                never = shortened_by_drain(life, dispatch) => never,
            }
        }
        _ => workspace.finish(&message).await,
    };
    let mut pushed = snapshot.is_pushed();
    if is_reported {
        pushed = pushed && is_noted(life, dispatch, snapshot);
    } else {
        let mut report = match said {
            Some(said) => said_earlier(life, said, as_far_as_known(&assignment, snapshot)),
            None => broken_off(life, &assignment, snapshot, reason),
        };
        report.finished = outgoing::redacted(&redactor(life), report.finished);
        spool(life, &report).await;
    }
    life.ended(dispatch);
    life.forget(dispatch);
    if !pushed {
        life.unpushed.store(true, Ordering::Relaxed);
    }
    if pushed && let Err(error) = workspace.remove().await {
        tracing::warn!(%dispatch, %error, "a workspace of an earlier life could not be removed");
    }
}

/// Has a dispatch end in order once the drain begins, so that its server is waited for as after any session then.
async fn shortened_by_drain(life: &Life, dispatch: DispatchId) -> Snapshot {
    life.draining.cancelled().await;
    life.end(dispatch, EndReason::Drain);
    std::future::pending().await
}

/// Pushes, from time to time and when another push went well, what could not be pushed when its session ended.
pub async fn keep_pushing(life: Arc<Life>) {
    let mut pause = UNPUSHED;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = life.push_now.notified() => {}
        }
        life.unpushed.store(false, Ordering::Relaxed);
        push_what_is_left(&life).await;
        let left = life.unpushed.load(Ordering::Relaxed);
        pause = if left {
            (pause * 2).min(UNPUSHED_MOST)
        } else {
            UNPUSHED
        };
    }
}

/// Pushes what could not be pushed when its session ended, and tells the coordinator, which knows that session's report
/// already. What it can't be told of stays for the next time; what a server refuses by a rule, for as many days as what no branch holds.
async fn push_what_is_left(life: &Life) {
    let message = CommitMessage {
        subject: "Work that could not be pushed at once".to_owned(),
        body: String::new(),
    };
    let unpushed = life.workspaces.unpushed().await;
    // Looked at afterwards: one is under way until its report is spooled, and its workspace is free before.
    let mut waiting: BTreeSet<DispatchId> = life.running().into_iter().collect();
    waiting.extend(life.spool.dispatches());
    for workspace in unpushed {
        let dispatch = uuid::Uuid::parse_str(workspace.dispatch()).map(DispatchId);
        // What the session itself reported comes first.
        if dispatch.as_ref().is_ok_and(|dispatch| waiting.contains(dispatch)) {
            continue;
        }
        let snapshot = workspace.finish(&message).await;
        let name = workspace.dispatch().to_owned();
        let kept = snapshot.left.as_ref().and_then(|left| left.path.clone());
        if let Some(error) = &snapshot.push_error {
            if workspace.is_given_up(life.workspaces.settings().keep_files_days) {
                tracing::warn!(
                    dispatch = name,
                    error,
                    "what its server refuses has been kept long enough, and is deleted"
                );
                delete(&name, workspace).await;
                continue;
            }
            tracing::warn!(dispatch = name, error, "still can't push");
            life.unpushed.store(true, Ordering::Relaxed);
            continue;
        }
        if !snapshot.is_pushed() {
            tracing::warn!(dispatch = name, strays = ?snapshot.strays, "still can't push what an agent committed elsewhere");
            life.unpushed.store(true, Ordering::Relaxed);
            continue;
        }
        if let Ok(dispatch) = dispatch
            && !is_noted(life, dispatch, snapshot)
        {
            life.unpushed.store(true, Ordering::Relaxed);
            continue;
        }
        match kept {
            Some(path) => tracing::info!(dispatch = name, path, "kept what was left"),
            None => tracing::info!(dispatch = name, "pushed what was left"),
        }
        delete(&name, workspace).await;
    }
    publish_spooled(life).await;
}

async fn delete(dispatch: &str, workspace: Workspace) {
    if let Err(error) = workspace.remove().await {
        tracing::warn!(dispatch, %error, "a workspace could not be deleted");
    }
}

/// Notes a push that came after its session's report, as a report of nothing else: from here on it is told until a coordinator
/// knows it. Its dispatch is settled by then, so it changes nothing else. Where nothing was pushed, nothing is to be told. `false` when
/// the disk doesn't take it now.
fn is_noted(life: &Life, dispatch: DispatchId, snapshot: Snapshot) -> bool {
    if snapshot.pushed_ref.is_none() && snapshot.strays.is_empty() {
        return true;
    }
    let ended = Ended::Workspace {
        message: "its work was pushed after its report".to_owned(),
        away: true,
    };
    let finished = outgoing::redacted(&redactor(life), unstarted(ended, snapshot));
    let report = report(life, dispatch, Duration::ZERO, finished);
    let noted = life.late.put(&report);
    if let Err(error) = &noted {
        tracing::warn!(%dispatch, error = format!("{error:#}"), "pushed what was left, but can't note it yet");
    }
    noted.is_ok()
}

/// With the logins of all agents: which of them made what is left, and may have put its login's secrets there, isn't looked up.
pub(in crate::dispatch) fn redactor(life: &Life) -> Redactor {
    let agents = life.config.machine.agents.values();
    let logins = agents.flat_map(|agent| session::login_secrets(&agent.files));
    life.redactor.with(logins)
}

/// The report of a session that ended with its worker. How long it took is known as far as that worker's last heartbeat.
fn broken_off(life: &Life, assignment: &Assignment, snapshot: Snapshot, reason: EndReason) -> Report {
    let finished = unstarted(Ended::Told { reason }, snapshot);
    let took = life.home.ran_for(assignment.dispatch).unwrap_or_default();
    report(life, assignment.dispatch, took, finished)
}

fn broken_off_message(assignment: &Assignment, reason: EndReason) -> CommitMessage {
    let how = match reason {
        EndReason::Drain => "was stopped",
        _ => "died",
    };
    CommitMessage {
        subject: format!(
            "{} (attempt {}, broken off)",
            assignment.task_title, assignment.attempt
        ),
        body: format!("The worker {how} while this session ran."),
    }
}

/// The report of a session that was over before its worker died.
fn said_earlier(life: &Life, said: Report, snapshot: Snapshot) -> Report {
    let took = Duration::from_millis(said.duration_ms);
    report(life, said.dispatch, took, with_snapshot(said.finished, snapshot))
}

/// A snapshot of an earlier life's session. Where the branch's head was is not known any more, and an attempt that began from an
/// earlier one's commit changed more in all than since then.
fn as_far_as_known(assignment: &Assignment, mut snapshot: Snapshot) -> Snapshot {
    if let WorkspaceOrder::Git(git) = &assignment.workspace
        && (git.start.is_some() || git.start_ref.is_some())
    {
        snapshot.change = None;
    }
    snapshot
}
