//! A bare client on the crate that Ralph's messages are from: one session, one prompt, nothing else. What a session costs
//! at least.

use std::path::Path;
use std::process::Stdio;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    InitializeRequest, NewSessionRequest, PromptRequest, SessionNotification,
};
use agent_client_protocol::{ByteStreams, Client, on_receive_notification};
use anyhow::Context as _;
use tokio::process::Command;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use crate::stub::now;
use crate::system::scripted_agent;

/// When a session began and ended. Seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct SessionTimes {
    /// Before the agent was started.
    pub began: f64,
    /// When the prompt was answered.
    pub answered: f64,
}

/// Holds a session with the scripted agent, which notes its effects in `effects`, and waits for the agent's exit.
///
/// # Errors
/// When the agent can't be started, or doesn't answer.
pub async fn hold(folder: &Path, effects: &Path, prompt: &str) -> anyhow::Result<SessionTimes> {
    let began = now();
    let mut agent = Command::new(scripted_agent()?)
        .current_dir(folder)
        .env("RALPH_EFFECTS_LOG", effects)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("failed to start the scripted agent")?;
    let pipes = agent.stdin.take().zip(agent.stdout.take());
    let (stdin, stdout) = pipes.context("the agent has no pipes")?;
    let answered = Client
        .v1()
        .on_receive_notification(
            async |_update: SessionNotification, _cx| Ok(()),
            on_receive_notification!(),
        )
        .connect_with(
            ByteStreams::new(stdin.compat_write(), stdout.compat()),
            async |cx| {
                let initialize = InitializeRequest::new(ProtocolVersion::V1);
                cx.send_request(initialize).block_task().await?;
                let session = NewSessionRequest::new(folder);
                let session = cx.send_request(session).block_task().await?;
                let prompt = PromptRequest::new(session.session_id, vec![prompt.into()]);
                cx.send_request(prompt).block_task().await?;
                Ok(now())
            },
        )
        .await
        .map_err(|error| anyhow::anyhow!("the bare client's session failed: {error}"))?;
    agent.wait().await?;
    Ok(SessionTimes { began, answered })
}
