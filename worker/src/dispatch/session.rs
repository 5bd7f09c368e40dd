//! A session's dispatch: create its workspace, run its agent, push its work.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{
    Access, Assignment, CheckAnswer, CheckRequest, EndReason, Ended, Finished, IntegrationEnd, Report,
    SessionLimit, SessionOrder, SessionReport, Snapshot, Text, Unavailable,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::retry_budget::RetryBudget;
use super::transcript::publish;
use super::{
    commit_message, context_files, folder, outgoing, people, push_work, report, request_check, toolbox,
    unstarted, with_snapshot,
};
use crate::config::DEFAULT_AGENT;
use crate::faults;
use crate::instance::Instance;
use crate::instance::session_permits::SessionPermit;
use crate::session::{
    self, AgentCommand, Allowance, Check, SessionEnd, SessionSpec, Tariff, TranscriptSender,
};
use crate::workspace::{Workspace, WorkspaceError};

/// How long a session's report waits for its transcript.
const PUBLISH: Duration = Duration::from_secs(30);

pub(super) struct Session<'a> {
    pub instance: &'a Arc<Instance>,
    pub assignment: &'a Assignment,
    pub order: &'a SessionOrder,
    /// The reason to end, once there is one.
    pub end: watch::Receiver<Option<EndReason>>,
}

/// Why a session did not begin.
enum NotBegun {
    Failed(Ended),
    /// Its task had landed already.
    Landed(IntegrationEnd),
}

impl From<NotBegun> for Finished {
    fn from(not_begun: NotBegun) -> Self {
        match not_begun {
            NotBegun::Failed(ended) => unstarted(ended, Snapshot::default()),
            NotBegun::Landed(end) => Finished::Integration(end.into()),
        }
    }
}

impl Session<'_> {
    /// Runs the dispatch. Also returns the workspace if all its work is pushed; it is removed after the
    /// report is spooled.
    pub async fn run(self, began: Instant, permit: Arc<SessionPermit>) -> (Finished, Option<Workspace>) {
        let (agent, prompt) = match self.agent_and_prompt().await {
            Ok(both) => both,
            Err(ended) => return (NotBegun::Failed(ended).into(), None),
        };
        let workspace = match self.make_workspace().await {
            Ok(workspace) => workspace,
            Err(not_begun) => return (not_begun.into(), None),
        };
        if let Err(ended) = self.set_up(&workspace).await {
            return (NotBegun::Failed(ended).into(), Some(workspace));
        }
        let prompt = self.renewed_prompt(&workspace, prompt).await;
        let (instance, dispatch) = (self.instance, self.assignment.dispatch);
        // Without these files the prompt still contains the most important part.
        if let Err(error) =
            context_files::fetch_and_write(&instance.broker, &self.order.context, workspace.path()).await
        {
            tracing::warn!(%dispatch, error = format!("{error:#}"), "a session lacks long texts");
        }
        faults::point("session.prepared");
        let logins = agent.files.clone();
        let account = agent.account.clone();
        let key = toolbox::key(&agent, self.assignment);
        let secrets = session::login_secrets(&logins);
        let redactor = instance
            .redactor
            .with(secrets.into_iter().chain(key.map(|key| key.to_string())));
        let (sender, receiver) = session::channel(redactor.clone());
        let publisher = tokio::spawn(publish(instance.clone(), dispatch, receiver));
        let spec = self.spec(agent, &workspace, prompt, permit);
        let mut ended = self.converse(spec, key, sender).await;
        faults::point("session.ended");
        self.apply_end(&workspace, &mut ended).await;
        ended.agent.account = account;
        // Redacts with the login's secrets too: the agent may have written them to a file, and may have
        // refreshed the login.
        let bare = |finished| outgoing::redacted(&redactor.with(session::login_secrets(&logins)), finished);
        let output = bare(Finished::Session(Box::new(report_of(ended))));
        let output = report(instance, dispatch, began.elapsed(), output);
        self.note(&output);
        let message = commit_message(self.assignment, &output.finished);
        let snapshot = push_work(instance, &workspace, &message, &mut self.end.clone()).await;
        self.end_transcript(publisher).await;
        let is_pushed = snapshot.is_pushed();
        self.note_pushed(is_pushed);
        let finished = with_snapshot(output.finished, snapshot);
        (bare(finished), is_pushed.then_some(workspace))
    }

    async fn agent_and_prompt(&self) -> Result<(AgentCommand, String), Ended> {
        let name = self.order.agent.as_deref().unwrap_or(DEFAULT_AGENT);
        let agents = &self.instance.config.machine.agents;
        let Some(agent) = agents.get(name).cloned() else {
            let known = agents.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(Ended::Unavailable {
                door: Unavailable::NotFound,
                message: format!(
                    "this worker has no agent `{name}`; it has {known}. Add [agents.{name}] to its .ralph.toml"
                ),
            });
        };
        match self.instance.broker.get_text(&self.order.prompt).await {
            Ok(prompt) => Ok((agent, prompt)),
            Err(error) => Err(Ended::Workspace {
                message: format!("the prompt could not be fetched: {error:#}"),
                away: true,
            }),
        }
    }

    /// Creates the workspace. Waits for an unreachable server as long as that is worth it.
    async fn make_workspace(&self) -> Result<Workspace, NotBegun> {
        let (workspaces, dispatch) = (&self.instance.workspaces, self.assignment.dispatch);
        let (name, order) = (folder(dispatch), &self.assignment.workspace);
        let mut end = self.end.clone();
        let make = async {
            let mut budget = RetryBudget::new();
            loop {
                let made = match self.order.access {
                    Access::Workspace => workspaces.prepare(&name, order).await,
                    _ => workspaces.prepare_throw_away(&name, order).await,
                };
                match made {
                    Err(error) if error.is_away() && budget.before_work(&mut end).await => {
                        tracing::warn!(%dispatch, %error, "a workspace can't be made now; trying again");
                    }
                    made => return made,
                }
            }
        };
        // Another session may use a folder for hours, and a large repository is fetched for long. Dropping
        // the try ends git.
        match self.unless_ended(make).await.map_err(NotBegun::Failed)? {
            Ok(workspace) => Ok(workspace),
            Err(WorkspaceError::Landed { commit, empty }) => {
                tracing::info!(%dispatch, commit, "its task has already landed; there is nothing to do");
                Err(NotBegun::Landed(IntegrationEnd::Merged { commit, empty }))
            }
            Err(error) => Err(NotBegun::Failed(failed(&error))),
        }
    }

    /// Runs the commands that prepare a checkout, which may take half an hour.
    async fn set_up(&self, workspace: &Workspace) -> Result<(), Ended> {
        let settings = self.instance.workspaces.settings();
        let done = self.unless_ended(workspace.set_up(settings)).await?;
        done.map_err(|error| failed(&error))
    }

    async fn unless_ended<T>(&self, work: impl Future<Output = T>) -> Result<T, Ended> {
        let mut end = self.end.clone();
        tokio::select! {
            biased;
            reason = end.wait_for(Option::is_some) => {
                let reason = reason.ok().and_then(|reason| *reason).unwrap_or(EndReason::OutOfContact);
                Err(Ended::Told { reason })
            }
            done = work => Ok(done),
        }
    }

    /// Runs the agent with its session's tools.
    async fn converse(
        &self,
        mut spec: SessionSpec,
        key: Option<Uuid>,
        sender: TranscriptSender,
    ) -> SessionEnd {
        let instance = self.instance;
        let tools = key.and_then(|key| {
            let with = (spec.people.clone(), sender.clone());
            let place = (spec.tmp.as_path(), key);
            toolbox::offer(
                instance,
                self.assignment,
                &mut spec.agent,
                place,
                &spec.prompt,
                with,
            )
        });
        spec.tool_sigils = tools.as_ref().map(|offered| Arc::clone(&offered.tools.sigils));
        let allowance = Arc::clone(&spec.allowance);
        instance
            .allowances
            .begin(self.assignment.dispatch, Arc::clone(&allowance));
        let check = self.graph_check();
        let ended = tokio::select! {
            ended = session::run_checked(spec, sender, self.end.clone(), check) => ended,
            never = request_budget(instance, &allowance) => match never {},
        };
        allowance.close();
        // The transcript ends once nobody can write to it, including the tools.
        drop(tools);
        ended
    }

    /// Applies the session's end to its workspace before its work is committed.
    async fn apply_end(&self, workspace: &Workspace, ended: &mut SessionEnd) {
        // Only a verdict can be void. Any other end already says who is to blame.
        if self.assignment.kind == SessionKind::Verify && ended.ended.is_in_order() {
            match workspace.changed_tracked_files().await {
                Ok(changed) if changed.is_empty() => {}
                Ok(changed) => {
                    let message = format!("the verifier changed tracked files: {}", changed.join(", "));
                    ended.ended = Ended::Protocol { message };
                }
                Err(error) => {
                    let message = format!("failed to check whether the verifier changed files: {error}");
                    ended.ended = Ended::Workspace { message, away: true };
                }
            }
        }
        match ended.ended {
            Ended::Limit {
                limit: SessionLimit::Disk,
            } => {
                let reserve = self.instance.config.machine.sandbox.resources.disk_reserve_bytes;
                let removed = workspace.make_room(reserve).await;
                tracing::warn!(dispatch = %self.assignment.dispatch, ?removed, "a session filled the disk: untracked files of it are removed");
            }
            Ended::Unavailable { .. } => workspace.push_nothing_empty(),
            _ => {}
        }
    }

    /// Records the output on disk. Without this record it is lost only if the worker dies before the report
    /// is spooled.
    fn note(&self, report: &Report) {
        if let Err(error) = self.instance.outputs.note(report) {
            tracing::warn!(dispatch = %report.dispatch, error = format!("{error:#}"), "a session's output can't be recorded");
        }
        faults::point("session.said");
    }

    /// The session's work is safe, so its transcript must not delay it for long.
    async fn end_transcript(&self, mut publisher: JoinHandle<()>) {
        let dispatch = self.assignment.dispatch;
        match tokio::time::timeout(PUBLISH, &mut publisher).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the transcript's publisher failed"),
            Err(_) => {
                tracing::warn!(%dispatch, "the broker doesn't take the transcript; it is sent again later");
                publisher.abort();
                self.instance.transcripts.end(dispatch, true);
            }
        }
    }

    fn note_pushed(&self, is_pushed: bool) {
        let instance = self.instance;
        match is_pushed {
            false => instance.unpushed.store(true, Ordering::Relaxed),
            // A server that was down or refused may accept the other pushes now too.
            true if instance.unpushed.swap(false, Ordering::Relaxed) => instance.push_now.notify_one(),
            true => {}
        }
    }

    /// Sends the coordinator new facts about the session's start commit. Returns another prompt if those
    /// matter. Without an answer the session uses the prompt it has.
    async fn renewed_prompt(&self, workspace: &Workspace, prompt: String) -> String {
        let (instance, dispatch) = (self.instance, self.assignment.dispatch);
        let Some(wanted) = &self.order.survey else {
            return prompt;
        };
        let renewed = async {
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
        match renewed.await {
            Ok(other) => other.unwrap_or(prompt),
            Err(error) => {
                tracing::warn!(%dispatch, error = format!("{error:#}"), "failed to send facts about the branch; the prompt stays");
                prompt
            }
        }
    }

    fn spec(
        &self,
        agent: AgentCommand,
        workspace: &Workspace,
        prompt: String,
        permit: Arc<SessionPermit>,
    ) -> SessionSpec {
        let (instance, assignment, order) = (self.instance, self.assignment, self.order);
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
            cwd: workspace.path().to_owned(),
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
            people: people::people(instance, assignment),
            tool_sigils: None,
            place: Some(permit),
            protocol_log,
            env,
        }
    }

    /// Asks the coordinator whether it accepts the agent's task graph, if this session kind may send one.
    /// Without an answer the session is reported unchanged.
    fn graph_check(&self) -> Option<Check> {
        let kind = self.assignment.kind;
        if !matches!(kind, SessionKind::Build | SessionKind::Work | SessionKind::Review) {
            return None;
        }
        let (instance, dispatch) = (Arc::clone(self.instance), self.assignment.dispatch);
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
}

/// Triggers a heartbeat whenever a session needs a larger share.
async fn request_budget(instance: &Instance, allowance: &Allowance) -> Infallible {
    loop {
        allowance.needs_more().await;
        instance.heartbeat_now.notify_one();
    }
}

/// The report of a session before its work is committed.
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

fn failed(error: &WorkspaceError) -> Ended {
    Ended::Workspace {
        message: error.to_string(),
        away: error.is_elsewhere(),
    }
}
