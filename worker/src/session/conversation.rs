//! The conversation with a running agent. Each step waits for one event and handles it.
//! [`crate::session::script`] decides what to send when.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use agent_client_protocol::v1::schema::Error as RpcError;
use ralph_shared::at_length::by_length;
use ralph_shared::wire::{EndReason, SessionLimit, SessionLimits, Unavailable};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::process::ChildStdout;
use tokio::sync::watch;

use super::limits::{self, Facts, REPLAY_LIMIT_BYTES, Verdict};
use super::protocol_log::Direction;
use crate::session::client::elicitation;
use crate::session::client::requests::RequestHandler;
use crate::session::people::{People, now};
use crate::session::process::agent::Agent;
use crate::session::protocol::lines::{Line, Lines};
use crate::session::protocol::peer::{self, Incoming, Outbox};
use crate::session::redaction::Redactor;
use crate::session::transcript::record::Record;
use crate::session::unavailable;

/// Longest wait for an agent's last output before its exit, and for the exit of an agent that closed its
/// pipes.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Number of checks for refusals within the refusal timeout.
const REFUSAL_CHECKS: u32 = 5;

/// How much earlier than a message its matching line on standard error may have been read.
const STDERR_SLACK: Duration = Duration::from_secs(1);

pub struct Conversation<'a> {
    agent: &'a mut Agent,
    record: &'a mut Record,
    lines: Lines<ChildStdout>,
    /// The sending side; `None` once the agent's input is closed.
    link: Option<AgentLink>,
    end: watch::Receiver<Option<EndReason>>,
    /// Whether the sender of end requests is still alive.
    end_sender_alive: bool,
    limits: SessionLimits,
    started: Instant,
    heard: Instant,
    progressed: Instant,
    next_id: u64,
    output_open: bool,
    input_open: bool,
    /// Time of the next check for repeated refusals by the agent's provider; `None` disables the check.
    next_look: Option<Instant>,
    disk: watch::Receiver<bool>,
    /// People whom the session may wait for. Its clocks stop meanwhile.
    people: Option<People>,
    /// Deadline for the rest of a broken conversation.
    broken: Option<Instant>,
    /// Output replayed from an earlier session. Bytes.
    replayed_bytes: u64,
    /// Total output when the current replay began; `None` outside a replay. Bytes.
    replay_from: Option<u64>,
}

/// The parts that talk to the agent.
pub struct AgentLink {
    pub outbox: Outbox,
    pub requests: RequestHandler,
    /// A second handle on the agent's input. It reports when the agent closes that pipe.
    pub probe: pipe::Sender,
}

pub type RpcResult = Result<Value, RpcError>;

/// Why a conversation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    EndRequested(EndReason),
    Limit(SessionLimit),
    Exited(ExitStatus),
    /// The agent lives, but closed a pipe.
    Closed {
        /// Whether it is the pipe that the agent reads from.
        input: bool,
    },
    /// The agent makes no progress and repeatedly reports that its provider refuses it.
    Refused {
        door: Unavailable,
        /// The agent's last words about it.
        message: String,
    },
    /// The step's own deadline passed.
    Due,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// The session's limits, end requests, and an optional deadline.
    Session(Option<Instant>),
    /// This deadline and the output limit only: the session is ending already.
    Until(Instant),
}

impl<'a> Conversation<'a> {
    pub fn new(
        agent: &'a mut Agent,
        record: &'a mut Record,
        stdout: ChildStdout,
        link: AgentLink,
        limits: SessionLimits,
        end: watch::Receiver<Option<EndReason>>,
        disk: watch::Receiver<bool>,
    ) -> Self {
        let now = now();
        Self {
            agent,
            record,
            lines: Lines::new(stdout, limits.output_bytes),
            link: Some(link),
            end,
            end_sender_alive: true,
            limits,
            started: now,
            heard: now,
            progressed: now,
            next_id: 0,
            output_open: true,
            input_open: true,
            next_look: None,
            disk,
            people: None,
            broken: None,
            replayed_bytes: 0,
            replay_from: None,
        }
    }

    /// Time spent waiting for these people counts towards no limit.
    pub fn with_people(mut self, people: Option<People>) -> Self {
        self.people = people;
        self
    }

    /// Moves the clocks forward by the time spent waiting for people.
    fn leave_out_waits(&mut self, now: Instant) {
        let waited = self.people.as_ref().map(|people| people.waited(now));
        let waited = waited.unwrap_or_default();
        for time in [&mut self.started, &mut self.heard, &mut self.progressed] {
            *time = now.min(*time + waited);
        }
    }

    pub fn record(&mut self) -> &mut Record {
        self.record
    }

    pub fn agent(&mut self) -> &mut Agent {
        self.agent
    }

    /// The agent's output without replays. Bytes.
    pub fn output_bytes(&self) -> u64 {
        self.replay_from.unwrap_or(self.lines.total_bytes()) - self.replayed_bytes
    }

    /// Begins a replay of an earlier session, which has its own output limit.
    pub fn begin_replay(&mut self) {
        self.record.mute(true);
        let from = self.lines.total_bytes();
        self.replay_from = Some(from);
        self.lines.set_budget(from + REPLAY_LIMIT_BYTES);
    }

    pub fn end_replay(&mut self) {
        self.record.mute(false);
        if let Some(from) = self.replay_from.take() {
            self.replayed_bytes += self.lines.total_bytes() - from;
        }
        let budget = self.limits.output_bytes.saturating_add(self.replayed_bytes);
        self.lines.set_budget(budget);
    }

    /// Whether the agent exceeded its output limit.
    fn is_over(&self) -> bool {
        match self.replay_from {
            Some(from) => self.lines.total_bytes() - from > REPLAY_LIMIT_BYTES,
            None => self.output_bytes() > self.limits.output_bytes,
        }
    }

    /// From here on, repeated refusals by the agent's provider end the session.
    pub fn watch_for_refusals(&mut self) {
        self.next_look = Some(now());
    }

    /// The refusal to report if the agent made no progress for a while and keeps reporting it. A running tool
    /// may take its time and write anything to standard error, so it suppresses the check.
    fn refusal(&mut self, now: Instant) -> Option<Stop> {
        let timeout = limits::refusal_timeout(&self.limits);
        let due = self.next_look?.max(self.progressed + timeout);
        if now < due {
            self.next_look = Some(due);
            return None;
        }
        self.next_look = Some(now + timeout / REFUSAL_CHECKS);
        if self.record.tool_runs() {
            return None;
        }
        let recently = now.checked_sub(timeout)?;
        let stderr = self.stderr_since_progress();
        let noted = || self.record.complaints().map(|(_, words)| words.as_str());
        let door = unavailable::of_repeated(stderr.lines().chain(noted()))?;
        let reported_recently = self.record.complaints().any(|(at, _)| recently <= *at)
            || unavailable::of_stderr(&self.agent.stderr_since(recently)).is_some();
        let message = noted()
            .next_back()
            .map_or_else(|| last_lines(&stderr), str::to_owned);
        reported_recently.then_some(Stop::Refused { door, message })
    }

    pub fn started(&self) -> Instant {
        self.started
    }

    /// Sends a request. Returns its id.
    pub fn request(&mut self, method: &str, params: &impl Serialize) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        if let Some(link) = &self.link {
            link.outbox.request(id, method, params);
        }
        id
    }

    pub fn notify(&self, method: &str, params: &impl Serialize) {
        if let Some(link) = &self.link {
            link.outbox.notify(method, params);
        }
    }

    /// Starts a turn of the agent: its permission requests are answered again.
    pub fn begin_turn(&mut self) {
        if let Some(link) = &mut self.link {
            link.requests.begin_turn();
        }
    }

    /// Cancels the agent's turn. Its open permission requests are then answered as cancelled.
    pub fn cancel_turn(&self, session: &str) {
        self.notify("session/cancel", &json!({ "sessionId": session }));
        if let Some(link) = &self.link {
            link.requests.cancel_turn();
        }
    }

    /// Sends a request and waits for its response.
    pub async fn call(
        &mut self,
        method: &str,
        params: &impl Serialize,
        bounds: Bounds,
    ) -> Result<RpcResult, Stop> {
        let id = self.request(method, params);
        self.response(id, bounds).await
    }

    pub async fn response(&mut self, id: u64, bounds: Bounds) -> Result<RpcResult, Stop> {
        loop {
            if let Some(answer) = self.step(Some(id), bounds).await? {
                return Ok(answer);
            }
        }
    }

    /// Waits for one event, at most until `until`.
    pub async fn next_event(&mut self, until: Instant) -> Result<(), Stop> {
        self.step(None, Bounds::Session(Some(until))).await.map(drop)
    }

    /// Waits for another future and serves the agent meanwhile.
    pub async fn meanwhile<T>(&mut self, other: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::pin!(other);
        loop {
            tokio::select! {
                biased;
                value = &mut other => return Ok(value),
                step = self.step(None, Bounds::Session(None)) => step?,
            };
        }
    }

    /// The agent's standard error since its last progress, and shortly before: standard error arrives on its
    /// own pipe.
    pub fn stderr_since_progress(&self) -> String {
        let since = self.progressed.checked_sub(STDERR_SLACK);
        self.agent.stderr_since(since.unwrap_or(self.progressed))
    }

    /// Waits until the process is gone or the deadline passes. Returns whether it is gone.
    pub async fn wait_until_gone(&mut self, until: Instant) -> bool {
        while self.agent.exit().is_none() {
            let over = match self.step(None, Bounds::Until(until)).await {
                Ok(_) | Err(Stop::Closed { .. }) => false,
                Err(Stop::Limit(_)) => true,
                Err(_) => break,
            };
            if (over || self.broken.is_some()) && self.agent.exit().is_none() {
                // The output is not read any more. Only the exit matters.
                let exited = tokio::time::timeout_at(until.into(), self.agent.exited()).await;
                return exited.is_ok_and(|exit| exit.is_some());
            }
        }
        self.agent.exit().is_some()
    }

    /// Closes the agent's input, which well-behaved agents take as the end.
    pub fn close_input(&mut self) {
        self.link = None;
    }

    /// Waits for one event and handles it. Returns the awaited response if it arrived.
    async fn step(&mut self, awaited: Option<u64>, bounds: Bounds) -> Result<Option<RpcResult>, Stop> {
        let now = now();
        self.leave_out_waits(now);
        if self.is_over() {
            // The output is not read any more, however the session goes on.
            self.record.text_truncated |= self.replay_from.is_none();
            return Err(Stop::Limit(SessionLimit::Output));
        }
        let open = matches!(bounds, Bounds::Session(_));
        if open && let Some(refused) = self.refusal(now) {
            return Err(refused);
        }
        let until = self.until(bounds, now)?;
        let exited = self.agent.exit();
        if let Some(stop) = self.broken_stop(now, exited) {
            return Err(stop);
        }
        let wake = self.broken.map_or(until, |broken| broken.min(until));
        let probe = self.link.as_ref().map(|link| &link.probe);
        // An agent that sends requests but doesn't read the answers is not read either.
        let outbox = self.link.as_ref().map(|link| &link.outbox);
        let room = outbox.is_none_or(Outbox::has_room);
        tokio::select! {
            biased;
            reason = end_requested(&mut self.end), if open && self.end_sender_alive => match reason {
                Some(reason) => return Err(Stop::EndRequested(reason)),
                None => self.end_sender_alive = false,
            },
            line = self.lines.next(), if self.output_open && room => {
                let bytes = match &line {
                    Line::Text(text) => text.len(),
                    _ => 0,
                };
                let answer = by_length(bytes, || self.line(line, awaited));
                // Buffered lines give no reason to wait. A flood of them would hold this thread, on which the
                // heartbeats run that renew the lease.
                if answer.is_none() {
                    tokio::task::yield_now().await;
                }
                return Ok(answer);
            }
            () = room_in(outbox), if !room => {}
            _ = self.agent.exited(), if exited.is_none() => self.last_words(),
            () = closed(probe), if self.input_open => {
                self.input_open = false;
                self.last_words();
            }
            () = limits::disk::until_filled(&mut self.disk), if open => {}
            () = tokio::time::sleep_until(wake.into()) => {}
        }
        Ok(None)
    }

    fn until(&self, bounds: Bounds, now: Instant) -> Result<Instant, Stop> {
        let own = match bounds {
            Bounds::Until(until) if until <= now => return Err(Stop::Due),
            Bounds::Until(until) => return Ok(until),
            Bounds::Session(own) => own,
        };
        match limits::judge(&self.limits, &self.facts(), now) {
            Verdict::End(limit) => Err(Stop::Limit(limit)),
            Verdict::Go { until } if own.is_some_and(|own| own <= now) => {
                debug_assert!(until > now);
                Err(Stop::Due)
            }
            Verdict::Go { until } => {
                let sooner = [own, self.next_look].into_iter().flatten().min();
                Ok(sooner.map_or(until, |sooner| sooner.min(until)))
            }
        }
    }

    fn facts(&self) -> Facts {
        Facts {
            started: self.started,
            heard: self.heard,
            progressed: self.progressed,
            output_bytes: self.output_bytes(),
            tool_calls: self.record.tool_calls,
            disk_filled: *self.disk.borrow(),
            used_up: self.record.used_up(),
        }
    }

    /// The reason to stop if nothing more can arrive.
    fn broken_stop(&self, now: Instant, exited: Option<ExitStatus>) -> Option<Stop> {
        let over = self.broken.is_some_and(|until| until <= now);
        match exited {
            Some(exit) if over || !self.output_open => Some(Stop::Exited(exit)),
            None if over => Some(Stop::Closed {
                input: self.output_open,
            }),
            _ => None,
        }
    }

    fn last_words(&mut self) {
        self.broken.get_or_insert_with(|| now() + LAST_WORDS);
    }

    fn line(&mut self, line: Line, awaited: Option<u64>) -> Option<RpcResult> {
        match line {
            Line::Text(line) => {
                if let Some(log) = &self.record.protocol {
                    log.line(Direction::FromAgent, &line);
                }
                return self.message(&line, awaited);
            }
            Line::TooLong { bytes } => {
                let size = format!("{bytes} bytes");
                self.record
                    .note_oddity("a line that is too long to be read", &size);
            }
            Line::OverBudget => {}
            Line::End => {
                self.output_open = false;
                self.last_words();
            }
        }
        None
    }

    fn message(&mut self, line: &str, awaited: Option<u64>) -> Option<RpcResult> {
        let message = peer::parse(line);
        let steps = self.record.steps;
        if !matches!(message, Incoming::Junk) {
            self.heard = now();
        }
        match message {
            Incoming::Notification { method, params } if method == "session/update" => {
                self.record.update(params)
            }
            Incoming::Notification { params, .. } => {
                if unavailable::is_complaint(params) {
                    self.record.add_complaint(params);
                }
            }
            Incoming::Request { id, method, params } => {
                self.progressed = now();
                if method == elicitation::METHOD
                    && !self
                        .link
                        .as_ref()
                        .is_some_and(|link| link.requests.reaches_people(params))
                {
                    self.record.add_question(&elicitation::question(params));
                }
                if let Some(link) = &mut self.link
                    && let Some(group) = link.requests.serve(id, &method, params, self.record)
                {
                    self.agent.add_group(group);
                }
            }
            Incoming::Response { id, result } if id.is_some() && id == awaited => {
                let answer = result
                    .and_then(|json| serde_json::from_str(json).map_err(|_| RpcError::parse_error()))
                    .map_err(|error| bare(self.record.transcript.redactor(), error));
                return Some(answer);
            }
            Incoming::Response { .. } => self.record.note_oddity("an answer that nobody waits for", line),
            Incoming::Heavy => self
                .record
                .note_oddity("a message of more values than are read", line),
            Incoming::Junk if peer::shows_nothing(line) => {}
            Incoming::Junk => self.record.unread(line),
        }
        if self.record.steps > steps {
            self.progressed = now();
        }
        None
    }
}

/// The end of standard error, on one line.
pub(super) fn last_lines(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "it wrote nothing on standard error".to_owned();
    }
    lines[lines.len().saturating_sub(5)..].join(" | ")
}

/// The error without secrets. Redaction comes first because readers truncate the message.
fn bare(redactor: &Redactor, mut error: RpcError) -> RpcError {
    error.message = redactor.text(&error.message);
    if let Some(data) = &mut error.data {
        redactor.json(data);
    }
    error
}

/// Waits for an end request. `None` when its sender is gone.
async fn end_requested(end: &mut watch::Receiver<Option<EndReason>>) -> Option<EndReason> {
    *end.wait_for(Option::is_some).await.ok()?
}

/// Waits until another request may be opened.
async fn room_in(outbox: Option<&Outbox>) {
    if let Some(outbox) = outbox {
        outbox.room().await;
    }
}

/// Waits until the agent closes the pipe that it reads from.
async fn closed(probe: Option<&pipe::Sender>) {
    match probe {
        Some(probe) => drop(probe.ready(Interest::ERROR).await),
        None => std::future::pending().await,
    }
}
