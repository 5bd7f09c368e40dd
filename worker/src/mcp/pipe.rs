//! `ralph-worker mcp`: copies bytes between an agent and its session's worker.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tokio::io::{AsyncWriteExt as _, copy, stdin, stdout};
use tokio::net::UnixStream;

use super::{KEY, SOCKET};

/// Copies both ways until either side ends.
pub async fn run() -> anyhow::Result<()> {
    let socket = std::env::var_os(SOCKET).map(PathBuf::from);
    let socket =
        socket.with_context(|| format!("{SOCKET} is not set: agents start this program, in a session"))?;
    let key = std::env::var(KEY).with_context(|| format!("{KEY} is not set"))?;
    let stream = connect(&socket).await?;
    let (mut from, mut to) = stream.into_split();
    to.write_all(format!("{key}\n").as_bytes()).await?;
    let (mut input, mut output) = (stdin(), stdout());
    tokio::select! {
        sent = copy(&mut input, &mut to) => {
            sent?;
            to.shutdown().await?;
            // Requests on their way still get their answers.
            copy(&mut from, &mut output).await?;
        }
        received = copy(&mut from, &mut output) => {
            received?;
        }
    }
    output.flush().await?;
    Ok(())
}

/// Connects from the socket's folder, because a socket's path has a short limit.
async fn connect(socket: &Path) -> anyhow::Result<UnixStream> {
    let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
        anyhow::bail!("{SOCKET} is no path: {}", socket.display());
    };
    std::env::set_current_dir(folder).with_context(|| format!("failed to enter {}", folder.display()))?;
    let stream = UnixStream::connect(name).await;
    stream.with_context(|| format!("failed to reach the session's worker at {}", socket.display()))
}
