//! The scripted agent's process; `--help` describes its script language.

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
