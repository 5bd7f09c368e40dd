//! Reading a run's progress to its end.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use super::{bar, ended, interrupt, lines};
use crate::cli::client::{ApiError, Client, escape};
use crate::cli::output::Format;
use crate::cli::sse;
use crate::domain::states::RunOutcome;
use crate::store::view::Progress;

/// Pause before a stream that broke off is asked for again.
const AGAIN: Duration = Duration::from_millis(500);

/// What shows progress: a bar at a terminal, else lines.
pub(super) enum Screen {
    Bar(bar::Bar),
    Lines(lines::Lines),
}

impl Screen {
    fn new() -> Self {
        if std::io::stderr().is_terminal() {
            Self::Bar(bar::Bar::new())
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

/// Waits for the end of a feature's run; prints how it ended, as JSON if that is wanted.
///
/// # Errors
/// When the coordinator refuses; one that is away for a while is waited for.
pub async fn wait(client: &Client, feature: &str, format: Format) -> anyhow::Result<ExitCode> {
    let mut screen = Screen::new();
    let mut interrupts = interrupt::Interrupts::new()?;
    let mut stream: Option<sse::EventStream> = None;
    let mut last: Option<Progress> = None;
    let mut away = false;
    let progress = loop {
        let step = async {
            if stream.is_none() {
                stream = Some(
                    client
                        .events(&format!("/features/{}/events", escape(feature)), None)
                        .await?,
                );
            }
            match &mut stream {
                Some(events) => events.next().await,
                None => Ok(None),
            }
        };
        let event = tokio::select! {
            event = step => event,
            () = interrupts.next() => {
                screen.hold(true);
                let answer = interrupts.ask(client, last.as_ref(), &screen).await?;
                screen.hold(false);
                match answer {
                    interrupt::Answer::GoOn => continue,
                    interrupt::Answer::Leave => {
                        screen.end();
                        eprintln!("left; the run goes on: `ralph-coordinator status` shows it, `ralph-coordinator feature cancel \
                                   {feature}` ends it");
                        return Ok(ExitCode::from(RunOutcome::Interrupted.exit_code()));
                    }
                }
            }
        };
        match event {
            Ok(Some(event)) => {
                if std::mem::take(&mut away) {
                    screen.say("the coordinator answers again");
                }
                let progress: Progress = serde_json::from_str(&event.data)?;
                screen.show(&progress);
                if progress.is_over() {
                    break progress;
                }
                last = Some(progress);
            }
            Ok(None) => stream = None,
            Err(error) if error.downcast_ref::<ApiError>().is_some_and(|e| e.0.status < 500) => {
                return Err(error);
            }
            Err(error) => {
                if !std::mem::replace(&mut away, true) {
                    screen.say(&format!("{error:#}; waiting for it"));
                }
                stream = None;
            }
        }
        if stream.is_none() {
            tokio::time::sleep(AGAIN).await;
        }
    };
    screen.end();
    ended::tell(&progress, format)
}
