//! Files of JSON lines.

use std::path::Path;

use anyhow::Context as _;
use serde::de::DeserializeOwned;

use crate::cli::start::Usage;

/// Reads a file of JSON lines, each of this `shape`; blank lines are none.
///
/// # Errors
/// When it can't be read, or a line is something else: then its number is said.
pub fn read<T: DeserializeOwned>(path: &Path, shape: &str) -> anyhow::Result<Vec<T>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| {
                let at = format!("{}:{}", path.display(), number + 1);
                Usage(format!("{at}: not a line of {shape}: {error}")).into()
            })
        })
        .collect()
}
