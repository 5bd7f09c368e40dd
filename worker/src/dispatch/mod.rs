//! One dispatch, from its assignment to its report in the spool: prepare, run or integrate, push, report.

mod branches;
pub mod context_files;
pub mod outgoing;
mod panicked;
mod people;
pub mod retained_transcripts;
mod retry_budget;
pub mod session_output;
mod toolbox;
mod transcript;
mod unpushed;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use ralph_shared::at_length::by_length;
use ralph_shared::ids::DispatchId;
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil;
use ralph_shared::wire::{
    Access, Assignment, CheckAnswer, CheckRequest, EndReason, Ended, Finished, IntegrationEnd, Report,
    SessionLimit, SessionOrder, SessionReport, Snapshot, Text, Unavailable, WRITES, Work,
};
use tokio::sync::watch;

use crate::config::DEFAULT_AGENT;
use crate::instance::heartbeat::publish_spooled;

use crate::faults;
use crate::instance::Instance;
use crate::instance::availability::StartResult;

use crate::dispatch::retry_budget::RetryBudget;
pub use crate::dispatch::session_output::SessionOutputs;
pub use crate::dispatch::unpushed::{
    keep_pushing, report_earlier_instance, report_over, unpushed_workspaces,
};
use crate::instance::session_permits::SessionPermit;
use crate::session::{self, AgentCommand, Allowance, Check, SessionEnd, SessionSpec, Tariff};
use crate::workspace::{CommitMessage, Workspace, WorkspaceError};
use transcript::publish;

/// How long a session's report waits for its transcript.
const PUBLISH: Duration = Duration::from_secs(30);

/// Runs a dispatch and leaves its report in the spool. A panic in it is caught and reported; it ends where this future is dropped.
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
        // A restart of the worker would not find its processes.
        Err(error) => (unnoted(assignment, &error), None),
        Ok(()) => match &assignment.work {
            Work::Session(order) => session(instance, assignment, order, began, end, place).await,
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

/// Whether the dispatch's agent started.
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

/// Puts a report into the spool, however long the disk refuses it. It goes in whole, with its text: nobody else has that yet.
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

/// What a session is reported with, before anything is known of its work.
fn report_of(end: SessionEnd) -> SessionReport {
    SessionReport {
        ended: end.ended,
        text: Text::Inline(end.text),
        text_truncated: end.text_truncated,
        usage: end.usage,
        tool_calls: end.tool_calls,
        failed_tool_calls: end.failed_tool_calls,
        agent: end.agent,
        snapshot: Snapshot::default(),
        attempted: end.attempted,
        last_tool_error: end.last_tool_error,
        stderr_tail: end.stderr_tail,
        unread_output: end.unread_output,
        retry_after_ms: end
            .retry_after
            .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        questions: end.questions,
    }
}

/// A dispatch that was not begun, since it could not be noted on the disk.
fn unnoted(assignment: &Assignment, error: &anyhow::Error) -> Finished {
    let message = format!("the worker can't note what it runs: {error:#}; is its disk full?");
    tracing::error!(dispatch = %assignment.dispatch, message);
    failed(&assignment.work, message, true)
}

/// The end of a dispatch that failed here, without anything of it being known.
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

/// A session of which nothing is known but how it ended and what lies in its folder.
fn unstarted(ended: Ended, snapshot: Snapshot) -> Finished {
    Finished::Session(Box::new(SessionReport {
        snapshot,
        ..SessionReport::new(ended)
    }))
}

/// Runs a session. The workspace comes along when everything in it is pushed, to be removed after the report is spooled.
async fn session(
    instance: &Arc<Instance>,
    assignment: &Assignment,
    order: &SessionOrder,
    began: Instant,
    end: watch::Receiver<Option<EndReason>>,
    place: Arc<SessionPermit>,
) -> (Finished, Option<Workspace>) {
    let name = order.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let agents = &instance.config.machine.agents;
    let Some(agent) = agents.get(name).cloned() else {
        let known = agents.keys().cloned().collect::<Vec<_>>().join(", ");
        let message = format!(
            "this worker has no agent `{name}`; it has {known}. Add [agents.{name}] to its .ralph.toml"
        );
        return (
            unstarted(
                Ended::Unavailable {
                    door: Unavailable::NotFound,
                    message,
                },
                Snapshot::default(),
            ),
            None,
        );
    };
    let prompt = match instance.broker.get_text(&order.prompt).await {
        Ok(prompt) => prompt,
        Err(error) => {
            let message = format!("the prompt could not be fetched: {error:#}");
            let ended = Ended::Workspace { message, away: true };
            return (unstarted(ended, Snapshot::default()), None);
        }
    };
    let throw_away = order.access != Access::Workspace;
    let name = folder(assignment.dispatch);
    let mut ends = end.clone();
    let prepare = async {
        let mut budget = RetryBudget::new();
        loop {
            let prepared = if throw_away {
                instance
                    .workspaces
                    .prepare_throw_away(&name, &assignment.workspace)
                    .await
            } else {
                instance.workspaces.prepare(&name, &assignment.workspace).await
            };
            match prepared {
                Err(error) if error.is_away() && budget.before_work(&mut ends).await => {
                    tracing::warn!(dispatch = %assignment.dispatch, %error, "a workspace can't be made now; trying again");
                }
                prepared => return prepared,
            }
        }
    };
    let mut waits = end.clone();
    let prepared = tokio::select! {
        biased;
        // A folder may be another session's for hours, and a large repository is fetched for long; git ends with the try.
        told = waits.wait_for(Option::is_some) => {
            let reason = told.ok().and_then(|reason| *reason).unwrap_or(EndReason::OutOfContact);
            return (unstarted(Ended::Told { reason }, Snapshot::default()), None);
        }
        prepared = prepare => prepared,
    };
    let workspace = match prepared {
        Ok(workspace) => workspace,
        Err(WorkspaceError::Landed { commit, empty }) => {
            tracing::info!(dispatch = %assignment.dispatch, commit, "its task landed before; nothing is left to do");
            let end = IntegrationEnd::Merged { commit, empty };
            return (Finished::Integration(end.into()), None);
        }
        Err(error) => {
            return (
                unstarted(
                    Ended::Workspace {
                        message: error.to_string(),
                        away: error.is_elsewhere(),
                    },
                    Snapshot::default(),
                ),
                None,
            );
        }
    };
    let mut waits = end.clone();
    let set_up = tokio::select! {
        biased;
        // Its commands may take half an hour.
        told = waits.wait_for(Option::is_some) => {
            let reason = told.ok().and_then(|reason| *reason).unwrap_or(EndReason::OutOfContact);
            return (unstarted(Ended::Told { reason }, Snapshot::default()), Some(workspace));
        }
        done = workspace.set_up(instance.workspaces.settings()) => done,
    };
    if let Err(error) = set_up {
        let snapshot = Snapshot::default();
        let ended = Ended::Workspace {
            message: error.to_string(),
            away: error.is_elsewhere(),
        };
        return (unstarted(ended, snapshot), Some(workspace));
    }
    let prompt = renewed(instance, assignment, order, &workspace, prompt).await;
    // Without them the prompt still says the most of it.
    if let Err(error) = context_files::lay(&instance.broker, &order.context, workspace.path()).await {
        tracing::warn!(dispatch = %assignment.dispatch, error = format!("{error:#}"), "a session lacks long texts");
    }
    faults::point("session.prepared");
    let logins = agent.files.clone();
    let key = toolbox::key(&agent, assignment);
    let secrets = session::login_secrets(&logins);
    let secrets = secrets.into_iter().chain(key.map(|key| key.to_string()));
    let redactor = instance.redactor.with(secrets);
    let (sender, receiver) = session::channel(redactor.clone());
    let mut publisher = tokio::spawn(publish(instance.clone(), assignment.dispatch, receiver));
    let account = agent.account.clone();
    let mut agent = agent;
    let people = people::people(instance, assignment);
    let tools = key.and_then(|key| {
        let tmp = workspace.tmp();
        let with = (people.clone(), sender.clone());
        toolbox::offer(instance, assignment, &mut agent, (&tmp, key), &prompt, with)
    });
    let spec = SessionSpec {
        people,
        tool_sigils: tools.as_ref().map(|offered| Arc::clone(&offered.tools.sigils)),
        ..spec(instance, assignment, order, agent, &workspace, prompt, place)
    };
    let allowance = Arc::clone(&spec.allowance);
    instance
        .allowances
        .begin(assignment.dispatch, Arc::clone(&allowance));
    let mut told = end.clone();
    let mut ended = tokio::select! {
        ended = session::run_checked(spec, sender, end, check(instance, assignment)) => ended,
        never = request_budget(instance, &allowance) => match never {},
    };
    allowance.close();
    // The transcript ends once nobody can write into it.
    drop(tools);
    faults::point("session.ended");
    // Only a verdict can be void: how else it ended says who is to blame.
    if assignment.kind == SessionKind::Verify && ended.ended.is_in_order() {
        match workspace.changed_tracked_files().await {
            Ok(changed) if changed.is_empty() => {}
            Ok(changed) => {
                let message = format!("the verifier changed tracked files: {}", changed.join(", "));
                ended.ended = Ended::Protocol { message };
            }
            Err(error) => {
                let message = format!("it isn't known whether the verifier changed files: {error}");
                ended.ended = Ended::Workspace { message, away: true };
            }
        }
    }
    if let Ended::Limit {
        limit: SessionLimit::Disk,
    } = ended.ended
    {
        let reserve = instance.config.machine.sandbox.resources.disk_reserve_bytes;
        let removed = workspace.make_room(reserve).await;
        tracing::warn!(dispatch = %assignment.dispatch, ?removed, "a session filled the disk: what filled it is removed");
    }
    if let Ended::Unavailable { .. } = ended.ended {
        workspace.push_nothing_empty();
    }
    ended.agent.account = account;
    // With the login's own secrets, which an agent may have put into a file; it may have refreshed them meanwhile.
    let bare = |finished| outgoing::redacted(&redactor.with(session::login_secrets(&logins)), finished);
    let said = bare(Finished::Session(Box::new(report_of(ended))));
    let said = report(instance, assignment.dispatch, began.elapsed(), said);
    // Without the note it is lost only if this worker dies before the report is spooled.
    if let Err(error) = instance.outputs.note(&said) {
        tracing::warn!(dispatch = %assignment.dispatch, error = format!("{error:#}"), "what a session said can't be noted");
    }
    faults::point("session.said");
    let message = commit_message(assignment, &said.finished);
    let snapshot = keep_work(instance, &workspace, &message, &mut told).await;
    // What the session did is safe; its transcript must not hold it up for long.
    match tokio::time::timeout(PUBLISH, &mut publisher).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the transcript's publisher failed"),
        Err(_) => {
            tracing::warn!(dispatch = %assignment.dispatch, "the broker doesn't take the transcript; it is sent again later");
            publisher.abort();
            instance.transcripts.end(assignment.dispatch, true);
        }
    }
    let pushed = snapshot.is_pushed();
    match pushed {
        false => instance.unpushed.store(true, Ordering::Relaxed),
        // What refused or was away takes the others too, perhaps.
        true if instance.unpushed.swap(false, Ordering::Relaxed) => instance.push_now.notify_one(),
        true => {}
    }
    let finished = with_snapshot(said.finished, snapshot);
    (bare(finished), pushed.then_some(workspace))
}

/// Triggers a heartbeat whenever a session needs a larger share.
async fn request_budget(instance: &Instance, allowance: &Allowance) -> Infallible {
    loop {
        allowance.needs_more().await;
        instance.heartbeat_now.notify_one();
    }
}

/// What a session said, with what became of its work.
fn with_snapshot(said: Finished, snapshot: Snapshot) -> Finished {
    match said {
        Finished::Session(mut session) => {
            session.snapshot = snapshot;
            Finished::Session(session)
        }
        other => other,
    }
}

/// Commits and pushes what a session left, and waits for a server that is away, as long as that is worth it.
async fn keep_work(
    instance: &Instance,
    workspace: &Workspace,
    message: &CommitMessage,
    told: &mut watch::Receiver<Option<EndReason>>,
) -> Snapshot {
    let mut budget = RetryBudget::new();
    let time_is_up = retry_budget::time_is_up(instance.ending.clone()).boxed().shared();
    let finish = async || workspace.finish_within(message, time_is_up.clone()).await;
    let mut snapshot = finish().await;
    while workspace.is_away() && budget.after_work(told).await {
        snapshot = finish().await;
    }
    snapshot
}

/// Asks the coordinator whether the agent's task graph can be used, where the session's kind may send one. Without an answer the
/// session is reported as it is.
fn check(instance: &Arc<Instance>, assignment: &Assignment) -> Option<Check> {
    let kind = assignment.kind;
    if !matches!(kind, SessionKind::Build | SessionKind::Work | SessionKind::Review) {
        return None;
    }
    let (instance, dispatch) = (Arc::clone(instance), assignment.dispatch);
    Some(Check::new(move |text| {
        let instance = Arc::clone(&instance);
        Box::pin(async move {
            if kind != SessionKind::Build && !text.contains("<task-graph") {
                return None;
            }
            match request_check(&instance, dispatch, text).await {
                Ok(prompt) => prompt,
                Err(error) => {
                    tracing::warn!(%dispatch, error = format!("{error:#}"), "a task graph could not be checked; reported as it is");
                    None
                }
            }
        })
    }))
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

/// Tells the coordinator what it doesn't know of the commit that the session starts from, and gets another prompt where that
/// matters. Without an answer the session begins with the one that it has.
async fn renewed(
    instance: &Instance,
    assignment: &Assignment,
    order: &SessionOrder,
    workspace: &Workspace,
    prompt: String,
) -> String {
    let dispatch = assignment.dispatch;
    let Some(wanted) = &order.survey else {
        return prompt;
    };
    let told = async {
        let Some(mut survey) = workspace.scan_repository(wanted).await? else {
            return Ok(None);
        };
        if survey.is_known(wanted) {
            return Ok(None);
        }
        for file in survey.knowledge.iter_mut().flat_map(|folder| &mut folder.files) {
            file.text = instance.redactor.text(&file.text);
        }
        let request = CheckRequest {
            dispatch,
            incarnation: instance.incarnation,
            text: Text::default(),
            survey: Some(Box::new(survey)),
        };
        match instance.broker.check(&request).await? {
            CheckAnswer::Again { prompt } => anyhow::Ok(Some(instance.broker.get_text(&prompt).await?)),
            CheckAnswer::Fine | CheckAnswer::Unknown => Ok(None),
        }
    };
    match told.await {
        Ok(renewed) => renewed.unwrap_or(prompt),
        Err(error) => {
            tracing::warn!(%dispatch, error = format!("{error:#}"), "what the branch holds could not be told; the prompt stays");
            prompt
        }
    }
}

/// A dispatch's folder; its whole id, since two workers may share a data folder's parent.
fn folder(dispatch: DispatchId) -> String {
    dispatch.0.to_string()
}

fn spec(
    instance: &Instance,
    assignment: &Assignment,
    order: &SessionOrder,
    agent: AgentCommand,
    workspace: &Workspace,
    prompt: String,
    place: Arc<SessionPermit>,
) -> SessionSpec {
    let mut env = BTreeMap::from([
        ("RALPH_ITERATION".to_owned(), order.iteration.to_string()),
        ("RALPH_TOTAL".to_owned(), order.total.to_string()),
        ("RALPH_ATTEMPT".to_owned(), assignment.attempt.to_string()),
        ("RALPH_TASK".to_owned(), assignment.task.to_string()),
        ("RALPH_KIND".to_owned(), assignment.kind.to_string()),
        ("RALPH_FEATURE".to_owned(), assignment.feature_name.clone()),
    ]);
    if let Some(model) = &order.model {
        env.insert("RALPH_MODEL".to_owned(), model.tier.clone());
    }
    if let Some(traceparent) = &order.traceparent {
        env.insert(session::TRACEPARENT.to_owned(), traceparent.clone());
    }
    env.extend(
        workspace
            .variables()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    let path = |path: &std::path::Path| PathBuf::from(path);
    let protocol_log = agent
        .protocol_log
        .then(|| instance.home.protocol_log(assignment.dispatch));
    let names = order.model.as_ref().map(|choice| agent.model_names(choice));
    let tariff = Tariff {
        prices: order.prices.clone(),
        models: names.unwrap_or_default().into_iter().map(str::to_owned).collect(),
        subscription: agent.subscription,
    };
    SessionSpec {
        dispatch: assignment.dispatch.0.to_string(),
        agent,
        cwd: path(workspace.path()),
        home: workspace.home(),
        tmp: workspace.tmp(),
        session_folder: Some(workspace.session_folder()),
        resume: None,
        prompt,
        after_exit: order.after_exit.clone(),
        model: order.model.clone(),
        access: order.access,
        sandbox: instance.config.machine.sandbox.clone(),
        read: workspace.borrowed_objects(),
        limits: order.limits,
        tariff,
        allowance: Arc::new(Allowance::new(order.share)),
        people: None,
        tool_sigils: None,
        place: Some(place),
        protocol_log,
        env,
    }
}

/// The message of the attempt's commit, made from its journal.
fn commit_message(assignment: &Assignment, said: &Finished) -> CommitMessage {
    let text = match said {
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
