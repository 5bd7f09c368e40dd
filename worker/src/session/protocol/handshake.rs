//! From an agent's start to a session that is ready for its prompt: version, login, session, mode, model.

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, Error as RpcError, FileSystemCapabilities, Implementation, InitializeRequest,
    McpServer, NewSessionRequest, ResumeSessionRequest,
};
use ralph_shared::wire::{Access, Ended, Unavailable};
use serde::Serialize;
use serde_json::{Value, json};

use super::introduction::Capabilities;
use crate::session::conversation::{Bounds, Conversation, RpcResult, Stop};
use crate::session::limits::start_time::Start;
use crate::session::protocol::capabilities::{Chosen, Options};
use crate::session::spec::{Resume, SessionSpec};
use crate::session::transcript::bounded;
use crate::session::unavailable;

/// Longest message of an agent in a report. Bytes.
pub(in crate::session) const MESSAGE_BYTES: usize = 2000;

/// Why a handshake or a turn did not end normally.
pub(in crate::session) enum Break {
    Ended(Ended),
    Stop(Stop),
}

impl From<Stop> for Break {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// A session that is ready for its prompt.
pub(in crate::session) struct Opened {
    pub session: String,
    /// The model in use, if the agent reports it.
    pub model: Option<String>,
}

/// Leads an agent to a session that is ready for its prompt. The record holds the agent's introduction,
/// however far it came.
pub(in crate::session) async fn perform(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
) -> Result<Opened, Break> {
    let start = &Start::of(spec, conversation);
    let Some(place) = &spec.place else {
        return ready(spec, conversation, start).await;
    };
    let opened = tokio::select! {
        opened = ready(spec, conversation, start) => opened?,
        never = place.lend_when_slow(start.limit) => match never {},
    };
    conversation.meanwhile(place.take_back()).await?;
    Ok(opened)
}

async fn ready(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    start: &Start<'_>,
) -> Result<Opened, Break> {
    initialize(spec, conversation, start).await?;
    let (session, answer) = open(spec, conversation, start).await?;
    let record = conversation.record();
    let (models, modes) = record.offered(Options::models(&answer), Options::modes(&answer));
    record.set_session(&session);
    set_mode(spec, conversation, start, &session, &modes).await?;
    let model = set_model(spec, conversation, start, &session, &models).await?;
    start.succeeded();
    Ok(Opened { session, model })
}

async fn initialize(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    start: &Start<'_>,
) -> Result<(), Break> {
    let offered = spec.agent.offered;
    let files = FileSystemCapabilities::new()
        .read_text_file(offered.files)
        .write_text_file(offered.files && spec.access == Access::Workspace);
    let request = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(
            ClientCapabilities::new()
                .fs(files)
                .terminal(offered.terminals && spec.access != Access::ReadOnly),
        )
        .client_info(Implementation::new("ralph-worker", env!("CARGO_PKG_VERSION")));
    let answer = send_request(conversation, "initialize", &request, start)
        .await?
        .map_err(|error| match refused("`initialize`", &error) {
            Ended::Protocol { message }
                if i32::from(error.code) == i32::from(RpcError::method_not_found().code) =>
            {
                Ended::Unavailable {
                    door: Unavailable::Version,
                    message,
                }
            }
            ended => as_unavailable(ended),
        })
        .map_err(Break::Ended)?;
    let record = conversation.record();
    record.introduction.initialized(&answer);
    record.agent.name.clone_from(&record.introduction.name);
    record.agent.version.clone_from(&record.introduction.version);
    if record.introduction.protocol_version != Some(u64::from(ProtocolVersion::V1.as_u16())) {
        let version = answer.get("protocolVersion").cloned().unwrap_or_default();
        let message =
            format!("the agent speaks protocol version {version}, this worker version 1: update either");
        return Err(Break::Ended(Ended::Unavailable {
            door: Unavailable::Version,
            message: conversation.record().transcript.redacted(&message, MESSAGE_BYTES),
        }));
    }
    Ok(())
}

/// Resumes the earlier session if there is one and the agent can; otherwise opens a new one. Returns its id
/// and the agent's answer.
async fn open(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    start: &Start<'_>,
) -> Result<(String, Value), Break> {
    let capabilities = conversation.record().introduction.capabilities;
    let (servers, unusable) = servers(&spec.agent.mcp_servers, capabilities);
    for name in unusable {
        let note = format!("the MCP server {name} is left out: the agent can't use its transport");
        conversation.record().transcript.note(note);
    }
    if let Some(Resume { session, or_new }) = &spec.resume {
        if let Some(answer) = resume(spec, conversation, start, session, servers.clone()).await? {
            conversation.record().session_resumed();
            return Ok((session.clone(), answer));
        }
        let message = format!("the earlier session {session} can't be resumed");
        if !or_new {
            return Err(Break::Ended(Ended::Protocol { message }));
        }
        let note = format!("{message}: this is a new one");
        conversation.record().transcript.note(note);
    }
    let request = NewSessionRequest::new(&spec.cwd)
        .mcp_servers(servers)
        .meta(spec.meta());
    let mut answer = send_request(conversation, "session/new", &request, start).await?;
    if let Err(error) = &answer
        && let Ended::Unavailable {
            door: Unavailable::Authentication,
            ..
        } = refused("`session/new`", error)
        && log_in(spec, conversation, start).await?
    {
        answer = send_request(conversation, "session/new", &request, start).await?;
    }
    let answer = answer.map_err(|error| Break::Ended(as_unavailable(refused("`session/new`", &error))))?;
    match answer.get("sessionId").and_then(Value::as_str) {
        Some(session) => Ok((session.to_owned(), answer)),
        None => Err(Break::Ended(Ended::Protocol {
            message: conversation.record().transcript.redacted(
                &format!("the agent answered `session/new` without a session: {answer}"),
                MESSAGE_BYTES,
            ),
        })),
    }
}

/// The MCP servers that the agent can use, and the names of the rest.
fn servers(configured: &[McpServer], capabilities: Capabilities) -> (Vec<McpServer>, Vec<String>) {
    let mut usable = Vec::new();
    let mut unusable = Vec::new();
    for server in configured {
        match server {
            McpServer::Http(http) if !capabilities.mcp_http => unusable.push(http.name.clone()),
            McpServer::Sse(sse) if !capabilities.mcp_sse => unusable.push(sse.name.clone()),
            _ => usable.push(server.clone()),
        }
    }
    (usable, unusable)
}

/// Resumes an earlier session. Its replay does not count as output of this session.
async fn resume(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    start: &Start<'_>,
    earlier: &str,
    servers: Vec<McpServer>,
) -> Result<Option<Value>, Break> {
    let capabilities = conversation.record().introduction.capabilities;
    let method = match capabilities {
        Capabilities { resume: true, .. } => "session/resume",
        Capabilities { load: true, .. } => "session/load",
        _ => return Ok(None),
    };
    // Both requests have the same fields.
    let mut request = ResumeSessionRequest::new(earlier.to_owned(), &spec.cwd);
    request.mcp_servers = servers;
    let mut params = serde_json::to_value(&request).unwrap_or_default();
    if let Some(params) = params.as_object_mut() {
        params.entry("mcpServers").or_insert_with(|| json!([]));
    }
    conversation.begin_replay();
    let answer = send_request(conversation, method, &params, start).await;
    conversation.end_replay();
    match answer? {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => {
            let note = format!("the agent refused `{method}`: {error}");
            conversation.record().transcript.note(note);
            Ok(None)
        }
    }
}

/// Answers a login request with the copied login file and the key in the environment, once each. Returns
/// whether the agent accepted one.
async fn log_in(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    start: &Start<'_>,
) -> Result<bool, Break> {
    let copied = spec
        .agent
        .files
        .iter()
        .any(|file| spec.home.join(&file.place).is_file());
    let by_file = spec.agent.preset.and_then(|preset| preset.file_login);
    let by_file = by_file.filter(|_| copied).map(str::to_owned);
    let by_key = conversation.record().introduction.unattended_logins();
    for method in by_file.into_iter().chain(by_key) {
        let login = json!({ "methodId": method });
        if send_request(conversation, "authenticate", &login, start)
            .await?
            .is_ok()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sets the configured mode. A failure is noted and does not end the session.
async fn set_mode(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    start: &Start<'_>,
    session: &str,
    offer: &Options,
) -> Result<(), Break> {
    let Some(mode) = &spec.agent.mode else {
        return Ok(());
    };
    let request = match offer.choose(session, std::iter::once(mode.as_str())) {
        Chosen::InUse(_) => return Ok(()),
        Chosen::NotOffered => {
            let note = format!("the agent offers no mode called {mode}");
            conversation.record().transcript.note(note);
            return Ok(());
        }
        Chosen::Set(request) => request,
    };
    match send_request(conversation, request.method, &request.params, start).await? {
        Ok(answer) => {
            let set = Options::modes(&answer).current().map(str::to_owned);
            let set = really_set(conversation, "mode", set, request.choice);
            conversation.record().set_current_mode(set);
        }
        Err(error) => {
            let note = format!("the agent refused the mode {}: {error}", request.choice);
            conversation.record().transcript.note(note);
        }
    }
    Ok(())
}

/// Sets the model. Returns the model in use, if the agent reports it. A failure is noted and does not end the
/// session.
async fn set_model(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    start: &Start<'_>,
    session: &str,
    offer: &Options,
) -> Result<Option<String>, Break> {
    let current = offer.current().map(str::to_owned);
    let Some(choice) = &spec.model else {
        return Ok(current);
    };
    let names = spec.agent.model_names(choice);
    let request = match offer.choose(session, names.into_iter()) {
        Chosen::InUse(model) => return Ok(Some(model)),
        Chosen::NotOffered => {
            let note = format!(
                "the agent offers no model called {}: it has only RALPH_MODEL to go by",
                choice.tier
            );
            conversation.record().transcript.note(note);
            return Ok(current);
        }
        Chosen::Set(request) => request,
    };
    let before = conversation.record().agent.model.take();
    match send_request(conversation, request.method, &request.params, start).await? {
        Ok(answer) => {
            // The model from an update meanwhile, if the answer has none.
            let updated = conversation.record().agent.model.take();
            let reported = Options::models(&answer).current().map(str::to_owned).or(updated);
            Ok(Some(really_set(conversation, "model", reported, request.choice)))
        }
        Err(error) => {
            let note = format!("the agent refused the model {}: {error}", request.choice);
            conversation.record().transcript.note(note);
            Ok(current.or(before))
        }
    }
}

/// The choice now in effect: the agent's reported one, otherwise the requested one.
fn really_set(
    conversation: &mut Conversation<'_>,
    what: &str,
    reported: Option<String>,
    asked: String,
) -> String {
    let set = reported.unwrap_or_else(|| asked.clone());
    let set = bounded(&set, MESSAGE_BYTES);
    if set != asked {
        let note = format!("the agent was told the {what} {asked} and set {set}");
        conversation.record().transcript.note(note);
    }
    set
}

/// Sends a request of the handshake.
async fn send_request(
    conversation: &mut Conversation<'_>,
    method: &str,
    params: &impl Serialize,
    start: &Start<'_>,
) -> Result<RpcResult, Break> {
    let bounds = Bounds::Session(Some(start.until));
    match conversation.call(method, params, bounds).await {
        Err(Stop::Due) => Err(Break::Ended(Ended::Unavailable {
            door: Unavailable::Silent,
            message: start.too_slow(method, &conversation.record().introduction),
        })),
        other => Ok(other?),
    }
}

/// A refusal before the first prompt is not the task's fault: the agent's configuration or environment is
/// wrong.
fn as_unavailable(ended: Ended) -> Ended {
    match ended {
        Ended::Protocol { message } => Ended::Unavailable {
            door: Unavailable::ExitsAtOnce,
            message,
        },
        ended => ended,
    }
}

/// The end of a session whose agent answered with an error.
pub(in crate::session) fn refused(what: &str, error: &RpcError) -> Ended {
    let code = i32::from(error.code);
    let message = bounded(
        &format!("the agent answered {what} with an error: {error} ({code})"),
        MESSAGE_BYTES,
    );
    match unavailable::of_error(Some(i64::from(code)), &error.to_string()) {
        Some(door) => Ended::Unavailable { door, message },
        None => Ended::Protocol { message },
    }
}
