//! The choices on Ctrl+C during a wait (SPEC 3.6): the run goes on, unless the person decides otherwise.

use std::io::{BufRead as _, IsTerminal as _};
use std::pin::pin;

use anyhow::Context as _;
use ralph_api::body::{CommandOptions, Done, Started};
use ralph_api::view::{Page, Progress, TaskView};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::flags::WaitFlags;
use super::follow::Screen;
use crate::client::Client;

const QUESTION: &str =
    "\nThe run goes on. [c]ontinue waiting, give [f]eedback to running agents, [s]top the run, [l]eave? ";

/// Handler of Ctrl+C.
pub struct Interrupts {
    signal: Signal,
    interactive: bool,
    /// Whether to keep waiting when a run ends to wait for a person.
    pub(super) through_approvals: bool,
    /// Ctrl+C came before there was anything to wait for.
    early: bool,
}

/// Second Ctrl+C before the coordinator responded.
#[derive(Debug, thiserror::Error)]
#[error("left before the coordinator answered; `ralph status` shows whether it accepted the request")]
pub struct Quit;

/// The person's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Keep waiting.
    GoOn,
    /// Stop waiting; the run goes on.
    Leave,
}

impl Interrupts {
    pub fn new(through_approvals: bool) -> anyhow::Result<Self> {
        Ok(Self {
            through_approvals,
            signal: signal(SignalKind::interrupt()).context("failed to wait for Ctrl+C")?,
            interactive: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            early: false,
        })
    }

    /// The handler for a command that waits, else `None`. From now on, Ctrl+C can't end the command before
    /// it prints what it started.
    pub fn of(flags: WaitFlags) -> anyhow::Result<Option<Self>> {
        flags.wait.then(|| Self::new(flags.through_approvals)).transpose()
    }

    /// Waits for the response to a request that starts something. The first Ctrl+C is deferred until the
    /// response; the second ends the command.
    ///
    /// # Errors
    /// [`Quit`], or the request's.
    async fn outlasts<T>(&mut self, request: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let mut request = pin!(request);
        loop {
            tokio::select! {
                biased;
                answer = &mut request => return answer,
                () = Self::of_signal(&mut self.signal) => {
                    if std::mem::replace(&mut self.early, true) {
                        return Err(Quit.into());
                    }
                    eprintln!("\nwaiting for the coordinator's response; Ctrl+C again leaves without it");
                }
            }
        }
    }

    /// Waits for the next Ctrl+C.
    pub(super) async fn next(&mut self) {
        if !std::mem::take(&mut self.early) {
            Self::of_signal(&mut self.signal).await;
        }
    }

    async fn of_signal(signal: &mut Signal) {
        if signal.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks the person what to do. A second Ctrl+C leaves; without a terminal, the first one does.
    pub(super) async fn prompt(
        &mut self,
        client: &Client,
        last: Option<&Progress>,
        screen: &Screen,
    ) -> anyhow::Result<Choice> {
        let (true, Some(progress)) = (self.interactive, last) else {
            return Ok(Choice::Leave);
        };
        loop {
            let Some(choice) = self.line(QUESTION).await? else {
                return Ok(Choice::Leave);
            };
            match choice.trim().to_ascii_lowercase().as_str() {
                "" | "c" | "continue" => return Ok(Choice::GoOn),
                "l" | "leave" | "q" => return Ok(Choice::Leave),
                "s" | "stop" => {
                    let path = format!("/features/{}/stop", progress.feature.id);
                    match client.post::<Started>(&path, &CommandOptions::default()).await {
                        Ok(_) => {
                            screen.say("stopping: running sessions end in order, and their work is pushed")
                        }
                        // The run has ended in the meantime; its outcome is reported as usual.
                        Err(error) => screen.say(&format!("it was not stopped: {error:#}")),
                    }
                    return Ok(Choice::GoOn);
                }
                "f" | "feedback" => {
                    let Some(words) = self
                        .line("What should the agents know? They stop, and start again with it: ")
                        .await?
                    else {
                        return Ok(Choice::Leave);
                    };
                    feedback(client, progress, words.trim(), screen).await?;
                    return Ok(Choice::GoOn);
                }
                _ => {}
            }
        }
    }

    /// Reads a line from the terminal; `None` at its end, or on Ctrl+C.
    async fn line(&mut self, question: &str) -> anyhow::Result<Option<String>> {
        eprint!("{question}");
        let read = tokio::task::spawn_blocking(|| {
            let mut text = String::new();
            let length = std::io::stdin().lock().read_line(&mut text)?;
            Ok::<_, std::io::Error>((length > 0).then_some(text))
        });
        tokio::select! {
            read = read => Ok(read.context("failed to read the terminal")??),
            () = self.next() => Ok(None),
        }
    }
}

/// The result of a command's request, unless Ctrl+C comes first; see [`Interrupts::of`].
///
/// # Errors
/// [`Quit`], or the request's.
pub async fn unless_interrupted<T>(
    interrupts: Option<&mut Interrupts>,
    request: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    match interrupts {
        Some(interrupts) => interrupts.outlasts(request).await,
        None => request.await,
    }
}

async fn feedback(client: &Client, progress: &Progress, words: &str, screen: &Screen) -> anyhow::Result<()> {
    let body = CommandOptions {
        reason: (!words.is_empty()).then(|| words.to_owned()),
        resume: None,
    };
    let path = format!("/features/{}/tasks", progress.feature.id);
    let open: Page<TaskView> = client
        .list(&path, "status=pending,in_progress", usize::MAX)
        .await?;
    for task in open.items.iter().filter(|task| task.session.is_some()) {
        // A session that ended in the meantime needs no interrupt.
        match client
            .post::<Done>(&format!("/tasks/{}/interrupt", task.id), &body)
            .await
        {
            Ok(_) => screen.say(&format!("interrupted {} {}", task.id, task.title)),
            Err(error) => screen.say(&format!("{}: {error:#}", task.id)),
        }
    }
    Ok(())
}
