//! The order of a session: handshake, prompts, and the end.

use std::time::Duration;

use agent_client_protocol::v1::schema::{ContentBlock, PromptRequest, TextContent};
use nix::sys::signal::Signal;
use ralph_shared::plain::plain;
use ralph_shared::wire::{EndReason, Ended, SessionLimit, TranscriptUpdate, Unavailable, Words};
use serde_json::Value;

use super::check::Check;
use super::conversation::{Bounds, Conversation, Stop, last_lines};
use super::spec::SessionSpec;
use super::transcript::bounded;
use crate::session::interactive;
use crate::session::operator::Operator;
use crate::session::people::{Reply, TurnOutcome, now};
use crate::session::process::agent::exit_words;
use crate::session::protocol::handshake::{self, Break, MESSAGE_BYTES, Opened, refused};
use crate::session::unavailable;

/// Longest wait for an agent's exit after its turn ended and its input was closed.
const EXIT_WAIT: Duration = Duration::from_secs(2);

/// Turns of one session that may end with a question.
const MOST_QUESTIONS: usize = 20;

/// Longest wait for an agent's last output after its turn ended. Seen: 300 ms.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub enum Aim<'p> {
    /// One turn with the prompt, and one more if the check rejects its text.
    Work(Option<Check>),
    /// Test whether a session could open.
    Greeting,
    Chat(&'p mut Operator),
}

impl Aim<'_> {
    /// The aim of a second process of the same session. `None` if there must not be one.
    pub fn again(&self) -> Option<Aim<'static>> {
        match self {
            Self::Work(check) => Some(Aim::Work(check.clone())),
            Self::Greeting | Self::Chat(_) => None,
        }
    }
}

/// Runs a session and ends it.
pub async fn run(spec: &SessionSpec, aim: Aim<'_>, conversation: &mut Conversation<'_>) -> Ended {
    let mut prompted = None;
    let works = matches!(aim, Aim::Work(_));
    let outcome = match aim {
        Aim::Work(check) => work(spec, conversation, check, &mut prompted).await,
        Aim::Greeting => greet(spec, conversation).await,
        Aim::Chat(person) => interactive::run(spec, person, conversation).await,
    };
    let ended = match outcome {
        Ok(ended) | Err(Break::Ended(ended)) => {
            finish(spec, conversation, EXIT_WAIT).await;
            ended
        }
        Err(Break::Stop(stop)) => {
            let answered = cancel(spec, conversation, prompted.as_ref(), &stop).await;
            let grace = Duration::from_millis(spec.limits.grace_ms);
            finish(spec, conversation, if answered { grace } else { Duration::ZERO }).await;
            broken(spec, conversation, stop, prompted.is_some()).await
        }
    };
    if works {
        detect_provider_error(conversation, ended)
    } else {
        ended
    }
}

/// Longest stored name of a model. Bytes.
const MODEL_BYTES: usize = 300;

/// The prompt that the agent is working on.
struct Prompted {
    id: u64,
    session: String,
}

/// Records the start of the session in the transcript.
pub(super) fn record_start(spec: &SessionSpec, conversation: &mut Conversation<'_>, model: Option<String>) {
    let record = conversation.record();
    let before = record.agent.model.take();
    // An agent may not report its model when it resumes a session.
    let model = model.or(before.filter(|_| record.resumed()));
    let model = model.map(|model| bounded(&model, MODEL_BYTES));
    record.agent.model.clone_from(&model);
    let agent = record
        .agent
        .name
        .clone()
        .unwrap_or_else(|| spec.agent.name.clone());
    record.transcript.push(TranscriptUpdate::Started { agent, model });
}

async fn greet(spec: &SessionSpec, conversation: &mut Conversation<'_>) -> Result<Ended, Break> {
    let opened = handshake::perform(spec, conversation).await?;
    record_start(spec, conversation, opened.model);
    Ok(Ended::Turn {
        stop_reason: "end_turn".to_owned(),
    })
}

async fn work(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    mut check: Option<Check>,
    prompted: &mut Option<Prompted>,
) -> Result<Ended, Break> {
    let Opened { session, model } = handshake::perform(spec, conversation).await?;
    record_start(spec, conversation, model);
    conversation.watch_for_refusals();
    let mut prompt = spec.prompt.clone();
    let mut questions = 0;
    loop {
        for words in pending_messages(spec, conversation).await {
            prompt = format!("{prompt}\n\n{}", words.prompt);
        }
        let from = conversation.record().text.len();
        let (ended, words) = turn(spec, conversation, session.clone(), prompt, prompted).await?;
        if !words.is_empty() && matches!(ended, Ended::Turn { .. }) {
            prompt = prompts(&words);
            continue;
        }
        if !ended.is_in_order() {
            return Ok(ended);
        }
        wait_for_last_output(conversation).await;
        if questions < MOST_QUESTIONS
            && let Some(next) = ask_people(spec, conversation, from).await?
        {
            questions += 1;
            prompt = next;
            continue;
        }
        let again = match check.take() {
            Some(check) => run_check(spec, conversation, &check).await?,
            None => None,
        };
        prompt = match again {
            Some(again) => again,
            None => match prompts(&pending_messages(spec, conversation).await) {
                none if none.is_empty() => return Ok(ended),
                some => some,
            },
        };
    }
}

/// The next prompt from people's messages.
fn prompts(words: &[Words]) -> String {
    let prompts: Vec<&str> = words.iter().map(|words| words.prompt.as_str()).collect();
    prompts.join("\n\n")
}

/// Messages from people since the last turn.
async fn pending_messages(spec: &SessionSpec, conversation: &mut Conversation<'_>) -> Vec<Words> {
    let words = match &spec.people {
        Some(people) => people.pending_messages().await,
        None => Vec::new(),
    };
    for words in &words {
        conversation.record().add_words(words);
    }
    words
}

/// Asks people the question in the text since `from`, or waits for the answer to a tool's question. Returns
/// the next prompt.
async fn ask_people(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    from: usize,
) -> Result<Option<String>, Break> {
    let Some(people) = &spec.people else {
        return Ok(None);
    };
    let record = conversation.record();
    let asked = match people.read(record.text.get(from..).unwrap_or(&record.text)) {
        TurnOutcome::Over => return Ok(None),
        TurnOutcome::Open(asked) => asked,
    };
    record.transcript.flush();
    let reply = match (asked, people.open_question()) {
        (Some(question), _) => {
            let note = format!("it waits for a person: {}", question.words());
            record.transcript.note(note);
            conversation.meanwhile(people.ask(question)).await?
        }
        (None, Some(open)) => {
            record.transcript.note("it waits for a person, whom a tool asked");
            conversation.meanwhile(open).await?
        }
        (None, None) => return Ok(None),
    };
    let record = conversation.record();
    Ok(Some(match reply {
        Reply::Answered(words) => {
            record.add_words(&words);
            words.prompt
        }
        Reply::Decide(prompt) => {
            record
                .transcript
                .note("nobody can answer: the agent decides itself");
            prompt
        }
        Reply::Unanswered => return Ok(None),
    }))
}

/// Checks the session's output. Returns the prompt of another turn if it needs one.
async fn run_check(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    check: &Check,
) -> Result<Option<String>, Break> {
    let record = conversation.record();
    record.settle();
    let text = record.full_text(spec.tool_sigils.as_deref());
    let prompt = match conversation.meanwhile(check.run(text)).await {
        Err(stop @ Stop::EndRequested(_)) => return Err(stop.into()),
        // The turn is over: the agent's exit or a limit no longer changes its result.
        other => other.unwrap_or_default(),
    };
    if let Some(prompt) = &prompt {
        let record = conversation.record();
        record
            .transcript
            .note(format!("one more turn: {}", bounded(prompt, MESSAGE_BYTES)));
        record.begin_correction();
    }
    Ok(prompt)
}

/// Waits for an agent's last output after its turn, if the text has no sigil that tells the outcome: some
/// agents end their turn too early. Nothing that happens meanwhile changes the turn's result.
async fn wait_for_last_output(conversation: &mut Conversation<'_>) {
    let until = now() + LAST_WORDS_WAIT;
    while !unavailable::is_concluded(&plain(&conversation.record().text)) {
        if conversation.next_event(until).await.is_err() {
            return;
        }
    }
}

/// Runs one turn. Returns messages from people that arrived meanwhile. A message cancels the turn so that the
/// next one can begin with it. An agent that can't cancel gets the message at the end of its turn.
async fn turn(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    session: String,
    prompt: String,
    prompted: &mut Option<Prompted>,
) -> Result<(Ended, Vec<Words>), Break> {
    conversation.record().prompted(&prompt);
    let content = vec![ContentBlock::Text(TextContent::new(prompt))];
    conversation.begin_turn();
    let request = PromptRequest::new(session.clone(), content).meta(spec.meta());
    let id = conversation.request("session/prompt", &request);
    *prompted = Some(Prompted {
        id,
        session: session.clone(),
    });
    let mut words = Vec::new();
    let answer = loop {
        let message = tokio::select! {
            biased;
            message = next_message(spec) => message,
            answer = conversation.response(id, Bounds::Session(None)) => break answer?,
        };
        conversation.record().add_words(&message);
        if words.is_empty() {
            conversation.cancel_turn(&session);
        }
        words.push(message);
    };
    *prompted = None;
    let answer = answer.map_err(|error| Break::Ended(refused("the prompt", &error)))?;
    conversation.record().answered(&answer);
    let transcript = &conversation.record().transcript;
    let ended = match answer.get("stopReason").and_then(Value::as_str) {
        Some(reason) => Ended::Turn {
            stop_reason: transcript.redacted(reason, 100),
        },
        None => Ended::Protocol {
            message: transcript.redacted(
                &format!("the agent ended its turn without a stop reason: {answer}"),
                MESSAGE_BYTES,
            ),
        },
    };
    Ok((ended, words))
}

/// Waits for a person's next message.
async fn next_message(spec: &SessionSpec) -> Words {
    match &spec.people {
        Some(people) => people.next_message().await,
        None => std::future::pending().await,
    }
}

/// Cancels the turn. Returns whether the agent answered within the grace.
async fn cancel(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    prompted: Option<&Prompted>,
    stop: &Stop,
) -> bool {
    let Some(prompted) = prompted else {
        return ended_by_worker(stop);
    };
    if !ended_by_worker(stop) {
        return false;
    }
    conversation
        .record()
        .transcript
        .note(format!("the session is cancelled: {}", stop_words(stop)));
    conversation.cancel_turn(&prompted.session);
    let until = now() + Duration::from_millis(spec.limits.grace_ms);
    match conversation.response(prompted.id, Bounds::Until(until)).await {
        Ok(Ok(answer)) => {
            conversation.record().answered(&answer);
            true
        }
        Ok(Err(_)) => true,
        Err(_) => false,
    }
}

/// Whether the worker ends the session while the agent may still answer.
fn ended_by_worker(stop: &Stop) -> bool {
    matches!(
        stop,
        Stop::EndRequested(_) | Stop::Limit(_) | Stop::Refused { .. }
    )
}

/// Closes the agent's input, then sends TERM to an agent that does not exit.
/// [`crate::session::process::agent::Agent::clean_up`] sends KILL.
async fn finish(spec: &SessionSpec, conversation: &mut Conversation<'_>, wait: Duration) {
    conversation.close_input();
    if conversation.wait_until_gone(now() + wait).await {
        return;
    }
    conversation.agent().signal(Signal::SIGTERM);
    let grace = Duration::from_millis(spec.limits.grace_ms);
    if !conversation.wait_until_gone(now() + grace).await {
        let note = "the agent ignores the end of its input and TERM: it is killed";
        conversation.record().transcript.note(note);
    }
}

/// The end of a session whose conversation stopped.
async fn broken(
    spec: &SessionSpec,
    conversation: &mut Conversation<'_>,
    stop: Stop,
    prompted: bool,
) -> Ended {
    let words = stop_words(&stop);
    match stop {
        Stop::EndRequested(reason) => return Ended::Told { reason },
        // A provider's refusal may only show on standard error.
        Stop::Limit(SessionLimit::Idle | SessionLimit::Stall) => {}
        Stop::Limit(limit) => return Ended::Limit { limit },
        Stop::Refused { door, message } => {
            let message = format!("the agent `{}` was ended ({words}): {message}", spec.agent.name);
            return Ended::Unavailable {
                door,
                message: bounded(&message, MESSAGE_BYTES),
            };
        }
        Stop::Exited(_) | Stop::Closed { .. } | Stop::Due => {}
    }
    conversation.agent().drain_stderr().await;
    let stderr = conversation.agent().stderr_tail();
    let limited = matches!(stop, Stop::Limit(_));
    let door = if limited || conversation.record().tool_calls > 0 {
        unavailable::of_stderr(&conversation.stderr_since_progress())
    } else {
        unavailable::of_words(&stderr)
    };
    let door = if prompted || limited || conversation.record().resumed() {
        door
    } else {
        door.or(Some(Unavailable::ExitsAtOnce))
    };
    if let Some(door) = door {
        let agent = &spec.agent.name;
        let words = if limited {
            format!("the agent `{agent}` was ended ({words})")
        } else {
            format!("the agent `{agent}` {words}")
        };
        let message = format!("{words}: {}", last_lines(&stderr));
        return Ended::Unavailable {
            door,
            message: bounded(&message, MESSAGE_BYTES),
        };
    }
    match stop {
        Stop::Exited(exit) => Ended::AgentExited {
            code: exit.code(),
            signal: std::os::unix::process::ExitStatusExt::signal(&exit),
        },
        Stop::Limit(limit) => Ended::Limit { limit },
        _ => Ended::Protocol {
            message: format!("the agent {words} in the middle of its turn"),
        },
    }
}

/// Detects a turn that ended in order but only contains the provider's error.
fn detect_provider_error(conversation: &mut Conversation<'_>, ended: Ended) -> Ended {
    let record = conversation.record();
    match &ended {
        Ended::Turn { .. } => {
            let last = plain(record.last_message());
            match unavailable::of_turn(&plain(&record.text), &last, record.tool_calls) {
                Some(door) => Ended::Unavailable {
                    door,
                    message: last.trim().to_owned(),
                },
                None => ended,
            }
        }
        _ => ended,
    }
}

fn stop_words(stop: &Stop) -> String {
    match stop {
        Stop::EndRequested(reason) => end_reason_words(*reason).to_owned(),
        Stop::Limit(limit) => limit_words(*limit).to_owned(),
        Stop::Exited(exit) => exit_words(*exit),
        Stop::Closed { input: true } => "closed its input".to_owned(),
        Stop::Closed { input: false } => "closed its output".to_owned(),
        Stop::Refused { .. } => "it makes no progress, since its provider refuses it".to_owned(),
        Stop::Due => "did not answer in time".to_owned(),
    }
}

/// An end request's reason in words.
pub fn end_reason_words(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Interrupted => "a person interrupted it",
        EndReason::Drain => "the worker is drained",
        EndReason::RunLimit => "a limit of the run is reached",
        EndReason::Fenced => "the task is no longer this session's",
        EndReason::OutOfContact => "the worker was out of contact for too long",
        EndReason::DiedAlone | EndReason::DiedWithOthers => "the worker died",
        EndReason::Unanswered => "nobody answered its question in time",
        EndReason::Unknown => "a reason of a later release",
    }
}

pub fn limit_words(limit: SessionLimit) -> &'static str {
    match limit {
        SessionLimit::Session => "its wall time is used up",
        SessionLimit::Idle => "the agent was silent for too long",
        SessionLimit::Output => "the agent's output is over its limit",
        SessionLimit::ToolCalls => "the agent called more tools than it may",
        SessionLimit::Stall => "the agent makes no progress",
        SessionLimit::Cost => "its share of the run's cost is used up",
        SessionLimit::Tokens => "its share of the run's tokens is used up",
        SessionLimit::Disk => "it fills the disk (`session_disk_reserve_mb` of [workspace])",
    }
}
