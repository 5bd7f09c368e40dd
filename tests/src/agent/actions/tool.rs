//! A tool call as the client sees it: its start, then its end with a result.

use std::path::Path;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    SessionUpdate, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;

use super::super::turn::Turn;

/// A running tool call that the client knows.
#[derive(Debug)]
pub(super) struct Tool<'t> {
    turn: &'t Turn,
    id: String,
}

impl Turn {
    /// Announces the start of a tool call.
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
    /// Sends content of a running call.
    pub(super) fn show(&self, content: ToolCallContent) -> Result<(), Error> {
        self.send(ToolCallUpdateFields::new().content(vec![content]))
    }

    /// Announces the end with the result, or with the reason of a failure.
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

    /// Announces the end without a result.
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
