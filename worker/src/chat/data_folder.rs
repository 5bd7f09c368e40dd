//! Detects Ralph's data folders below the folder of a chat. A data folder contains passwords, sockets of
//! private servers, and leftovers of other sessions that the worker's git uses. A sandbox opens a folder with
//! everything in it, so the agent could read and change them.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::{Effective, Sandbox, bubblewrap, effective, means};

/// Limits of the search: levels of folders, and number of folders.
const DEEPEST: usize = 3;
const MOST: usize = 20_000;

/// Entries that identify a data folder: of `ralph-coordinator up`, and of a worker.
const OURS: [&[&str]; 2] = [&["layout.json", "secrets"], &["live", "spool", "git"]];

/// The first data folder at or below a folder.
pub fn inside(folder: &Path) -> Option<PathBuf> {
    let mut waiting = VecDeque::from([(folder.to_owned(), 0)]);
    let mut looked_at = 0;
    while let Some((folder, depth)) = waiting.pop_front() {
        let is_one = |names: &[&str]| names.iter().all(|name| folder.join(name).exists());
        if OURS.into_iter().any(is_one) {
            return Some(folder);
        }
        looked_at += 1;
        if depth == DEEPEST || looked_at > MOST {
            continue;
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        waiting.extend(folders.map(|entry| (entry.path(), depth + 1)));
    }
    None
}

/// Why an agent should not work above a data folder, and what to do.
pub fn words(data: &Path) -> String {
    format!(
        "the agent could read and change {}, where Ralph keeps passwords and the work of other sessions; talk in another clone \
         of the project, or keep that elsewhere (--data of `ralph-coordinator up`, or of `ralph-worker run`)",
        data.display()
    )
}

/// Whether the sandbox restricts an agent at all.
pub fn is_confined(sandbox: &Sandbox) -> bool {
    effective(sandbox.mode, &sandbox.network, means(), bubblewrap().is_some()) != Ok(Effective::Open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_folder_is_recognized_by_its_entries() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("src/.ralph/knowledge")).unwrap();
        fs::create_dir_all(at("a/b/c/secrets")).unwrap();
        assert_eq!(inside(folder.path()), None);
        fs::write(at("a/b/c/layout.json"), "{}").unwrap();
        assert_eq!(inside(folder.path()), Some(at("a/b/c")));
        assert_eq!(inside(&at("a/b/c")), Some(at("a/b/c")));
        for name in ["live", "spool", "git"] {
            fs::create_dir_all(at("src/.ralph/worker").join(name)).unwrap();
        }
        assert_eq!(inside(&at("src")), Some(at("src/.ralph/worker")));
    }
}
