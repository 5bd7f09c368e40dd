//! Reading a run's progress to its end.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ralph_api::view::Progress;
use ralph_domain::states::RunOutcome;
use ralph_domain::status::condition::Word;
use time::OffsetDateTime;
use tokio::sync::mpsc;

use super::interrupt::{Choice, Interrupts};
use super::{bar, ended, lines};
use crate::client::{ApiError, Client, escape};
use crate::terminal::color::{bell, tame};
use crate::terminal::output::Format;

/// Pause before a stream that broke off is asked for again.
const AGAIN: Duration = Duration::from_millis(500);

/// What shows progress: a bar at a terminal, else lines.
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

    /// A line that stays.
    pub(super) fn say(&self, text: &str) {
        match self {
            Self::Bar(bar) => bar.say(text),
            Self::Lines(_) => eprintln!("{text}"),
        }
    }

    /// Stands still while somebody types.
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

/// Exit code of a command whose request was accepted, but which can't watch what comes of it.
const UNWATCHED: u8 = 6;

/// Waits for the end of the run in which what was just asked for is done; where it waits for one to be started, nothing is
/// waited for. Without an answer to that question it ends with [`UNWATCHED`]: the work goes on.
///
/// # Errors
/// As [`wait`].
pub async fn begun(
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
                "{error:#}\naccepted, and it goes on, but can't be watched now: `ralph feature wait {feature}` watches it"
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

/// Waits for the end of a feature's run; prints how it ended, as JSON if that is wanted.
///
/// # Errors
/// When the coordinator refuses; one that is away for a while is waited for.
pub async fn wait(
    client: &Client,
    feature: &str,
    format: Format,
    mut interrupts: Interrupts,
) -> anyhow::Result<ExitCode> {
    let mut screen = Screen::new();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    let (sender, mut told) = mpsc::channel(1);
    // Ends when nobody listens any more.
    tokio::spawn(read(client.clone(), feature.to_owned(), sender));
    let mut last: Option<Progress> = None;
    let mut said = Said::default();
    let progress = loop {
        let news = tokio::select! {
            news = told.recv() => news.context("the coordinator is not followed any more")?,
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
                said.progress(&progress, &mut screen);
                if progress.is_over() {
                    if !(interrupts.through_approvals && waits_for_person(&progress)) {
                        break *progress;
                    }
                    said.waits(&progress, &screen);
                }
                last = Some(*progress);
            }
            News::Away(error) => said.away(&error, &screen),
            News::Refused(error) => return Err(error),
        }
    };
    screen.end();
    ended::tell(client, &progress, format).await
}

/// What was said to the person who waits, and isn't said again.
#[derive(Default)]
struct Said {
    away: bool,
    gate: Option<String>,
    questions: lines::Questions,
    /// The end of the run that a person's decision is waited for since.
    waits_from: Option<Option<OffsetDateTime>>,
}

impl Said {
    fn progress(&mut self, progress: &Progress, screen: &mut Screen) {
        if std::mem::take(&mut self.away) {
            screen.say("the coordinator answers again");
        }
        screen.show(progress);
        let gate = progress.feature.gate.as_ref().filter(|gate| gate.fails());
        let words = gate.map(|gate| tame(&gate.to_string()));
        if let Some(words) = words.as_ref().filter(|_| words != self.gate) {
            screen.say(words);
        }
        self.gate = words;
        for line in self.questions.untold(progress) {
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

/// Whether the feature goes on when a person decides.
fn waits_for_person(progress: &Progress) -> bool {
    matches!(progress.feature.condition.word, Word::Blocked | Word::Ready)
}

/// What is heard of a run.
enum News {
    Progress(Box<Progress>),
    /// The coordinator doesn't answer; it is asked again.
    Away(anyhow::Error),
    /// It never will.
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
        let heard = match ended.await {
            Ok(()) => Ok(()),
            Err(error) if ApiError::refuses(&error) => {
                let _ = sender.send(News::Refused(error)).await;
                return;
            }
            Err(error) => sender.send(News::Away(error)).await,
        };
        if heard.is_err() || sender.is_closed() {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
