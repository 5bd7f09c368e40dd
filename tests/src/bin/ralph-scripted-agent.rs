//! The scripted agent's process; `--help` lists what a script can say.

use std::process::ExitCode;

use clap::Parser as _;
use ralph_tests::agent::{Options, run};

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("ralph-scripted-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}
