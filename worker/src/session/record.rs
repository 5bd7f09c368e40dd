//! What a session's updates add up to: the text, the tools, the plan, the usage. Everything also goes into the
//! transcript.

use std::collections::VecDeque;

use agent_client_protocol::v1::schema::{
    ContentChunk, Plan, SessionNotification, SessionUpdate, ToolCallStatus, ToolCallUpdate, ToolKind,
    UsageUpdate,
};
use ralph_shared::wire::{AgentInfo, TranscriptUpdate, Usage};
use serde_json::Value;

use super::content::{TITLE_BYTES, TOOL_BYTES, json_words, name, told, tool_words, words};
use super::introduction::Introduction;
use super::tools::Tools;
use super::transcript::{TranscriptSender, bounded};
use super::usage;

/// How many tool titles and how many plan entries are remembered.
const REMEMBERED: usize = 20;

/// How many oddities are noted in the transcript, so that junk doesn't fill it.
const MOST_ODDITIES: u32 = 10;

/// Longest sample of an oddity. Bytes.
const SAMPLE_BYTES: usize = 200;

/// A session so far.
pub struct Record {
    /// Where everything is shown.
    pub transcript: TranscriptSender,
    /// The agent's message text, not redacted yet.
    pub text: String,
    /// Whether text was left out.
    pub text_truncated: bool,
    /// What was used.
    pub usage: Usage,
    /// How many tools were called.
    pub tool_calls: u32,
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
    /// What processes before this one used.
    used_before: Usage,
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
}

impl Record {
    /// An empty one, for an agent of the configuration.
    pub fn new(transcript: TranscriptSender, agent: &str) -> Self {
        Self {
            transcript,
            text: String::new(),
            text_truncated: false,
            usage: Usage::default(),
            tool_calls: 0,
            steps: 0,
            agent: AgentInfo {
                configured: agent.to_owned(),
                ..AgentInfo::default()
            },
            introduction: Introduction::default(),
            last_tool_error: None,
            session: None,
            resumed: false,
            used_before: Usage::default(),
            muted: false,
            tools: Tools::default(),
            last_output: None,
            plan: Vec::new(),
            titles: VecDeque::new(),
            message: None,
            after_tool: false,
            oddities: 0,
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
    /// process may count its calls and its tokens from the start.
    pub fn session_resumed(&mut self) {
        self.resumed = true;
        self.used_before = std::mem::take(&mut self.usage);
        self.tools.clear();
        self.last_output = None;
        self.message = None;
        self.after_tool = true;
    }

    /// What was used, by all processes.
    pub fn used(&self) -> Usage {
        usage::add_up(&self.used_before, &self.usage)
    }

    /// Updates that tell an earlier session again are no part of this one.
    pub fn mute(&mut self, muted: bool) {
        self.muted = muted;
    }

    /// Takes the parameters of a `session/update`.
    pub fn update(&mut self, params: &str) {
        if self.muted {
            return;
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
        self.steps += u64::from(step);
        match notification.update {
            U::AgentMessageChunk(chunk) => self.message_chunk(&chunk),
            U::AgentThoughtChunk(chunk) => self.transcript.thought(&words(&chunk.content)),
            U::ToolCall(call) => self.tool(call.into()),
            U::ToolCallUpdate(update) => self.tool(update),
            U::Plan(plan) => self.plan(&plan),
            U::UsageUpdate(update) => self.usage_update(&update),
            // The prompt's echo, commands, modes, titles.
            _ => self.transcript.push(told(params)),
        }
    }

    /// The kind of a tool call that was announced before.
    pub fn tool_kind(&self, id: &str) -> Option<ToolKind> {
        self.tools.kind(&bounded(id, TITLE_BYTES))
    }

    /// Usage from the answer to the prompt.
    pub fn answered(&mut self, answer: &Value) {
        usage::merge(&mut self.usage, usage::of_answer(answer));
        let text = usage::words(&self.usage);
        if !text.is_empty() {
            self.transcript.push(TranscriptUpdate::Usage { text });
        }
    }

    /// Notes something that no well-behaved agent sends; only the first few are shown.
    pub fn odd(&mut self, what: &str, sample: &str) {
        self.oddities += 1;
        if self.oddities <= MOST_ODDITIES {
            let sample = bounded(sample, SAMPLE_BYTES);
            self.transcript.note(format!("the agent sent {what}: {sample}"));
        }
        tracing::debug!(what, "the agent sent something odd");
    }

    /// The last plan entries and tool titles, newest last (SPEC 4.3).
    pub fn attempted(&self) -> Vec<String> {
        self.plan.iter().chain(&self.titles).cloned().collect()
    }

    fn message_chunk(&mut self, chunk: &ContentChunk) {
        let mut text = words(&chunk.content);
        let message = chunk.message_id.as_ref().map(|id| bounded(&id.0, TITLE_BYTES));
        let another = message.is_some() && self.message.is_some() && message != self.message;
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
        if self.tools.told(&id, fields.kind) {
            self.tool_calls = self.tool_calls.saturating_add(1);
            self.after_tool = true;
        }
        let title = fields.title.map(|title| bounded(&title, TITLE_BYTES));
        if let Some(title) = title.as_ref().filter(|title| self.titles.back() != Some(title)) {
            self.titles.push_back(title.clone());
            self.titles.drain(..self.titles.len().saturating_sub(REMEMBERED));
        }
        let output = fields
            .content
            .filter(|content| !content.is_empty())
            .map(|content| {
                bounded(
                    &content.iter().map(tool_words).collect::<Vec<_>>().join("\n"),
                    TOOL_BYTES,
                )
            })
            .or_else(|| {
                fields
                    .raw_output
                    .as_ref()
                    .map(|output| bounded(&json_words(output), TOOL_BYTES))
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
                .map(|input| bounded(&input.to_string(), TOOL_BYTES)),
            output,
        });
    }

    fn plan(&mut self, plan: &Plan) {
        let entries: Vec<String> = plan
            .entries
            .iter()
            .map(|entry| {
                bounded(
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

    fn usage_update(&mut self, update: &UsageUpdate) {
        let cost = update.cost.as_ref();
        let newer = Usage {
            cost_usd: cost.and_then(|cost| usage::dollars(cost.amount, &cost.currency)),
            ..Usage::default()
        };
        usage::merge(&mut self.usage, newer);
        let cost = cost.map_or(String::new(), |cost| {
            format!(", {:.4} {}", cost.amount, cost.currency)
        });
        self.transcript.push(TranscriptUpdate::Usage {
            text: format!("context {} of {} tokens{cost}", update.used, update.size),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::redact::Redactor;
    use super::super::transcript::channel;
    use super::*;
    use serde_json::json;

    fn record(updates: &[Value]) -> Record {
        let (transcript, _) = channel(Redactor::new([]));
        let mut record = Record::new(transcript, "a");
        record.session_began("s");
        for update in updates {
            record.update(&json!({ "sessionId": "s", "update": update }).to_string());
        }
        record
    }

    fn chunk(kind: &str, text: &str) -> Value {
        json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
    }

    fn tool(id: &str, more: Value) -> Value {
        let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id });
        update
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        update
    }

    #[test]
    fn only_message_text_counts_and_chunks_are_joined() {
        let record = record(&[
            chunk("user_message_chunk", "<task-done>t-1</task-done>"),
            chunk("agent_thought_chunk", "hm"),
            chunk("agent_message_chunk", "<task-"),
            json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 }),
            json!({ "sessionUpdate": "from_the_future" }),
            chunk("agent_message_chunk", "done>"),
        ]);
        assert_eq!(record.text, "<task-done>");
    }

    #[test]
    fn messages_around_a_tool_call_stand_on_lines_of_their_own() {
        let record = record(&[
            chunk("agent_message_chunk", "I look."),
            tool("1", json!({ "title": "Read a" })),
            tool("1", json!({ "status": "completed" })),
            chunk("agent_message_chunk", "FAILURE_REASON: "),
            tool("1", json!({})),
            chunk("agent_message_chunk", "none"),
        ]);
        assert_eq!(record.text, "I look.\nFAILURE_REASON: none");
        assert_eq!(record.tool_calls, 1);
    }

    #[test]
    fn updates_of_other_sessions_do_not_count() {
        let mut record = record(&[]);
        record.update(&json!({ "sessionId": "x", "update": chunk("agent_message_chunk", "no") }).to_string());
        assert_eq!(record.text, "");
    }

    #[test]
    fn failed_tool_calls_leave_their_output() {
        let failed = record(&[
            tool("1", json!({ "title": "Run tests", "kind": "execute" })),
            tool(
                "1",
                json!({ "content": [{ "type": "content", "content": { "type": "text", "text": "E1" } }] }),
            ),
            tool("1", json!({ "status": "failed" })),
            tool(
                "2",
                json!({ "title": "Edit", "status": "completed", "rawOutput": { "a": 1 } }),
            ),
        ]);
        assert_eq!(failed.last_tool_error.as_deref(), Some("E1"));
        assert_eq!(failed.tool_kind("1"), Some(ToolKind::Execute));
        assert_eq!(failed.attempted(), ["Run tests", "Edit"]);
        let silent = record(&[tool("1", json!({ "title": "Run", "status": "failed" }))]);
        assert_eq!(silent.last_tool_error.as_deref(), Some("Run"));
    }

    #[test]
    fn updates_of_every_kind_are_in_the_transcript() {
        use agent_client_protocol::v1::schema::SessionUpdate as U;
        let rows = [
            (chunk("user_message_chunk", "an echo"), "an echo"),
            (chunk("agent_message_chunk", "a word"), "a word"),
            (chunk("agent_thought_chunk", "a thought"), "a thought"),
            (
                json!({ "sessionUpdate": "tool_call", "toolCallId": "1", "title": "a tool", "rawInput": { "x": 1 } }),
                "a tool",
            ),
            (tool("1", json!({ "rawOutput": "a result" })), "a result"),
            (
                json!({ "sessionUpdate": "plan", "entries": [{ "content": "a plan", "priority": "low", "status": "pending" }] }),
                "a plan",
            ),
            (
                json!({ "sessionUpdate": "available_commands_update",
                        "availableCommands": [{ "name": "go", "description": "a command" }] }),
                "a command",
            ),
            (
                json!({ "sessionUpdate": "current_mode_update", "currentModeId": "a-mode" }),
                "a-mode",
            ),
            (
                json!({ "sessionUpdate": "config_option_update", "configOptions": [
                    { "id": "an-option", "name": "n", "type": "select", "currentValue": "v", "options": [] }] }),
                "an-option",
            ),
            (
                json!({ "sessionUpdate": "session_info_update", "title": "a title" }),
                "a title",
            ),
            (
                json!({ "sessionUpdate": "usage_update", "used": 41, "size": 42 }),
                "41 of 42",
            ),
            (
                json!({ "sessionUpdate": "from_the_future", "said": "a surprise" }),
                "a surprise",
            ),
        ];
        for (update, shown) in rows {
            let known = serde_json::from_value::<U>(update.clone()).is_ok();
            let (transcript, mut receiver) = channel(Redactor::new([]));
            let mut record = Record::new(transcript.clone(), "a");
            record.update(&json!({ "sessionId": "s", "update": update }).to_string());
            transcript.flush();
            let entries = serde_json::to_string(&receiver.take()).unwrap();
            assert!(entries.contains(shown), "{update} in {entries}");
            let odd = entries.contains("a kind that is not known");
            assert_eq!(odd, !known, "{entries}");
            assert_eq!(odd, shown == "a surprise", "{entries}");
        }
    }

    #[test]
    fn cost_is_the_newest_sum_and_other_currencies_are_unknown() {
        let usage = |amount: f64, currency: &str| {
            json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2,
                    "cost": { "amount": amount, "currency": currency } })
        };
        let both = record(&[usage(0.5, "USD"), usage(0.75, "USD"), usage(9.0, "EUR")]);
        assert_eq!(both.usage.cost_usd, Some(0.75));
    }
}
