//! Confirmation of irreversible actions.

use std::io::{BufRead as _, IsTerminal as _};

use crate::args::usage::Usage;

/// Asks at the terminal; without one, only `--yes` confirms.
pub fn confirm(question: &str, yes: bool) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Usage(format!("{question} This can't be undone; give --yes")).into());
    }
    eprint!("{question} This can't be undone. [y/N] ");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    anyhow::bail!("nothing was done")
}
