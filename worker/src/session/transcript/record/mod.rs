//! What a session's updates add up to: the text, the tools, the plan, the usage. Everything also goes into the
//! transcript.

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

/// How many tool titles and how many plan entries are remembered.
const REMEMBERED: usize = 20;

/// How many oddities are noted in the transcript, so that junk doesn't fill it.
const MOST_ODDITIES: u32 = 10;

/// Questions of one session that are kept.
const MOST_QUESTIONS: usize = 20;

/// Longest of them. Bytes.
const QUESTION_BYTES: usize = 1_000;

/// Most complaints about a provider that are kept, the newest.
const MOST_COMPLAINTS: usize = 20;

/// Longest sample of an oddity. Bytes.
const SAMPLE_BYTES: usize = 200;

/// A session so far.
pub struct Record {
    /// Where everything is shown.
    pub transcript: TranscriptSender,
    /// Where the protocol's lines are written, if they are.
    pub protocol: Option<ProtocolLog>,
    /// The agent's message text, not redacted yet.
    pub text: String,
    /// Whether text was left out.
    pub text_truncated: bool,
    /// How many tools were called.
    pub tool_calls: u32,
    /// How many of these calls failed.
    pub failed_tool_calls: u32,
    /// What is known of the agent.
    pub agent: AgentInfo,
    /// What it said of itself.
    pub introduction: Introduction,
    /// How many updates got the agent on; chatter doesn't count.
    pub steps: u64,
    /// Output of the last tool call that failed.
    pub last_tool_error: Option<String>,
    session: Option<String>,
    /// Whether it was begun by an earlier process.
    resumed: bool,
    /// What was used.
    meter: Meter,
    /// How it is paid.
    tariff: Tariff,
    /// Whether it told a cost in a currency that isn't known.
    foreign: bool,
    /// Who is told what was used, and knows what may be.
    allowance: Arc<Allowance>,
    /// Whether updates tell an earlier session again.
    muted: bool,
    tools: Tools,
    /// The last output that a call showed, in case it fails without a word.
    last_output: Option<(String, String)>,
    plan: Vec<String>,
    titles: VecDeque<String>,
    message: Option<String>,
    after_tool: bool,
    oddities: u32,
    /// Lines that are no messages, and the first of them.
    unread: u32,
    first_unread: String,
    /// What the agent told of its provider's refusals since it last got on, and when.
    complaints: VecDeque<(Instant, String)>,
    /// Where the text of the turn begins that is to correct what was said before.
    corrected_from: Option<usize>,
    /// Where the text of the agent's last message begins: after the last tool call at least.
    message_from: usize,
    /// What the agent offered last: models and modes.
    offers: (Options, Options),
    /// What the agent asked of a person.
    questions: Vec<String>,
}

impl Record {
    /// An empty one, for an agent of the configuration.
    pub fn new(transcript: TranscriptSender, agent: &str) -> Self {
        Self::paid(transcript, agent, Tariff::default(), Arc::default())
    }

    /// The same of a session that is paid in this way, and may use no more than it is allowed.
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

    /// From here on only this session's updates count.
    pub fn session_began(&mut self, session: &str) {
        self.session = Some(session.to_owned());
    }

    /// The session's id, once there is one.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Whether an earlier process began the session.
    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// The agent took up a session that an earlier process began. What comes now stands on lines of its own, and the
    /// process may count its calls from the start.
    pub fn session_resumed(&mut self) {
        self.resumed = true;
        self.tools.clear();
        self.last_output = None;
        self.message = None;
        self.after_tool = true;
    }

    /// Takes the models and modes that the agent offers. A session that an earlier process began is offered what was, where
    /// the agent does not say it again.
    pub fn offered(&mut self, models: Options, modes: Options) -> (Options, Options) {
        self.offers = if self.resumed {
            (models.or_again(&self.offers.0), modes.or_again(&self.offers.1))
        } else {
            (models, modes)
        };
        self.introduction.opened(&self.offers.0, &self.offers.1);
        self.offers.clone()
    }

    /// The mode that is in use.
    pub fn mode_is(&mut self, mode: String) {
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

    /// The agent's message text without secrets, after the sigils of its tools.
    pub fn full_text(&self, left: Option<&ToolSigils>) -> String {
        let redactor = self.transcript.redactor();
        match left {
            Some(left) => redactor.words(&left.before(&self.text)),
            None => redactor.words(&self.text),
        }
    }

    /// Adds a person's words to the agent.
    pub fn add_words(&mut self, words: &Words) {
        self.transcript.flush();
        self.transcript.push(TranscriptUpdate::Said {
            by: words.by.clone(),
            text: words.text.clone(),
        });
    }

    /// What it asked, in its order.
    pub fn questions(&self) -> &[String] {
        &self.questions
    }

    /// From here on the agent corrects what it said: a task graph takes the place of those before it.
    pub fn correction_begins(&mut self) {
        self.settle();
        self.corrected_from = Some(self.text.len());
    }

    /// Leaves behind what was corrected since [`Self::correction_begins`].
    pub fn settle(&mut self) {
        if let Some(before) = self.corrected_from.take() {
            let message_bytes = self.text.len() - self.message_from;
            check::supersede(&mut self.text, before);
            self.message_from = self.text.len().saturating_sub(message_bytes);
        }
    }

    /// What was used, by all processes. It is never less than what was told before.
    pub fn used(&self) -> Usage {
        let model = self.agent.model.as_deref();
        self.allowance.uses(
            self.tariff
                .with_cost(self.meter.total(), self.meter.texts(), model),
        );
        self.allowance.used().0
    }

    /// What of the session's share of the run's limits is used up.
    pub fn used_up(&self) -> Option<SessionLimit> {
        self.allowance.reached()
    }

    /// Updates that tell an earlier session again are no part of this one.
    pub fn mute(&mut self, muted: bool) {
        if muted {
            self.meter.process_begins();
        }
        self.muted = muted;
    }

    /// The agent is given a prompt.
    pub fn prompted(&mut self, prompt: &str) {
        self.message_from = self.text.len();
        self.meter.prompted(prompt);
        self.used();
    }

    /// Takes the parameters of a `session/update`.
    pub fn update(&mut self, params: &str) {
        if self.muted {
            return self.replay_update(params);
        }
        let Ok(notification) = serde_json::from_str::<SessionNotification>(params) else {
            self.odd("an update of a kind that is not known", params);
            return;
        };
        if self
            .session
            .as_deref()
            .is_some_and(|session| *session != *notification.session_id.0)
        {
            self.odd("an update of another session", params);
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
            self.complained(&text);
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
            // The prompt's echo, commands, modes, titles.
            other => {
                self.transcript.push(raw_update(&self.transcript, params));
                if matches!(other, U::ConfigOptionUpdate(_) | U::CurrentModeUpdate(_)) {
                    self.settings(params);
                }
            }
        }
        self.used();
    }

    /// Takes an update of an earlier session. Of all that, only the cost counts, where it is told last: it is what the
    /// agent counts on from.
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

    /// The kind of a tool call that was announced before.
    pub fn tool_kind(&self, id: &str) -> Option<ToolKind> {
        self.tools.kind(&bounded(id, TITLE_BYTES))
    }

    /// Usage from the answer to the prompt.
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

    /// What the agent said last: in this turn, and after its last tool call.
    pub fn last_message(&self) -> &str {
        self.text.get(self.message_from..).unwrap_or_default()
    }

    /// Notes something that no well-behaved agent sends; only the first few are shown.
    pub fn odd(&mut self, what: &str, sample: &str) {
        self.oddities += 1;
        if self.oddities <= MOST_ODDITIES {
            let sample = self.transcript.redacted(sample, SAMPLE_BYTES);
            self.transcript.note(format!("the agent sent {what}: {sample}"));
        }
        tracing::debug!(what, "the agent sent something odd");
    }

    /// Takes a line on standard output that is no message.
    pub fn unread(&mut self, line: &str) {
        self.unread += 1;
        if self.unread == 1 {
            self.first_unread = self.transcript.redacted(line.trim(), SAMPLE_BYTES);
        }
        if unavailable::is_complaint(line) {
            self.complained(line);
        }
        self.odd("a line that is no message", line);
    }

    /// What of standard output was no message, in words.
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

    /// Notes that the agent tells of its provider's refusal.
    pub fn complained(&mut self, words: &str) {
        self.complaints
            .push_back((Instant::now(), bounded(&plain(words), SAMPLE_BYTES)));
        self.complaints
            .drain(..self.complaints.len().saturating_sub(MOST_COMPLAINTS));
    }

    /// What it told of that since it last got on, and when, oldest first.
    pub fn complaints(&self) -> impl DoubleEndedIterator<Item = &(Instant, String)> {
        self.complaints.iter()
    }

    /// Whether the newest tool call runs, as far as is known.
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

    /// What the agent says is set now.
    fn settings(&mut self, params: &str) {
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        let update = &params["update"];
        if let Some(model) = Options::models(update).current() {
            self.agent.model = Some(bounded(model, TITLE_BYTES));
        }
        let modes = Options::modes(update);
        if let Some(mode) = modes.current().or(update["currentModeId"].as_str()) {
            self.mode_is(bounded(mode, TITLE_BYTES));
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
                "the agent tells its cost in {}, not in USD: it counts by tokens and the model's price",
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

/// The cost that an update tells, if it is in US dollars.
fn cost(update: &UsageUpdate) -> Option<f64> {
    let cost = update.cost.as_ref()?;
    usage::dollars(cost.amount, &cost.currency)
}

#[cfg(test)]
mod tests;
