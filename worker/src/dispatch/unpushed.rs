//! Finished sessions whose work has not reached its server or was not reported: work of an earlier instance
//! of the worker, or of a failed push.

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

use super::{commit_message, folder, push_work, report, spool, unstarted, with_snapshot};
use crate::instance::Instance;
use crate::instance::heartbeat::publish_spooled;
use crate::session::Redactor;
use crate::workspace::{CommitMessage, Workspace};
use crate::{dispatch::outgoing, session};

/// First pause before work is pushed again. It doubles each time: the work may be large, and refused for
/// good.
const UNPUSHED: Duration = Duration::from_secs(60);
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

/// Reports the earlier instance's sessions without local work: those that had finished when the worker died,
/// with their output, and those that were killed during a drain. The latter must not count as crashes when
/// their leases end. Git operations need no report: their next run checks them.
pub fn report_over(
    instance: &Instance,
    left: &[Assignment],
    held: &[(Assignment, Workspace)],
    drained: &BTreeSet<DispatchId>,
) {
    let reported = instance.spool.dispatches();
    for assignment in left {
        let dispatch = assignment.dispatch;
        let is_covered =
            reported.contains(&dispatch) || held.iter().any(|(held, _)| held.dispatch == dispatch);
        let Work::Session(order) = &assignment.work else {
            continue;
        };
        if is_covered {
            continue;
        }
        let is_thrown_away = order.access != Access::Workspace;
        let report = match instance.outputs.of(dispatch).filter(|_| is_thrown_away) {
            Some(output) => earlier_report(instance, output, Snapshot::default()),
            None if drained.contains(&dispatch) => {
                broken_off(instance, assignment, Snapshot::default(), EndReason::Drain)
            }
            None => continue,
        };
        // Tried once: the worker must say hello before its leases end.
        if let Err(error) = instance.spool.put(&report) {
            tracing::warn!(%dispatch, error = format!("{error:#}"), "a session of an earlier instance can't be reported");
        }
    }
}

/// Pushes and reports the previous instance's work. A finished session is reported with its output. An
/// unfinished one is reported while the fence is valid, and the next attempt continues from its work. If that
/// instance already sent a report, only the push is reported. `left` are all dispatches that ran when it
/// died; `drained` are those that ran during its drain.
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
    // In parallel, since one may wait for its server.
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

/// Reports one session's work. A panic affects neither other sessions nor the task: the work stays for the
/// next instance.
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
        tracing::error!(%dispatch, "an earlier instance's work can't be reported: the worker failed");
        instance.ended(dispatch);
    }
}

/// Pushes one session's unpushed work, and reports the session unless its own instance did.
async fn report_unpushed(
    instance: &Instance,
    assignment: Assignment,
    workspace: Workspace,
    reason: EndReason,
    is_reported: bool,
) {
    let dispatch = assignment.dispatch;
    let output = instance.outputs.of(dispatch);
    let message = match &output {
        Some(output) => commit_message(&assignment, &output.finished),
        None => broken_off_message(&assignment, reason),
    };
    if let Some(Finished::Session(session)) = output.as_ref().map(|output| &output.finished)
        && let Ended::Unavailable { .. } = session.ended
    {
        workspace.push_nothing_empty();
    }
    let snapshot = match instance.end_requests(dispatch) {
        Some(mut end) if output.is_some() && !is_reported => {
            tokio::select! {
                snapshot = push_work(instance, &workspace, &message, &mut end) => snapshot,
                never = shortened_by_drain(instance, dispatch) => never,
            }
        }
        _ => workspace.finish(&message).await,
    };
    let mut pushed = snapshot.is_pushed();
    if is_reported {
        pushed = pushed && is_noted(instance, dispatch, snapshot);
    } else {
        let mut report = match output {
            Some(output) => earlier_report(instance, output, without_unknown_change(&assignment, snapshot)),
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

/// Ends a dispatch once the drain begins, so that the wait for its server is as short as for any session
/// then.
async fn shortened_by_drain(instance: &Instance, dispatch: DispatchId) -> Snapshot {
    instance.draining.cancelled().await;
    instance.end(dispatch, EndReason::Drain);
    std::future::pending().await
}

/// Pushes failed work from time to time, and right after another push succeeded.
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

/// Pushes work whose push failed at its session's end, and informs the coordinator, which already has the
/// session's report. Work that can't be reported stays for the next time. Work refused by a server's rule
/// stays for the same number of days as files outside any branch.
async fn push_unpushed(instance: &Instance) {
    let message = CommitMessage {
        subject: "Work that could not be pushed at once".to_owned(),
        body: String::new(),
    };
    let unpushed = instance.workspaces.unpushed().await;
    // Read afterwards: a dispatch runs until its report is spooled, and its workspace is released before.
    let mut waiting: BTreeSet<DispatchId> = instance.running().into_iter().collect();
    waiting.extend(instance.spool.dispatches());
    for workspace in unpushed {
        let dispatch = uuid::Uuid::parse_str(workspace.dispatch()).map(DispatchId);
        // The session's own report comes first.
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
                    "work refused by its server was stored long enough, and is deleted"
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
            Some(path) => tracing::info!(dispatch = name, path, "stored leftover files"),
            None => tracing::info!(dispatch = name, "pushed leftover work"),
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

/// Records a push after its session's report, as a report with nothing else. It is sent until a coordinator
/// acknowledges it. The dispatch is settled already, so the report changes nothing else. Without a push there
/// is nothing to record. Returns `false` if the disk rejects it now.
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
        tracing::warn!(%dispatch, error = format!("{error:#}"), "pushed leftover work, but can't record that yet");
    }
    noted.is_ok()
}

/// A redactor with the logins of all agents: the agent that did the work is not known here, and may have
/// written its login's secrets.
pub(in crate::dispatch) fn redactor(instance: &Instance) -> Redactor {
    let agents = instance.config.machine.agents.values();
    let logins = agents.flat_map(|agent| session::login_secrets(&agent.files));
    instance.redactor.with(logins)
}

/// The report of a session that ended with its worker. Its duration is known up to that worker's last sign of
/// life.
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

/// The report of a session that had ended before its worker died.
fn earlier_report(instance: &Instance, output: Report, snapshot: Snapshot) -> Report {
    let took = Duration::from_millis(output.duration_ms);
    report(
        instance,
        output.dispatch,
        took,
        with_snapshot(output.finished, snapshot),
    )
}

/// A snapshot of an earlier instance's session. The branch's head at its start is unknown, and an attempt
/// that continued an earlier one's commit changed more in total. Its change is then left out.
fn without_unknown_change(assignment: &Assignment, mut snapshot: Snapshot) -> Snapshot {
    if let WorkspaceOrder::Git(git) = &assignment.workspace
        && (git.start.is_some() || git.start_ref.is_some())
    {
        snapshot.change = None;
    }
    snapshot
}
