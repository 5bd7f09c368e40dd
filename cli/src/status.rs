//! `status`: an overview.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ralph_api::view::{SessionView, SystemView};
use ralph_domain::status::why_waiting;
use ralph_shared::terminal::is_dumb;
use ralph_shared::terminal::tame;
use tokio::signal::unix::{SignalKind, signal};

use super::client::{ApiError, Client};
use super::{screen, worker};
use crate::args::globals::Globals;
use crate::terminal::duration::show_ms;
use crate::terminal::output::{self, Format};
use crate::terminal::table::{Table, folded};
use crate::{feature::page, terminal::condition};

/// Interval of `--watch`.
const EVERY: Duration = Duration::from_secs(1);

/// Show features, sessions and workers at a glance
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph status
  ralph status --watch
  ralph status --output json | jq '.features[] | {name, status}'")]
pub struct StatusArgs {
    /// Keep updating: a screen with keys at a terminal, else the same output every second
    #[arg(short, long)]
    watch: bool,
}

pub async fn run(globals: &Globals, args: StatusArgs) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    if !args.watch {
        let status: SystemView = client.get("/status").await?;
        output::show(globals, &status, |wide| folded(&page(&status, wide))).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_screen = std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && !is_dumb();
    if globals.output != Format::Json && is_screen {
        return screen::watch(&client).await;
    }
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // Created once, so that it also catches interrupts during a request.
    let mut interrupts = signal(SignalKind::interrupt())?;
    loop {
        let status = async {
            ticks.tick().await;
            client.get::<SystemView>("/status").await
        };
        let status = tokio::select! {
            status = status => status,
            _ = interrupts.recv() => return Ok(ExitCode::SUCCESS),
        };
        match status {
            Ok(status) if globals.output == Format::Json => output::json_line(&status)?,
            Ok(status) => output::text(&folded(&page(&status, globals.output == Format::Wide)))?,
            Err(error) if ApiError::refuses(&error) => {
                return Err(error);
            }
            // Wait for a coordinator that restarts.
            Err(error) => eprintln!("{error:#}; waiting for it"),
        }
    }
}

fn page(status: &SystemView, wide: bool) -> String {
    let mut text = page::at_a_glance(status, wide);
    if !status.sessions.is_empty() {
        text.push('\n');
        text.push_str(&sessions(&status.sessions).to_string());
    }
    if !status.held.is_empty() {
        text.push('\n');
        for held in &status.held {
            text.push_str(&tame(&format!(
                "{} {}: {}\n",
                held.task, held.held_by, held.title
            )));
        }
    }
    if !status.waiting.is_empty() {
        text.push('\n');
        for waiting in &status.waiting {
            text.push_str(&tame(&format!("{waiting}\n")));
        }
    }
    if !status.queued.is_empty() {
        text.push('\n');
        for queued in &status.queued {
            let waits = condition::until(&queued.waits, queued.until);
            text.push_str(&tame(&format!("{} {}: {waits}\n", queued.task, queued.title)));
        }
    }
    for full in &status.full_keys {
        let words = why_waiting::full(&full.key, full.sessions, full.limit);
        text.push_str(&tame(&format!("{words}: further tasks wait\n")));
    }
    text.push('\n');
    text.push_str(&worker::page(&status.workers, wide));
    let pools: Vec<String> = status
        .pools
        .iter()
        .filter(|(_, pool)| pool.ready > 0)
        .map(|(name, pool)| format!("{} ready in pool {name}", pool.ready))
        .collect();
    if !pools.is_empty() {
        text.push_str(&format!("\n{}\n", pools.join(", ")));
    }
    if let Some(undelivered) = &status.undelivered {
        let notices = match undelivered.notices {
            1 => "1 notice".to_owned(),
            n => format!("{n} notices"),
        };
        text.push_str(&tame(&format!(
            "\n{notices} could not be delivered: {}\n",
            undelivered.error
        )));
    }
    text
}

fn sessions(sessions: &[SessionView]) -> Table {
    let mut table = Table::new(
        ["TASK", "ID", "NOW", "ATTEMPT", "WORKER", "MODEL", "TIME", "TITLE"],
        "nothing runs",
    );
    for session in sessions {
        table.row([
            format!("{}/{}", session.feature_name, session.key),
            session.task.clone(),
            session.kind.to_string(),
            session.attempt.to_string(),
            session.worker.clone(),
            session.model.clone().unwrap_or_default(),
            show_ms(session.elapsed_ms),
            session.title.clone(),
        ]);
    }
    table
}
