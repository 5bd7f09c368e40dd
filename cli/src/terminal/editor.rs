//! Editing of texts in the user's editor.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use ralph_shared::file::{LARGE_BYTES, read_text};

use crate::args::usage::Usage;

const EDITOR: &str = "vi";

/// Lets the person edit a text; `which` names it, and `instead` is the error without a terminal.
pub fn edited(which: &str, before: &str, instead: &str) -> anyhow::Result<String> {
    if !std::io::stdin().is_terminal() {
        return Err(Usage(instead.to_owned()).into());
    }
    let mut file = tempfile::Builder::new()
        .prefix(&format!("ralph-{which}-"))
        .suffix(".md")
        .tempfile()
        .context("failed to make a file to edit")?;
    file.write_all(before.as_bytes())
        .context("failed to write the file to edit")?;
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
        .unwrap_or_else(|| EDITOR.to_owned());
    // Like git: the variable may contain arguments.
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "editor"])
        .arg(file.path())
        .status()
        .with_context(|| format!("failed to start the editor `{editor}`"))?;
    if !status.success() {
        anyhow::bail!("the editor `{editor}` ended with {status}; nothing was stored");
    }
    Ok(read_text(file.path(), LARGE_BYTES)?)
}

/// Saves a text that could not be stored, and prints the file's path.
pub fn save(which: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = save_silently(which, text)?;
    eprintln!("what you wrote is kept in {}", path.display());
    Ok(path)
}

/// Saves a text in a file.
pub fn save_silently(which: &str, text: &str) -> anyhow::Result<PathBuf> {
    let (mut file, path) = tempfile::Builder::new()
        .prefix(&format!("ralph-{which}-"))
        .suffix(".md")
        .tempfile()?
        .keep()?;
    file.write_all(text.as_bytes())?;
    Ok(path)
}
