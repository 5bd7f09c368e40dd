//! Maps an action to its implementation.

use std::time::Duration;

use agent_client_protocol::Error;
use agent_client_protocol::ErrorCode;

use super::super::script::Action;
use super::super::turn::{Flow, Turn};

/// Pause between usage updates.
const SPENDING: Duration = Duration::from_millis(50);

impl Turn {
    /// Performs one action. Dropping the future ends it, with its child processes.
    ///
    /// # Errors
    /// The error response to the prompt.
    pub(in crate::agent) async fn act(&self, action: &Action) -> Result<Flow, Error> {
        match action {
            Action::Write { path, text } => self.write(path, text).await?,
            Action::Append { path, text } => self.append(path, text).await?,
            Action::Insert { path, after, text } => self.insert(path, after, text).await?,
            Action::Read { path } => self.read(path).await?,
            Action::Run { command, expect } => return self.run_command(command, *expect).await,
            Action::FsWrite { path, text } => self.fs_write(path, text).await?,
            Action::FsRead { path } => self.fs_read(path).await?,
            Action::Term { command } => self.terminal(command).await?,
            Action::Ask { title } => self.ask(title).await?,
            Action::Mcp { tool, arguments } => self.mcp(tool, arguments).await?,
            Action::McpVersion { version } => self.mcp_version(version).await?,
            Action::McpFlood { size_bytes } => self.mcp_flood(*size_bytes).await?,
            Action::Effect { name } => self.effect(name)?,

            Action::Say { text } => self.say_line(text)?,
            Action::Split { text } => self.split(text)?,
            Action::Think { text } => self.think(text)?,
            Action::Plan { entries } => self.plan(entries)?,
            Action::Usage {
                input_tokens,
                output_tokens,
                cost_usd,
                times,
            } => {
                for time in 0..*times {
                    if time > 0 {
                        tokio::time::sleep(SPENDING).await;
                    }
                    self.usage(*input_tokens, *output_tokens, *cost_usd)?;
                }
            }
            Action::Model => self.tell_model()?,
            Action::Meta => self.tell_meta()?,
            Action::EchoPrompt => self.echo_prompt()?,
            Action::Flood {
                character,
                size_bytes,
            } => self.flood(*character, *size_bytes).await?,
            Action::Stream { count } => self.stream(*count).await?,
            Action::LongLine { size_bytes } => self.say("x".repeat(*size_bytes))?,
            Action::ToolUpdateOnly => self.tool_update_only()?,
            Action::Stderr { text } => eprintln!("{text}"),

            Action::Wait { time } => tokio::time::sleep(*time).await,
            Action::WaitFor { path } => self.wait_for(path).await,
            Action::Done { id } => self.done(id.as_deref())?,
            Action::Fail { why } => return self.fail("what the script says", why),
            Action::Stop { reason } => return Ok(Flow::Stop(reason.clone())),
            Action::Error { code, text } => return Err(Error::new(*code, text.clone())),
            Action::Silent => std::future::pending().await,

            Action::Exit { status } => self.exit(*status).await?,
            Action::Kill => self.kill().await?,
            Action::Hang => {
                self.session.ignore_cancel();
                std::future::pending().await
            }
            Action::IgnoreCancel => self.session.ignore_cancel(),
            Action::IgnoreTerm => self.ignore_term()?,
            Action::IgnoreEof => self.agent.stdin.ignore_eof(),
            Action::Orphan { life } => self.orphan(*life).await?,
            Action::CloseStdout => self.agent.stdout.close(&self.cx).await?,
            Action::CloseStdin => self.agent.stdin.close().await,
            Action::Junk { text } => self.agent.stdout.bytes(&self.cx, format!("{text}\n"))?,
            Action::Raw { text } => self.agent.stdout.bytes(&self.cx, text.clone())?,
            Action::Late { time, text } => self.say_late(*time, text)?,
            Action::BadJson => self.bad_json()?,
            Action::BadUtf8 => self.bad_utf8()?,
            Action::UnknownUpdate => self.unknown_update()?,
            Action::UnknownRequest => self.unknown_request().await?,
            Action::StrayResponse => self.stray_response()?,
        }
        Ok(Flow::On)
    }
}

/// An error in words: code, message, data.
pub(super) fn describe(error: &Error) -> String {
    let data = error
        .data
        .as_ref()
        .map(|data| format!(" {data}"))
        .unwrap_or_default();
    let code: i32 = ErrorCode::value(error.code);
    format!("error {code}: {}{data}", error.message)
}
