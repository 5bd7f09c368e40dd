//! The coordinator's program. All code is in the library, so that tests can reach it.

use std::process::ExitCode;

/// A seventh of the work on claims and reports is allocation; this allocator takes half as long for it as the
/// system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ralph_coordinator::cli::main()
}
