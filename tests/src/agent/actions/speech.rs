//! Messages, thoughts and updates of the agent.

use std::time::Duration;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    ContentChunk, Cost, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionNotification,
    SessionUpdate, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, UsageUpdate,
};
use ralph_shared::kind::SessionKind;
use serde_json::Value;

use super::super::session::Usage;
use super::super::turn::{Flow, Turn};

const CONTEXT_WINDOW_TOKENS: u64 = 200_000;
const FLOOD_CHUNK_BYTES: usize = 32 << 10;
/// Chunks of a flood that may wait in memory: 1 MiB.
const FLOOD_CHUNKS_WAITING: usize = 32;

/// Updates of a stream that may wait in memory.
const STREAM_WAITING: usize = 256;

impl Turn {
    pub(super) fn say_line(&self, text: &str) -> Result<(), Error> {
        self.say(format!("{}\n", self.filled(text)?))
    }

    /// Sends a message after a delay, even if the turn has ended.
    pub(super) fn say_late(&self, time: Duration, text: &str) -> Result<(), Error> {
        let text = format!("{}\n", self.filled(text)?);
        let update = SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()));
        let late = SessionNotification::new(self.session.id.clone(), update);
        let cx = self.cx.clone();
        self.cx.spawn(async move {
            tokio::time::sleep(time).await;
            cx.send_notification(late)
        })
    }

    pub(super) fn split(&self, text: &str) -> Result<(), Error> {
        format!("{}\n", self.filled(text)?)
            .chars()
            .try_for_each(|character| self.say(character.to_string()))
    }

    /// The text with the assigned task's id in place of `{id}`.
    fn filled(&self, text: &str) -> Result<String, Error> {
        if text.contains("{id}") {
            Ok(text.replace("{id}", self.task_id()?))
        } else {
            Ok(text.to_owned())
        }
    }

    pub(super) fn think(&self, text: &str) -> Result<(), Error> {
        self.update(SessionUpdate::AgentThoughtChunk(ContentChunk::new(
            format!("{text}\n").into(),
        )))
    }

    pub(super) fn plan(&self, entries: &[String]) -> Result<(), Error> {
        let entries = entries.iter().map(|entry| {
            let (status, content) = match entry.strip_prefix('+') {
                Some(content) => (PlanEntryStatus::Completed, content),
                None => match entry.strip_prefix('>') {
                    Some(content) => (PlanEntryStatus::InProgress, content),
                    None => (PlanEntryStatus::Pending, entry.as_str()),
                },
            };
            PlanEntry::new(content, PlanEntryPriority::Medium, status)
        });
        self.update(SessionUpdate::Plan(Plan::new(entries.collect())))
    }

    pub(super) fn usage(&self, input_tokens: u64, output_tokens: u64, cost_usd: f64) -> Result<(), Error> {
        let spent = self.session.spend(Usage {
            input_tokens,
            output_tokens,
            cost_usd,
        });
        let used = UsageUpdate::new(spent.input_tokens + spent.output_tokens, CONTEXT_WINDOW_TOKENS);
        self.update(SessionUpdate::UsageUpdate(
            used.cost(Cost::new(spent.cost_usd, "USD")),
        ))
    }

    pub(super) fn tell_model(&self) -> Result<(), Error> {
        let environment = self.agent.environment.model.as_deref().unwrap_or("-");
        self.say(format!(
            "model {}, environment {environment}\n",
            self.session.model()
        ))
    }

    pub(super) fn tell_meta(&self) -> Result<(), Error> {
        self.say(format!("meta {}\n", Value::from(self.meta.clone())))
    }

    pub(super) fn echo_prompt(&self) -> Result<(), Error> {
        self.update(SessionUpdate::UserMessageChunk(ContentChunk::new(
            self.prompt.clone().into(),
        )))
    }

    /// Waits for the reader at intervals, so that the flood is not held in memory.
    pub(super) async fn flood(&self, character: char, size_bytes: usize) -> Result<(), Error> {
        let mut remaining_bytes = size_bytes;
        let mut chunks = 0_usize;
        while remaining_bytes > 0 {
            let chunk_bytes = remaining_bytes.min(FLOOD_CHUNK_BYTES);
            self.say(character.to_string().repeat(chunk_bytes))?;
            remaining_bytes -= chunk_bytes;
            chunks += 1;
            if chunks.is_multiple_of(FLOOD_CHUNKS_WAITING) {
                self.agent.stdout.written(&self.cx).await?;
            }
        }
        Ok(())
    }

    /// Numbered updates of four kinds in turn, so that the reader can count them. Waits for the reader like
    /// a flood.
    pub(super) async fn stream(&self, count: usize) -> Result<(), Error> {
        let call = self.next_tool_call();
        for number in 0..count {
            let text = format!("{number}\n");
            match number % 4 {
                0 => self.say(text)?,
                1 => self.update(SessionUpdate::AgentThoughtChunk(ContentChunk::new(text.into())))?,
                2 => self.plan(&[number.to_string()])?,
                _ => {
                    let fields = ToolCallUpdateFields::new()
                        .status(ToolCallStatus::InProgress)
                        .content(vec![text.into()]);
                    self.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(
                        call.clone(),
                        fields,
                    )))?;
                }
            }
            if number.is_multiple_of(STREAM_WAITING) {
                self.agent.stdout.written(&self.cx).await?;
            }
        }
        Ok(())
    }

    pub(super) fn tool_update_only(&self) -> Result<(), Error> {
        let fields = ToolCallUpdateFields::new()
            .status(ToolCallStatus::Completed)
            .content(vec!["done".into()]);
        self.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(
            self.next_tool_call(),
            fields,
        )))
    }

    pub(super) fn done(&self, id: Option<&str>) -> Result<(), Error> {
        let id = id.map_or_else(|| self.task_id(), Ok)?;
        self.say(format!("<task-done>{id}</task-done>\n"))
    }

    /// Reports failure, in the form of the session's kind (SPEC 4.1).
    pub(super) fn fail(&self, tried: &str, why: &str) -> Result<Flow, Error> {
        let why = why.trim_end();
        if self.kind() == SessionKind::Verify {
            self.say(format!("<verify-fail>{tried}: {why}</verify-fail>\n"))?;
        } else {
            let id = self.task_id()?;
            let report = format!(
                "what_tried: {tried}\nwhy_failed: {why}\nerror_category: {}",
                category(why)
            );
            self.say(format!(
                "<task-failed>{id}</task-failed>\n<failure-report>\n{report}\n</failure-report>\n"
            ))?;
        }
        Ok(Flow::end_turn())
    }
}

/// The category of a failure report; recognizes only the words of test failures.
fn category(why: &str) -> &'static str {
    if why.contains("FAILED") || why.contains("AssertionError") {
        "test_failure"
    } else {
        "unknown"
    }
}
