//! The sum of a session's updates: text, tools, plan, usage. Every update also goes to the transcript.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use agent_client_protocol::v1::schema::{
    ContentChunk, Plan, SessionNotification, SessionUpdate, ToolCallStatus, ToolCallUpdate, ToolKind,
    UsageUpdate,
};
use ralph_shared::plain::plain;
use ralph_shared::wire::{AgentInfo, SessionLimit, TranscriptUpdate, Usage, Words};
use serde_json::Value;

use super::tools::Tools;
use crate::session::check;
use crate::session::limits::allowance::Allowance;
use crate::session::limits::price::Tariff;
use crate::session::limits::usage::{self, Meter};
use crate::session::protocol::capabilities::Options;
use crate::session::protocol::content::{
    TITLE_BYTES, TOOL_BYTES, json_words, name, raw_update, tool_words, words,
};
use crate::session::protocol::introduction::Introduction;
use crate::session::protocol_log::ProtocolLog;
use crate::session::tool_sigils::ToolSigils;
use crate::session::transcript::{TranscriptSender, bounded};
use crate::session::unavailable;

/// How many tool titles and how many plan entries are stored.
const REMEMBERED: usize = 20;

/// How many oddities appear in the transcript, so that junk doesn't fill it.
const MOST_ODDITIES: u32 = 10;

/// Most questions stored for one session.
const MOST_QUESTIONS: usize = 20;

const QUESTION_BYTES: usize = 1_000;

/// Most stored complaints about a provider. The newest ones stay.
const MOST_COMPLAINTS: usize = 20;

/// Longest sample of an oddity. Bytes.
const SAMPLE_BYTES: usize = 200;

/// The state of a session so far.
pub struct Record {
    pub transcript: TranscriptSender,
    /// Log of the protocol's lines, if enabled.
    pub protocol: Option<ProtocolLog>,
    /// The agent's message text, before redaction.
    pub text: String,
    /// Whether text was dropped.
    pub text_truncated: bool,
    pub tool_calls: u32,
    pub failed_tool_calls: u32,
    pub agent: AgentInfo,
    pub introduction: Introduction,
    /// Number of updates that show progress; chatter doesn't count.
    pub steps: u64,
    /// Output of the last tool call that failed.
    pub last_tool_error: Option<String>,
    session: Option<String>,
    /// Whether an earlier process began the session.
    resumed: bool,
    meter: Meter,
    /// How the session is paid for.
    tariff: Tariff,
    /// Whether the agent reported a cost in an unknown currency.
    foreign: bool,
    /// The session's share; receives its usage.
    allowance: Arc<Allowance>,
    /// Whether updates are a replay of an earlier session.
    muted: bool,
    tools: Tools,
    /// The last output of a call, in case it fails without a message.
    last_output: Option<(String, String)>,
    plan: Vec<String>,
    titles: VecDeque<String>,
    message: Option<String>,
    after_tool: bool,
    oddities: u32,
    /// Number of lines that are no messages.
    unread: u32,
    first_unread: String,
    /// Reports of provider refusals since the last progress, with their times.
    complaints: VecDeque<(Instant, String)>,
    /// Start of the correcting turn's text.
    corrected_from: Option<usize>,
    /// Start of the agent's last message, at the earliest after its last tool call.
    message_from: usize,
    /// Models and modes that the agent offered last.
    offers: (Options, Options),
    /// The agent's questions for people.
    questions: Vec<String>,
}

impl Record {
    /// An empty record for a configured agent.
    pub fn new(transcript: TranscriptSender, agent: &str) -> Self {
        Self::paid(transcript, agent, Tariff::default(), Arc::default())
    }

    /// An empty record with a tariff and an allowance.
    pub fn paid(
        transcript: TranscriptSender,
        agent: &str,
        tariff: Tariff,
        allowance: Arc<Allowance>,
    ) -> Self {
        Self {
            transcript,
            protocol: None,
            text: String::new(),
            text_truncated: false,
            tool_calls: 0,
            failed_tool_calls: 0,
            steps: 0,
            agent: AgentInfo {
                configured: agent.to_owned(),
                ..AgentInfo::default()
            },
            introduction: Introduction::default(),
            last_tool_error: None,
            session: None,
            resumed: false,
            meter: Meter::default(),
            tariff,
            foreign: false,
            allowance,
            muted: false,
            tools: Tools::default(),
            last_output: None,
            plan: Vec::new(),
            titles: VecDeque::new(),
            message: None,
            after_tool: false,
            oddities: 0,
            unread: 0,
            first_unread: String::new(),
            complaints: VecDeque::new(),
            corrected_from: None,
            message_from: 0,
            offers: Default::default(),
            questions: Vec::new(),
        }
    }

    /// Records the session's id: from here on updates of other sessions don't count.
    pub fn set_session(&mut self, session: &str) {
        self.session = Some(session.to_owned());
    }

    /// The session's id, if one is open.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// Records that the agent resumed a session of an earlier process. New text starts on its own line, and
    /// the process may count its calls from the start.
    pub fn session_resumed(&mut self) {
        self.resumed = true;
        self.tools.clear();
        self.last_output = None;
        self.message = None;
        self.after_tool = true;
    }

    /// Records the agent's models and modes. A resumed session keeps the earlier offers that the agent does
    /// not repeat.
    pub fn offered(&mut self, models: Options, modes: Options) -> (Options, Options) {
        self.offers = if self.resumed {
            (
                models.or_earlier(&self.offers.0),
                modes.or_earlier(&self.offers.1),
            )
        } else {
            (models, modes)
        };
        self.introduction.opened(&self.offers.0, &self.offers.1);
        self.offers.clone()
    }

    pub fn set_current_mode(&mut self, mode: String) {
        if let Some(session) = &mut self.introduction.session {
            session.mode = Some(mode);
        }
    }

    /// Adds the agent's question for a person.
    pub fn add_question(&mut self, question: &str) {
        if self.questions.len() < MOST_QUESTIONS {
            self.questions
                .push(self.transcript.redacted(question, QUESTION_BYTES));
        }
    }

    /// The agent's redacted message text, after the sigils of its tools.
    pub fn full_text(&self, sigils: Option<&ToolSigils>) -> String {
        let redactor = self.transcript.redactor();
        match sigils {
            Some(sigils) => redactor.words(&sigils.before(&self.text)),
            None => redactor.words(&self.text),
        }
    }

    /// Adds a person's message to the agent.
    pub fn add_words(&mut self, words: &Words) {
        self.transcript.flush();
        self.transcript.push(TranscriptUpdate::Said {
            by: words.by.clone(),
            text: words.text.clone(),
        });
    }

    pub fn questions(&self) -> &[String] {
        &self.questions
    }

    /// Starts a correcting turn: its task graph replaces earlier ones.
    pub fn begin_correction(&mut self) {
        self.settle();
        self.corrected_from = Some(self.text.len());
    }

    /// Removes the text that was corrected since [`Self::begin_correction`].
    pub fn settle(&mut self) {
        if let Some(before) = self.corrected_from.take() {
            let message_bytes = self.text.len() - self.message_from;
            check::supersede(&mut self.text, before);
            self.message_from = self.text.len().saturating_sub(message_bytes);
        }
    }

    /// Total usage of all processes. It never falls below an earlier report.
    pub fn used(&self) -> Usage {
        let model = self.agent.model.as_deref();
        self.allowance.uses(
            self.tariff
                .with_cost(self.meter.total(), self.meter.texts(), model),
        );
        self.allowance.used().0
    }

    /// The exhausted limit of the session's share, if any.
    pub fn used_up(&self) -> Option<SessionLimit> {
        self.allowance.reached()
    }

    /// Ignores updates while an earlier session is replayed.
    pub fn mute(&mut self, muted: bool) {
        if muted {
            self.meter.begin_process();
        }
        self.muted = muted;
    }

    pub fn prompted(&mut self, prompt: &str) {
        self.message_from = self.text.len();
        self.meter.prompted(prompt);
        self.used();
    }

    pub fn update(&mut self, params: &str) {
        if self.muted {
            return self.replay_update(params);
        }
        let Ok(notification) = serde_json::from_str::<SessionNotification>(params) else {
            self.note_oddity("an update of a kind that is not known", params);
            return;
        };
        if self
            .session
            .as_deref()
            .is_some_and(|session| *session != *notification.session_id.0)
        {
            self.note_oddity("an update of another session", params);
            return;
        }
        use SessionUpdate as U;
        let step = matches!(
            notification.update,
            U::AgentMessageChunk(_)
                | U::AgentThoughtChunk(_)
                | U::ToolCall(_)
                | U::ToolCallUpdate(_)
                | U::Plan(_)
        );
        let text = match &notification.update {
            U::AgentMessageChunk(chunk) | U::AgentThoughtChunk(chunk) => words(&chunk.content),
            _ if step => String::new(),
            _ => params.to_owned(),
        };
        match &notification.update {
            U::AgentMessageChunk(_) | U::AgentThoughtChunk(_) => self.meter.wrote(text.len()),
            U::ToolCall(_) | U::Plan(_) => self.meter.wrote(params.len()),
            _ => {}
        }
        if unavailable::is_complaint(&text) {
            self.add_complaint(&text);
        } else if step {
            self.steps += 1;
            self.complaints.clear();
        }
        match notification.update {
            U::AgentMessageChunk(chunk) => self.message_chunk(&chunk),
            U::AgentThoughtChunk(chunk) => self.transcript.thought(&words(&chunk.content)),
            U::ToolCall(call) => self.tool(call.into()),
            U::ToolCallUpdate(update) => self.tool(update),
            U::Plan(plan) => self.plan(&plan),
            U::UsageUpdate(update) => self.usage_update(&update),
            // The echo of the prompt, commands, modes, titles.
            other => {
                self.transcript.push(raw_update(&self.transcript, params));
                if matches!(other, U::ConfigOptionUpdate(_) | U::CurrentModeUpdate(_)) {
                    self.settings(params);
                }
            }
        }
        self.used();
    }

    /// Takes a replayed update. Only a cost in the last update counts: the agent continues counting from it.
    fn replay_update(&mut self, params: &str) {
        let Ok(notification) = serde_json::from_str::<SessionNotification>(params) else {
            return;
        };
        match notification.update {
            SessionUpdate::UsageUpdate(update) => {
                if let Some(cost) = cost(&update) {
                    self.meter.continue_from(cost);
                }
            }
            _ => self.meter.discard_replayed(),
        }
    }

    /// The kind of an announced tool call.
    pub fn tool_kind(&self, id: &str) -> Option<ToolKind> {
        self.tools.kind(&bounded(id, TITLE_BYTES))
    }

    /// Adds the usage of a response to a prompt.
    pub fn answered(&mut self, answer: &Value) {
        self.meter.add_response(usage::of_response(answer));
        let used = self.used();
        let mut text = usage::words(&used);
        if used.is_estimated() && !self.tariff.has_price(self.agent.model.as_deref()) {
            text.push_str(" (its model has no price of its own: `[prices]` can give it one)");
        }
        if !text.is_empty() {
            self.transcript.push(TranscriptUpdate::Usage { text });
        }
    }

    /// The agent's last message: in this turn, after its last tool call.
    pub fn last_message(&self) -> &str {
        self.text.get(self.message_from..).unwrap_or_default()
    }

    /// Notes something that no well-behaved agent sends. Only the first few appear in the transcript.
    pub fn note_oddity(&mut self, what: &str, sample: &str) {
        self.oddities += 1;
        if self.oddities <= MOST_ODDITIES {
            let sample = self.transcript.redacted(sample, SAMPLE_BYTES);
            self.transcript.note(format!("the agent sent {what}: {sample}"));
        }
        tracing::debug!(what, "the agent sent something odd");
    }

    /// Records a line on standard output that is no message.
    pub fn unread(&mut self, line: &str) {
        self.unread += 1;
        if self.unread == 1 {
            self.first_unread = self.transcript.redacted(line.trim(), SAMPLE_BYTES);
        }
        if unavailable::is_complaint(line) {
            self.add_complaint(line);
        }
        self.note_oddity("a line that is no message", line);
    }

    /// Description of standard output that was no message.
    pub fn unread_output(&self) -> Option<String> {
        let first = &self.first_unread;
        match self.unread {
            0 => None,
            1 => Some(format!("1 line on standard output was no message: {first}")),
            n => Some(format!(
                "{n} lines on standard output were no messages, the first: {first}"
            )),
        }
    }

    /// Records a report of a provider's refusal.
    pub fn add_complaint(&mut self, words: &str) {
        self.complaints
            .push_back((Instant::now(), bounded(&plain(words), SAMPLE_BYTES)));
        self.complaints
            .drain(..self.complaints.len().saturating_sub(MOST_COMPLAINTS));
    }

    /// Reports of provider refusals since the last progress, oldest first.
    pub fn complaints(&self) -> impl DoubleEndedIterator<Item = &(Instant, String)> {
        self.complaints.iter()
    }

    /// Whether the newest tool call is running, as far as is known.
    pub fn tool_runs(&self) -> bool {
        self.tools.newest_runs()
    }

    /// The last plan entries and tool titles, newest last (SPEC 4.3).
    pub fn attempted(&self) -> Vec<String> {
        self.plan.iter().chain(&self.titles).cloned().collect()
    }

    fn message_chunk(&mut self, chunk: &ContentChunk) {
        let mut text = words(&chunk.content);
        let message = chunk.message_id.as_ref().map(|id| bounded(&id.0, TITLE_BYTES));
        let another = message.is_some() && self.message.is_some() && message != self.message;
        if another {
            self.message_from = self.text.len();
        }
        let apart = (another || self.after_tool) && !self.text.is_empty() && !self.text.ends_with('\n');
        if apart {
            text.insert(0, '\n');
        }
        self.message = message.or(self.message.take());
        self.after_tool = false;
        self.transcript.text(&text);
        if !self.text_truncated {
            self.text.push_str(&text);
        }
    }

    fn tool(&mut self, update: ToolCallUpdate) {
        let id = bounded(&update.tool_call_id.0, TITLE_BYTES);
        let fields = update.fields;
        if self.tools.update(&id, fields.kind) {
            self.tool_calls = self.tool_calls.saturating_add(1);
            self.after_tool = true;
            self.message_from = self.text.len();
        }
        if let Some(status) = fields.status {
            let (fails, failed) = self.tools.ended(&id, status);
            let count = self.failed_tool_calls + u32::from(fails);
            self.failed_tool_calls = count.saturating_sub(u32::from(failed));
        }
        let title = fields
            .title
            .map(|title| self.transcript.redacted(&title, TITLE_BYTES));
        if let Some(title) = title.as_ref().filter(|title| self.titles.back() != Some(title)) {
            self.titles.push_back(title.clone());
            self.titles.drain(..self.titles.len().saturating_sub(REMEMBERED));
        }
        let output = fields
            .content
            .filter(|content| !content.is_empty())
            .map(|content| {
                self.transcript.redacted(
                    &content.iter().map(tool_words).collect::<Vec<_>>().join("\n"),
                    TOOL_BYTES,
                )
            })
            .or_else(|| {
                fields
                    .raw_output
                    .as_ref()
                    .map(|output| self.transcript.redacted(&json_words(output), TOOL_BYTES))
            });
        if let Some(output) = &output {
            self.last_output = Some((id.clone(), output.clone()));
        }
        if fields.status == Some(ToolCallStatus::Failed) {
            let shown = self
                .last_output
                .take()
                .filter(|(of, _)| *of == id)
                .map(|(_, output)| output);
            self.last_tool_error = shown.or_else(|| title.clone());
        }
        self.transcript.push(TranscriptUpdate::Tool {
            id,
            title,
            status: fields.status.map(|status| name(&status)),
            input: fields
                .raw_input
                .as_ref()
                .map(|input| self.transcript.redacted(&input.to_string(), TOOL_BYTES)),
            output,
        });
    }

    fn plan(&mut self, plan: &Plan) {
        let entries: Vec<String> = plan
            .entries
            .iter()
            .map(|entry| {
                self.transcript.redacted(
                    &format!("{}: {}", name(&entry.status), entry.content),
                    TITLE_BYTES,
                )
            })
            .collect();
        self.plan = entries[entries.len().saturating_sub(REMEMBERED)..].to_vec();
        self.transcript.push(TranscriptUpdate::Plan {
            entries: self.plan.clone(),
        });
    }

    /// Records a changed model or mode.
    fn settings(&mut self, params: &str) {
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        let update = &params["update"];
        if let Some(model) = Options::models(update).current() {
            self.agent.model = Some(bounded(model, TITLE_BYTES));
        }
        let modes = Options::modes(update);
        if let Some(mode) = modes.current().or(update["currentModeId"].as_str()) {
            self.set_current_mode(bounded(mode, TITLE_BYTES));
        }
    }

    fn usage_update(&mut self, update: &UsageUpdate) {
        self.meter.context(update.used);
        if let Some(cost) = cost(update) {
            self.meter.update(cost);
        }
        let cost = update.cost.as_ref();
        if let Some(cost) = cost.filter(|cost| !cost.currency.eq_ignore_ascii_case("usd") && !self.foreign) {
            self.foreign = true;
            self.transcript.note(format!(
                "the agent reports its cost in {}, not in USD: its tokens and the model's price count instead",
                bounded(&plain(&cost.currency), SAMPLE_BYTES)
            ));
        }
        let cost = cost.map_or(String::new(), |cost| {
            format!(", {:.4} {}", cost.amount, cost.currency)
        });
        self.transcript.push(TranscriptUpdate::Usage {
            text: format!("context {} of {} tokens{cost}", update.used, update.size),
        });
    }
}

/// The cost in an update, if it is in US dollars.
fn cost(update: &UsageUpdate) -> Option<f64> {
    let cost = update.cost.as_ref()?;
    usage::dollars(cost.amount, &cost.currency)
}

#[cfg(test)]
mod tests;
