//! A small client: one session and one prompt, with real files, terminals and permissions.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, ContentChunk, CreateTerminalRequest, CreateTerminalResponse,
    Error as SchemaError, InitializeRequest, NewSessionRequest, PromptRequest, PromptResponse,
    ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalRequest, ReleaseTerminalResponse,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome,
    SessionConfigOption, SessionNotification, SessionUpdate, SetSessionConfigOptionRequest,
    TerminalExitStatus, TerminalOutputRequest, TerminalOutputResponse, ToolCallContent, ToolCallStatus,
    WaitForTerminalExitRequest, WaitForTerminalExitResponse, WriteTextFileRequest, WriteTextFileResponse,
};
use agent_client_protocol::{ByteStreams, Client, Error, on_receive_notification, on_receive_request};
use tokio::process::Command;
use tokio::sync::watch;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use super::{AGENT, DEADLINE};

/// Options of one conversation.
#[derive(Default)]
pub struct Talk<'t> {
    pub arguments: &'t [&'t str],
    pub environment: &'t [(&'t str, &'t str)],
    /// The model, set before the prompt.
    pub model: Option<&'t str>,
    /// The session is cancelled when the agent's text contains this.
    pub cancel_at: Option<&'t str>,
}

/// The result of a conversation.
pub struct Heard {
    pub answer: Result<PromptResponse, Error>,
    pub options: Option<Vec<SessionConfigOption>>,
    pub updates: Vec<SessionUpdate>,
    pub exit: Output,
}

impl Talk<'_> {
    /// Holds the conversation in this folder, until the agent exits.
    pub async fn hold(&self, folder: &Path, prompt: &str) -> Heard {
        tokio::time::timeout(DEADLINE, self.hold_to_the_end(folder, prompt))
            .await
            .expect("the agent answers")
    }

    async fn hold_to_the_end(&self, folder: &Path, prompt: &str) -> Heard {
        let mut agent = Command::new(AGENT)
            .args(self.arguments)
            .envs(self.environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let transport = ByteStreams::new(
            agent.stdin.take().unwrap().compat_write(),
            agent.stdout.take().unwrap().compat(),
        );
        let updates = watch::Sender::new(Vec::new());
        let received = updates.clone();
        let terminals: Arc<Mutex<HashMap<String, Output>>> = Arc::default();
        let [created, waited, asked] = std::array::from_fn(|_| Arc::clone(&terminals));
        let (answer, options) = Client
            .v1()
            .on_receive_notification(
                async move |update: SessionNotification, _cx| {
                    received.send_modify(|updates| updates.push(update.update));
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async |ask: RequestPermissionRequest, responder, _cx| {
                    let safe = ask
                        .tool_call
                        .fields
                        .title
                        .is_some_and(|title| title.contains("safe"));
                    let chosen = SelectedPermissionOutcome::new(if safe { "allow" } else { "reject" });
                    responder.respond(RequestPermissionResponse::new(
                        RequestPermissionOutcome::Selected(chosen),
                    ))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async |write: WriteTextFileRequest, responder, _cx| {
                    std::fs::write(&write.path, &write.content).map_err(Error::into_internal_error)?;
                    responder.respond(WriteTextFileResponse::new())
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async |read: ReadTextFileRequest, responder, _cx| {
                    let text = std::fs::read_to_string(&read.path);
                    let missing =
                        |_| SchemaError::resource_not_found(Some(read.path.display().to_string())).into();
                    responder.respond_with_result(text.map(ReadTextFileResponse::new).map_err(missing))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |create: CreateTerminalRequest, responder, _cx| {
                    let mut command = std::process::Command::new(&create.command);
                    let output = command
                        .args(&create.args)
                        .current_dir(create.cwd.unwrap())
                        .output()
                        .unwrap();
                    created.lock().unwrap().insert("terminal-1".into(), output);
                    responder.respond(CreateTerminalResponse::new("terminal-1"))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |wait: WaitForTerminalExitRequest, responder, _cx| {
                    let code = waited.lock().unwrap()[&*wait.terminal_id.0]
                        .status
                        .code()
                        .unwrap();
                    let status = TerminalExitStatus::new().exit_code(u32::try_from(code).unwrap());
                    responder.respond(WaitForTerminalExitResponse::new(status))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |output: TerminalOutputRequest, responder, _cx| {
                    let terminals = asked.lock().unwrap();
                    let text =
                        String::from_utf8_lossy(&terminals[&*output.terminal_id.0].stdout).into_owned();
                    responder.respond(TerminalOutputResponse::new(text, false))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |release: ReleaseTerminalRequest, responder, _cx| {
                    terminals
                        .lock()
                        .unwrap()
                        .remove(&*release.terminal_id.0)
                        .expect("released once");
                    responder.respond(ReleaseTerminalResponse::new())
                },
                on_receive_request!(),
            )
            .connect_with(transport, async |cx| {
                cx.send_request(InitializeRequest::new(ProtocolVersion::V1))
                    .block_task()
                    .await?;
                let session = cx
                    .send_request(NewSessionRequest::new(folder))
                    .block_task()
                    .await?;
                if let Some(model) = self.model {
                    let set = SetSessionConfigOptionRequest::new(session.session_id.clone(), "model", model);
                    cx.send_request(set).block_task().await?;
                }
                let prompt = PromptRequest::new(session.session_id.clone(), vec![prompt.into()]);
                let mut answer = Box::pin(cx.send_request(prompt).block_task());
                let answer = match self.cancel_at {
                    None => answer.await,
                    Some(mark) => {
                        let mut updates = updates.subscribe();
                        tokio::select! {
                            _ = updates.wait_for(|updates| text(updates).contains(mark)) => {
                                cx.send_notification(CancelNotification::new(session.session_id))?;
                                answer.await
                            }
                            answer = &mut answer => answer,
                        }
                    }
                };
                Ok((answer, session.config_options))
            })
            .await
            .unwrap();
        let exit = agent.wait_with_output().await.unwrap();
        Heard {
            answer,
            options,
            updates: updates.borrow().clone(),
            exit,
        }
    }
}

impl Heard {
    pub fn stop_reason(&self) -> String {
        serde_json::to_value(self.answer.as_ref().unwrap().stop_reason)
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub fn text(&self) -> String {
        text(&self.updates)
    }

    /// Success and output of each tool call, in order.
    pub fn tools(&self) -> Vec<(bool, String)> {
        let ends = self.updates.iter().filter_map(|update| match update {
            SessionUpdate::ToolCallUpdate(call) => {
                let content = call.fields.content.clone().unwrap_or_default();
                let text = content.iter().map(|content| match content {
                    ToolCallContent::Content(content) => block(&content.content),
                    _ => String::new(),
                });
                Some((call.fields.status? == ToolCallStatus::Completed, text.collect()))
            }
            _ => None,
        });
        ends.collect()
    }
}

fn text(updates: &[SessionUpdate]) -> String {
    let chunks = updates.iter().map(|update| match update {
        SessionUpdate::AgentMessageChunk(chunk) => chunk_text(chunk),
        _ => String::new(),
    });
    chunks.collect()
}

pub fn chunk_text(chunk: &ContentChunk) -> String {
    block(&chunk.content)
}

fn block(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text.clone(),
        _ => String::new(),
    }
}
