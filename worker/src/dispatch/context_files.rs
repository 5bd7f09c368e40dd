//! Texts that were too long for a prompt, as files in the session's folder (SPEC 6.1, 8).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use ralph_shared::wire::{CONTEXT_DIR, Text};

use crate::coordinator::BrokerConnection;

/// Fetches the texts and writes them below `tree`. The repository may contain links there, so nothing outside
/// the folder is written.
pub async fn fetch_and_write(
    link: &BrokerConnection,
    texts: &BTreeMap<String, Text>,
    tree: &Path,
) -> anyhow::Result<()> {
    let mut whole = Vec::new();
    for (name, text) in texts {
        ensure!(is_name(name), "`{name}` can't name a file of a session's context");
        whole.push((name.clone(), link.get_text(text).await?));
    }
    if whole.is_empty() {
        return Ok(());
    }
    let tree = tree.to_owned();
    tokio::task::spawn_blocking(move || write(&tree, &whole))
        .await?
        .with_context(|| format!("failed to write the prompt's long texts to {CONTEXT_DIR}"))
}

/// Removes existing files of these names first: one could be a link to another file, or a pipe without a
/// reader.
fn write(tree: &Path, texts: &[(String, String)]) -> std::io::Result<()> {
    let dir = Dir::open_ambient_dir(tree, ambient_authority())?;
    dir.create_dir_all(CONTEXT_DIR)?;
    for (name, text) in texts {
        let place = Path::new(CONTEXT_DIR).join(name);
        match dir.remove_file(&place) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = dir.open_with(&place, OpenOptions::new().write(true).create_new(true))?;
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_the_repository_do_not_redirect_context_files() {
        let (tree, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let texts = [("spec.md".to_owned(), "all of it".to_owned())];
        write(tree.path(), &texts).unwrap();
        let written = std::fs::read_to_string(tree.path().join(".ralph/context/spec.md"));
        assert_eq!(written.unwrap(), "all of it");

        // A link to a file of the tree, which the worker must not change.
        let place = tree.path().join(".ralph/context/spec.md");
        std::fs::write(tree.path().join("mine"), "mine").unwrap();
        std::fs::remove_file(&place).unwrap();
        std::os::unix::fs::symlink("../../mine", &place).unwrap();
        write(tree.path(), &texts).unwrap();
        assert_eq!(std::fs::read_to_string(tree.path().join("mine")).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "all of it");

        std::fs::remove_dir_all(tree.path().join(".ralph")).unwrap();
        std::os::unix::fs::symlink(other.path(), tree.path().join(".ralph")).unwrap();
        write(tree.path(), &texts).unwrap_err();
        assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0);
    }

    #[test]
    fn names_with_paths_are_refused() {
        for name in ["", ".", "..", ".git", "a/b", "/a", "a\0"] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_name("plan.md"));
    }
}
