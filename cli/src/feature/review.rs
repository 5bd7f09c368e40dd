//! `feature review --show`: the facts for a person's approval.

use ralph_api::view::{DispatchView, Examined, Page};
use ralph_shared::terminal::{Paint, Tone, counted, tame};

use crate::args::globals::Globals;
use crate::client::{Client, escape};
use crate::task::page::{indented, weakened};
use crate::terminal::color::tone_of;
use crate::terminal::local_time::when;
use crate::terminal::output::{self, Format};
use crate::terminal::pager;

/// Files of a change that are named.
const NAMED_FILES: usize = 20;

/// Shows the tasks that wait for a person, that weakened tests, or that reviewed the feature.
pub async fn show(globals: &Globals, client: &Client, feature: &str) -> anyhow::Result<()> {
    let path = format!("/features/{}/review", escape(feature));
    let page: Page<Examined> = client.list(&path, "", usize::MAX).await?;
    if globals.output == Format::Json {
        return output::json(&page);
    }
    let paint = Paint::stdout();
    let mut text = String::new();
    for examined in &page.items {
        text.push_str(&one(examined, paint));
        text.push('\n');
    }
    if page.items.is_empty() {
        text = format!("no task of {feature} waits for a person, and no test became weaker\n");
    }
    pager::show(globals, &text).await
}

fn one(examined: &Examined, paint: Paint) -> String {
    let task = &examined.task;
    let status = task.status.into_str();
    let mut lines = vec![format!(
        "{} {}: {}",
        task.id,
        tame(&task.title),
        paint.apply(tone_of(status), status)
    )];
    if let Some(reason) = &task.reason {
        lines.push(format!("  reason    {}", indented(reason)));
    }
    if let Some(work) = &examined.work {
        lines.push(verdict_line("work", work, paint));
        if let Some(journal) = work.journal.as_ref().filter(|text| !text.trim().is_empty()) {
            lines.push(format!("  journal   {}", indented(journal)));
        }
        lines.extend(changed(examined, work));
    }
    for verdict in &examined.verdicts {
        lines.push(verdict_line(verdict.kind.into_str(), verdict, paint));
    }
    for test in examined.work.iter().flat_map(|work| &work.test_changes) {
        let line = format!("  look at   {}", weakened(test));
        lines.push(paint.apply(Tone::Warn, &line));
        lines.extend(
            test.lines
                .iter()
                .skip(1)
                .map(|line| format!("              {}", tame(line))),
        );
    }
    lines.extend(
        examined
            .commands
            .iter()
            .map(|command| paint.apply(Tone::Dim, &format!("  next      {command}"))),
    );
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn verdict_line(what: &str, dispatch: &DispatchView, paint: Paint) -> String {
    let outcome = dispatch
        .outcome
        .map_or(dispatch.status.as_str(), |outcome| outcome.as_str());
    let ended = dispatch.ended_at.map(when).unwrap_or_default();
    let reason = dispatch
        .reason
        .as_ref()
        .map(|reason| format!(": {}", indented(reason)))
        .unwrap_or_default();
    format!(
        "  {what:9} attempt {}, {ended}: {}{reason}",
        dispatch.attempt,
        paint.apply(tone_of(outcome), outcome)
    )
}

fn changed(examined: &Examined, work: &DispatchView) -> Option<String> {
    let files = &work.files_changed;
    if files.is_empty() {
        return None;
    }
    let lines = examined
        .lines
        .map(|lines| format!(", +{} -{} lines", lines.added, lines.removed))
        .unwrap_or_default();
    let more = match files.len().saturating_sub(NAMED_FILES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<&str> = files.iter().take(NAMED_FILES).map(String::as_str).collect();
    Some(format!(
        "  changed   {}{lines}: {}{more}",
        counted(files.len(), "file", "files"),
        tame(&named.join(", "))
    ))
}
