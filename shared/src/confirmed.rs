//! Whether a person stands behind a configuration that a program finds by itself. In a repository it can be an agent's work, as what
//! passed has landed: it then says what is run on the machine of whoever starts Ralph there, and what confines it.

use std::path::Path;
use std::process::{Command, Stdio};

/// What every commit of a task says (SPEC 3.3).
const TRAILER: &str = "Ralph-Task";

/// Called from a hook, these would mean another repository.
const NOT_OURS: [&str; 4] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
];

/// The task whose commit was the last one to change a file, if it was a task's; `None` for a person's, and for a file that git doesn't know.
pub fn last_changed_by(file: &Path) -> Option<String> {
    let mut git = Command::new("git");
    for name in NOT_OURS {
        git.env_remove(name);
    }
    git.arg("-C")
        .arg(file.parent()?)
        .args(["-c", "log.showSignature=false", "log", "-1"])
        .arg(format!(
            "--format=%(trailers:key={TRAILER},valueonly,separator=%x20)"
        ))
        .arg("--")
        .arg(file.file_name()?);
    let output = git.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let task = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !task.is_empty()).then_some(task)
}

/// Why a file isn't gone by, and what to do.
pub fn unconfirmed(file: &Path, task: &str) -> String {
    format!(
        "{0} says what runs on this machine and what confines it, and was last changed by task {task}: an agent wrote that. Look at it \
         (git log -p -1 -- {0}), then change it and commit that yourself",
        file.display()
    )
}
