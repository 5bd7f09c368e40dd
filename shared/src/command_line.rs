//! Shared parts of both programs' command lines.

use std::io;

use clap::Command;
use clap_complete::env::Shells;

/// The variable by which a shell requests completions from a program.
const COMPLETE_VARIABLE: &str = "COMPLETE";

/// The script with which a shell asks `program`, which must be in PATH, for completions.
///
/// # Errors
/// If the shell is unknown.
pub fn registration(shell: &str, program: &str) -> io::Result<String> {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(shell) else {
        let known: Vec<&str> = shells.names().collect();
        let why = format!(
            "there are completions for {}, not for `{shell}`",
            known.join(", ")
        );
        return Err(io::Error::other(why));
    };
    let mut script = Vec::new();
    shell.write_registration(COMPLETE_VARIABLE, program, program, program, &mut script)?;
    String::from_utf8(script).map_err(io::Error::other)
}

/// The same command line, but an empty variable counts as unset.
pub fn without_empty_variables(command: Command) -> Command {
    command
        .mut_args(|arg| {
            let value = arg.get_env().and_then(std::env::var_os);
            if value.is_some_and(|value| value.is_empty()) {
                arg.env(None::<&'static str>)
            } else {
                arg
            }
        })
        .mut_subcommands(without_empty_variables)
}
