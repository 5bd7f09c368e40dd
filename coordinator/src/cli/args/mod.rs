//! The commands and what holds for all of them.

pub(crate) mod globals;
pub(crate) mod usage;

use clap::{Parser, Subcommand};
use ralph_shared::command_line::without_empty_variables;

use super::{
    context, feature, hook, inbox, logs, mcp, memory, run, schedule, status, submit, task, token, worker,
};
use crate::cli::args::globals::Globals;
use crate::cli::server::open;
use crate::cli::{
    cost::commands,
    logs::activity,
    reference::{completions, man, schema},
    server::{config, doctor, down, init, serve, up},
};

/// Runs many coding agents on one task graph.
#[derive(Debug, Parser)]
#[command(
    name = "ralph-coordinator",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Examples:
  ralph-coordinator up --workers 2                                  start everything on this machine
  ralph-coordinator submit feature todo --tasks tasks.yaml --wait   work on a graph of tasks, and wait
  ralph-coordinator submit task \"Fix the login\" --wait              work on one task, and wait
  ralph-coordinator inbox                                           see what waits for you
  ralph-coordinator open                                            see it all in a browser
  ralph-coordinator status --watch                                  see what goes on
  ralph-coordinator logs t-9f2c --follow                            see what an agent does

Exit codes: 0 done, 1 failed, 2 wrong usage; with --wait also 3 a limit was reached, 4 a person is needed, 5 nothing to run,
6 accepted but it can't be watched, 130 interrupted."
)]
pub struct Cli {
    /// What holds for all commands.
    #[command(flatten)]
    pub globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The command line as it is parsed: a variable that is empty counts as one that isn't set.
pub fn command() -> clap::Command {
    without_empty_variables(<Cli as clap::CommandFactory>::command())
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Up(up::UpArgs),
    Down(down::DownArgs),
    Serve(serve::ServeArgs),
    Migrate(serve::MigrateArgs),
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
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    Schema(schema::SchemaArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            if command.get_subcommands().next().is_none() {
                let help = command
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(
                    help.contains("ralph-coordinator"),
                    "`{path} --help` has no example"
                );
            }
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                check(sub, &path);
            }
        }
        check(&Cli::command(), "");
    }

    /// Every command's help, without the values of this environment.
    #[test]
    fn help_texts() {
        fn collect(command: clap::Command, path: &str, out: &mut String) {
            let path = format!("{path} {}", command.get_name()).trim_start().to_owned();
            let mut command = command.mut_args(|arg| arg.hide_env_values(true)).term_width(100);
            out.push_str(&format!("━━━ {path} --help\n{}\n", command.render_long_help()));
            let subs: Vec<clap::Command> = command.get_subcommands().cloned().collect();
            for sub in subs.into_iter().filter(|sub| sub.get_name() != "help") {
                collect(sub, &path, out);
            }
        }
        let mut command = Cli::command();
        command.build();
        let mut out = String::new();
        collect(command, "", &mut out);
        insta::assert_snapshot!(out);
    }
}
