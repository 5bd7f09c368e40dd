//! A pager for long output, as in git and gh: a child process, chosen by the environment.
//!
//! No output is lost: if the pager fails, the text is printed directly.

use std::io::{self, IsTerminal as _};
use std::process::{ExitStatus, Stdio};

use ralph_shared::terminal::is_dumb;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::output::{self, Format};
use crate::args::globals::Globals;

/// The default pager. It ends at once when everything fits on the screen, and passes colours through.
const PAGER: &str = "less -FRX";
/// Default options of `less` and `lv`, the same as git sets.
const FLAGS: [(&str, &str); 2] = [("LESS", "FRX"), ("LV", "-c")];

/// Shows text through the person's pager at a terminal; elsewhere prints it.
pub async fn show(globals: &Globals, text: &str) -> anyhow::Result<()> {
    let Some(pager) = at_terminal(globals).then(Pager::chosen).flatten() else {
        return output::text(text);
    };
    match pager.page(text).await {
        Ok(true) => return Ok(()),
        // A failed default pager is not reported.
        Ok(false) if !pager.named => {}
        Ok(false) => eprintln!("the pager `{}` failed; without it:", pager.command),
        Err(error) => eprintln!("the pager `{}` can't be started: {error}", pager.command),
    }
    output::text(text)
}

/// How git pages its own output.
pub fn of_git(globals: &Globals) -> GitPager {
    if !at_terminal(globals) {
        return GitPager::Never;
    }
    match std::env::var("RALPH_PAGER") {
        Ok(command) if is_none(&command) => GitPager::Never,
        Ok(command) => GitPager::This(command),
        Err(_) => GitPager::Its,
    }
}

/// How git pages its own output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitPager {
    Never,
    /// With this command.
    This(String),
    /// With its own configuration.
    Its,
}

/// While the returned value lives, Ctrl+C reaches only the children on our terminal.
pub fn leave_interrupts() -> io::Result<Signal> {
    signal(SignalKind::interrupt())
}

fn at_terminal(globals: &Globals) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal()
        && !globals.no_pager
        && globals.output != Format::Json
        && !set("NO_PAGER")
        && set("TERM")
        && !is_dumb()
}

/// Whether the command means no pager.
fn is_none(command: &str) -> bool {
    matches!(command.trim(), "" | "cat")
}

struct Pager {
    command: String,
    /// Whether the environment names the pager.
    named: bool,
}

impl Pager {
    fn chosen() -> Option<Self> {
        let named = ["RALPH_PAGER", "PAGER"]
            .iter()
            .find_map(|name| std::env::var(name).ok());
        let pager = Self {
            named: named.is_some(),
            command: named.unwrap_or_else(|| PAGER.to_owned()),
        };
        (!is_none(&pager.command)).then_some(pager)
    }

    /// Shows the text; returns whether the person could see it, in full or up to an interrupt.
    async fn page(&self, text: &str) -> io::Result<bool> {
        let mut interrupts = leave_interrupts()?;
        let mut command = Command::new("sh");
        // Like git: the variable may contain arguments.
        command.args(["-c", &self.command]).stdin(Stdio::piped());
        for (name, value) in FLAGS {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let work = async {
            if let Some(mut input) = input {
                // The write fails if the person closes the pager early.
                let _ = input.write_all(text.as_bytes()).await;
            }
            child.wait().await
        };
        tokio::pin!(work);
        let mut interrupted = false;
        loop {
            tokio::select! {
                status = &mut work => return Ok(interrupted || status?.success()),
                _ = interrupts.recv() => interrupted = true,
            }
        }
    }
}

/// Whether a child ended because its pager was closed.
pub fn is_broken_pipe(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal() == Some(libc::SIGPIPE)
}
