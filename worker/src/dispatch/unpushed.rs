//! Work whose session is over but that has not reached its server yet, or that nobody was told of: of an earlier instance of the
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
use crate::instance::Instance;
use crate::instance::heartbeat::publish_spooled;
use crate::session::Redactor;
use crate::workspace::{CommitMessage, Workspace};
use crate::{dispatch::outgoing, session};

/// After this work that could not be pushed is tried again, then after twice as long each time: it may be large, and refused for good.
const UNPUSHED: Duration = Duration::from_secs(60);
/// The longest such pause.
const UNPUSHED_MOST: Duration = Duration::from_secs(15 * 60);

/// The previous instance's workspaces with unpushed work, and their assignments.
pub async fn unpushed_workspaces(instance: &Instance, left: &[Assignment]) -> Vec<(Assignment, Workspace)> {
    let mut held = Vec::new();
    for workspace in instance.workspaces.unpushed().await {
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
    instance: &Instance,
    left: &[Assignment],
    held: &[(Assignment, Workspace)],
    drained: &BTreeSet<DispatchId>,
) {
    let reported = instance.spool.dispatches();
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
        let report = match instance.outputs.of(dispatch).filter(|_| is_thrown_away) {
            Some(said) => earlier_report(instance, said, Snapshot::default()),
            None if drained.contains(&dispatch) => {
                broken_off(instance, assignment, Snapshot::default(), EndReason::Drain)
            }
            None => continue,
        };
        // Tried once: the worker has to say hello before its leases end.
        if let Err(error) = instance.spool.put(&report) {
            tracing::warn!(%dispatch, error = format!("{error:#}"), "a session of an earlier instance can't be reported");
        }
    }
}

/// Pushes what the instance before left, and reports it: with what the session said, where it was over; else while the fence still
/// stands, the next attempt goes on from there. What that instance reported itself stays as it is; that it is pushed is told besides.
/// `left` is all that ran when it died, `drained` what of it did when it was told to stop.
pub async fn report_earlier_instance(
    instance: &Instance,
    left: &[Assignment],
    held: Vec<(Assignment, Workspace)>,
    drained: &BTreeSet<DispatchId>,
) {
    let reported = instance.spool.dispatches();
    let is_lost = |one: &&Assignment| !reported.contains(&one.dispatch) && !drained.contains(&one.dispatch);
    let alone = left.iter().filter(is_lost).count() == 1;
    let is_held = |one: &&Assignment| held.iter().any(|(held, _)| held.dispatch == one.dispatch);
    for assignment in left.iter().filter(|one| !is_held(one)) {
        instance.forget(assignment.dispatch);
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
        report_or_leave(instance, assignment, workspace, reason, is_reported)
    });
    join_all(reports).await;
    publish_spooled(instance).await;
}

/// Reports what one session left. A panic holds neither the others nor the task: what is left stays for the next instance.
async fn report_or_leave(
    instance: &Instance,
    assignment: Assignment,
    workspace: Workspace,
    reason: EndReason,
    is_reported: bool,
) {
    let dispatch = assignment.dispatch;
    let report = report_unpushed(instance, assignment, workspace, reason, is_reported);
    if AssertUnwindSafe(report).catch_unwind().await.is_err() {
        tracing::error!(%dispatch, "what an earlier instance left can't be reported: the worker failed");
        instance.ended(dispatch);
    }
}

/// Pushes one session's unpushed work, and reports it unless its own instance did.
async fn report_unpushed(
    instance: &Instance,
    assignment: Assignment,
    workspace: Workspace,
    reason: EndReason,
    is_reported: bool,
) {
    let dispatch = assignment.dispatch;
    let said = instance.outputs.of(dispatch);
    let message = match &said {
        Some(said) => commit_message(&assignment, &said.finished),
        None => broken_off_message(&assignment, reason),
    };
    if let Some(Finished::Session(session)) = said.as_ref().map(|said| &said.finished)
        && let Ended::Unavailable { .. } = session.ended
    {
        workspace.push_nothing_empty();
    }
    let snapshot = match instance.end_requests(dispatch) {
        Some(mut told) if said.is_some() && !is_reported => {
            tokio::select! {
                snapshot = keep_work(instance, &workspace, &message, &mut told) => snapshot,
                never = shortened_by_drain(instance, dispatch) => never,
            }
        }
        _ => workspace.finish(&message).await,
    };
    let mut pushed = snapshot.is_pushed();
    if is_reported {
        pushed = pushed && is_noted(instance, dispatch, snapshot);
    } else {
        let mut report = match said {
            Some(said) => earlier_report(instance, said, as_far_as_known(&assignment, snapshot)),
            None => broken_off(instance, &assignment, snapshot, reason),
        };
        report.finished = outgoing::redacted(&redactor(instance), report.finished);
        spool(instance, &report).await;
    }
    instance.ended(dispatch);
    instance.forget(dispatch);
    if !pushed {
        instance.unpushed.store(true, Ordering::Relaxed);
    }
    if pushed && let Err(error) = workspace.remove().await {
        tracing::warn!(%dispatch, %error, "a workspace of an earlier instance could not be removed");
    }
}

/// Has a dispatch end in order once the drain begins, so that its server is waited for as after any session then.
async fn shortened_by_drain(instance: &Instance, dispatch: DispatchId) -> Snapshot {
    instance.draining.cancelled().await;
    instance.end(dispatch, EndReason::Drain);
    std::future::pending().await
}

/// Pushes, from time to time and when another push went well, what could not be pushed when its session ended.
pub async fn keep_pushing(instance: Arc<Instance>) {
    let mut pause = UNPUSHED;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = instance.push_now.notified() => {}
        }
        instance.unpushed.store(false, Ordering::Relaxed);
        push_unpushed(&instance).await;
        let left = instance.unpushed.load(Ordering::Relaxed);
        pause = if left {
            (pause * 2).min(UNPUSHED_MOST)
        } else {
            UNPUSHED
        };
    }
}

/// Pushes what could not be pushed when its session ended, and tells the coordinator, which knows that session's report
/// already. What it can't be told of stays for the next time; what a server refuses by a rule, for as many days as what no branch holds.
async fn push_unpushed(instance: &Instance) {
    let message = CommitMessage {
        subject: "Work that could not be pushed at once".to_owned(),
        body: String::new(),
    };
    let unpushed = instance.workspaces.unpushed().await;
    // Looked at afterwards: one is under way until its report is spooled, and its workspace is free before.
    let mut waiting: BTreeSet<DispatchId> = instance.running().into_iter().collect();
    waiting.extend(instance.spool.dispatches());
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
            if workspace.is_given_up(instance.workspaces.settings().keep_files_days) {
                tracing::warn!(
                    dispatch = name,
                    error,
                    "what its server refuses has been kept long enough, and is deleted"
                );
                delete(&name, workspace).await;
                continue;
            }
            tracing::warn!(dispatch = name, error, "still can't push");
            instance.unpushed.store(true, Ordering::Relaxed);
            continue;
        }
        if !snapshot.is_pushed() {
            tracing::warn!(dispatch = name, strays = ?snapshot.strays, "still can't push what an agent committed elsewhere");
            instance.unpushed.store(true, Ordering::Relaxed);
            continue;
        }
        if let Ok(dispatch) = dispatch
            && !is_noted(instance, dispatch, snapshot)
        {
            instance.unpushed.store(true, Ordering::Relaxed);
            continue;
        }
        match kept {
            Some(path) => tracing::info!(dispatch = name, path, "kept what was left"),
            None => tracing::info!(dispatch = name, "pushed what was left"),
        }
        delete(&name, workspace).await;
    }
    publish_spooled(instance).await;
}

async fn delete(dispatch: &str, workspace: Workspace) {
    if let Err(error) = workspace.remove().await {
        tracing::warn!(dispatch, %error, "a workspace could not be deleted");
    }
}

/// Notes a push that came after its session's report, as a report of nothing else: from here on it is told until a coordinator
/// knows it. Its dispatch is settled by then, so it changes nothing else. Where nothing was pushed, nothing is to be told. `false` when
/// the disk doesn't take it now.
fn is_noted(instance: &Instance, dispatch: DispatchId, snapshot: Snapshot) -> bool {
    if snapshot.pushed_ref.is_none() && snapshot.strays.is_empty() {
        return true;
    }
    let ended = Ended::Workspace {
        message: "its work was pushed after its report".to_owned(),
        away: true,
    };
    let finished = outgoing::redacted(&redactor(instance), unstarted(ended, snapshot));
    let report = report(instance, dispatch, Duration::ZERO, finished);
    let noted = instance.late.put(&report);
    if let Err(error) = &noted {
        tracing::warn!(%dispatch, error = format!("{error:#}"), "pushed what was left, but can't note it yet");
    }
    noted.is_ok()
}

/// With the logins of all agents: which of them made what is left, and may have put its login's secrets there, isn't looked up.
pub(in crate::dispatch) fn redactor(instance: &Instance) -> Redactor {
    let agents = instance.config.machine.agents.values();
    let logins = agents.flat_map(|agent| session::login_secrets(&agent.files));
    instance.redactor.with(logins)
}

/// The report of a session that ended with its worker. How long it took is known as far as that worker's last heartbeat.
fn broken_off(instance: &Instance, assignment: &Assignment, snapshot: Snapshot, reason: EndReason) -> Report {
    let finished = unstarted(Ended::Told { reason }, snapshot);
    let took = instance.home.ran_for(assignment.dispatch).unwrap_or_default();
    report(instance, assignment.dispatch, took, finished)
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
fn earlier_report(instance: &Instance, said: Report, snapshot: Snapshot) -> Report {
    let took = Duration::from_millis(said.duration_ms);
    report(
        instance,
        said.dispatch,
        took,
        with_snapshot(said.finished, snapshot),
    )
}

/// A snapshot of an earlier instance's session. Where the branch's head was is not known any more, and an attempt that began from an
/// earlier one's commit changed more in all than since then.
fn as_far_as_known(assignment: &Assignment, mut snapshot: Snapshot) -> Snapshot {
    if let WorkspaceOrder::Git(git) = &assignment.workspace
        && (git.start.is_some() || git.start_ref.is_some())
    {
        snapshot.change = None;
    }
    snapshot
}
