//! Data folders of Ralph's below a folder that a person wants to talk in. One holds passwords, the sockets of private servers, and
//! what other sessions left, which the worker's git works with. A sandbox gives a folder with all that is in it, so the agent would
//! read that, and change it.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::{Effective, Sandbox, bubblewrap, effective, means};

/// How many levels of folders are looked at, and how many folders.
const DEEPEST: usize = 3;
const MOST: usize = 20_000;

/// What tells a data folder: that of `ralph-coordinator up`, and a worker's.
const OURS: [&[&str]; 2] = [&["layout.json", "secrets"], &["live", "spool", "git"]];

/// The first one in a folder, or that folder itself.
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

/// Whether the sandbox keeps anything out of an agent's reach.
pub fn is_confined(sandbox: &Sandbox) -> bool {
    effective(sandbox.mode, &sandbox.network, means(), bubblewrap().is_some()) != Ok(Effective::Open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_folder_is_known_by_what_is_in_it() {
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
