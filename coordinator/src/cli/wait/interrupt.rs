//! What Ctrl+C offers on a command that waits (SPEC 3.6): the run goes on, unless the person says otherwise.

use std::io::{BufRead as _, IsTerminal as _};

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::follow::Screen;
use crate::api::body::{Done, Started, Steer};
use crate::cli::client::Client;
use crate::store::view::{Page, Progress, TaskView};

const QUESTION: &str =
    "\nThe run goes on. [c]ontinue waiting, give [f]eedback to what runs, [s]top the run, [l]eave? ";

/// Ctrl+C, as it comes.
pub struct Interrupts {
    signal: Signal,
    interactive: bool,
}

/// What the person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
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
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            signal: signal(SignalKind::interrupt()).context("failed to wait for Ctrl+C")?,
            interactive: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
        })
    }

    /// Comes with the next one.
    pub async fn next(&mut self) {
        if self.signal.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks what to do; a second Ctrl+C means to leave, and where nobody can answer the first does.
    ///
    /// # Errors
    /// When the coordinator refuses what the person wants.
    pub async fn ask(
        &mut self,
        client: &Client,
        last: Option<&Progress>,
        screen: &Screen,
    ) -> anyhow::Result<Answer> {
        let (true, Some(progress)) = (self.interactive, last) else {
            return Ok(Answer::Leave);
        };
        loop {
            let Some(choice) = self.line(QUESTION).await? else {
                return Ok(Answer::Leave);
            };
            match choice.trim().to_ascii_lowercase().as_str() {
                "" | "c" | "continue" => return Ok(Answer::GoOn),
                "l" | "leave" | "q" => return Ok(Answer::Leave),
                "s" | "stop" => {
                    let path = format!("/features/{}/stop", progress.feature.id);
                    match client.post::<Started>(&path, &Steer::default()).await {
                        Ok(_) => {
                            screen.say("stopping: what runs is ended in order, and what it did is pushed")
                        }
                        // It ended meanwhile: how, is told as if nobody had asked.
                        Err(error) => screen.say(&format!("it was not stopped: {error:#}")),
                    }
                    return Ok(Answer::GoOn);
                }
                "f" | "feedback" => {
                    let Some(words) = self
                        .line("What should the agents know? They are stopped, and begin again with it: ")
                        .await?
                    else {
                        return Ok(Answer::Leave);
                    };
                    feedback(client, progress, words.trim(), screen).await?;
                    return Ok(Answer::GoOn);
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

async fn feedback(client: &Client, progress: &Progress, words: &str, screen: &Screen) -> anyhow::Result<()> {
    let body = Steer {
        reason: (!words.is_empty()).then(|| words.to_owned()),
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
