//! Values of the configuration: paths, commands, and secrets from files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use ralph_shared::file;

/// Absolute paths, whatever folder the worker was started in. `~/` is the user's home.
pub(super) fn absolute(paths: impl Iterator<Item = PathBuf>) -> anyhow::Result<Vec<PathBuf>> {
    paths
        .map(|path| {
            let home = path.strip_prefix("~").ok().zip(std::env::home_dir());
            let path = home.map(|(rest, home)| home.join(rest)).unwrap_or(path);
            std::path::absolute(&path).with_context(|| format!("failed to resolve {}", path.display()))
        })
        .collect()
}

pub(super) fn split(whose: &str, command: &str) -> anyhow::Result<Vec<String>> {
    let argv = shell_words::split(command)
        .with_context(|| format!("the command of {whose} has an unclosed quote: {command}"))?;
    if argv.is_empty() {
        bail!("the command of {whose} is empty");
    }
    Ok(argv)
}

/// Resolves values. A value may be `file:PATH`, so that the configuration contains no secret (SPEC 8). It
/// then counts as a secret, whatever its name.
pub(super) fn values(
    table: BTreeMap<String, String>,
    secrets: &mut Vec<String>,
) -> anyhow::Result<BTreeMap<String, String>> {
    table
        .into_iter()
        .map(|(key, text)| {
            let is_secret = text.starts_with(file::PREFIX);
            let value = file::value(&text)?;
            if is_secret {
                secrets.push(value.clone());
            }
            Ok((key, value))
        })
        .collect()
}
