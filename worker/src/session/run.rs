//! One session from start to end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agent_client_protocol::v1::schema::McpServer;
use jiff::Zoned;
use ralph_shared::wire::{Access, Concerns, EndReason, Ended, TranscriptUpdate, Unavailable};
use tokio::net::unix::pipe;
use tokio::sync::watch;

use super::check::Check;
use super::conversation::{AgentLink, Conversation};
use super::people::now;
use super::protocol_log::ProtocolLog;
use super::resume::{self, Spent};
use super::spec::{SessionEnd, SessionSpec};
use super::transcript::{self, TranscriptSender};
use crate::sandbox::{Cgroup, Confinement, PolicyRequest, policy};
use crate::session::client::files::Files;
use crate::session::client::permissions::Policy;
use crate::session::client::requests::RequestHandler;
use crate::session::limits::disk;
use crate::session::limits::retry_after;
use crate::session::operator::Operator;
use crate::session::process::agent::{self, Agent, Pipes};
use crate::session::process::logins::Logins;
use crate::session::protocol::introduction::Introduction;
use crate::session::protocol::peer;
use crate::session::redaction::Redactor;
use crate::session::script::{self, Aim};
use crate::session::tool_sigils::ToolSigils;
use crate::session::transcript::record::Record;
use crate::tools::Tools;

/// Runs one session and cleans up after it. When this returns, none of its processes is left. It never fails:
/// every error is a way to end.
///
/// A reason in `end` cancels the session in order (SPEC 3.6), and is the session's end whatever the agent
/// then answers.
/// Dropping the future kills everything at once.
pub async fn run(
    spec: SessionSpec,
    transcript: TranscriptSender,
    end: watch::Receiver<Option<EndReason>>,
) -> SessionEnd {
    run_checked(spec, transcript, end, None).await
}

/// Like [`run`], with a check of the agent's text after a turn that ended in order. The check may give the
/// agent one more turn.
pub async fn run_checked(
    spec: SessionSpec,
    transcript: TranscriptSender,
    end: watch::Receiver<Option<EndReason>>,
    check: Option<Check>,
) -> SessionEnd {
    let allowance = spec.allowance.clone();
    let mut record = Record::paid(
        transcript.clone(),
        &spec.agent.name,
        spec.tariff.clone(),
        allowance,
    );
    let (ended, stderr_tail) = run_processes(&spec, Aim::Work(check), &mut record, end).await;
    session_end(record, spec.tool_sigils.as_deref(), ended, stderr_tail)
}

/// Like [`run`], with prompts from a person instead of the specification's. The session ends when they leave.
pub async fn converse(
    spec: SessionSpec,
    transcript: TranscriptSender,
    mut person: Operator,
    end: watch::Receiver<Option<EndReason>>,
) -> SessionEnd {
    let mut record = Record::new(transcript, &spec.agent.name);
    let (ended, stderr_tail) = run_processes(&spec, Aim::Chat(&mut person), &mut record, end).await;
    session_end(record, None, ended, stderr_tail)
}

fn session_end(
    mut record: Record,
    left: Option<&ToolSigils>,
    ended: Ended,
    stderr_tail: String,
) -> SessionEnd {
    record.settle();
    let transcript = record.transcript.clone();
    let redactor = transcript.redactor();
    let ended = redact_end(redactor, ended);
    let retry_after = retry_after(&ended, &record, &stderr_tail);
    transcript.push(TranscriptUpdate::Ended { how: words(&ended) });
    let text = |text: &String| redactor.words(text);
    let full_text = record.full_text(left);
    SessionEnd {
        ended,
        retry_after,
        text: full_text,
        text_truncated: record.text_truncated,
        usage: record.used(),
        tool_calls: record.tool_calls,
        failed_tool_calls: record.failed_tool_calls,
        attempted: record.attempted().iter().map(text).collect(),
        last_tool_error: record.last_tool_error.as_ref().map(text),
        stderr_tail: redactor.words(&stderr_tail),
        unread_output: record.unread_output(),
        questions: record.questions().iter().map(text).collect(),
        agent: record.agent,
    }
}

/// How long the provider that refused a session asks to wait.
fn retry_after(ended: &Ended, record: &Record, stderr_tail: &str) -> Option<Duration> {
    let Ended::Unavailable { door, message } = ended else {
        return None;
    };
    let now = Zoned::now();
    let texts = [message.as_str(), record.last_message(), stderr_tail];
    texts
        .into_iter()
        .filter(|_| door.concerns() == Concerns::Account)
        .find_map(|text| retry_after::of(text, &now))
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Greeting {
    pub introduction: Introduction,
    /// How the session ended before it was open, redacted. `None` if it opened.
    pub trouble: Option<Ended>,
    /// The session's notes, such as about a mode that the agent does not have.
    pub notes: Vec<String>,
}

/// Starts the agent, opens a session and ends it without a prompt, so without cost. The start equals that of
/// [`run`] and is bounded by `start_limit`. None of its processes is left.
pub async fn greet(
    spec: SessionSpec,
    redactor: Redactor,
    end: watch::Receiver<Option<EndReason>>,
) -> Greeting {
    let (sender, mut receiver) = transcript::channel(redactor.clone());
    let mut record = Record::new(sender, &spec.agent.name);
    let (ended, _) = run_processes(&spec, Aim::Greeting, &mut record, end).await;
    let introduction = std::mem::take(&mut record.introduction);
    drop(record);
    let mut notes = Vec::new();
    while let Some(entries) = receiver.next_batch().await {
        notes.extend(entries.into_iter().filter_map(|entry| match entry.update {
            TranscriptUpdate::Note { text } => Some(text),
            _ => None,
        }));
    }
    Greeting {
        trouble: introduction
            .session
            .is_none()
            .then(|| redact_end(&redactor, ended)),
        introduction,
        notes,
    }
}

/// Runs the session in one process or two. Returns its end and the end of the agent's standard error.
async fn run_processes(
    spec: &SessionSpec,
    aim: Aim<'_>,
    record: &mut Record,
    end: watch::Receiver<Option<EndReason>>,
) -> (Ended, String) {
    let none = String::new();
    if let Some(reason) = *end.borrow() {
        return (Ended::Told { reason }, none);
    }
    let tools = Tools::of_user();
    let environment = match agent::environment(spec, &tools).await {
        Ok(environment) => environment,
        Err(error) => {
            let message = error.to_string();
            return (Ended::Workspace { message, away: true }, none);
        }
    };
    if let Err(message) = furnish(spec, &tools).await {
        return (Ended::Workspace { message, away: true }, none);
    }
    let logins = match copy_logins_in(spec, record).await {
        Ok(logins) => logins,
        Err(message) => {
            let door = Unavailable::Authentication;
            return (Ended::Unavailable { door, message }, none);
        }
    };
    log_protocol(spec, record);
    let started = now();
    let second_aim = aim.again();
    let process = process(spec, &environment, &tools, aim, record, end.clone()).await;
    let mut process = process.unwrap_or_else(Process::from);
    let spent = Spent {
        time: now() - started,
        output_bytes: process.output_bytes,
    };
    let second = resume::second(spec, &process.ended, record, spent);
    if let (Some(second), Some(aim)) = (second, second_aim) {
        let reason = *end.borrow();
        if let Some(reason) = reason {
            // The end request came while the first process was cleaned up.
            process.ended = Ended::Told { reason };
        } else {
            let why = words(&process.ended);
            let note = format!("{why}: it is started again, to resume its session");
            record.transcript.note(note);
            let later = self::process(&second, &environment, &tools, aim, record, end).await;
            let later = later.unwrap_or_else(Process::from);
            if resume::is_end(&later.ended, record.resumed()) {
                process = later;
            }
        }
    }
    for note in blocking(move || logins.copy_back()).await.unwrap_or_default() {
        record.transcript.note(note);
    }
    (process.ended, process.stderr_tail)
}

/// Result of one process of a session.
struct Process {
    ended: Ended,
    stderr_tail: String,
    output_bytes: u64,
}

impl From<Ended> for Process {
    fn from(ended: Ended) -> Self {
        Self {
            ended,
            stderr_tail: String::new(),
            output_bytes: 0,
        }
    }
}

/// Runs one process of a session, from its start to the end of its last descendant.
async fn process(
    spec: &SessionSpec,
    environment: &BTreeMap<OsString, OsString>,
    tools: &Tools,
    aim: Aim<'_>,
    record: &mut Record,
    end: watch::Receiver<Option<EndReason>>,
) -> Result<Process, Ended> {
    let files = Files::open(&spec.cwd, spec.access).map_err(|error| {
        let folder = spec.cwd.display();
        let message = format!("failed to open the session's folder {folder}: {error}");
        let away = agent::is_short_of(&error);
        Ended::Workspace { message, away }
    })?;
    // Another worker may have what this one lacks.
    let confinement =
        confine(spec, environment, tools).map_err(|message| Ended::Workspace { message, away: true })?;
    let cgroup = confinement.cgroup();
    let redactor = record.transcript.redactor();
    let started = Agent::start(spec, environment.clone(), &confinement, redactor);
    let (mut agent, Pipes { stdin, stdout }) = started?;
    let probe = match second_handle(&stdin) {
        Ok(probe) => probe,
        Err(error) => {
            let message = format!("failed to watch the agent's input: {error}");
            agent.clean_up().await;
            return Err(Ended::Workspace { message, away: true });
        }
    };
    let (outbox, write) = peer::outbox(stdin, record.protocol.clone());
    let writer = tokio::spawn(write);
    let policy = Policy::new(spec.access, &spec.agent.permissions, &spec.cwd);
    let requests = RequestHandler::new(policy, files, environment.clone(), confinement, outbox.clone())
        .with_people(spec.people.clone());
    let requests = match &aim {
        Aim::Chat(person) => requests.with_operator(person.questions.clone()),
        Aim::Work(_) | Aim::Greeting => requests,
    };
    let link = AgentLink {
        outbox,
        requests,
        probe,
    };
    let folders = [&spec.cwd, &spec.home, &spec.tmp].map(PathBuf::clone);
    let disk = disk::watch(folders, spec.sandbox.resources.disk_reserve_bytes);
    let mut conversation =
        Conversation::new(&mut agent, record, stdout, link, spec.limits, end, disk.filled())
            .with_people(spec.people.clone());
    let ended = script::run(spec, aim, &mut conversation).await;
    let output_bytes = conversation.output_bytes();
    drop(conversation);
    writer.abort();
    let stderr_tail = clean_up(agent, &cgroup, record).await;
    Ok(Process {
        ended,
        stderr_tail,
        output_bytes,
    })
}

/// Kills the agent's leftover processes and notes their number. Returns the end of its standard error.
async fn clean_up(agent: Agent, cgroup: &Cgroup, record: &mut Record) -> String {
    // The cleanup removes the control groups.
    if cgroup.killed_for_memory() > 0 {
        let note = "the session used up its memory (`session_memory_mb` of [workspace])";
        record.transcript.note(note);
    }
    let (killed, stderr_tail) = agent.clean_up().await;
    if killed > 0 {
        let words = match killed {
            1 => "a process outlived the session and was killed".to_owned(),
            _ => format!("{killed} processes outlived the session and were killed"),
        };
        record.transcript.note(words);
    }
    stderr_tail
}

/// Logs the protocol's lines if the configuration asks for it. A file that can't be created ends no session.
fn log_protocol(spec: &SessionSpec, record: &mut Record) {
    let Some(path) = &spec.protocol_log else { return };
    let redactor = record.transcript.redactor().clone();
    let note = match ProtocolLog::open(path, redactor) {
        Ok(log) => {
            record.protocol = Some(log);
            format!("the protocol's lines are on this worker, in {}", path.display())
        }
        Err(error) => format!(
            "the protocol's lines can't be written to {}: {error}",
            path.display()
        ),
    };
    record.transcript.note(note);
}

async fn furnish(spec: &SessionSpec, tools: &Tools) -> Result<(), String> {
    let (tools, home, tree) = (tools.clone(), spec.home.clone(), spec.cwd.clone());
    let furnished = blocking(move || tools.furnish(&home, &tree).map_err(|error| error.to_string())).await;
    let furnished = furnished.unwrap_or_else(|| Err("it panicked".to_owned()));
    furnished.map_err(|error| {
        format!(
            "failed to furnish the session's home {}: {error}",
            spec.home.display()
        )
    })
}

async fn copy_logins_in(spec: &SessionSpec, record: &Record) -> Result<Logins, String> {
    let (files, home) = (spec.agent.files.clone(), spec.home.clone());
    let copied = blocking(move || Logins::copy_in(&files, &home)).await;
    let (logins, missing) = copied.unwrap_or_else(|| Err("failed to copy the logins".to_owned()))?;
    for note in missing {
        record.transcript.note(note);
    }
    Ok(logins)
}

/// Runs file work off the runtime's threads. `None` if it panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// The sandbox of the session's processes.
fn confine(
    spec: &SessionSpec,
    environment: &BTreeMap<OsString, OsString>,
    tools: &Tools,
) -> Result<Confinement, String> {
    let given: Vec<String> = spec.agent.env.values().cloned().collect();
    let argv: Vec<String> = spec.agent.argv.iter().cloned().chain(servers(spec)).collect();
    let read: Vec<PathBuf> = spec.read.iter().chain(&spec.sandbox.read).cloned().collect();
    let passed = spec.agent.pass_env.iter().chain(spec.sandbox.passed.keys());
    let passed: Vec<String> = passed.cloned().collect();
    let user_home = std::env::home_dir();
    let wanted = PolicyRequest {
        cwd: &spec.cwd,
        cwd_writable: spec.access != Access::ReadOnly,
        session_folder: spec.session_folder.as_deref(),
        home: &spec.home,
        tmp: &spec.tmp,
        argv: &argv,
        environment,
        given: &given,
        passed: &passed,
        user_home: user_home.as_deref(),
        tools,
        read: &read,
        write: &spec.sandbox.write,
    };
    Confinement::new(&spec.sandbox, &policy(&wanted), &spec.dispatch)
}

/// Programs and arguments of the MCP servers that the agent will start.
fn servers(spec: &SessionSpec) -> impl Iterator<Item = String> {
    spec.agent.mcp_servers.iter().flat_map(|server| match server {
        McpServer::Stdio(server) => {
            let program = server.command.to_string_lossy().into_owned();
            std::iter::once(program)
                .chain(server.args.iter().cloned())
                .collect()
        }
        _ => Vec::new(),
    })
}

fn second_handle(stdin: &pipe::Sender) -> std::io::Result<pipe::Sender> {
    use std::os::fd::AsFd;
    pipe::Sender::from_owned_fd(stdin.as_fd().try_clone_to_owned()?)
}

fn redact_end(redactor: &Redactor, mut ended: Ended) -> Ended {
    match &mut ended {
        Ended::Turn { stop_reason: text }
        | Ended::Protocol { message: text }
        | Ended::Unavailable { message: text, .. }
        | Ended::Workspace { message: text, .. } => *text = redactor.words(text),
        Ended::Told { .. } | Ended::Limit { .. } | Ended::AgentExited { .. } => {}
    }
    ended
}

pub fn words(ended: &Ended) -> String {
    match ended {
        Ended::Turn { stop_reason } => format!("the agent ended its turn: {stop_reason}"),
        Ended::Told { reason } => format!("ended by the worker: {}", script::end_reason_words(*reason)),
        Ended::Limit { limit } => format!("ended by a limit: {}", script::limit_words(*limit)),
        Ended::AgentExited { code: Some(code), .. } => format!("the agent exited with code {code}"),
        Ended::AgentExited {
            signal: Some(signal), ..
        } => format!("the agent was killed by signal {signal}"),
        Ended::AgentExited { .. } => "the agent exited".to_owned(),
        Ended::Protocol { message }
        | Ended::Unavailable { message, .. }
        | Ended::Workspace { message, .. } => message.clone(),
    }
}
