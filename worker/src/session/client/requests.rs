//! An agent's requests: permissions, files, terminals. Quick requests are answered in order of arrival. Slow
//! ones run in tasks, so that a slow file never delays a cancel. The transcript contains every request and
//! its answer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    CreateTerminalRequest, CreateTerminalResponse, Error as RpcError, KillTerminalRequest, PermissionOption,
    PermissionOptionKind, ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome,
    TerminalOutputRequest, ToolCallUpdate, ToolKind, WaitForTerminalExitRequest, WaitForTerminalExitResponse,
    WriteTextFileRequest,
};
use ralph_shared::sigil::Question;
use ralph_shared::wire::{Access, TranscriptUpdate};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::elicitation::{self, Form};
use super::files::{Files, refused};
use super::permissions::{self, Policy, RuleAnswer};
use super::terminal::Terminals;
use crate::mcp::title::is_own;
use crate::sandbox::Confinement;
use crate::session::operator::Question as OperatorQuestion;
use crate::session::people::{People, Reply};
use crate::session::process::leftovers::Group;
use crate::session::protocol::peer::{LargeSlot, OpenRequest, Outbox};
use crate::session::transcript::record::Record;
use crate::session::transcript::{TranscriptSender, bounded};

/// Longest description of a request in the transcript. Bytes.
const DETAIL_BYTES: usize = 400;

/// Serves the requests of one session. Dropping it ends the terminals and drops open requests.
pub struct RequestHandler {
    policy: Policy,
    files: Arc<Files>,
    terminals: Terminals,
    environment: BTreeMap<OsString, OsString>,
    confinement: Confinement,
    outbox: Outbox,
    jobs: JoinSet<()>,
    /// People who can be asked through the coordinator.
    people: Option<People>,
    /// The operator at this terminal, who answers permission requests, if there is one.
    questions: Option<mpsc::UnboundedSender<OperatorQuestion>>,
    /// The agent's current turn. Once it is cancelled, no permission is given.
    turn: CancellationToken,
}

struct Ticket {
    id: Box<RawValue>,
    method: String,
    detail: String,
    outbox: Outbox,
    transcript: TranscriptSender,
    /// Counts the request as open until its answer is written.
    open: Option<OpenRequest>,
}

impl RequestHandler {
    pub fn new(
        policy: Policy,
        files: Files,
        environment: BTreeMap<OsString, OsString>,
        confinement: Confinement,
        outbox: Outbox,
    ) -> Self {
        Self {
            policy,
            files: Arc::new(files),
            terminals: Terminals::default(),
            environment,
            confinement,
            outbox,
            jobs: JoinSet::new(),
            people: None,
            questions: None,
            turn: CancellationToken::new(),
        }
    }

    /// Asks the operator for permission wherever the policy does not reject.
    pub fn with_operator(mut self, questions: Option<mpsc::UnboundedSender<OperatorQuestion>>) -> Self {
        self.questions = questions;
        self
    }

    /// Sends questions and `Ask` permissions to these people.
    pub fn with_people(mut self, people: Option<People>) -> Self {
        self.people = people;
        self
    }

    /// Whether a question reaches people instead of being declined at once.
    pub fn reaches_people(&self, params: &str) -> bool {
        self.people.is_some() && Form::read(params).is_some()
    }

    /// Starts a new turn of the agent.
    pub fn begin_turn(&mut self) {
        self.turn = CancellationToken::new();
    }

    /// Cancels the turn. Its open and later permission requests are answered as cancelled.
    pub fn cancel_turn(&self) {
        self.turn.cancel();
    }

    /// Serves one request. Returns the process group of the terminal if it created one.
    pub fn serve(&mut self, id: Box<RawValue>, method: &str, params: &str, record: &Record) -> Option<Group> {
        while self.jobs.try_join_next().is_some() {}
        let ticket = Ticket {
            id,
            method: record.transcript.redacted(method, DETAIL_BYTES),
            detail: String::new(),
            outbox: self.outbox.clone(),
            transcript: record.transcript.clone(),
            open: self.outbox.open(),
        };
        match method {
            "session/request_permission" => {
                let read = permissions::read_request(params);
                ticket.take_read(read, params, |ticket, request| {
                    self.permission(ticket, &request, record);
                });
            }
            "fs/read_text_file" => ticket.take(params, |ticket, request| self.read(ticket, request)),
            "fs/write_text_file" => ticket.take(params, |ticket, request| self.write(ticket, request)),
            "terminal/create" => return self.create(ticket, params),
            "terminal/output" => ticket.take(params, |ticket, request| self.output(ticket, &request)),
            "terminal/wait_for_exit" => ticket.take(params, |ticket, request| self.wait(ticket, &request)),
            "terminal/kill" => ticket.take(params, |ticket, request: KillTerminalRequest| {
                ticket.done(self.terminals.kill(&request.terminal_id.0));
            }),
            "terminal/release" => ticket.take(params, |ticket, request: ReleaseTerminalRequest| {
                ticket.done(self.terminals.release(&request.terminal_id.0));
            }),
            elicitation::METHOD => {
                let ticket = ticket.about(elicitation::question(params));
                match self.people.clone().zip(Form::read(params)) {
                    Some((people, form)) => self.put_form(ticket, people, form),
                    None => {
                        let words = format!("declined: {}", elicitation::NOBODY);
                        ticket.answer(Ok(elicitation::declined(elicitation::NOBODY)), words, None);
                    }
                }
            }
            _ => {
                let words = "refused: the method is not known".to_owned();
                ticket.answer(Err(RpcError::method_not_found()), words, None);
            }
        }
        None
    }

    fn permission(&mut self, ticket: Ticket, request: &RequestPermissionRequest, record: &Record) {
        let call = &request.tool_call;
        let locations = call.fields.locations.as_deref().unwrap_or_default();
        let files: Vec<&Path> = locations.iter().map(|location| location.path.as_path()).collect();
        let title = call.fields.title.as_deref().unwrap_or("a tool");
        let kind = kind(call, record);
        let ticket = ticket.about(format!("{title} ({kind:?})"));
        if self.turn.is_cancelled() {
            let answer = RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled);
            return ticket.answer(Ok(value(answer)), "cancelled, as its turn is".to_owned(), None);
        }
        let decided = self.policy.decides(kind, &files);
        if decided != RuleAnswer::Reject
            && let Some(answered) = self.put_question(title, &request.options)
        {
            let (options, turn) = (request.options.clone(), self.turn.clone());
            let (policy, files) = (self.policy.clone(), owned(&files));
            self.jobs.spawn(async move {
                let chosen = turn.run_until_cancelled_owned(answered).await;
                let chosen = chosen
                    .and_then(Result::ok)
                    .and_then(|at| options.into_iter().nth(at));
                if chosen.as_ref().is_some_and(allows) {
                    policy.grant(kind, &files);
                }
                let (outcome, words) = match chosen {
                    Some(option) => (
                        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id)),
                        format!("a person chose: {}", option.name),
                    ),
                    None => (RequestPermissionOutcome::Cancelled, "cancelled".to_owned()),
                };
                ticket.answer(Ok(value(RequestPermissionResponse::new(outcome))), words, None);
            });
            return;
        }
        if decided == RuleAnswer::Ask
            && let Some(people) = self.people.clone()
        {
            let named: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            let named = if named.is_empty() {
                String::new()
            } else {
                format!(", {}", named.join(", "))
            };
            let asked = format!("May the agent do this? {title} ({kind:?}{named})");
            let about = (kind, owned(&files));
            return self.put_permission(ticket, (people, &asked), request.options.clone(), about);
        }
        let answer = self.policy.answer(kind, &files, &request.options);
        ticket.answer(
            Ok(value(RequestPermissionResponse::new(answer.outcome))),
            answer.words,
            None,
        );
    }

    /// Asks people for a permission. Without an answer it is refused.
    fn put_permission(
        &mut self,
        ticket: Ticket,
        (people, asked): (People, &str),
        options: Vec<PermissionOption>,
        (kind, files): (ToolKind, Vec<PathBuf>),
    ) {
        let policy = self.policy.clone();
        let names = options.iter().map(|option| option.name.as_str());
        let (question, turn) = (Question::new(asked, names), self.turn.clone());
        self.jobs.spawn(async move {
            let reply = match &question {
                Some(question) => turn.run_until_cancelled_owned(people.ask(question.clone())).await,
                None => None,
            };
            let (outcome, words) = match (reply, question) {
                (Some(Reply::Answered(words)), Some(question)) => {
                    let chosen = question.choice(&words.text);
                    let chosen = options.iter().find(|option| {
                        chosen.is_some_and(|chosen| {
                            Question::new("-", [&option.name]).is_some_and(|q| q.choice(chosen).is_some())
                        })
                    });
                    let words = format!("{} answered: {}", words.by, words.text);
                    if chosen.is_some_and(allows) {
                        policy.grant(kind, &files);
                    }
                    match chosen {
                        Some(option) => (
                            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
                                option.option_id.clone(),
                            )),
                            words,
                        ),
                        // Any other answer is no permission.
                        None => (permissions::choose(false, &options).outcome, words),
                    }
                }
                (Some(_), _) => {
                    let refused = permissions::choose(false, &options);
                    (
                        refused.outcome,
                        format!("{}, since nobody is there to ask", refused.words),
                    )
                }
                (None, _) => (RequestPermissionOutcome::Cancelled, "cancelled".to_owned()),
            };
            ticket.answer(Ok(value(RequestPermissionResponse::new(outcome))), words, None);
        });
    }

    fn put_form(&mut self, ticket: Ticket, people: People, form: Form) {
        let turn = self.turn.clone();
        self.jobs.spawn(async move {
            let reply = turn
                .run_until_cancelled_owned(people.ask(form.question.clone()))
                .await;
            let (answer, words) = match reply {
                Some(reply) => elicitation::answer(&form, reply),
                None => (elicitation::cancelled(), "cancelled".to_owned()),
            };
            ticket.answer(Ok(answer), words, None);
        });
    }

    /// Asks the operator, if there is one. Returns a receiver for the index of the chosen option.
    fn put_question(&self, title: &str, options: &[PermissionOption]) -> Option<oneshot::Receiver<usize>> {
        let questions = self.questions.as_ref()?;
        let (answer, answered) = oneshot::channel();
        let question = OperatorQuestion {
            title: bounded(title, DETAIL_BYTES),
            options: options.to_vec(),
            answer,
        };
        questions.send(question).ok().map(|()| answered)
    }

    fn read(&mut self, ticket: Ticket, request: ReadTextFileRequest) {
        let ticket = ticket.about(request.path.display().to_string());
        if !self.policy.allows(ToolKind::Read, &[&request.path]) {
            return ticket.done(Err(by_rule()));
        }
        let files = self.files.clone();
        self.jobs.spawn(async move {
            let slot = ticket.outbox.large_slot().await;
            let read = blocking(move || files.read(&request)).await;
            let words = read
                .as_ref()
                .map_or_else(ToString::to_string, |content| format!("{} bytes", content.len()));
            ticket.answer(
                read.map(|content| value(ReadTextFileResponse::new(content))),
                words,
                slot,
            );
        });
    }

    fn write(&mut self, ticket: Ticket, request: WriteTextFileRequest) {
        let ticket = ticket.about(format!(
            "{}, {} bytes",
            request.path.display(),
            request.content.len()
        ));
        // `Files` itself refuses writes in a read-only session, with a better message.
        if self.policy.access() == Access::Workspace && !self.policy.allows(ToolKind::Edit, &[&request.path])
        {
            return ticket.done(Err(by_rule()));
        }
        let files = self.files.clone();
        self.jobs.spawn(async move {
            let slot = ticket.outbox.large_slot().await;
            let written = blocking(move || files.write(&request)).await;
            drop(slot);
            ticket.done(written);
        });
    }

    fn create(&mut self, ticket: Ticket, params: &str) -> Option<Group> {
        let mut group = None;
        ticket.take(params, |ticket, request: CreateTerminalRequest| {
            let line = std::iter::once(&request.command).chain(&request.args);
            let ticket = ticket.about(line.cloned().collect::<Vec<_>>().join(" "));
            let cwd = request.cwd.clone().unwrap_or_else(|| ".".into());
            let made = match self.policy.access() {
                Access::ReadOnly => Err(refused("this session may not run commands".to_owned())),
                _ if !self.policy.allows(ToolKind::Execute, &[]) => Err(by_rule()),
                Access::Workspace | Access::Commands => self.files.folder(&cwd).and_then(|cwd| {
                    self.terminals
                        .create(&request, &cwd, &self.environment, &self.confinement)
                }),
            };
            group = made.as_ref().ok().map(|made| made.group.clone());
            let words = made
                .as_ref()
                .map_or_else(ToString::to_string, |made| made.id.clone());
            let answer = made.map(|made| value(CreateTerminalResponse::new(made.id)));
            ticket.answer(answer, words, None);
        });
        group
    }

    fn output(&mut self, ticket: Ticket, request: &TerminalOutputRequest) {
        match self.terminals.output(&request.terminal_id.0) {
            Ok(output) => {
                self.jobs.spawn(async move {
                    let slot = ticket.outbox.large_slot().await;
                    let response = output.read();
                    let words = format!("{} bytes", response.output.len());
                    ticket.answer(Ok(value(response)), words, slot);
                });
            }
            Err(error) => ticket.done(Err(error)),
        }
    }

    fn wait(&mut self, ticket: Ticket, request: &WaitForTerminalExitRequest) {
        match self.terminals.exit(&request.terminal_id.0) {
            Ok(exit) => {
                self.jobs.spawn(async move {
                    let exit = exit.await;
                    let words = match (&exit.exit_code, &exit.signal) {
                        (Some(code), _) => format!("exited with code {code}"),
                        (None, Some(signal)) => format!("killed by {signal}"),
                        (None, None) => "exited".to_owned(),
                    };
                    ticket.answer(Ok(value(WaitForTerminalExitResponse::new(exit))), words, None);
                });
            }
            Err(error) => ticket.done(Err(error)),
        }
    }
}

/// The kind of a tool call. Ralph's own tools write no files, so sessions without write access may use them
/// too.
fn kind(call: &ToolCallUpdate, record: &Record) -> ToolKind {
    let given = call
        .fields
        .kind
        .or_else(|| record.tool_kind(&call.tool_call_id.0));
    let meta = call.meta.as_ref().and_then(|meta| meta.get("toolName"));
    let names = [call.fields.title.as_deref(), meta.and_then(Value::as_str)];
    match given.unwrap_or_default() {
        ToolKind::Other if names.into_iter().flatten().any(is_own) => ToolKind::Think,
        kind => kind,
    }
}

fn owned(files: &[&Path]) -> Vec<PathBuf> {
    files.iter().map(|file| file.to_path_buf()).collect()
}

fn allows(option: &PermissionOption) -> bool {
    use PermissionOptionKind::{AllowAlways, AllowOnce};
    matches!(option.kind, AllowOnce | AllowAlways)
}

impl Ticket {
    /// Parses the parameters. Unreadable ones get an error as answer.
    fn take<P: DeserializeOwned>(self, params: &str, serve: impl FnOnce(Self, P)) {
        self.take_read(serde_json::from_str(params), params, serve);
    }

    /// Like [`Self::take`], with parsed parameters.
    fn take_read<P>(self, read: serde_json::Result<P>, params: &str, serve: impl FnOnce(Self, P)) {
        match read {
            Ok(params) => serve(self, params),
            Err(error) => {
                let error = RpcError::invalid_params().data(Value::from(error.to_string()));
                let detail = self.transcript.redacted(params, DETAIL_BYTES);
                self.about(detail).done(Err(error));
            }
        }
    }

    fn about(mut self, detail: String) -> Self {
        self.detail = self.transcript.redacted(&detail, DETAIL_BYTES);
        self
    }

    /// Answers with an empty success, or an error.
    fn done(self, result: Result<(), RpcError>) {
        let words = result
            .as_ref()
            .map_or_else(ToString::to_string, |()| "done".to_owned());
        self.answer(result.map(|()| json!({})), words, None);
    }

    fn answer(self, result: Result<Value, RpcError>, words: String, slot: Option<LargeSlot>) {
        self.outbox.answer(&self.id, result, slot, self.open);
        self.transcript.push(TranscriptUpdate::Request {
            method: self.method,
            detail: self.detail,
            answer: words,
        });
    }
}

fn by_rule() -> RpcError {
    refused("a rule of the worker's configuration (`permissions`) refuses it, or leaves it to a person: ask for permission first".to_owned())
}

/// Runs file work off the conversation's thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(RpcError::internal_error()),
    }
}

fn value(response: impl Serialize) -> Value {
    serde_json::to_value(response).unwrap_or(Value::Null)
}
