//! Reads the coordinator and the keys, and does what the state says.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::sync::mpsc;

use super::draw::draw;
use super::state::{Action, State, TAIL_LINES};
use crate::api::body::{Done, Started, Steer, Transcript};
use crate::cli::client::{ApiError, Client};
use crate::cli::transcript::Show;
use crate::store::view::{Page, SystemView, TaskView};

/// How often the coordinator is asked.
const EVERY: Duration = Duration::from_secs(1);
/// Tasks of a feature that are shown; `task list` shows the others.
const TASKS: usize = 1000;
/// Keys that wait.
const WAITING_KEYS: usize = 64;

/// Shows the screen until the person leaves.
///
/// # Errors
/// When the terminal can't be used, or the coordinator refuses us.
pub async fn watch(client: &Client) -> anyhow::Result<ExitCode> {
    let mut terminal = ratatui::try_init().context("failed to set the terminal up")?;
    let watched = run(client, &mut terminal).await;
    ratatui::restore();
    watched.map(|()| ExitCode::SUCCESS)
}

async fn run(client: &Client, terminal: &mut DefaultTerminal) -> anyhow::Result<()> {
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut events = events();
    let mut state = State::default();
    let mut seconds = tokio::time::interval(EVERY);
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        terminal
            .draw(|frame| draw(frame, &state, colour))
            .context("failed to draw")?;
        let action = tokio::select! {
            _ = seconds.tick() => Action::Read,
            event = events.recv() => match event.context("the terminal is gone")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => state.on_key(key),
                _ => Action::Draw,
            },
        };
        let done = match action {
            Action::Draw => continue,
            Action::Quit => return Ok(()),
            Action::Read => read(client, &mut state).await,
            Action::Task { id, verb, reason } => {
                let path = format!("/tasks/{id}/{}", verb.as_str());
                let asked = client.post::<Done>(&path, &Steer { reason }).await;
                asked.map(|_| state.message = format!("{}: {id}", verb.as_str()))
            }
            Action::Feature { id, verb } => {
                let asked = client
                    .post::<Started>(&format!("/features/{id}/{verb}"), &Steer::default())
                    .await;
                asked.map(|_| state.message = format!("{verb}: {id}"))
            }
        };
        if let Err(error) = done {
            // A wrong token stays wrong; everything else is shown, and may pass.
            if error
                .downcast_ref::<ApiError>()
                .is_some_and(|e| matches!(e.0.status, 401 | 403))
            {
                return Err(error);
            }
            state.message = format!("{error:#}");
        }
    }
}

async fn read(client: &Client, state: &mut State) -> anyhow::Result<()> {
    let away = state.system.is_none();
    state.take_system(client.get::<SystemView>("/status").await?);
    if away || state.message.contains("coordinator") {
        state.message.clear();
    }
    if let Some(feature) = state.feature_id() {
        let page: Page<TaskView> = client
            .list(&format!("/features/{feature}/tasks"), "", TASKS)
            .await?;
        state.take_tasks(page.items, page.next.is_some());
    }
    let Some(task) = state
        .selected()
        .filter(|task| task.attempt > 0)
        .map(|task| task.id.clone())
    else {
        state.tail.clear();
        return Ok(());
    };
    match client
        .get::<Transcript>(&format!("/tasks/{task}/transcript"))
        .await
    {
        Ok(transcript) => state.tail = tail(&transcript),
        // Its first session has not begun.
        Err(error)
            if error
                .downcast_ref::<ApiError>()
                .is_some_and(|e| e.0.status == 404) =>
        {
            state.tail.clear()
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn tail(transcript: &Transcript) -> Vec<String> {
    let mut show = Show::plain();
    let mut text = show.head(&transcript.of);
    let first = transcript.items.len().saturating_sub(TAIL_LINES);
    for entry in &transcript.items[first..] {
        text.push_str(&show.entry(entry));
    }
    let lines: Vec<String> = text.lines().map(|line| line.replace('\t', "    ")).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].to_vec()
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
