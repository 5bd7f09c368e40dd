//! A bare client on the same protocol crate as Ralph: one session, one prompt, nothing else. This is the
//! least cost of a session.

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

/// Start and end of a session. Seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct SessionTimes {
    /// Before the agent's start.
    pub began: f64,
    /// Arrival of the response to the prompt.
    pub answered: f64,
}

/// Holds a session with the scripted agent, which writes its effects to `effects`, and waits for the agent's
/// exit.
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
