//! A tool call as the client sees it: begun, then ended with what it gave.

use std::path::Path;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    SessionUpdate, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;

use super::super::turn::Turn;

/// A tool call that was told of and runs.
#[derive(Debug)]
pub(super) struct Tool<'t> {
    turn: &'t Turn,
    id: String,
}

impl Turn {
    /// Tells of a tool call that begins.
    pub(super) fn begin_tool(
        &self,
        title: &str,
        kind: ToolKind,
        file: Option<&Path>,
        input: Value,
    ) -> Result<Tool<'_>, Error> {
        let id = self.next_tool_call();
        let locations = file.map(|path| ToolCallLocation::new(self.session.cwd.join(path)));
        let call = ToolCall::new(id.clone(), title)
            .kind(kind)
            .status(ToolCallStatus::InProgress)
            .locations(locations.into_iter().collect())
            .raw_input(input);
        self.update(SessionUpdate::ToolCall(call))?;
        Ok(Tool { turn: self, id })
    }
}

impl Tool<'_> {
    /// Tells of what the call shows while it runs.
    pub(super) fn show(&self, content: ToolCallContent) -> Result<(), Error> {
        self.send(ToolCallUpdateFields::new().content(vec![content]))
    }

    /// Tells how it ended: what it gave, or why it failed.
    pub(super) fn end<S: Into<String>>(self, result: Result<S, String>) -> Result<(), Error> {
        let (status, text) = match result {
            Ok(text) => (ToolCallStatus::Completed, text.into()),
            Err(reason) => (ToolCallStatus::Failed, reason),
        };
        self.send(
            ToolCallUpdateFields::new()
                .status(status)
                .content(vec![text.into()]),
        )
    }

    /// Tells only that it ended, and how.
    pub(super) fn end_silently(self, completed: bool) -> Result<(), Error> {
        let status = if completed {
            ToolCallStatus::Completed
        } else {
            ToolCallStatus::Failed
        };
        self.send(ToolCallUpdateFields::new().status(status))
    }

    fn send(&self, fields: ToolCallUpdateFields) -> Result<(), Error> {
        self.turn
            .update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(
                self.id.clone(),
                fields,
            )))
    }
}
