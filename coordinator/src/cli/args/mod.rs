//! The commands and the global options.

use clap::{Parser, Subcommand};
use ralph_cli::args::globals::Globals;
use ralph_cli::machine::serve_args::ServeArgs;
use ralph_shared::command_line::without_empty_variables;

use crate::cli::server::{doctor, down, serve, up};

/// Runs many coding agents on one task graph.
#[derive(Debug, Parser)]
#[command(
    name = "ralph-coordinator",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Examples:
  ralph-coordinator up --workers 2                                  start everything on this machine
  ralph submit feature todo --tasks tasks.yaml --wait   work on a graph of tasks, and wait
  ralph submit task \"Fix the login\" --wait              work on one task, and wait
  ralph inbox                                           see what waits for you
  ralph open                                            see it all in a browser
  ralph status --watch                                  see what goes on
  ralph logs t-9f2c --follow                            see what an agent does

Exit codes: 0 done, 1 failed, 2 wrong usage; with --wait also 3 a limit was reached, 4 a person is needed, 5 nothing to run,
6 accepted but it can't be watched, 130 interrupted."
)]
pub struct Cli {
    /// Global options.
    #[command(flatten)]
    pub globals: Globals,
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The command line as parsed. An empty environment variable counts as unset.
pub fn command() -> clap::Command {
    without_empty_variables(<Cli as clap::CommandFactory>::command())
}

/// The command to run.
#[derive(Debug, Subcommand)]
pub enum Command {
    Up(up::UpArgs),
    Down(down::DownArgs),
    Serve(ServeArgs),
    Migrate(serve::MigrateArgs),
    Doctor(doctor::DoctorArgs),
    #[command(flatten)]
    Client(ralph_cli::args::Command),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
                assert!(help.contains("ralph"), "`{path} --help` has no example");
            }
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                check(sub, &path);
            }
        }
        check(&Cli::command(), "");
    }

    /// Each command's help, without the values of this environment.
    fn helps(command: clap::Command, width: usize) -> Vec<(String, String)> {
        fn collect(command: clap::Command, width: usize, path: &str, out: &mut Vec<(String, String)>) {
            let path = format!("{path} {}", command.get_name()).trim_start().to_owned();
            let mut command = command
                .mut_args(|arg| arg.hide_env_values(true))
                .term_width(width);
            out.push((path.clone(), command.render_long_help().to_string()));
            let subs: Vec<clap::Command> = command.get_subcommands().cloned().collect();
            for sub in subs.into_iter().filter(|sub| sub.get_name() != "help") {
                collect(sub, width, &path, out);
            }
        }
        let mut command = command;
        command.build();
        let mut out = Vec::new();
        collect(command, width, "", &mut out);
        out
    }

    #[test]
    fn help_texts() {
        let helps = helps(Cli::command(), 100).into_iter();
        let out: String = helps
            .map(|(path, help)| format!("━━━ {path} --help\n{help}\n"))
            .collect();
        insta::assert_snapshot!(out);
    }

    #[test]
    fn both_programs_have_the_same_help_for_shared_commands() {
        // So wide that the length of the program's name never changes a line break.
        let ours: BTreeMap<String, String> = helps(command(), 10_000).into_iter().collect();
        let mut compared = 0;
        for (path, help) in helps(ralph_cli::args::command(), 10_000).into_iter().skip(1) {
            let same = ours.get(&path.replacen("ralph", "ralph-coordinator", 1));
            // The usage names the program.
            let same = same.map(|help| help.replace("ralph-coordinator", "ralph"));
            assert_eq!(same, Some(help), "{path}");
            compared += 1;
        }
        assert!(compared > 80, "{compared}");
    }
}
