//! `memory add | edit | prune | restore | purge | revoke`

use clap::Args;
use ralph_api::body::{
    AddMemory, CommandOptions, Done, EditMemory, PruneMemory, PurgeMemory, Purged, RestoreMemory,
    ResumeMemory, RetractResult, RevokedMemory,
};
use ralph_api::view::MemoryView;
use ralph_shared::file;
use ralph_shared::terminal::counted;

use super::inspect::print_entry;
use super::{EntryKindArg, RepoArgs};
use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::client::{Client, escape};
use crate::terminal::confirm::confirm;
use crate::terminal::output;

/// A new entry.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// The text; `-` reads standard input
    text: String,
    /// Kind of the entry
    #[arg(long, value_enum, default_value_t = EntryKindArg::Learning)]
    kind: EntryKindArg,
    /// Category of a learning: success_pattern, pitfall, tool_usage, code_structure, testing_strategy,
    /// debugging_technique, …
    #[arg(long)]
    category: Option<String>,
    /// Short title; a knowledge entry needs one
    #[arg(long, default_value = "")]
    title: String,
    /// Keywords, separated by commas
    #[arg(long, value_delimiter = ',')]
    tags: Vec<String>,
    /// Files that the entry is about, separated by commas
    #[arg(long, value_delimiter = ',')]
    paths: Vec<String>,
    #[command(flatten)]
    repo: RepoArgs,
}

pub async fn add(globals: &Globals, args: AddArgs) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let body = AddMemory {
        repo: args.repo.identity().await?,
        kind: args.kind.into(),
        category: args.category,
        title: args.title,
        body: given(args.text)?,
        tags: args.tags,
        paths: args.paths,
    };
    let entry: MemoryView = client.post("/memory", &body).await?;
    print_entry(globals, &entry).await
}

/// Changes to an entry.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// Id of the entry, or its beginning
    entry: String,
    /// New text; `-` reads standard input
    text: Option<String>,
    /// New title
    #[arg(long)]
    title: Option<String>,
    /// New category of a learning
    #[arg(long)]
    category: Option<String>,
    /// New keywords, separated by commas; they replace all present ones
    #[arg(long, value_delimiter = ',')]
    tags: Option<Vec<String>>,
}

pub async fn edit(globals: &Globals, args: EditArgs) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let edit = EditMemory {
        title: args.title,
        category: args.category,
        body: args.text.map(given).transpose()?,
        tags: args.tags,
    };
    let entry: MemoryView = client
        .post(&format!("/memory/{}/edit", escape(&args.entry)), &edit)
        .await?;
    print_entry(globals, &entry).await
}

/// Entries to hide.
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Ids of entries, or their beginnings
    entries: Vec<String>,
    /// Entries of the repository that are older than this many days and have not been shown in that time
    #[arg(long, value_name = "DAYS")]
    unused_days: Option<f64>,
    /// Only report how many
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    repo: RepoArgs,
}

pub async fn prune(globals: &Globals, args: PruneArgs) -> anyhow::Result<()> {
    if args.entries.is_empty() && args.unused_days.is_none() {
        let which =
            "which entries? Name their ids, or give `--unused-days DAYS` for entries unused that long";
        return Err(Usage(which.to_owned()).into());
    }
    let client = Client::find(globals)?;
    let repo = match args.unused_days {
        Some(_) => Some(args.repo.identity().await?),
        None => None,
    };
    let body = PruneMemory {
        ids: args.entries,
        repo,
        unused_days: args.unused_days,
        dry_run: args.dry_run,
    };
    let result: RetractResult = client.post("/memory/prune", &body).await?;
    let word = if args.dry_run { "would be hidden" } else { "hidden" };
    print_result(globals, result, word)
}

pub async fn restore(globals: &Globals, ids: Vec<String>) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let result: RetractResult = client.post("/memory/restore", &RestoreMemory { ids }).await?;
    print_result(globals, result, "restored")
}

pub async fn resume(globals: &Globals, repo: &RepoArgs) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let repo = repo.identity().await?;
    let done: Done = client.post("/memory/resume", &ResumeMemory { repo }).await?;
    let text = "sessions get memory again, and the comparison of attempts starts anew\n";
    output::answer(globals.output, &done, text)
}

pub async fn purge(globals: &Globals, ids: Vec<String>, yes: bool) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    confirm(
        &format!("Delete {} with the prompts that showed them?", ids.join(", ")),
        yes,
    )?;
    let purged: Purged = client.post("/memory/purge", &PurgeMemory { ids }).await?;
    let text = format!(
        "{} deleted, with {} that had shown them\n",
        counted(purged.entries, "entry", "entries"),
        counted(purged.prompts, "prompt", "prompts")
    );
    output::answer(globals.output, &purged, &text)
}

pub async fn revoke(globals: &Globals, task: &str, attempt: Option<i32>) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let query = attempt.map(|n| format!("?attempt={n}")).unwrap_or_default();
    let path = format!("/tasks/{}/memory/revoke{query}", escape(task));
    let revoked: RevokedMemory = client.post(&path, &CommandOptions::default()).await?;
    output::answer(globals.output, &revoked, &spread(&revoked))
}

/// The revoked entries, and further places where they occur.
fn spread(revoked: &RevokedMemory) -> String {
    let mut text = format!(
        "{} revoked, with the attempt's notes and journal entry\n",
        counted(revoked.entries, "entry", "entries")
    );
    for (ids, what) in [
        (
            &revoked.quarantined,
            "repeat it and are in quarantine; `memory restore` releases them",
        ),
        (
            &revoked.to_check,
            "came from attempts that saw it; check them with `memory show`",
        ),
        (
            &revoked.journals,
            "are sessions whose journal quotes it; that journal is now hidden",
        ),
    ] {
        if !ids.is_empty() {
            text += &format!("{} {what}\n", ids.join(", "));
        }
    }
    text
}

fn print_result(globals: &Globals, result: RetractResult, word: &str) -> anyhow::Result<()> {
    let entries = counted(result.entries, "entry", "entries");
    output::answer(globals.output, &result, &format!("{entries} {word}\n"))
}

fn given(text: String) -> anyhow::Result<String> {
    if text != "-" {
        return Ok(text);
    }
    let read = file::read_stdin(file::LARGE_BYTES)?.trim().to_owned();
    if read.is_empty() {
        return Err(Usage("standard input is empty; write the entry's text to it".to_owned()).into());
    }
    Ok(read)
}
