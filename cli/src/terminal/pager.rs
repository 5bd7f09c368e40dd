//! A pager for what may be longer than the screen, as git and gh have it: a child of its own, asked for by the environment.
//!
//! What was to be shown is never lost: where the pager can't do it, it is printed as it is.

use std::io::{self, IsTerminal as _};
use std::process::{ExitStatus, Stdio};

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::output::{self, Format};
use crate::args::globals::Globals;

/// Where the environment names no pager. It ends at once when everything fits on the screen, and lets colours through.
const PAGER: &str = "less -FRX";
/// The same for a `less` that is named without flags, and for `lv`; as git sets them.
const FLAGS: [(&str, &str); 2] = [("LESS", "FRX"), ("LV", "-c")];

/// Shows text to a person: through their pager at a terminal, else as it is.
///
/// # Errors
/// When standard output can't be written.
pub async fn show(globals: &Globals, text: &str) -> anyhow::Result<()> {
    let Some(pager) = at_terminal(globals).then(Pager::chosen).flatten() else {
        return output::text(text);
    };
    match pager.page(text).await {
        Ok(true) => return Ok(()),
        // Nobody asked for the one that is taken where none is named.
        Ok(false) if !pager.named => {}
        Ok(false) => eprintln!("the pager `{}` failed; without it:", pager.command),
        Err(error) => eprintln!("the pager `{}` can't be started: {error}", pager.command),
    }
    output::text(text)
}

/// How git is to page what it shows itself.
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

/// How git is to page what it shows itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitPager {
    /// Not at all.
    Never,
    /// By a command of ours.
    This(String),
    /// As it is configured.
    Its,
}

/// Until it is dropped, Ctrl+C is for the children that share the terminal with us.
///
/// # Errors
/// When signals can't be listened for.
pub fn leave_interrupts() -> io::Result<Signal> {
    signal(SignalKind::interrupt())
}

fn at_terminal(globals: &Globals) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    io::stdout().is_terminal()
        && !globals.no_pager
        && globals.output != Format::Json
        && !set("NO_PAGER")
        && set("TERM")
        && !dumb
}

/// Whether the command says that there is to be no pager.
fn is_none(command: &str) -> bool {
    matches!(command.trim(), "" | "cat")
}

struct Pager {
    command: String,
    /// Whether the environment asks for it.
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

    /// Whether somebody could see the text, all of it or as much as they wanted.
    async fn page(&self, text: &str) -> io::Result<bool> {
        let mut interrupts = leave_interrupts()?;
        let mut command = Command::new("sh");
        // As git does it: the variable may hold arguments.
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
                // Whoever has seen enough closes it.
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

/// Whether a child that writes to a pager ended because the pager was closed.
pub fn is_broken_pipe(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal() == Some(libc::SIGPIPE)
}
