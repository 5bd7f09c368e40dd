//! What is said to an agent, in order: handshake, session, model, prompt; and how it is ended.

use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, ContentBlock, Error as RpcError, FileSystemCapabilities, Implementation,
    InitializeRequest, NewSessionRequest, PromptRequest, TextContent,
};
use nix::sys::signal::Signal;
use ralph_shared::wire::{Access, Door, EndReason, Ended, SessionLimit, TranscriptUpdate};
use serde_json::{Value, json};

use super::agent::exit_words;
use super::conversation::{Answer, Bounds, Conversation, Stop, now};
use super::door;
use super::limits::HANDSHAKE_LIMIT;
use super::model::{Chosen, Offer};
use super::spec::SessionSpec;
use super::transcript::bounded;

/// Longest wait for an agent's exit after its turn ended and its input was closed.
const EXIT_WAIT: Duration = Duration::from_secs(2);

/// Longest message of an agent in a report. Bytes.
const MESSAGE_BYTES: usize = 2000;

/// Why a handshake or a turn did not end as it should.
enum Break {
    /// The session is over, this is how.
    Ended(Ended),
    /// The conversation can't go on.
    Stop(Stop),
}

impl From<Stop> for Break {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// Leads a session to its end, and the agent to its own.
pub async fn tell(spec: &SessionSpec, conversation: &mut Conversation<'_>) -> Ended {
    let mut prompted = None;
    let ended = match turn(spec, conversation, &mut prompted).await {
        Ok(ended) | Err(Break::Ended(ended)) => {
            finish(spec, conversation, EXIT_WAIT).await;
            ended
        }
        Err(Break::Stop(stop)) => {
            if let Stop::Limit(SessionLimit::Output) = stop {
                conversation.cut_text();
            }
            let answered = cancel(spec, conversation, prompted.as_ref(), &stop).await;
            let grace = Duration::from_millis(spec.limits.grace_ms);
            finish(spec, conversation, if answered { grace } else { Duration::ZERO }).await;
            broken(spec, conversation, stop, prompted.is_some()).await
        }
    };
    doubted(conversation, ended)
}

/// The prompt that is in the agent's hands.
struct Prompted {
    id: u64,
    session: String,
}

async fn turn(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    prompted: &mut Option<Prompted>,
) -> Result<Ended, Break> {
    let bounds = Bounds::Session(Some(conversation.started() + HANDSHAKE_LIMIT));
    let methods = initialize(spec, conversation, bounds).await?;
    let (session, offer) = new_session(spec, conversation, bounds, &methods).await?;
    conversation.record().session_began(&session);
    let model = set_model(spec, conversation, bounds, &session, &offer).await?;
    let record = conversation.record();
    record.agent.model.clone_from(&model);
    let agent = record
        .agent
        .name
        .clone()
        .unwrap_or_else(|| spec.agent.name.clone());
    record.transcript.push(TranscriptUpdate::Started { agent, model });

    let content = vec![ContentBlock::Text(TextContent::new(spec.prompt.clone()))];
    let id = conversation.ask("session/prompt", &PromptRequest::new(session.clone(), content));
    *prompted = Some(Prompted { id, session });
    let answer = conversation.answer(id, Bounds::Session(None)).await?;
    *prompted = None;
    let answer = answer.map_err(|error| Break::Ended(refused("the prompt", &error)))?;
    conversation.record().answered(&answer);
    match answer.get("stopReason").and_then(Value::as_str) {
        Some(reason) => Ok(Ended::Turn {
            stop_reason: bounded(reason, 100),
        }),
        None => Ok(Ended::Protocol {
            message: bounded(
                &format!("the agent ended its turn without a stop reason: {answer}"),
                MESSAGE_BYTES,
            ),
        }),
    }
}

/// Gives the ids of the authentication methods that need nobody at a screen.
async fn initialize(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    bounds: Bounds,
) -> Result<Vec<String>, Break> {
    let files = FileSystemCapabilities::new()
        .read_text_file(true)
        .write_text_file(spec.access == Access::Workspace);
    let request = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(
            ClientCapabilities::new()
                .fs(files)
                .terminal(spec.access != Access::ReadOnly),
        )
        .client_info(Implementation::new("ralph-worker", env!("CARGO_PKG_VERSION")));
    let answer = ask(conversation, "initialize", &request, bounds)
        .await?
        .map_err(|error| match refused("`initialize`", &error) {
            Ended::Protocol { message }
                if i32::from(error.code) == i32::from(RpcError::method_not_found().code) =>
            {
                Ended::Door {
                    door: Door::Version,
                    message,
                }
            }
            ended => ended,
        })
        .map_err(Break::Ended)?;
    if answer.get("protocolVersion").and_then(Value::as_u64) != Some(u64::from(ProtocolVersion::V1.as_u16()))
    {
        let version = answer.get("protocolVersion").cloned().unwrap_or_default();
        let message =
            format!("the agent speaks protocol version {version}, this worker version 1: update either");
        return Err(Break::Ended(Ended::Door {
            door: Door::Version,
            message: bounded(&message, MESSAGE_BYTES),
        }));
    }
    let info = |key: &str| {
        let text = answer.get("agentInfo")?.get(key)?.as_str()?;
        Some(bounded(text, 200))
    };
    let agent = &mut conversation.record().agent;
    agent.name = info("name");
    agent.version = info("version");
    let methods = answer.get("authMethods").and_then(Value::as_array);
    Ok(methods.into_iter().flatten().filter_map(unattended).collect())
}

/// The id of an authentication method that takes a key from the environment.
fn unattended(method: &Value) -> Option<String> {
    let id = method.get("id")?.as_str()?;
    let name = method.get("name").and_then(Value::as_str).unwrap_or_default();
    let takes_key = [id, name].iter().any(|text| text.to_lowercase().contains("key"));
    takes_key.then(|| id.to_owned())
}

/// Opens the session; an agent that asks for a login first is offered the key in its environment once.
async fn new_session(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    bounds: Bounds,
    methods: &[String],
) -> Result<(String, Offer), Break> {
    let request = NewSessionRequest::new(&spec.cwd);
    let mut answer = ask(conversation, "session/new", &request, bounds).await?;
    if let Err(error) = &answer
        && let Ended::Door {
            door: Door::Authentication,
            ..
        } = refused("`session/new`", error)
    {
        for method in methods {
            let login = json!({ "methodId": method });
            if ask(conversation, "authenticate", &login, bounds).await?.is_ok() {
                answer = ask(conversation, "session/new", &request, bounds).await?;
                break;
            }
        }
    }
    let answer = answer.map_err(|error| Break::Ended(refused("`session/new`", &error)))?;
    match answer.get("sessionId").and_then(Value::as_str) {
        Some(session) => Ok((session.to_owned(), Offer::read(&answer))),
        None => Err(Break::Ended(Ended::Protocol {
            message: bounded(
                &format!("the agent answered `session/new` without a session: {answer}"),
                MESSAGE_BYTES,
            ),
        })),
    }
}

/// Sets the model. Gives the one that is in use then, as far as the agent says so: one that can't be set is no reason
/// not to work, but is said.
async fn set_model(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    bounds: Bounds,
    session: &str,
    offer: &Offer,
) -> Result<Option<String>, Break> {
    let current = offer.current().map(str::to_owned);
    let Some(choice) = &spec.model else {
        return Ok(current);
    };
    let request = match offer.choose(session, choice) {
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
    match ask(conversation, request.method, &request.params, bounds).await? {
        Ok(_) => Ok(Some(request.model)),
        Err(error) => {
            let note = format!("the agent refused the model {}: {error}", request.model);
            conversation.record().transcript.note(note);
            Ok(current)
        }
    }
}

/// A request of the handshake.
async fn ask(
    conversation: &mut Conversation<'_>,
    method: &str,
    params: &impl serde::Serialize,
    bounds: Bounds,
) -> Result<Answer, Break> {
    match conversation.call(method, params, bounds).await {
        Err(Stop::Due) => Err(Break::Ended(Ended::Door {
            door: Door::Silent,
            message: format!(
                "the agent did not answer `{method}` within {} s of its start: does its command speak ACP on its \
                 standard input and output?",
                HANDSHAKE_LIMIT.as_secs()
            ),
        })),
        other => Ok(other?),
    }
}

/// Asks for the end of the turn. Whether the agent answered within the grace.
async fn cancel(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    prompted: Option<&Prompted>,
    stop: &Stop,
) -> bool {
    let Some(prompted) = prompted else {
        return matches!(stop, Stop::Told(_) | Stop::Limit(_));
    };
    if !matches!(stop, Stop::Told(_) | Stop::Limit(_)) {
        return false;
    }
    conversation
        .record()
        .transcript
        .note(format!("the session is cancelled: {}", stop_words(stop)));
    conversation.tell("session/cancel", &json!({ "sessionId": prompted.session }));
    let until = now() + Duration::from_millis(spec.limits.grace_ms);
    match conversation.answer(prompted.id, Bounds::Until(until)).await {
        Ok(Ok(answer)) => {
            conversation.record().answered(&answer);
            true
        }
        Ok(Err(_)) => true,
        Err(_) => false,
    }
}

/// Closes the agent's input, and sends TERM to those who don't take that for the end. KILL is left to
/// [`super::agent::Agent::clean_up`].
async fn finish(spec: &SessionSpec, conversation: &mut Conversation<'_>, wait: Duration) {
    conversation.close_input();
    if conversation.gone(now() + wait).await {
        return;
    }
    conversation.agent().signal(Signal::SIGTERM);
    let grace = Duration::from_millis(spec.limits.grace_ms);
    if !conversation.gone(now() + grace).await {
        let note = "the agent ignores the end of its input and TERM: it is killed";
        conversation.record().transcript.note(note);
    }
}

/// How a session ended whose conversation could not go on.
async fn broken(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    stop: Stop,
    prompted: bool,
) -> Ended {
    let words = stop_words(&stop);
    match stop {
        Stop::Told(reason) => return Ended::Told { reason },
        Stop::Limit(limit) => return Ended::Limit { limit },
        Stop::Exited(_) | Stop::Closed { .. } | Stop::Due => {}
    }
    conversation.agent().hear_out().await;
    let stderr = conversation.agent().stderr_tail();
    let idle = conversation.record().tool_calls == 0;
    let door = if idle { door::of_words(&stderr) } else { None };
    let door = if prompted {
        door
    } else {
        door.or(Some(Door::ExitsAtOnce))
    };
    if let Some(door) = door {
        let message = format!("the agent `{}` {words}: {}", spec.agent.name, last_lines(&stderr));
        return Ended::Door {
            door,
            message: bounded(&message, MESSAGE_BYTES),
        };
    }
    match stop {
        Stop::Exited(exit) => Ended::AgentExited {
            code: exit.code(),
            signal: std::os::unix::process::ExitStatusExt::signal(&exit),
        },
        _ => Ended::Protocol {
            message: format!("the agent {words} in the middle of its turn"),
        },
    }
}

/// A turn may have ended in order and yet be nothing but the provider's error.
fn doubted(conversation: &mut Conversation<'_>, ended: Ended) -> Ended {
    let record = conversation.record();
    match &ended {
        Ended::Turn { .. } => match door::of_turn(&record.text, record.tool_calls) {
            Some(door) => Ended::Door {
                door,
                message: record.text.trim().to_owned(),
            },
            None => ended,
        },
        _ => ended,
    }
}

/// An error instead of an answer.
fn refused(what: &str, error: &RpcError) -> Ended {
    let code = i32::from(error.code);
    let message = bounded(
        &format!("the agent answered {what} with an error: {error} ({code})"),
        MESSAGE_BYTES,
    );
    match door::of_error(Some(i64::from(code)), &error.to_string()) {
        Some(door) => Ended::Door { door, message },
        None => Ended::Protocol { message },
    }
}

fn stop_words(stop: &Stop) -> String {
    match stop {
        Stop::Told(reason) => told_words(*reason).to_owned(),
        Stop::Limit(limit) => limit_words(*limit).to_owned(),
        Stop::Exited(exit) => exit_words(*exit),
        Stop::Closed { input: true } => "closed its input".to_owned(),
        Stop::Closed { input: false } => "closed its output".to_owned(),
        Stop::Due => "did not answer in time".to_owned(),
    }
}

/// A reason from outside, in words.
pub fn told_words(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Interrupted => "a person interrupted it",
        EndReason::Drain => "the worker is drained",
        EndReason::RunLimit => "a limit of the run is reached",
        EndReason::Fenced => "the task is no longer this session's",
        EndReason::OutOfContact => "the worker was out of contact for too long",
        EndReason::Unknown => "a reason of a later release",
    }
}

/// A limit of the session, in words.
pub fn limit_words(limit: SessionLimit) -> &'static str {
    match limit {
        SessionLimit::Session => "its wall time is used up",
        SessionLimit::Idle => "the agent was silent for too long",
        SessionLimit::Output => "the agent's output is over its limit",
        SessionLimit::ToolCalls => "the agent called more tools than it may",
        SessionLimit::Stall => "the agent makes no progress",
    }
}

/// The end of standard error, on one line.
fn last_lines(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "it wrote nothing on standard error".to_owned();
    }
    lines[lines.len().saturating_sub(5)..].join(" | ")
}
