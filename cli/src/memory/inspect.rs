//! `memory list | show | explain | report`

use clap::Args;
use ralph_api::body::{EmbeddingsView, Explained, MemoryReport, SectionView};
use ralph_api::view::{Fates, MemoryView, Page};
use ralph_domain::recall::{Ended, Kind, Lift};
use ralph_shared::terminal::{counted, tame};

use super::{EntryKindArg, RepoArgs};
use crate::args::globals::Globals;
use crate::client::{Client, escape};
use crate::terminal::local_time::{ago, when};
use crate::terminal::output::{self, Format};
use crate::terminal::pager;
use crate::terminal::table::Table;

/// Filters of a list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Include entries that are in quarantine, hidden or replaced
    #[arg(long)]
    all: bool,
    /// Only entries of this kind
    #[arg(long, value_enum)]
    kind: Option<EntryKindArg>,
    /// At most this many entries
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
    /// Entries of all repositories
    #[arg(long)]
    everywhere: bool,
    #[command(flatten)]
    repo: RepoArgs,
}

pub async fn list(globals: &Globals, args: ListArgs) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let mut query = format!("all={}", args.all);
    if !args.everywhere {
        query.push_str(&format!("&repo={}", escape(&args.repo.identity().await?)));
    }
    if let Some(kind) = args.kind {
        query.push_str(&format!("&kind={}", Kind::from(kind).into_str()));
    }
    let page: Page<MemoryView> = client.list("/memory", &query, args.limit).await?;
    output::show(globals, &page, |wide| table(&page.items, wide)).await
}

fn table(entries: &[MemoryView], wide: bool) -> Table {
    let mut heads = vec!["ID", "STATUS", "WEIGHT", "SHOWN", "TAGS"];
    if wide {
        heads.extend(["REPO", "FROM", "LANDED", "FAILED", "CREATED"]);
    }
    heads.push("TEXT");
    let mut table = Table::new(
        heads,
        "no entries; sessions add learnings and knowledge, and `memory import` reads files",
    );
    for entry in entries {
        let mut row = vec![
            entry.id.clone(),
            entry.status.clone(),
            format!("{:.2}", entry.weight),
            entry.shown.to_string(),
            entry.tags.join(","),
        ];
        if wide {
            row.extend([
                entry.repo.clone(),
                entry.task.clone().unwrap_or_else(|| entry.origin.clone()),
                entry.landed.to_string(),
                entry.failed.to_string(),
                ago(entry.created_at),
            ]);
        }
        row.push(head(entry).to_owned());
        table.row(row);
    }
    table
}

fn head(entry: &MemoryView) -> &str {
    if entry.title.is_empty() {
        entry.body.lines().next().unwrap_or_default()
    } else {
        &entry.title
    }
}

pub async fn show(globals: &Globals, entry: &str) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let entry: MemoryView = client.get(&format!("/memory/{}", escape(entry))).await?;
    print_entry(globals, &entry).await
}

/// State of an external model.
fn embeddings(model: &EmbeddingsView) -> String {
    let mut state = format!(
        "{} got its vectors, {}",
        counted(model.made, "entry", "entries"),
        counted(model.waiting, "waits", "wait")
    );
    if model.refused > 0 {
        state += &format!(", {} refused", counted(model.refused, "was", "were"));
    }
    if model.calibrated > 0 {
        let memories = counted(model.calibrated, "memory", "memories");
        state += &format!(", {memories} calibrated");
    }
    if let Some(why) = &model.trouble {
        state += &format!("; paused for a while, and memory works without it: {why}");
    }
    tame(&format!("{:<14}{}: {state}\n", "embeddings", model.model))
}

/// Prints an entry.
pub(super) async fn print_entry(globals: &Globals, entry: &MemoryView) -> anyhow::Result<()> {
    if globals.output == Format::Json {
        return output::json(entry);
    }
    let mut lines = vec![format!("{} [{}] {}", entry.id, entry.status, entry.title)];
    let mut line = |label: &str, text: Option<String>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            lines.push(format!("{label:<12}{text}"));
        }
    };
    line("repository", Some(entry.repo.clone()));
    line("category", entry.category.clone());
    line("tags", Some(entry.tags.join(", ")));
    line("files", Some(entry.paths.join(", ")));
    line("feature", entry.feature.clone());
    let origin = match (&entry.task, entry.attempt) {
        (Some(task), Some(n)) => format!("{task}, attempt {n}"),
        (Some(task), None) => task.clone(),
        (None, _) => entry.origin.clone(),
    };
    line("from", Some(origin));
    let by = [entry.agent.clone(), entry.model.clone()];
    let by: Vec<String> = by.into_iter().flatten().collect();
    line("by", Some(by.join(", ")));
    line("created", Some(when(entry.created_at)));
    line("weight", Some(format!("{:.2}", entry.weight)));
    let shown = format!(
        "{}, {} landed, {} failed",
        counted(entry.shown, "time", "times"),
        entry.landed,
        entry.failed
    );
    line("shown", Some(shown));
    line("last used", entry.last_used_at.map(when));
    line("replaced by", entry.superseded_by.clone());
    line("hidden", entry.pruned_because.clone());
    let doubt = entry.doubted_by.as_ref();
    line(
        "in doubt",
        doubt.map(|id| format!("it repeats {id}, which was revoked; `memory restore` releases it")),
    );
    if entry.witnesses > 0 {
        let further = counted(entry.witnesses, "further attempt", "further attempts");
        line("confirmed", Some(format!("by {further}")));
    }
    for one in &entry.family {
        let text = format!("{} {} [{}] {}", one.relation, one.id, one.status, one.title);
        line("", Some(text));
    }
    let text = tame(&format!("{}\n\n{}\n", lines.join("\n"), entry.body));
    pager::show(globals, &text).await
}

/// Shows the candidates for the memory in an attempt's prompt.
pub async fn explain(globals: &Globals, task: &str, attempt: Option<i32>) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let query = attempt.map(|n| format!("?attempt={n}")).unwrap_or_default();
    let explained: Explained = client
        .get(&format!("/tasks/{}/memory{query}", escape(task)))
        .await?;
    if globals.output == Format::Json {
        return output::json(&explained);
    }
    let memory = match explained.held_out {
        None => "the memory of other tasks had no match",
        Some(true) => "held out: it got no memory of other tasks, to measure the effect of memory",
        Some(false) => "it had memory of other tasks",
    };
    let mut text = format!(
        "{}, attempt {}: {memory}\n",
        explained.dispatch, explained.attempt
    );
    text += &sections(&explained.sections);
    if !explained.items.is_empty() {
        let mut table = Table::new(["ID", "SCORE", "STATUS", "REASON", "TITLE"], "");
        for one in &explained.items {
            table.row([
                one.id.clone(),
                format!("{:.2}", one.score),
                if one.shown { "shown" } else { "left out" }.to_owned(),
                one.reason.clone().unwrap_or_default(),
                one.title.clone(),
            ]);
        }
        text += &table.to_string();
    }
    pager::show(globals, &text).await
}

/// The sections of a prompt with their sizes, a line each.
fn sections(sections: &[SectionView]) -> String {
    let line = |one: &SectionView| {
        format!(
            "{:<36}{:<9}{} of {} characters\n",
            one.name, one.status, one.chars, one.allowed
        )
    };
    sections.iter().map(line).collect()
}

/// Number of entries by state, in a line or two.
fn fates_line(fates: &Fates) -> String {
    let words = [
        ("live", "live"),
        ("quarantine", "in quarantine"),
        ("stale", "without their files"),
        ("superseded", "replaced"),
        ("pruned", "hidden by people"),
        ("pruned_unused", "hidden as unused"),
        ("pruned_full", "hidden when memory was full"),
        ("pruned_stale", "hidden with their files"),
        ("pruned_revoked", "revoked"),
        ("pruned_purged", "hidden with their replacements"),
    ];
    let counts: Vec<String> = words
        .iter()
        .filter_map(|(status, words)| Some(format!("{} {words}", fates.entries.get(*status)?)))
        .collect();
    let mut text = String::new();
    if !counts.is_empty() {
        text += &format!("{:<14}{}\n", "entries", counts.join(", "));
    }
    if fates.distillations > 0 {
        text += &format!(
            "{:<14}{} became {} in {}\n",
            "merged",
            counted(fates.merged, "learning", "learnings"),
            fates.made,
            counted(fates.distillations, "session", "sessions")
        );
    }
    text
}

/// The lift in words, with the resources of tasks, and repositories with memory switched off.
fn worth(report: &MemoryReport) -> String {
    let mut text = match report.lift {
        Some(lift) => format!(
            "{:<14}{}: {:+.0} points, 95% between {:+.0} and {:+.0}\n",
            "memory",
            report.worth.as_str(),
            lift.difference * 100.0,
            lift.low * 100.0,
            lift.high * 100.0
        ),
        None => format!(
            "{:<14}{}: the lift is unknown until attempts of both kinds have ended\n",
            "memory",
            report.worth.as_str()
        ),
    };
    for (name, effect, digits) in [
        ("iterations", report.iterations, 2),
        ("cost, USD", report.cost_usd, 4),
        ("time, s", report.seconds, 1),
    ] {
        if let Some(Lift {
            difference,
            low,
            high,
        }) = effect
        {
            text += &format!(
                "{name:<14}{difference:+.digits$} a task, 95% between {low:+.digits$} and {high:+.digits$}\n"
            );
        }
    }
    text += &match report.needed {
        Some(0) => "The lift is known to ±10 points.\n".to_owned(),
        Some(n) => format!(
            "{} needed to know the lift to ±10 points.\n",
            counted(n, "more first attempt is", "more first attempts are")
        ),
        None => String::new(),
    };
    for off in &report.switched_off {
        text += &tame(&format!(
            "{:<14}{} since {}: {}; `memory resume` switches it on again\n",
            "switched off",
            off.repo,
            when(off.since),
            off.reason
        ));
    }
    text
}

/// Shows the effect of memory.
pub async fn report(globals: &Globals, all: bool, repo: &RepoArgs) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let query = if all {
        String::new()
    } else {
        format!("?repo={}", escape(&repo.identity().await?))
    };
    let report: MemoryReport = client.get(&format!("/memory/report{query}")).await?;
    if globals.output == Format::Json {
        return output::json(&report);
    }
    let side = |name: &str, ended: Ended| {
        let share = ended.share().map_or("no attempt yet".to_owned(), |share| {
            format!(
                "{} of {} landed ({:.0}%)",
                ended.landed,
                ended.ended,
                share * 100.0
            )
        });
        format!("{name:<14}{share}\n")
    };
    let mut text = side("with memory", report.with_memory) + &side("held out", report.held_out);
    text += &worth(&report);
    text += &fates_line(&report.fates);
    if let Some(model) = &report.embeddings {
        text += &embeddings(model);
    }
    if !report.items.is_empty() {
        text += &format!("\n{}", table(&report.items, globals.output == Format::Wide));
    }
    pager::show(globals, &text).await
}
