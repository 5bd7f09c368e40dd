//! The agent's requests to its client: files, terminals, permissions.

use std::path::Path;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    CreateTerminalRequest, PermissionOption, PermissionOptionKind, ReadTextFileRequest,
    ReleaseTerminalRequest, RequestPermissionOutcome, RequestPermissionRequest, Terminal,
    TerminalOutputRequest, ToolCallContent, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
    WaitForTerminalExitRequest, WriteTextFileRequest,
};
use serde_json::json;

use super::super::turn::Turn;
use super::dispatch::describe;

const TERMINAL_OUTPUT_BYTES: u64 = 64 << 10;

impl Turn {
    pub(super) async fn fs_write(&self, path: &Path, text: &str) -> Result<(), Error> {
        let title = format!("Write {} through the client", path.display());
        let tool = self.begin_tool(&title, ToolKind::Edit, Some(path), json!({ "path": path }))?;
        let request = WriteTextFileRequest::new(self.session.id.clone(), self.at(path), text);
        let answer = self.cx.send_request(request).block_task().await;
        tool.end(answer.map(|_| "done").map_err(|error| describe(&error)))
    }

    pub(super) async fn fs_read(&self, path: &Path) -> Result<(), Error> {
        let title = format!("Read {} through the client", path.display());
        let tool = self.begin_tool(&title, ToolKind::Read, Some(path), json!({ "path": path }))?;
        let request = ReadTextFileRequest::new(self.session.id.clone(), self.at(path));
        let answer = self.cx.send_request(request).block_task().await;
        tool.end(
            answer
                .map(|answer| answer.content)
                .map_err(|error| describe(&error)),
        )
    }

    pub(super) async fn terminal(&self, command: &str) -> Result<(), Error> {
        let title = format!("{command} (in the client's terminal)");
        let tool = self.begin_tool(&title, ToolKind::Execute, None, json!({ "command": command }))?;
        let session = &self.session.id;
        let create = CreateTerminalRequest::new(session.clone(), "sh")
            .args(vec!["-c".to_owned(), command.to_owned()])
            .cwd(self.session.cwd.clone())
            .output_byte_limit(TERMINAL_OUTPUT_BYTES);
        let terminal = match self.cx.send_request(create).block_task().await {
            Ok(created) => created.terminal_id,
            Err(error) => return tool.end(Err::<String, _>(describe(&error))),
        };
        tool.show(ToolCallContent::Terminal(Terminal::new(terminal.clone())))?;

        let wait = WaitForTerminalExitRequest::new(session.clone(), terminal.clone());
        let exit = self.cx.send_request(wait).block_task().await;
        let output = TerminalOutputRequest::new(session.clone(), terminal.clone());
        let output = self.cx.send_request(output).block_task().await;
        let release = ReleaseTerminalRequest::new(session.clone(), terminal);
        let released = self.cx.send_request(release).block_task().await;
        match (exit, output, released) {
            (Ok(exit), Ok(output), Ok(_)) => {
                let status = exit
                    .exit_status
                    .exit_code
                    .map_or("no exit code".to_owned(), |code| code.to_string());
                self.say(format!("terminal exit {status}: {}\n", output.output.trim_end()))?;
                tool.end_silently(exit.exit_status.exit_code == Some(0))
            }
            (exit, output, released) => {
                let error = exit.err().or(output.err()).or(released.err());
                tool.end(Err::<String, _>(error.as_ref().map(describe).unwrap_or_default()))
            }
        }
    }

    pub(super) async fn ask(&self, title: &str) -> Result<(), Error> {
        let kind = match title.starts_with("mcp__") {
            true => ToolKind::Other,
            false => ToolKind::Execute,
        };
        let call = ToolCallUpdateFields::new().title(title.to_owned()).kind(kind);
        let request = RequestPermissionRequest::new(
            self.session.id.clone(),
            ToolCallUpdate::new(self.next_tool_call(), call),
            vec![
                PermissionOption::new("allow", "Allow", PermissionOptionKind::AllowOnce),
                PermissionOption::new("reject", "Reject", PermissionOptionKind::RejectOnce),
            ],
        );
        let answer = match self
            .cx
            .send_request(request)
            .block_task()
            .await
            .map(|answer| answer.outcome)
        {
            Ok(RequestPermissionOutcome::Selected(selected)) => selected.option_id.to_string(),
            Ok(RequestPermissionOutcome::Cancelled) => "cancelled".to_owned(),
            Ok(other) => format!("{other:?}"),
            Err(error) => describe(&error),
        };
        self.say(format!("permission {title}: {answer}\n"))
    }
}
