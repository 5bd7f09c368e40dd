//! How a run ended, in words and as an exit code.

use std::process::ExitCode;

use super::idle;
use crate::cli::client::{Client, escape};
use crate::cli::cost;
use crate::cli::counted::{counted, done_of};
use crate::cli::duration;
use crate::cli::estimate;
use crate::cli::output::{self, Format};
use crate::cli::paint::{Paint, Tone, bell, tame, tone_of};
use crate::domain::states::{FeatureState, RunOutcome};
use crate::store::view::{FeatureView, Landing, Page, Progress, RunView};

/// Prints it; the exit code is the outcome's.
pub async fn tell(client: &Client, progress: &Progress, format: Format) -> anyhow::Result<ExitCode> {
    bell();
    let feature = &progress.feature;
    let Some((run, outcome)) = feature.run.as_ref().and_then(|run| Some((run, run.outcome?))) else {
        return never_ran(progress, format);
    };
    // What was added since isn't resolved, and waits for a run of its own; what waited for a person may be resolved by now.
    let is_over = outcome == RunOutcome::Blocked && feature.tasks.open() == 0;
    if feature.needs_run && (outcome == RunOutcome::Complete || is_over) {
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
            paint.apply(tone_of(outcome.as_str()), word),
            tame(run.reason.as_deref().unwrap_or("no reason given")),
            done_of(&feature.tasks),
            counted(run.iterations, "iteration", "iterations"),
            cost::of_run(run),
            duration::show_ms(run.elapsed_ms),
        );
        for task in &progress.attention {
            let why = task.reason.as_deref().unwrap_or("no reason given");
            let line = format!("  {} {} {}: {why}\n", task.id, task.status.as_str(), task.title);
            text.push_str(&paint.apply(Tone::Dim, &tame(&line)));
        }
        if outcome == RunOutcome::LimitReached {
            text.push_str(&goes_on(feature, run));
            let left = usize::try_from(feature.tasks.open()).unwrap_or(0);
            if left > 0 {
                let parallel = usize::try_from(feature.max_parallel).unwrap_or(1);
                let estimate = estimate::ask(client, &feature.repo_id, left, parallel.min(left)).await;
                text.push_str(&format!(
                    "  what is left: {}\n",
                    estimate::words(estimate.as_ref())
                ));
            }
        }
        if !progress.attention.is_empty() {
            text.push_str(&format!(
                "  `ralph-coordinator task show ID` tells what was tried, `task retry ID` tries again, then `feature run {}`\n",
                feature.name
            ));
        }
        output::text(&text)?;
    }
    Ok(ExitCode::from(outcome.exit_code()))
}

/// What is left after a limit, and how to go on: a further run has the limits of the last one anew.
fn goes_on(feature: &FeatureView, run: &RunView) -> String {
    let (name, limits) = (&feature.name, &run.limits);
    // Less than a tenth is left, which no session begins with.
    let used_up = |used: f64, limit: f64| used >= limit * 0.9;
    #[allow(clippy::cast_precision_loss)]
    let tokens = (run.input_tokens + run.output_tokens) as f64;
    #[allow(clippy::cast_precision_loss)]
    let flag = match (limits.cost_usd, limits.tokens) {
        (Some(usd), _) if used_up(run.cost_usd, usd) => format!(" --max-cost {usd}"),
        (_, Some(most)) if used_up(tokens, most as f64) => format!(" --max-tokens {most}"),
        _ => String::new(),
    };
    let left = match feature.tasks.open() {
        0 => String::new(),
        1 => "1 task is left: ".to_owned(),
        n => format!("{n} tasks are left: "),
    };
    format!(
        "  {left}`ralph-coordinator feature run {name}{flag} --wait` goes on, with the same limits once more; `--limit N` \
         (iterations), `--max-cost USD`, `--max-time TIME` or `--max-tokens N` sets others\n"
    )
}

/// The branch that work landed on; none where nothing has, or nobody says so any more.
async fn landed_on<'a>(client: &Client, feature: &'a FeatureView) -> Option<&'a str> {
    let branch = feature.branch.as_deref().filter(|_| feature.tasks.done > 0)?;
    let path = format!("/features/{}/landings", escape(&feature.id));
    let landed: Page<Landing> = client.list(&path, "", 1).await.ok()?;
    (!landed.items.is_empty()).then_some(branch)
}

/// Tells that what is open waits for a run that a person starts.
pub fn waits(progress: &Progress, format: Format) -> anyhow::Result<ExitCode> {
    idle::hint_at(&progress.feature);
    if format == Format::Json {
        output::json(progress)?;
    }
    Ok(ExitCode::from(RunOutcome::Blocked.exit_code()))
}

/// Tells of a feature that no run was started of.
fn never_ran(progress: &Progress, format: Format) -> anyhow::Result<ExitCode> {
    let feature = &progress.feature;
    let outcome = if feature.status == FeatureState::Cancelled {
        eprintln!("`{}` was cancelled before it ran", feature.name);
        RunOutcome::Interrupted
    } else {
        eprintln!(
            "`{0}` has not run yet; `ralph-coordinator feature run {0} --wait` starts it",
            feature.name
        );
        RunOutcome::NoPlan
    };
    if format == Format::Json {
        output::json(progress)?;
    }
    Ok(ExitCode::from(outcome.exit_code()))
}
