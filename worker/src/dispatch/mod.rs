//! One dispatch, from its assignment to its report in the spool: prepare, run or integrate, push, report.

mod branches;
pub mod context_files;
pub mod outgoing;
mod panicked;
mod people;
pub mod retained_transcripts;
mod retry_budget;
mod session;
pub mod session_output;
mod toolbox;
mod transcript;
mod unpushed;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use ralph_shared::at_length::by_length;
use ralph_shared::ids::DispatchId;
use ralph_shared::sigil;
use ralph_shared::wire::{
    Assignment, CheckAnswer, CheckRequest, EndReason, Ended, Finished, IntegrationEnd, Report, SessionReport,
    Snapshot, Text, WRITES, Work,
};
use tokio::sync::watch;

use crate::config::DEFAULT_AGENT;
use crate::instance::heartbeat::publish_spooled;

use crate::faults;
use crate::instance::Instance;
use crate::instance::availability::StartResult;

use crate::dispatch::retry_budget::RetryBudget;
use crate::dispatch::session::Session;
pub use crate::dispatch::session_output::SessionOutputs;
pub use crate::dispatch::unpushed::{
    keep_pushing, report_earlier_instance, report_over, unpushed_workspaces,
};
use crate::instance::session_permits::SessionPermit;
use crate::workspace::{CommitMessage, Workspace};

/// Runs a dispatch and puts its report into the spool. A panic is caught and reported. Dropping the future
/// ends the dispatch.
pub async fn run(instance: &Arc<Instance>, assignment: Assignment, place: Arc<SessionPermit>) {
    let began = Instant::now();
    if let Err(panic) = AssertUnwindSafe(perform(instance, &assignment, began, place))
        .catch_unwind()
        .await
    {
        panicked::report_panicked(instance, &assignment, began, panic).await;
    }
}

async fn perform(
    instance: &Arc<Instance>,
    assignment: &Assignment,
    began: Instant,
    place: Arc<SessionPermit>,
) {
    let dispatch = assignment.dispatch;
    let end = instance.started(dispatch);
    tracing::info!(%dispatch, task = %assignment.task, kind = %assignment.kind, attempt = assignment.attempt,
        title = assignment.task_title, "assigned");
    faults::point("session.assigned");
    let (finished, workspace) = match instance.note_live(assignment) {
        // A restarted worker would not find its processes.
        Err(error) => (not_recorded(assignment, &error), None),
        Ok(()) => match &assignment.work {
            Work::Session(order) => {
                let session = Session {
                    instance,
                    assignment,
                    order,
                    end,
                };
                session.run(began, place).await
            }
            Work::Integrate(order) => (branches::integrate(instance, assignment, order, end).await, None),
            Work::Git(order) => (branches::operate(instance, assignment, order, end).await, None),
        },
    };
    let finished = outgoing::redacted(&instance.redactor, finished);
    // Before its task can be claimed again.
    if let Some(start) = start_result(instance, assignment, &finished, began.elapsed()) {
        instance.note_start(&start);
    }
    faults::point("report.before_spool");
    spool(instance, &report(instance, dispatch, began.elapsed(), finished)).await;
    instance.ended(dispatch);
    faults::point("report.spooled");
    if let Some(workspace) = workspace
        && let Err(error) = workspace.remove().await
    {
        tracing::warn!(%dispatch, %error, "a finished workspace could not be removed");
    }
    instance.forget(dispatch);
    publish_spooled(instance).await;
    faults::point("report.published");
    tracing::info!(%dispatch, seconds = began.elapsed().as_secs_f32(), "reported");
}

fn start_result(
    instance: &Instance,
    assignment: &Assignment,
    finished: &Finished,
    took: Duration,
) -> Option<StartResult> {
    let (Work::Session(order), Finished::Session(session)) = (&assignment.work, finished) else {
        return None;
    };
    let agent = order.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let agents = &instance.config.machine.agents;
    let account = agents.get(agent).map_or("", |agent| &agent.account);
    StartResult::of(agent, account, session, took)
}

fn report(instance: &Instance, dispatch: DispatchId, took: Duration, finished: Finished) -> Report {
    Report {
        v: WRITES,
        dispatch,
        worker: instance.config.name.clone(),
        incarnation: instance.incarnation,
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        finished,
    }
}

/// Puts a report into the spool and retries until the disk accepts it. The report is complete, with its text,
/// since no other copy exists.
async fn spool(instance: &Instance, report: &Report) {
    loop {
        match instance.spool.put(report) {
            Ok(()) => return,
            Err(error) => {
                tracing::error!(
                    error = format!("{error:#}"),
                    "a report can't be spooled; trying again"
                );
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        }
    }
}

/// The end of a dispatch that never began because it could not be noted on the disk.
fn not_recorded(assignment: &Assignment, error: &anyhow::Error) -> Finished {
    let message = format!("the worker can't record the dispatch: {error:#}; is its disk full?");
    tracing::error!(dispatch = %assignment.dispatch, message);
    failed(&assignment.work, message, true)
}

/// The end of a dispatch that failed here, without further facts.
fn failed(work: &Work, message: String, away: bool) -> Finished {
    match work {
        Work::Session(_) => unstarted(Ended::Workspace { message, away }, Snapshot::default()),
        Work::Integrate(_) | Work::Git(_) => Finished::Integration(
            IntegrationEnd::Failed {
                message,
                retry: true,
                away,
            }
            .into(),
        ),
    }
}

/// A session report with only the end and a snapshot.
fn unstarted(ended: Ended, snapshot: Snapshot) -> Finished {
    Finished::Session(Box::new(SessionReport {
        snapshot,
        ..SessionReport::new(ended)
    }))
}

/// Adds the snapshot to a session's report.
fn with_snapshot(finished: Finished, snapshot: Snapshot) -> Finished {
    match finished {
        Finished::Session(mut session) => {
            session.snapshot = snapshot;
            Finished::Session(session)
        }
        other => other,
    }
}

/// Commits and pushes a session's changes. Waits for an unreachable server as long as that is worth it.
async fn push_work(
    instance: &Instance,
    workspace: &Workspace,
    message: &CommitMessage,
    end: &mut watch::Receiver<Option<EndReason>>,
) -> Snapshot {
    let mut budget = RetryBudget::new();
    let time_is_up = retry_budget::time_is_up(instance.ending.clone()).boxed().shared();
    let finish = async || workspace.finish_within(message, time_is_up.clone()).await;
    let mut snapshot = finish().await;
    while workspace.is_away() && budget.after_work(end).await {
        snapshot = finish().await;
    }
    snapshot
}

async fn request_check(
    instance: &Instance,
    dispatch: DispatchId,
    text: String,
) -> anyhow::Result<Option<String>> {
    let request = CheckRequest {
        dispatch,
        incarnation: instance.incarnation,
        text: instance.broker.put_text(text).await?,
        survey: None,
    };
    match instance.broker.check(&request).await? {
        CheckAnswer::Again { prompt } => Ok(Some(instance.broker.get_text(&prompt).await?)),
        CheckAnswer::Fine | CheckAnswer::Unknown => Ok(None),
    }
}

/// Name of a dispatch's folder: its full id, since two workers may share a data folder's parent.
fn folder(dispatch: DispatchId) -> String {
    dispatch.0.to_string()
}

/// The message of the attempt's commit, made from its journal.
fn commit_message(assignment: &Assignment, finished: &Finished) -> CommitMessage {
    let text = match finished {
        Finished::Session(session) => match &session.text {
            Text::Inline(text) => text.as_str(),
            Text::Parts { .. } => "",
        },
        Finished::Integration(_) => "",
    };
    let short = assignment.task.short();
    let context = sigil::Context {
        kind: assignment.kind,
        task_id: &short,
        model_tiers: &[],
    };
    let sigils = by_length(text.len(), || sigil::parse(text, &context));
    let journal = sigils.journal.unwrap_or_default();
    CommitMessage {
        subject: format!("{} (attempt {})", assignment.task_title, assignment.attempt),
        body: journal.chars().take(4_000).collect(),
    }
}
