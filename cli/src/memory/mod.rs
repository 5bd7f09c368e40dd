//! `memory …`: learnings and knowledge of earlier iterations.

mod files;
mod inspect;
mod lines;
mod put;
mod search;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use ralph_domain::recall::Kind;

use super::submit::identity;
use crate::args::globals::Globals;

/// Search, show, fill and correct the memory of earlier iterations
#[derive(Debug, Subcommand)]
pub enum MemoryCommand {
    /// Search the memory as a task would
    #[command(after_help = "Examples:
  ralph memory search \"Parse the header of a zone file\"
  ralph memory search --batch queries.jsonl --repo NAME --limit 5 --output json")]
    Search(search::SearchArgs),
    /// List entries
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  ralph memory list
  ralph memory list --all --kind knowledge --output wide"
    )]
    List(inspect::ListArgs),
    /// Show an entry with its origin, its family, and the outcomes of attempts that saw it
    #[command(after_help = "Example:
  ralph memory show l-9f2c41aa07be")]
    Show {
        /// Id of the entry, or its beginning
        entry: String,
    },
    /// Add an entry by hand; it is trusted at once
    #[command(after_help = "Examples:
  ralph memory add --category pitfall --tags dns,zone \"Serial numbers wrap around\"
  ralph memory add --kind knowledge --title \"Golden tests need UTC\" --tags golden,tests - < text.md")]
    Add(put::AddArgs),
    /// Change the text of an entry
    #[command(after_help = "Example:
  ralph memory edit l-9f2c --tags dns,serial \"Serial numbers wrap around, see RFC 1982\"")]
    Edit(put::EditArgs),
    /// Hide named or unused entries; `memory restore` brings them back
    #[command(after_help = "Examples:
  ralph memory prune l-9f2c k-41aa
  ralph memory prune --unused-days 180 --dry-run")]
    Prune(put::PruneArgs),
    /// Restore hidden and doubted entries: all named ones, or none
    ///
    /// Entries that were revoked with their attempt, or replaced, stay hidden. Entries about missing files
    /// are shown again once those are back.
    #[command(after_help = "Example:
  ralph memory restore l-9f2c k-41aa")]
    Restore {
        /// Ids of entries, or their beginnings; `memory list --all` shows them
        #[arg(required = true)]
        entries: Vec<String>,
    },
    /// Delete entries for good, with the prompts that showed them, such as a leaked secret
    #[command(
        after_help = "Transcripts of the attempt that wrote it keep it until their retention ends.

Examples:
  ralph memory purge l-9f2c41aa07be
  ralph memory purge l-9f2c41aa07be --yes"
    )]
    Purge {
        /// Ids of entries, or their beginnings
        #[arg(required = true)]
        entries: Vec<String>,
        /// Don't ask
        #[arg(long)]
        yes: bool,
    },
    /// Revoke all entries of an attempt, and all that were distilled from them
    ///
    /// Copies of them by later attempts go back to quarantine; other entries of these attempts are listed.
    #[command(after_help = "Example:
  ralph memory revoke t-9f2c --attempt 2")]
    Revoke {
        /// Id of the task, or its beginning
        task: String,
        /// Number of the attempt; by default the last session
        #[arg(long, value_name = "N")]
        attempt: Option<i32>,
    },
    /// Export knowledge as Markdown files and learnings as JSON lines
    #[command(after_help = "Example:
  ralph memory export .ralph/knowledge")]
    Export(files::ExportArgs),
    /// Import entries from JSON lines, or from a folder that `memory export` wrote
    #[command(after_help = "Examples:
  ralph memory import history.jsonl --repo NAME
  ralph memory import .ralph/knowledge")]
    Import(files::ImportArgs),
    /// Show the entries that an attempt's prompt was chosen from, with scores and reasons
    #[command(after_help = "Example:
  ralph memory explain t-9f2c --attempt 1")]
    Explain {
        /// Id of the task, or its beginning
        task: String,
        /// Number of the attempt; by default the last session
        #[arg(long, value_name = "N")]
        attempt: Option<i32>,
    },
    /// Switch memory on again after it was switched off because it hurt
    ///
    /// The comparison of its attempts starts anew.
    #[command(after_help = "Example:
  ralph memory resume --repo NAME")]
    Resume {
        #[command(flatten)]
        repo: RepoArgs,
    },
    /// Compare attempts with memory to attempts without it
    #[command(after_help = "Example:
  ralph memory report")]
    Report {
        /// All repositories together
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        repo: RepoArgs,
    },
}

/// The repository.
#[derive(Debug, Args)]
pub struct RepoArgs {
    /// Address, path or name of the repository [default: the one of this folder]
    #[arg(long, value_name = "URL|PATH|NAME")]
    repo: Option<String>,
}

impl RepoArgs {
    /// The repository's identity. Outside of any repository, that of features without one.
    async fn identity(&self) -> anyhow::Result<String> {
        identity(self.repo.as_deref()).await
    }
}

/// Kinds of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum EntryKindArg {
    /// Advice for tasks of a kind
    Learning,
    /// Facts about the project
    Knowledge,
}

impl From<EntryKindArg> for Kind {
    fn from(kind: EntryKindArg) -> Self {
        match kind {
            EntryKindArg::Learning => Self::Learning,
            EntryKindArg::Knowledge => Self::Knowledge,
        }
    }
}

/// Parts of the memory that can be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum KindArg {
    /// Advice for tasks of a kind
    Learning,
    /// Facts about the project
    Knowledge,
    /// Events of iterations of earlier runs
    Journal,
}

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Learning => Self::Learning,
            KindArg::Knowledge => Self::Knowledge,
            KindArg::Journal => Self::Journal,
        }
    }
}

pub async fn run(globals: &Globals, command: MemoryCommand) -> anyhow::Result<ExitCode> {
    match command {
        MemoryCommand::Search(args) => search::run(globals, args).await?,
        MemoryCommand::List(args) => inspect::list(globals, args).await?,
        MemoryCommand::Show { entry } => inspect::show(globals, &entry).await?,
        MemoryCommand::Add(args) => put::add(globals, args).await?,
        MemoryCommand::Edit(args) => put::edit(globals, args).await?,
        MemoryCommand::Prune(args) => put::prune(globals, args).await?,
        MemoryCommand::Restore { entries } => put::restore(globals, entries).await?,
        MemoryCommand::Purge { entries, yes } => put::purge(globals, entries, yes).await?,
        MemoryCommand::Revoke { task, attempt } => put::revoke(globals, &task, attempt).await?,
        MemoryCommand::Export(args) => files::export(globals, args).await?,
        MemoryCommand::Import(args) => files::import(globals, args).await?,
        MemoryCommand::Explain { task, attempt } => inspect::explain(globals, &task, attempt).await?,
        MemoryCommand::Resume { repo } => put::resume(globals, &repo).await?,
        MemoryCommand::Report { all, repo } => inspect::report(globals, all, &repo).await?,
    }
    Ok(ExitCode::SUCCESS)
}
