//! Follows a run's progress to its end.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ralph_api::view::Progress;
use ralph_domain::states::RunOutcome;
use ralph_domain::status::condition::Word;
use ralph_shared::terminal::tame;
use time::OffsetDateTime;
use tokio::sync::mpsc;

use super::interrupt::{Choice, Interrupts};
use super::{bar, ended, lines};
use crate::client::{ApiError, Client, escape};
use crate::terminal::color::bell;
use crate::terminal::output::Format;

/// Pause before a broken stream is requested again.
const AGAIN: Duration = Duration::from_millis(500);

/// Display of progress: a bar at a terminal, else lines.
pub(super) enum Screen {
    Bar(Box<bar::Bar>),
    Lines(lines::Lines),
}

impl Screen {
    fn new() -> Self {
        if std::io::stderr().is_terminal() {
            Self::Bar(Box::new(bar::Bar::new()))
        } else {
            Self::Lines(lines::Lines::default())
        }
    }

    fn show(&mut self, progress: &Progress) {
        match self {
            Self::Bar(bar) => bar.show(progress),
            Self::Lines(lines) => lines.show(progress),
        }
    }

    fn tick(&mut self) {
        if let Self::Bar(bar) = self {
            bar.tick();
        }
    }

    /// Prints a permanent line.
    pub(super) fn say(&self, text: &str) {
        match self {
            Self::Bar(bar) => bar.say(text),
            Self::Lines(_) => eprintln!("{text}"),
        }
    }

    /// Pauses the bar while the person types.
    fn hold(&self, still: bool) {
        if let Self::Bar(bar) = self {
            bar.hold(still);
        }
    }

    fn end(self) {
        if let Self::Bar(bar) = self {
            bar.end();
        }
    }
}

/// Exit code when a request was accepted, but its progress can't be followed.
const UNWATCHED: u8 = 6;

/// Waits for the end of the run of an accepted request. If the work waits for a person to start a run,
/// returns at once. If the coordinator doesn't respond, exits with [`UNWATCHED`]: the work goes on.
pub async fn wait_accepted(
    client: &Client,
    feature: &str,
    format: Format,
    interrupts: Interrupts,
) -> anyhow::Result<ExitCode> {
    let asked = client
        .get(&format!("/features/{}/progress", escape(feature)))
        .await;
    let progress: Progress = match asked {
        Err(error) if !ApiError::refuses(&error) => {
            eprintln!(
                "{error:#}\naccepted and running, but the coordinator can't be reached: watch it with `ralph feature wait {feature}`"
            );
            return Ok(ExitCode::from(UNWATCHED));
        }
        asked => asked?,
    };
    if progress.feature.needs_run && !interrupts.through_approvals {
        return ended::waits(&progress, format);
    }
    wait(client, feature, format, interrupts).await
}

/// Waits for the end of a feature's run, and prints the outcome.
///
/// # Errors
/// When the coordinator refuses. While the coordinator is unavailable, this keeps waiting.
pub async fn wait(
    client: &Client,
    feature: &str,
    format: Format,
    mut interrupts: Interrupts,
) -> anyhow::Result<ExitCode> {
    let mut screen = Screen::new();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    let (sender, mut received) = mpsc::channel(1);
    // Ends when the receiver is dropped.
    tokio::spawn(read(client.clone(), feature.to_owned(), sender));
    let mut last: Option<Progress> = None;
    let mut announced = Announced::default();
    let progress = loop {
        let news = tokio::select! {
            news = received.recv() => news.context("the task that follows the coordinator ended")?,
            _ = seconds.tick() => {
                screen.tick();
                continue;
            }
            () = interrupts.next() => {
                screen.hold(true);
                let answer = interrupts.prompt(client, last.as_ref(), &screen).await?;
                screen.hold(false);
                match answer {
                    Choice::GoOn => continue,
                    Choice::Leave => {
                        screen.end();
                        eprintln!(
                            "\nleft; the run goes on: `ralph status` shows it, \
                             `ralph feature stop {feature}` ends it"
                        );
                        return Ok(ExitCode::from(RunOutcome::Interrupted.exit_code()));
                    }
                }
            }
        };
        match news {
            News::Progress(progress) => {
                announced.progress(&progress, &mut screen);
                if progress.is_over() {
                    if !(interrupts.through_approvals && waits_for_person(&progress)) {
                        break *progress;
                    }
                    announced.waits(&progress, &screen);
                }
                last = Some(*progress);
            }
            News::Away(error) => announced.away(&error, &screen),
            News::Refused(error) => return Err(error),
        }
    };
    screen.end();
    ended::print(client, &progress, format).await
}

/// Messages already shown to the person, which are not repeated.
#[derive(Default)]
struct Announced {
    away: bool,
    gate: Option<String>,
    questions: lines::Questions,
    /// End of the run since when a person's decision is awaited.
    waits_from: Option<Option<OffsetDateTime>>,
}

impl Announced {
    fn progress(&mut self, progress: &Progress, screen: &mut Screen) {
        if std::mem::take(&mut self.away) {
            screen.say("the coordinator responds again");
        }
        screen.show(progress);
        let gate = progress.feature.gate.as_ref().filter(|gate| gate.fails());
        let words = gate.map(|gate| tame(&gate.to_string()));
        if let Some(words) = words.as_ref().filter(|_| words != self.gate) {
            screen.say(words);
        }
        self.gate = words;
        for line in self.questions.new_lines(progress) {
            bell();
            screen.say(&line);
        }
    }

    fn waits(&mut self, progress: &Progress, screen: &Screen) {
        let end = progress.feature.run.as_ref().and_then(|run| run.ended_at);
        if self.waits_from.replace(end) != Some(end) {
            bell();
            screen.say(&ended::open_questions(progress));
        }
    }

    fn away(&mut self, error: &anyhow::Error, screen: &Screen) {
        if !std::mem::replace(&mut self.away, true) {
            screen.say(&format!("{error:#}; waiting for it"));
        }
    }
}

/// Whether the feature goes on after a person's decision.
fn waits_for_person(progress: &Progress) -> bool {
    matches!(progress.feature.condition.word, Word::Blocked | Word::Ready)
}

/// An update on a run.
enum News {
    Progress(Box<Progress>),
    /// The coordinator doesn't respond; the request is repeated.
    Away(anyhow::Error),
    /// The coordinator refuses for good.
    Refused(anyhow::Error),
}

async fn read(client: Client, feature: String, sender: mpsc::Sender<News>) {
    let path = format!("/features/{}/events", escape(&feature));
    loop {
        let ended = async {
            let mut events = client.events(&path, None).await?;
            while let Some(event) = events.next().await? {
                let progress = serde_json::from_str(&event.data).context("an event can't be read")?;
                if sender.send(News::Progress(progress)).await.is_err() {
                    break;
                }
            }
            anyhow::Ok(())
        };
        let delivered = match ended.await {
            Ok(()) => Ok(()),
            Err(error) if ApiError::refuses(&error) => {
                let _ = sender.send(News::Refused(error)).await;
                return;
            }
            Err(error) => sender.send(News::Away(error)).await,
        };
        if delivered.is_err() || sender.is_closed() {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
