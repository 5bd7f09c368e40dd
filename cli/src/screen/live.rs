//! Event loop: applies keys and news to the state, and performs its actions. Reads of the coordinator run in
//! other tasks, so that no key waits for them.

use std::io;
use std::process::ExitCode;

use anyhow::Context as _;
use ralph_api::body::{CommandOptions, Done, RunOptions, Started};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::draw::draw;
use super::news::{self, News};
use super::state::{Action, State};
use crate::client::{ApiError, Client};
use crate::git::diff;
use crate::terminal::color::bell;

const WAITING_KEYS: usize = 64;
/// Queued news; beyond this, their senders wait.
const WAITING_NEWS: usize = 256;

/// A shell's exit code for a signal is this plus the signal's number.
const BY_SIGNAL: i32 = 128;

/// Shows the screen until the person leaves, or a signal ends it.
///
/// # Errors
/// When the terminal is unusable, or the coordinator refuses the token.
pub async fn watch(client: &Client) -> anyhow::Result<ExitCode> {
    let mut ends = Ends::listen().context("failed to wait for signals")?;
    let mut terminal = ratatui::try_init().context("failed to set the terminal up")?;
    let watched = tokio::select! {
        watched = run(client, &mut terminal) => watched.map(|()| ExitCode::SUCCESS),
        code = ends.next() => Ok(code),
    };
    // A closed terminal can be neither restored nor written to.
    let _ = ratatui::try_restore();
    watched
}

/// Signals that end a command. Their default action would leave the terminal in the screen's mode.
struct Ends {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
}

impl Ends {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal, and returns its exit code.
    async fn next(&mut self) -> ExitCode {
        let kind = tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        };
        u8::try_from(BY_SIGNAL + kind.as_raw_value()).map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

async fn run(client: &Client, terminal: &mut DefaultTerminal) -> anyhow::Result<()> {
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut events = events();
    let mut state = State::default();
    let (sender, mut inbox) = mpsc::channel(WAITING_NEWS);
    let (feature, feature_chosen) = watch::channel((None, 0));
    let (task, task_chosen) = watch::channel(None);
    // These tasks end with the screen.
    let mut aside = JoinSet::new();
    let (changed, changes) = watch::channel(());
    aside.spawn(news::changes(client.clone(), changed));
    aside.spawn(news::overview(
        client.clone(),
        feature_chosen,
        changes,
        sender.clone(),
    ));
    aside.spawn(news::log(client.clone(), task_chosen, sender.clone()));
    let mut actions = 0_u64;
    loop {
        terminal
            .draw(|frame| draw(frame, &mut state, colour))
            .context("failed to draw")?;
        // Reload at once after an action.
        let wanted = (state.feature_id(), actions);
        feature.send_if_modified(|now| std::mem::replace(now, wanted.clone()) != wanted);
        let wanted = state.selected().map(|task| task.id.clone());
        task.send_if_modified(|now| std::mem::replace(now, wanted.clone()) != wanted);
        let action = tokio::select! {
            event = events.recv() => match event.context("the terminal is gone")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => state.on_key(key),
                _ => Action::Draw,
            },
            received = inbox.recv() => {
                let mut next = received;
                // Take all queued news before the next draw.
                for _ in 0..WAITING_NEWS {
                    let Some(news) = next else { break };
                    if matches!(news, News::Did(_)) {
                        actions += 1;
                    }
                    take(&mut state, news)?;
                    next = inbox.try_recv().ok();
                }
                if let Some(news) = next {
                    take(&mut state, news)?;
                }
                Action::Draw
            }
        };
        match action {
            Action::Draw => {}
            Action::Quit => return Ok(()),
            action => {
                aside.spawn(act(action, client.clone(), sender.clone()));
            }
        }
    }
}

/// Performs an action at the coordinator, and reports the result.
async fn act(action: Action, client: Client, sender: mpsc::Sender<News>) {
    let news = match action {
        Action::Draw | Action::Quit => return,
        Action::Task { id, verb, reason } => {
            let path = format!("/tasks/{id}/{}", verb.into_str());
            let asked = client
                .post::<Done>(&path, &CommandOptions { reason, resume: None })
                .await;
            news::did(asked.map(|done| match done.run {
                Some(run) => format!("{}: {id}; {run} goes on", verb.into_str()),
                None => format!("{}: {id}", verb.into_str()),
            }))
        }
        Action::Feature { id, verb } => {
            let path = format!("/features/{id}/{verb}");
            let asked = match verb {
                "run" => client.post::<Started>(&path, &RunOptions::default()).await,
                _ => client.post::<Started>(&path, &CommandOptions::default()).await,
            };
            news::did(asked.map(|_| format!("{verb}: {id}")))
        }
        Action::Diff { id } => match diff::text_of_task(&client, &id).await {
            Ok(text) => News::Diff { task: id, text },
            Err(error) => News::Trouble(error),
        },
    };
    let _ = sender.send(news).await;
}

/// Applies news. A rejected token ends the screen; other errors are shown, since they may pass.
fn take(state: &mut State, news: News) -> anyhow::Result<()> {
    match news {
        News::System(system) => {
            let needed = state.needs_person();
            state.take_system(*system);
            if needed.is_some_and(|needed| state.needs_person() > Some(needed)) {
                bell();
            }
        }
        News::Tasks {
            feature,
            tasks,
            has_more,
            train,
        } => {
            state.take_tasks(&feature, tasks, has_more);
            state.take_train(&feature, train);
        }
        News::Log { task, text } => state.take_log(&task, &text),
        News::Did(message) => state.message = message,
        News::Diff { task, text } => state.take_diff(&task, &text),
        News::Trouble(error) => {
            let refused = error.downcast_ref::<ApiError>();
            if refused.is_some_and(|e| matches!(e.0.status, 401 | 403)) {
                return Err(error);
            }
            state.message = format!("{error:#}");
        }
    }
    Ok(())
}

/// The terminal's events, read by a thread that ends with the process.
fn events() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(WAITING_KEYS);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}
