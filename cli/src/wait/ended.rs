//! The end of a run, in words and as an exit code.

use std::process::ExitCode;

use ralph_api::view::{FeatureView, Landing, Page, Progress};
use ralph_domain::states::{FeatureState, RunOutcome};
use ralph_shared::terminal::{Paint, Tone, counted, tame};

use super::idle;
use crate::client::{Client, escape};
use crate::cost::estimate;
use crate::cost::format;
use crate::terminal::color::{bell, tone_of};
use crate::terminal::condition;
use crate::terminal::duration;
use crate::terminal::output::{self, Format};
use crate::terminal::plural::done_of;

/// Prints the outcome; the exit code is the outcome's.
pub async fn print(client: &Client, progress: &Progress, format: Format) -> anyhow::Result<ExitCode> {
    bell();
    let feature = &progress.feature;
    let Some((run, outcome)) = feature.run.as_ref().and_then(|run| Some((run, run.outcome?))) else {
        return never_ran(progress, format);
    };
    // Tasks added since are open and wait for their own run; tasks that waited for a person may be resolved
    // now.
    let is_over = outcome == RunOutcome::Blocked && feature.tasks.open() == 0;
    if feature.needs_run && run.only_task.is_none() && (outcome == RunOutcome::Complete || is_over) {
        return waits(progress, format);
    }
    if format == Format::Json {
        output::json(progress)?;
    } else {
        let paint = Paint::stdout();
        let word = match outcome {
            RunOutcome::Complete => "Complete",
            RunOutcome::Failure => "Failure",
            RunOutcome::LimitReached => "LimitReached",
            RunOutcome::Blocked => "Blocked",
            RunOutcome::NoPlan => "NoPlan",
            RunOutcome::Interrupted => "Interrupted",
        };
        let branch = match landed_on(client, feature).await {
            Some(branch) => format!(", on branch {branch}"),
            None => String::new(),
        };
        let mut text = format!(
            "{}: {} — {}; {}, {}, {}, {}{branch}\n",
            feature.name,
            paint.apply(tone_of(outcome.into_str()), word),
            tame(run.reason.as_deref().unwrap_or("no reason given")),
            done_of(&feature.tasks),
            counted(run.iterations, "iteration", "iterations"),
            format::of_run(run),
            duration::show_ms(run.elapsed_ms),
        );
        text.push_str(&requests(progress, paint));
        if outcome == RunOutcome::LimitReached {
            let open = usize::try_from(feature.tasks.open()).unwrap_or(0);
            if open > 0 {
                let parallel = usize::try_from(feature.max_parallel).unwrap_or(1);
                let estimate = estimate::fetch(client, &feature.repo_id, open, parallel.min(open)).await;
                text.push_str(&format!("  remaining: {}\n", estimate::words(estimate.as_ref())));
            }
        }
        if let Some(next) = &progress.next {
            text.push_str(&format!("next: {}\n", next.command));
        }
        output::text(&text)?;
    }
    Ok(ExitCode::from(outcome.exit_code()))
}

/// Tasks that need a person, with the commands to decide.
fn requests(progress: &Progress, paint: Paint) -> String {
    let mut text = String::new();
    for task in &progress.attention {
        let (name, why) = (task.name.as_ref().unwrap_or(&task.id), task.reason.as_deref());
        let why = why.unwrap_or("no reason given");
        let line = format!("  {name} {} {}: {why}\n", task.status.into_str(), task.title);
        text.push_str(&paint.apply(Tone::Dim, &tame(&line)));
        for command in &task.commands {
            text.push_str(&format!("    {command}\n"));
        }
    }
    text
}

/// The open decisions, for a command that keeps waiting.
pub fn open_questions(progress: &Progress) -> String {
    let is = condition::words(&progress.feature.condition);
    let tasks = requests(progress, Paint::stderr());
    format!(
        "{} is {is}; it goes on after your decision\n{}",
        progress.feature.name,
        tasks.trim_end()
    )
}

/// The branch that work landed on; `None` without landings, or if the coordinator doesn't respond.
async fn landed_on<'a>(client: &Client, feature: &'a FeatureView) -> Option<&'a str> {
    let branch = feature.branch.as_deref().filter(|_| feature.tasks.done > 0)?;
    let path = format!("/features/{}/landings", escape(&feature.id));
    let landed: Page<Landing> = client.list(&path, "", 1).await.ok()?;
    (!landed.items.is_empty()).then_some(branch)
}

/// Reports that open tasks wait until a person starts a run.
pub fn waits(progress: &Progress, format: Format) -> anyhow::Result<ExitCode> {
    idle::hint_at(progress);
    if format == Format::Json {
        output::json(progress)?;
    }
    Ok(ExitCode::from(RunOutcome::Blocked.exit_code()))
}

/// Reports that a feature never ran.
fn never_ran(progress: &Progress, format: Format) -> anyhow::Result<ExitCode> {
    let feature = &progress.feature;
    let outcome = if feature.status == FeatureState::Cancelled {
        eprintln!("`{}` was cancelled before it ran", feature.name);
        RunOutcome::Interrupted
    } else {
        eprintln!("`{}` has not run yet", feature.name);
        idle::hint_at(progress);
        RunOutcome::NoPlan
    };
    if format == Format::Json {
        output::json(progress)?;
    }
    Ok(ExitCode::from(outcome.exit_code()))
}
