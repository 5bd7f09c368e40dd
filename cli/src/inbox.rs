//! `inbox`: everything that waits for a person.

use std::process::ExitCode;

use clap::Args;
use ralph_api::view::{InboxItem, InboxView};
use ralph_shared::agents::prices::usd_text;
use ralph_shared::terminal::{Paint, Tone, counted, tame};

use super::client::Client;
use crate::args::globals::Globals;
use crate::task::page::indented;
use crate::terminal::local_time::when;
use crate::terminal::output;

/// Show everything that waits for you, with the commands that decide
///
/// Approvals, tasks that need a person, questions of agents, limits, unavailable agents, and features that
/// need a run. Below each item, commands that show it come first, then those that decide it, the likely one
/// first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph inbox
  ralph inbox --output json | jq -r '.items[].commands[]'")]
pub struct InboxArgs {}

pub async fn run(globals: &Globals, _: InboxArgs) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    let inbox: InboxView = client.get("/inbox").await?;
    output::show(globals, &inbox, |_| page(&inbox, Paint::stdout())).await?;
    Ok(ExitCode::SUCCESS)
}

fn page(inbox: &InboxView, paint: Paint) -> String {
    let mut text = summary(inbox);
    for item in &inbox.items {
        text.push('\n');
        text.push_str(&one(item, paint));
    }
    if inbox.items.is_empty() {
        text.push_str("\nnothing waits for you\n");
    }
    text
}

/// Totals, in two or three lines.
fn summary(inbox: &InboxView) -> String {
    let features: i64 = inbox.features.iter().map(|count| count.features).sum();
    let by_word = inbox
        .features
        .iter()
        .map(|count| format!("{} {}", count.features, count.word.into_str()));
    let by_word: Vec<String> = by_word.collect();
    let of = |n: i64, word: &str| (n > 0).then(|| format!("{n} {word}"));
    let tasks = &inbox.tasks;
    let by_state = [
        of(tasks.done, "done"),
        of(tasks.in_progress, "running"),
        of(tasks.pending, "pending"),
        of(tasks.blocked, "blocked"),
        of(tasks.needs_review, "need you"),
        of(tasks.failed, "failed"),
        of(tasks.skipped, "skipped"),
        of(tasks.cancelled, "cancelled"),
    ];
    let by_state: Vec<String> = by_state.into_iter().flatten().collect();
    let list = |parts: Vec<String>| match parts.is_empty() {
        true => String::new(),
        false => format!(": {}", parts.join(", ")),
    };
    format!(
        "{}{}\n{}{}\n{}, {} USD so far\n",
        counted(features, "feature", "features"),
        list(by_word),
        counted(tasks.total, "task", "tasks"),
        list(by_state),
        counted(inbox.items.len(), "thing waits for you", "things wait for you"),
        usd_text(inbox.cost_usd, inbox.estimated),
    )
}

fn one(item: &InboxItem, paint: Paint) -> String {
    let kind = paint.apply(Tone::Warn, item.kind.into_str());
    let title = item
        .title
        .as_ref()
        .map(|title| format!("  {}", tame(title).replace('\n', " ")))
        .unwrap_or_default();
    let since = item
        .since
        .map(|at| format!("  since {}", when(at)))
        .unwrap_or_default();
    let mut text = format!(
        "{kind}  {}{title}{}\n",
        tame(&item.name),
        paint.apply(Tone::Dim, &since)
    );
    text.push_str(&format!("  {}\n", indented(&item.reason)));
    for command in &item.commands {
        text.push_str(&format!("    {}\n", tame(command)));
    }
    text
}
