//! The coordinator's program. All code is in the library, so that tests can reach it.

use std::process::ExitCode;

/// A seventh of the work on claims and reports is allocation; this allocator takes half as long for it as the
/// system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ralph_coordinator::cli::answer_shell();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: failed to start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(ralph_coordinator::cli::main());
    // A thread that waits for the terminal must not delay the exit.
    runtime.shutdown_background();
    code
}
