//! Texts that were too long for a prompt, as files in the session's folder (SPEC 6.1, 8).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use ralph_shared::wire::{CONTEXT_DIR, Text};

use crate::link::Link;

/// Fetches the texts and lays them below `tree`. What the repository holds there may lead anywhere: nothing outside of the
/// folder is written.
///
/// # Errors
/// When a text can't be fetched; when something stands in the way of a file.
pub async fn lay(link: &Link, texts: &BTreeMap<String, Text>, tree: &Path) -> anyhow::Result<()> {
    let mut whole = Vec::new();
    for (name, text) in texts {
        ensure!(is_name(name), "`{name}` can't name a file of a session's context");
        whole.push((name, link.get_text(text).await?));
    }
    if whole.is_empty() {
        return Ok(());
    }
    write(tree, &whole).with_context(|| format!("failed to write the prompt's long texts to {CONTEXT_DIR}"))
}

fn write(tree: &Path, texts: &[(&String, String)]) -> std::io::Result<()> {
    let dir = Dir::open_ambient_dir(tree, ambient_authority())?;
    dir.create_dir_all(CONTEXT_DIR)?;
    for (name, text) in texts {
        dir.write(Path::new(CONTEXT_DIR).join(name), text)?;
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
    fn what_the_repository_holds_leads_nowhere() {
        let (tree, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let texts = [(&"spec.md".to_owned(), "all of it".to_owned())];
        write(tree.path(), &texts).unwrap();
        let written = std::fs::read_to_string(tree.path().join(".ralph/context/spec.md"));
        assert_eq!(written.unwrap(), "all of it");

        std::fs::remove_dir_all(tree.path().join(".ralph")).unwrap();
        std::os::unix::fs::symlink(other.path(), tree.path().join(".ralph")).unwrap();
        write(tree.path(), &texts).unwrap_err();
        assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0);
    }

    #[test]
    fn names_lead_nowhere() {
        for name in ["", ".", "..", ".git", "a/b", "/a", "a\0"] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_name("plan.md"));
    }
}
