//! One prompt turn: parses the script, runs it step by step, and reports the end of the turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentChunk, Meta, PromptResponse, SessionNotification, SessionUpdate, StopReason, Usage as TurnUsage,
};
use agent_client_protocol::{Client, Error};
use ralph_shared::kind::SessionKind;
use serde_json::Value;

use super::assignment::Assignment;
use super::connection::Agent;
use super::parse::parse;
use super::script::{Action, Facts};
use super::session::Session;

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) agent: Arc<Agent>,
    pub(super) session: Arc<Session>,
    pub(super) cx: ConnectionTo<Client>,
    pub(super) prompt: String,
    /// The `_meta` field of the prompt.
    pub(super) meta: Meta,
    tool_calls: AtomicU32,
}

/// Effect of an action on the turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Flow {
    /// Continue with the next action.
    On,
    /// End the turn with this stop reason, which the protocol may not know.
    Stop(String),
}

#[derive(Debug)]
pub(super) enum Answer {
    Known(PromptResponse),
    /// With a stop reason that the protocol doesn't know.
    Unknown(Value),
}

impl Flow {
    pub(super) fn end_turn() -> Self {
        Self::Stop("end_turn".to_owned())
    }
}

impl Turn {
    pub(super) fn new(
        agent: Arc<Agent>,
        session: Arc<Session>,
        cx: ConnectionTo<Client>,
        prompt: String,
        meta: Meta,
    ) -> Self {
        Self {
            agent,
            session,
            cx,
            prompt,
            meta,
            tool_calls: AtomicU32::new(0),
        }
    }

    /// Runs the script and returns the response to the prompt.
    ///
    /// # Errors
    /// The error response: the script is invalid, or requests an error.
    pub(super) async fn run(&self) -> Result<Answer, Error> {
        let assignment = Assignment::read(&self.prompt);
        let own = self.agent.environment.script.as_deref().unwrap_or_default();
        let description = self.session.assigned(assignment.description);
        // A prompt indents the description and defuses its sigils; this restores the author's text.
        let is_indented = |line: &str| line.trim().is_empty() || line.starts_with("    ");
        let by = if description.lines().all(is_indented) {
            "    "
        } else {
            ""
        };
        let lines = description
            .lines()
            .map(|line| line.strip_prefix(by).unwrap_or(line));
        let description = lines.collect::<Vec<_>>().join("\n");
        let description = description.replace('‹', "<").replace('∶', ":");
        let script = parse(&format!("{own}\n{description}")).map_err(|errors| {
            let reasons: Vec<_> = errors.iter().map(ToString::to_string).collect();
            Error::invalid_params().data(reasons.join("; "))
        })?;
        let environment = &self.agent.environment;
        let facts = Facts {
            attempt: environment.attempt,
            kind: self.kind(),
            elsewhere: &assignment.elsewhere,
        };
        self.session
            .note(&SessionUpdate::UserMessageChunk(ContentChunk::new(
                self.prompt.clone().into(),
            )));
        let actions: Vec<&Action> = script.applicable(facts).collect();
        let mut stop = None;
        let before = if assignment.description.trim().is_empty() {
            self.session.started()
        } else {
            0
        };
        for (at, action) in actions.iter().enumerate().skip(before) {
            self.session
                .record_started(at + 1)
                .map_err(Error::into_internal_error)?;
            let flow = tokio::select! {
                biased;
                () = self.session.cancelled() => Flow::Stop("cancelled".to_owned()),
                flow = self.act(action) => flow?,
            };
            if let Flow::Stop(reason) = flow {
                stop = Some(reason);
                break;
            }
        }
        self.session
            .record_started(0)
            .map_err(Error::into_internal_error)?;
        if stop.is_none() {
            self.close(actions.is_empty())?;
        }
        self.answer(stop.as_deref().unwrap_or("end_turn"))
    }

    /// Final message after a script that didn't end the turn itself.
    fn close(&self, had_no_script: bool) -> Result<(), Error> {
        match self.kind() {
            SessionKind::Verify => self.say("<verify-pass/>\n"),
            SessionKind::Review => self.say("<review-pass/>\n"),
            _ if had_no_script => self.say("I found nothing to do.\n"),
            _ => Ok(()),
        }
    }

    fn answer(&self, stop_reason: &str) -> Result<Answer, Error> {
        let usage = self.session.spent().map(|spent| {
            let total_tokens = spent.input_tokens + spent.output_tokens;
            TurnUsage::new(total_tokens, spent.input_tokens, spent.output_tokens)
        });
        let mut answer = serde_json::to_value(PromptResponse::new(StopReason::EndTurn).usage(usage))?;
        answer["stopReason"] = stop_reason.into();
        Ok(serde_json::from_value(answer.clone()).map_or(Answer::Unknown(answer), Answer::Known))
    }

    /// The session's kind: from the environment, else by the prompt.
    pub(super) fn kind(&self) -> SessionKind {
        self.agent
            .environment
            .kind
            .unwrap_or_else(|| Assignment::read(&self.prompt).asks_for)
    }

    /// The assigned task's id: from the prompt, else from the environment.
    pub(super) fn task_id(&self) -> Result<&str, Error> {
        (Assignment::read(&self.prompt).id)
            .or(self.agent.environment.task.as_deref())
            .ok_or_else(|| {
                Error::invalid_params().data("neither the prompt nor RALPH_TASK names the assigned task")
            })
    }

    pub(super) fn update(&self, update: SessionUpdate) -> Result<(), Error> {
        self.session.note(&update);
        self.cx
            .send_notification(SessionNotification::new(self.session.id.clone(), update))
    }

    pub(super) fn say(&self, text: impl Into<String>) -> Result<(), Error> {
        self.update(SessionUpdate::AgentMessageChunk(ContentChunk::new(
            text.into().into(),
        )))
    }

    /// An id that is unique among tool calls of this turn.
    pub(super) fn next_tool_call(&self) -> String {
        format!("call-{}", self.tool_calls.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
