//! What Ctrl+C offers on a command that waits (SPEC 3.6): the run goes on, unless the person says otherwise.

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
    "\nThe run goes on. [c]ontinue waiting, give [f]eedback to what runs, [s]top the run, [l]eave? ";

/// Ctrl+C, as it comes.
pub struct Interrupts {
    signal: Signal,
    interactive: bool,
    /// Whether the end of a run that waits for a person is waited through.
    pub(super) through_approvals: bool,
    /// It came before there was anything to wait for.
    early: bool,
}

/// Ctrl+C, twice, before the coordinator answered.
#[derive(Debug, thiserror::Error)]
#[error("left before the coordinator answered; `ralph status` shows whether it took what was asked for")]
pub struct Quit;

/// What the person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Wait on.
    GoOn,
    /// Leave the run to itself.
    Leave,
}

impl Interrupts {
    /// Takes Ctrl+C over.
    ///
    /// # Errors
    /// When the system doesn't let us.
    pub fn new(through_approvals: bool) -> anyhow::Result<Self> {
        Ok(Self {
            through_approvals,
            signal: signal(SignalKind::interrupt()).context("failed to wait for Ctrl+C")?,
            interactive: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            early: false,
        })
    }

    /// Takes Ctrl+C over if the command waits for the end of what it is about to ask for: from then on what begins is told
    /// before the command ends.
    ///
    /// # Errors
    /// As [`Interrupts::new`].
    pub fn of(flags: WaitFlags) -> anyhow::Result<Option<Self>> {
        flags.wait.then(|| Self::new(flags.through_approvals)).transpose()
    }

    /// Waits for the answer to a request that begins something. Ctrl+C is kept until it is known what began; the second
    /// ends the command.
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
                    eprintln!("\nwaiting for the coordinator's answer; Ctrl+C again leaves without it");
                }
            }
        }
    }

    /// Comes with the next one.
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

    /// Prompts for what to do. A second Ctrl+C leaves; without a terminal, the first one does.
    ///
    /// # Errors
    /// When the coordinator refuses what the person wants.
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
                            screen.say("stopping: what runs is ended in order, and what it did is pushed")
                        }
                        // It ended meanwhile: how, is told as if nobody had asked.
                        Err(error) => screen.say(&format!("it was not stopped: {error:#}")),
                    }
                    return Ok(Choice::GoOn);
                }
                "f" | "feedback" => {
                    let Some(words) = self
                        .line("What should the agents know? They are stopped, and begin again with it: ")
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

    /// A line from the terminal; `None` at its end, or when Ctrl+C comes instead.
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
        // One that ended meanwhile needs nothing.
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
