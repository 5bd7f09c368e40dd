//! A file of 100,000 tasks, submitted on the command line.

use std::fs;

use anyhow::ensure;

use crate::figures::Figures;
use crate::load;
use crate::process::peak_bytes;
use crate::servers::Servers;
use crate::stub::now;
use crate::system::System;

/// A width of a thousand makes a graph a hundred deep, with two blockers per task.
const WIDTH: usize = 1_000;
const MIB: f64 = 1024.0 * 1024.0;

/// Submits `n` tasks. The clock covers the whole command.
pub async fn submit(servers: &Servers, n: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let mut system = System::fresh(servers, "submit").await?;
    let coordinator = system.start_coordinator()?;
    let file = servers.dir().join("tasks.json");
    fs::write(&file, load::layered(n / WIDTH, WIDTH))?;
    let mut command = system.command(&[
        "submit",
        "feature",
        "large",
        "--no-repo",
        "--no-verify",
        "--tasks",
    ])?;
    command.arg(&file);
    system.until_served().await?;
    let began = now();
    let output = command.output().await?;
    let took = now() - began;
    ensure!(
        output.status.success(),
        "the submission failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (time, memory) = (
        format!("submit a file of {n} tasks"),
        format!("coordinator's memory at most, while it takes {n} tasks"),
    );
    figures.at_most(&time, "s", took, 15.0);
    figures.at_most(&memory, "MiB", peak_bytes(coordinator)? as f64 / MIB, 400.0);
    system.stop_coordinator().await;
    Ok(())
}
