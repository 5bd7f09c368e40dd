//! The worker's program. All code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ralph_worker::command_line::main()
}
