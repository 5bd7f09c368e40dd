//! The commands and their global flags.

pub mod globals;
pub mod usage;

use clap::{Parser, Subcommand};
use ralph_shared::command_line::without_empty_variables;

use crate::args::globals::Globals;
use crate::cost::commands;
use crate::logs::activity;
use crate::machine::{config, init, open};
use crate::reference::{completions, man, schema};
use crate::schedule::hook;
use crate::task::context;
use crate::{feature, inbox, logs, mcp, memory, run, schedule, status, submit, task, token, worker};

/// Runs many coding agents on one task graph: the commands that call a coordinator.
#[derive(Debug, Parser)]
#[command(
    name = "ralph",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Examples:
  ralph submit feature todo --tasks tasks.yaml --wait   work on a graph of tasks, and wait
  ralph submit task \"Fix the login\" --wait              work on one task, and wait
  ralph inbox                                           see what waits for you
  ralph status --watch                                  see what goes on
  ralph logs t-9f2c --follow                            see what an agent does

`ralph-coordinator` has the same commands, and those that start and check a coordinator: `up`, `serve`, `migrate`, `doctor`.

Exit codes: 0 done, 1 failed, 2 wrong usage; with --wait also 3 a limit was reached, 4 a person is needed, 5 nothing to run,
6 accepted but it can't be watched, 130 interrupted."
)]
pub struct Cli {
    /// Flags of all commands.
    #[command(flatten)]
    pub globals: Globals,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Builds the command line parser; empty variables count as unset.
pub fn command() -> clap::Command {
    without_empty_variables(<Cli as clap::CommandFactory>::command())
}

/// The command.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(subcommand)]
    Submit(submit::SubmitCommand),
    #[command(subcommand)]
    Feature(feature::FeatureCommand),
    #[command(subcommand)]
    Task(task::TaskCommand),
    #[command(subcommand)]
    Run(run::RunCommand),
    Cost(commands::CostArgs),
    Budget(commands::BudgetArgs),
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    #[command(subcommand)]
    Hook(hook::HookCommand),
    #[command(subcommand)]
    Token(token::TokenCommand),
    #[command(subcommand)]
    Memory(memory::MemoryCommand),
    Logs(logs::LogsArgs),
    Inbox(inbox::InboxArgs),
    Open(open::OpenArgs),
    Log(activity::LogArgs),
    Status(status::StatusArgs),
    Context(context::ContextArgs),
    Mcp(mcp::McpArgs),
    Config(Box<config::ConfigArgs>),
    Init(init::InitArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    Schema(schema::SchemaArgs),
}
