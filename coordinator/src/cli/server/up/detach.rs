//! `up --detach`: runs the same command again, in the background.

use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ralph_cli::terminal::output;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::steps::report;
use super::stop::Signals;

/// Starts `up`, forwards its messages until everything runs, and returns.
pub async fn detach(signals: &mut Signals) -> anyhow::Result<ExitCode> {
    let own = std::env::current_exe().context("failed to find this program's own file")?;
    let arguments = std::env::args_os()
        .skip(1)
        .filter(|argument| argument != "--detach");
    let mut child = Command::new(own)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl+C at this terminal must not reach it.
        .process_group(0)
        .spawn()
        .context("failed to start `up` in the background")?;
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
        bail!("the output of `up` can't be read");
    };
    let (mut out, mut err) = (BufReader::new(out).lines(), BufReader::new(err).lines());
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    loop {
        tokio::select! {
            line = out.next_line() => match line? {
                Some(url) => {
                    output::text(&format!("{url}\n"))?;
                    report("it runs in the background; `ralph open` shows it in a browser, `ralph-coordinator down` stops it");
                    return Ok(ExitCode::SUCCESS);
                }
                None => break,
            },
            Ok(Some(line)) = err.next_line() => report(&line),
            () = signals.next() => {
                if let Some(pid) = pid {
                    let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
                }
            }
        }
    }
    while let Ok(Some(line)) = err.next_line().await {
        report(&line);
    }
    let status = child.wait().await.context("failed to wait for `up`")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1).max(1)))
}
