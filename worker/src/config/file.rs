//! `.ralph.toml`, as far as a worker reads it. It is the worker's host's, never one in a clone that an agent can edit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ralph_shared::config::nearest;
use ralph_shared::config::{AgentTable, GitTable, WorkspaceTable};
use ralph_shared::trust::{self, Consents};
use serde::Deserialize;

/// Agents and commands run with the worker's rights, so they are nobody else's to name.
const NAME_IT: &str =
    "the configuration that was found can't be used (--config FILE names one that is, whoever owns it)";

/// The tables that a worker reads; the others are somebody else's.
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
    /// Reads the given file, or the first `.ralph.toml` here or in a folder above; without one everything is default.
    ///
    /// # Errors
    /// When it can't be read, with its line; when one that nobody named is another user's, or a person never agreed to it.
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

/// The first `.ralph.toml` here or in a folder above.
fn find_nearest() -> anyhow::Result<Option<PathBuf>> {
    match std::env::current_dir() {
        Ok(here) => nearest(&here, ".ralph.toml").context(NAME_IT),
        Err(_) => Ok(None),
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    Ok(trust::read(path)?)
}

/// Folders of which whoever may write one could say what this machine's configuration is: where it is looked for, and where it lies.
pub fn places(given: Option<&Path>) -> Vec<PathBuf> {
    let places: Vec<PathBuf> = match given {
        // A link's own folder counts as much as that of what it leads to.
        Some(path) => [std::path::absolute(path), path.canonicalize()]
            .into_iter()
            .flatten()
            .filter_map(|path| Some(path.parent()?.to_owned()))
            .collect(),
        // Each folder above that holds one is above this one.
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
    fn a_file_that_was_found_is_obeyed_once_a_person_agreed_to_its_content() {
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
        assert!(File::read(Some(&path)).is_ok(), "a person named it");
        consents.grant(&path, text).unwrap();
        let read = File::read_trusted(&path, &consents).unwrap();
        assert_eq!(read.agent.unwrap().command.as_deref(), Some("x"));
    }

    #[test]
    fn a_file_that_is_named_is_looked_for_where_it_lies_and_where_its_link_does() {
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
