//! The worker's part of `.ralph.toml`. The file belongs to the worker's host; it is never one in a clone,
//! which an agent could edit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ralph_shared::config::nearest;
use ralph_shared::config::{AgentTable, GitTable, WorkspaceTable};
use ralph_shared::trust::{self, Consents};
use serde::Deserialize;

/// Agents and commands run with the worker's rights, so only its user may configure them.
const NAME_IT: &str =
    "can't use the configuration file that was found (--config FILE accepts a file of any owner)";

/// The tables for a worker; other programs read the rest.
#[derive(Debug, Default, Deserialize)]
pub struct File {
    pub agent: Option<AgentTable>,
    /// `[agents.NAME]`.
    #[serde(default)]
    pub agents: BTreeMap<String, AgentTable>,
    #[serde(default)]
    pub workspace: WorkspaceTable,
    #[serde(default)]
    pub git: GitTable,
}

impl File {
    /// Reads the given file, or the nearest `.ralph.toml` here or in a parent folder. Without one all values
    /// are defaults.
    ///
    /// # Errors
    /// Fails if the file can't be read; the message names the line. A file that was found rather than given
    /// also fails if it belongs to another user, or if no person agreed to its content.
    pub fn read(given: Option<&Path>) -> anyhow::Result<Self> {
        match given {
            Some(path) => Self::parse(path, &text(path)?),
            None => match find_nearest()? {
                Some(path) => Self::read_trusted(&path, &Consents::of_user()),
                None => Ok(Self::default()),
            },
        }
    }

    fn read_trusted(path: &Path, consents: &Consents) -> anyhow::Result<Self> {
        let text = text(path)?;
        consents.require(path, &text)?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> anyhow::Result<Self> {
        toml::from_str(text).with_context(|| format!("failed to read {}", path.display()))
    }
}

/// The nearest `.ralph.toml`, here or in a parent folder.
fn find_nearest() -> anyhow::Result<Option<PathBuf>> {
    match std::env::current_dir() {
        Ok(here) => nearest(&here, ".ralph.toml").context(NAME_IT),
        Err(_) => Ok(None),
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    Ok(trust::read(path)?)
}

/// Folders whose writers could change this machine's configuration: where it is searched, and where it is
/// stored.
pub fn places(given: Option<&Path>) -> Vec<PathBuf> {
    let places: Vec<PathBuf> = match given {
        // Both a link's own folder and its target's folder count.
        Some(path) => [std::path::absolute(path), path.canonicalize()]
            .into_iter()
            .flatten()
            .filter_map(|path| Some(path.parent()?.to_owned()))
            .collect(),
        // A parent folder with a file is above this folder.
        None => Vec::from_iter(std::env::current_dir()),
    };
    places
        .into_iter()
        .filter_map(|place| place.canonicalize().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_found_file_is_used_once_a_person_agreed_to_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".ralph.toml");
        let consents = Consents::in_folder(folder.path().join("consents"));
        let text = "[agent]\ncommand = \"x\"\n";
        std::fs::write(&path, text).unwrap();
        let error = File::read_trusted(&path, &consents).unwrap_err().to_string();
        assert!(
            error.contains("config trust") && error.contains("RALPH_CONFIG"),
            "{error}"
        );
        assert!(File::read(Some(&path)).is_ok(), "a file given by name");
        consents.grant(&path, text).unwrap();
        let read = File::read_trusted(&path, &consents).unwrap();
        assert_eq!(read.agent.unwrap().command.as_deref(), Some("x"));
    }

    #[test]
    fn a_given_link_counts_with_its_folder_and_its_targets_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["a", "b"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::write(root.join("a/ralph.toml"), "").unwrap();
        std::os::unix::fs::symlink(root.join("a/ralph.toml"), root.join("b/link")).unwrap();
        assert_eq!(
            places(Some(&root.join("b/link"))),
            [root.join("b"), root.join("a")]
        );
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(places(None), [here]);
    }
}
