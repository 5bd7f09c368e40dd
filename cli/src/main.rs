//! The client program. All code is in the library, which `ralph-coordinator` uses too.

use std::process::ExitCode;

fn main() -> ExitCode {
    ralph_cli::start::main()
}
