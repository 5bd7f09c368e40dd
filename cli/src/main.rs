//! The client's program. All code is in the library, which `ralph-coordinator` has too.

use std::process::ExitCode;

fn main() -> ExitCode {
    ralph_cli::start::main()
}
