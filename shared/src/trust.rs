//! Consent: a configuration that a program finds by itself is used only after a person agreed to exactly this
//! content.
//!
//! `.ralph.toml` names programs to run, the confinement of agents, and destinations of data. In a repository,
//! an agent may have written it, since its work lands there. History doesn't show the author: squash merges,
//! renames, links and folders without git hide it. So consent is stored by content, outside of every
//! repository: one file for each path and content, which holds the path. A file that the user names
//! (`--config`, `RALPH_CONFIG`) needs no further consent.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::{file, plain};

/// Maximum number of lines that are shown before the question whether to trust a file.
const SHOWN_LINES: usize = 60;

/// A configuration that nobody agreed to.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path} is new, or has changed since you trusted it. It decides what runs on this machine and how that is confined, and an \
     agent may have written it. Read it, then trust it with `ralph config trust {path}`, or name it with RALPH_CONFIG"
)]
pub struct Untrusted {
    path: String,
}

/// The stored consents.
#[derive(Debug, Clone)]
pub struct Consents {
    folder: Option<PathBuf>,
}

impl Consents {
    /// This user's consents: below `XDG_STATE_HOME`, else `~/.local/state`. Without either, nothing can be
    /// trusted.
    pub fn of_user() -> Self {
        let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
        let state = state.filter(|path| path.is_absolute());
        let folder = state.or_else(|| Some(std::env::home_dir()?.join(".local/state")));
        Self {
            folder: folder.map(|folder| folder.join("ralph/trusted")),
        }
    }

    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: Some(folder.into()),
        }
    }

    /// Whether a person agreed to this content of this file. A file that sets no key needs no consent.
    pub fn has(&self, file: &Path, text: &str) -> bool {
        sets_nothing(text) || self.consent(file, text).is_some_and(|consent| consent.exists())
    }

    /// Stores a person's consent.
    ///
    /// # Errors
    /// If there is no folder for it, or it can't be written.
    pub fn grant(&self, file: &Path, text: &str) -> io::Result<()> {
        let consent = self.consent(file, text).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "there is no home folder to keep it in: set XDG_STATE_HOME",
            )
        })?;
        if let Some(folder) = consent.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(consent, std::path::absolute(file)?.as_os_str().as_encoded_bytes())
    }

    /// The files that a person trusted, by path, and whether each still has that content.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn list(&self) -> io::Result<Vec<(PathBuf, bool)>> {
        let entries = match self.folder.as_ref().map(fs::read_dir) {
            None => return Ok(Vec::new()),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Some(entries) => entries?,
        };
        let mut files = BTreeMap::new();
        for entry in entries {
            let consent = entry?.path();
            let file = PathBuf::from(fs::read_to_string(&consent)?);
            let text = read(&file).ok();
            let holds = text.is_some_and(|text| self.consent(&file, &text).is_some_and(|now| now == consent));
            *files.entry(file).or_default() |= holds;
        }
        Ok(files.into_iter().collect())
    }

    /// Removes the consent; returns whether there was one.
    ///
    /// # Errors
    /// If it can't be removed.
    pub fn revoke(&self, file: &Path, text: &str) -> io::Result<bool> {
        match self.consent(file, text).map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            removed => Ok(matches!(removed, Some(Ok(())))),
        }
    }

    /// Succeeds if a person agreed to this content, or does so now at the terminal.
    ///
    /// # Errors
    /// If nobody agreed.
    pub fn require(&self, file: &Path, text: &str) -> Result<(), Untrusted> {
        if self.has(file, text) {
            return Ok(());
        }
        let asks = io::stdin().is_terminal() && io::stderr().is_terminal();
        if asks && agrees(file, text) {
            match self.grant(file, text) {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(%error, "your consent could not be stored; you will be asked again")
                }
            }
            return Ok(());
        }
        Err(Untrusted {
            path: file.display().to_string(),
        })
    }

    fn consent(&self, file: &Path, text: &str) -> Option<PathBuf> {
        // The name is not resolved: a link that leads elsewhere tomorrow is other content.
        let folder = file.parent()?.canonicalize().ok()?;
        let mut hash = Sha256::new();
        hash.update(folder.join(file.file_name()?).as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update(text);
        let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Some(self.folder.as_ref()?.join(name))
    }
}

/// Reads a configuration file.
///
/// # Errors
/// As [`file::read_text`].
pub fn read(path: &Path) -> io::Result<String> {
    file::read_text(path, file::SMALL_BYTES)
}

/// Whether no key is set, as in a file that `init` wrote: only comments and headings of tables.
fn sets_nothing(text: &str) -> bool {
    let is_heading = |line: &str| line.trim_start().starts_with('[') && !line.contains('=');
    text.lines().all(|line| is_comment(line) || is_heading(line))
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// Shows a file at the terminal and asks.
fn agrees(file: &Path, text: &str) -> bool {
    let mut err = io::stderr().lock();
    let mut asked = vec![format!(
        "{} is new, or has changed since you trusted it. It decides what runs on this machine:\n",
        file.display()
    )];
    asked.extend(shown(text));
    asked.push("\nDo you trust it? [y/N] ".to_owned());
    if err
        .write_all(asked.join("\n").as_bytes())
        .and_then(|()| err.flush())
        .is_err()
    {
        return false;
    }
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// The lines with content; control characters in them do not affect the terminal.
fn shown(text: &str) -> Vec<String> {
    let says: Vec<&str> = text.lines().filter(|line| !is_comment(line)).collect();
    let visible = |line: &str| line.replace(|c: char| c.is_control() || plain::is_invisible(c), "\u{fffd}");
    let mut shown: Vec<String> = says
        .iter()
        .take(SHOWN_LINES)
        .map(|line| format!("    {}", visible(line)))
        .collect();
    if says.len() > SHOWN_LINES {
        shown.push(format!(
            "    … and {} more lines: read the file first",
            says.len() - SHOWN_LINES
        ));
    }
    shown
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// An empty folder for one test.
    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ralph-trust-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path.canonicalize().unwrap()
    }

    #[test]
    fn consent_is_to_one_content_of_one_file() {
        let root = folder("content");
        let (file, other) = (root.join("a.toml"), root.join("b.toml"));
        let consents = Consents::in_folder(root.join("consents"));
        assert!(!consents.has(&file, "x = 1"));
        consents.grant(&file, "x = 1").unwrap();
        assert!(consents.has(&file, "x = 1"));
        assert!(!consents.has(&file, "x = 2"), "it has changed");
        assert!(!consents.has(&other, "x = 1"), "the file has another path");
        assert!(consents.revoke(&file, "x = 1").unwrap());
        assert!(!consents.has(&file, "x = 1") && !consents.revoke(&file, "x = 1").unwrap());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_link_to_a_trusted_file_is_not_trusted() {
        let root = folder("link");
        fs::create_dir(root.join("sub")).unwrap();
        let file = root.join("a.toml");
        fs::write(&file, "x = 1").unwrap();
        let link = root.join("sub/a.toml");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let consents = Consents::in_folder(root.join("consents"));
        consents.grant(&file, "x = 1").unwrap();
        assert!(!consents.has(&link, "x = 1"));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_file_without_keys_needs_no_consent() {
        let consents = Consents { folder: None };
        let file = Path::new("/a.toml");
        for nothing in ["", "# [agent]\n\n  # command = \"x\"\n", "[agent]\n# x = 1\n"] {
            assert!(consents.has(file, nothing), "{nothing}");
        }
        for something in ["x = 1 # y", "[agent]\ncommand = \"x\"", "x = [\n1]", "[a] x = 1"] {
            assert!(!consents.has(file, something), "{something}");
        }
        assert!(consents.grant(file, "x = 1").is_err());
    }

    #[test]
    fn shown_lines_contain_no_control_characters() {
        let text =
            "# why\ncommand = \"a\u{1b}[2Kb\u{202e}c\u{200b}\"\n".to_owned() + &"x = 1\n".repeat(SHOWN_LINES);
        let shown = shown(&text);
        assert_eq!(shown[0], "    command = \"a\u{fffd}[2Kb\u{fffd}c\u{fffd}\"");
        assert_eq!(
            shown.last().unwrap(),
            "    … and 1 more lines: read the file first"
        );
    }

    #[test]
    fn endless_and_missing_files_are_refused() {
        let endless = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(endless.contains("more than the 1 MiB"), "{endless}");
        assert!(read(Path::new("/no/such")).is_err());
    }
}
