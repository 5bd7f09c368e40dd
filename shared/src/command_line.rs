//! What holds for both programs' command lines.

use clap::Command;

/// The same command line, in which a variable that is empty counts as one that isn't set.
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
