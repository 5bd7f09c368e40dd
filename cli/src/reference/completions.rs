//! `completions`: for a shell, which calls this program for completions: commands, flags, and the
//! coordinator's names of features, tasks and workers.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, Args};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::{CompleteEnv, Shell};
use ralph_api::view::{FeatureView, Page, TaskView, WorkerView};
use ralph_shared::command_line::registration;
use serde::de::DeserializeOwned;

use crate::args::globals::Globals;
use crate::client::{Client, escape};
use crate::terminal::output;

/// A coordinator that doesn't respond must not block typing.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Candidates, at most.
const MOST: usize = 1_000;

/// Print completions for a shell
///
/// They call this program, which must be in PATH, and so include the names of features, tasks and workers.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph completions bash > ~/.local/share/bash-completion/completions/ralph
  ralph completions zsh > ~/.zfunc/_ralph
  ralph completions fish > ~/.config/fish/completions/ralph.fish")]
pub struct CompletionsArgs {
    shell: Shell,
}

pub fn run(args: CompletionsArgs, program: fn() -> clap::Command) -> anyhow::Result<ExitCode> {
    output::text(&registration(&args.shell.to_string(), program().get_name())?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints completions when a shell requests them, and exits; otherwise does nothing.
pub fn complete(program: fn() -> clap::Command) {
    CompleteEnv::with_factory(|| with_names(program())).complete();
}

/// Adds completion of names to the command's arguments.
fn with_names(command: clap::Command) -> clap::Command {
    command.mut_args(named).mut_subcommands(with_names)
}

fn named(arg: Arg) -> Arg {
    let word = match arg.get_value_names() {
        Some([name, ..]) => name.to_string(),
        _ => arg.get_id().as_str().to_uppercase(),
    };
    match word.as_str() {
        "FEATURE" => arg.add(ArgValueCompleter::new(features)),
        "TASK" => arg.add(ArgValueCompleter::new(tasks)),
        "WORKER" => arg.add(ArgValueCompleter::new(workers)),
        _ => arg,
    }
}

fn features(typed: &OsStr) -> Vec<CompletionCandidate> {
    let named = |feature: FeatureView| (feature.name, feature.status.into_str().to_owned());
    offered(typed, items_of("/features".to_owned(), named))
}

/// `FEATURE/KEY`, of all features or of the feature before the slash.
fn tasks(typed: &OsStr) -> Vec<CompletionCandidate> {
    let path = match typed.to_string_lossy().split_once('/') {
        Some((feature, _)) => format!("/features/{}/tasks", escape(feature)),
        None => "/tasks".to_owned(),
    };
    let named = |task: TaskView| (task.handle(), task.title);
    offered(typed, items_of(path, named))
}

fn workers(typed: &OsStr) -> Vec<CompletionCandidate> {
    let named = |worker: WorkerView| (worker.name, worker.status.into_str().to_owned());
    offered(typed, items_of("/workers".to_owned(), named))
}

fn offered(typed: &OsStr, names: Vec<(String, String)>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let names = names.into_iter().filter(|(name, _)| name.starts_with(&*typed));
    let candidates = names.map(|(name, help)| CompletionCandidate::new(name).help(Some(help.into())));
    candidates.collect()
}

/// Items of a list of the coordinator; empty if it does not respond.
fn items_of<T: DeserializeOwned>(
    path: String,
    named: impl Fn(T) -> (String, String),
) -> Vec<(String, String)> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let answer = runtime.block_on(async {
        let client = Client::find_quietly(&globals()).ok()?;
        let list = client.list(&path, "", MOST);
        let page: Page<T> = tokio::time::timeout(REQUEST_TIMEOUT, list).await.ok()?.ok()?;
        Some(page.items)
    });
    answer.into_iter().flatten().map(named).collect()
}

/// Address of the coordinator, from the words of the line so far.
fn globals() -> Globals {
    let words: Vec<String> = std::env::args().collect();
    let value = |flag: &str| {
        let (own, joined) = (format!("--{flag}"), format!("--{flag}="));
        words
            .iter()
            .enumerate()
            .find_map(|(at, word)| match word.strip_prefix(&joined) {
                Some(value) => Some(value.to_owned()),
                None if *word == own => words.get(at + 1).cloned(),
                None => None,
            })
    };
    let mut globals = Globals {
        url: value("url"),
        token: value("token"),
        data: value("data").map(Into::into),
        output: output::Format::Json,
        no_pager: true,
    };
    // Completion can't report errors, so an unreadable variable only means no candidates.
    let _ = globals.read_environment();
    globals
}
