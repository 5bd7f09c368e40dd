//! Moves a work tree out of the reach of a process that outlived its session.
//!
//! A sandbox grants write access to a folder, not to a path. A surviving process keeps that access wherever
//! the folder moves, and also through open files. Between two reads of the worker's git it could replace a
//! folder with a link, so that git would follow it, or restore a repository's configuration that was removed.
//! So before git reads the tree, all its entries are moved into a new folder that no session had access to.
//!
//! ```text
//! tree, one by one ─► tree.new      tree ─► tree.old-…      tree.new ─► tree      tree.old-… is removed
//! ```
//!
//! A restarted worker continues an interrupted move.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use ralph_shared::at_length::at_length;
use uuid::Uuid;

use super::modes;
use crate::faults;
use crate::workspace::error::WorkspaceError;
use crate::workspace::record::{self, Folders};

/// Prefix of the old folder's name.
const OLD: &str = "tree.old";

/// Moves the tree's entries into a folder that only the worker can access. A tree that is no folder stays.
pub(in crate::workspace) fn quarantine_tree(folders: &Folders) -> Result<(), WorkspaceError> {
    let tree = folders.tree();
    let new = folders.agent.join("tree.new");
    // A new name each time: a surviving process may fill the previous folder, which then can't be removed.
    let old = folders.agent.join(format!("{OLD}-{}", Uuid::new_v4().simple()));
    if fs::symlink_metadata(&tree).is_err() && new.is_dir() {
        fs::rename(&new, &tree).map_err(WorkspaceError::io("move", &new))?;
    }
    if !fs::symlink_metadata(&tree).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(());
    }
    record::make_private(&new)?;
    at_length(|| move_entries(&tree, &new))
        .map_err(WorkspaceError::io("move out of its session's reach", &tree))?;
    faults::point("snapshot.emptied");
    fs::rename(&tree, &old).map_err(WorkspaceError::io("move", &tree))?;
    faults::point("snapshot.between_trees");
    fs::rename(&new, &tree).map_err(WorkspaceError::io("move", &new))?;
    remove_old(&folders.agent);
    Ok(())
}

/// Removes the old folders. One that can't be removed is deleted with the workspace.
fn remove_old(agent: &Path) {
    let entries = fs::read_dir(agent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(OLD)) {
        if let Err(error) = modes::remove_tree(&entry.path()) {
            tracing::warn!(%error, folder = %entry.path().display(), "failed to remove the old folder of a tree");
        }
    }
}

/// Moves the entries of one folder into another. Entries that a surviving process adds or removes meanwhile
/// are no part of the work.
fn move_entries(from: &Path, to: &Path) -> io::Result<()> {
    modes::open_folder(from)?;
    let from = Dir::open_ambient_dir(from, ambient_authority())?;
    let to = Dir::open_ambient_dir(to, ambient_authority())?;
    let names = from.entries()?.map(|entry| entry.map(|entry| entry.file_name()));
    for name in names.collect::<io::Result<Vec<OsString>>>()? {
        let mut moved = from.rename(&name, &to, &name);
        if is(&moved, io::ErrorKind::PermissionDenied) {
            // Moving a folder to another parent needs write access to it.
            let _ = modes::add_below(&from, Path::new(&name));
            moved = from.rename(&name, &to, &name);
        }
        let is_gone = is(&moved, io::ErrorKind::NotFound);
        let collisions = [
            io::ErrorKind::AlreadyExists,
            io::ErrorKind::DirectoryNotEmpty,
            io::ErrorKind::IsADirectory,
            io::ErrorKind::NotADirectory,
        ];
        if !is_gone && !collisions.iter().any(|kind| is(&moved, *kind)) {
            moved?;
        }
        faults::point("snapshot.half_moved");
    }
    Ok(())
}

fn is(result: &io::Result<()>, kind: io::ErrorKind) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == kind)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::path::PathBuf;
    use std::process::Stdio;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::sandbox::{Confinement, Policy, REQUIRED_ABI, Sandbox, SandboxMode, shared_path, support};

    /// A workspace with a file, and a folder with a file.
    fn workspace() -> (tempfile::TempDir, Folders) {
        let data = tempfile::tempdir().unwrap();
        let folders = Folders {
            agent: data.path().join("workspaces/d"),
            worker: data.path().join("records/d"),
        };
        folders.make().unwrap();
        fs::create_dir(folders.tree().join("sub")).unwrap();
        for name in ["file", "sub/file"] {
            fs::write(folders.tree().join(name), name).unwrap();
        }
        (data, folders)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_quarantined_tree_is_a_new_folder_with_all_entries() {
        let (_data, folders) = workspace();
        let tree = folders.tree();
        fs::set_permissions(tree.join("sub"), fs::Permissions::from_mode(0o500)).unwrap();
        fs::set_permissions(&tree, fs::Permissions::from_mode(0o500)).unwrap();
        let before = fs::metadata(&tree).unwrap().ino();
        quarantine_tree(&folders).unwrap();
        assert_ne!(fs::metadata(&tree).unwrap().ino(), before);
        assert_eq!(names(&tree), ["file", "sub"]);
        assert_eq!(names(&folders.agent), ["home", "tmp", "tree"]);
        assert_eq!(fs::read_to_string(tree.join("sub/file")).unwrap(), "sub/file");
        fs::remove_dir_all(&tree).unwrap();
        quarantine_tree(&folders).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn an_interrupted_quarantine_is_completed() {
        let (_data, folders) = workspace();
        let at = |name: &str| folders.agent.join(name);
        let died_at: [&dyn Fn() -> PathBuf; 3] = [
            &|| {
                fs::create_dir(at("tree.new")).unwrap();
                fs::rename(at("tree/sub"), at("tree.new/sub")).unwrap();
                at("tree.new")
            },
            &|| {
                fs::rename(at("tree"), at("tree.new")).unwrap();
                fs::create_dir(at("tree.old")).unwrap();
                at("tree.old")
            },
            &|| {
                fs::create_dir(at("tree.old")).unwrap();
                fs::write(at("tree.old/late"), "").unwrap();
                at("tree.old")
            },
        ];
        for die in died_at {
            let leftover = die();
            quarantine_tree(&folders).unwrap();
            assert_eq!(names(&folders.tree()), ["file", "sub"], "{leftover:?}");
            assert_eq!(names(&folders.agent), ["home", "tmp", "tree"], "{leftover:?}");
        }
    }

    #[tokio::test]
    async fn a_process_that_outlives_its_session_cannot_write_to_the_tree() {
        if support().abi < REQUIRED_ABI {
            eprintln!("this kernel's Landlock is too old: nothing to try");
            return;
        }
        let sandbox = Sandbox {
            mode: SandboxMode::Landlock,
            ..Sandbox::default()
        };
        let (_data, folders) = workspace();
        check_survivor_is_locked_out(&sandbox, &folders, &folders.tree()).await;
        let (_data, folders) = workspace();
        if let Some(shared) = shared_path(&sandbox, &folders.agent, &folders.tree()) {
            check_survivor_is_locked_out(&sandbox, &folders, &shared).await;
        }
    }

    /// Lets a process that sees the tree at `seen` try to write before and after the tree is moved.
    async fn check_survivor_is_locked_out(sandbox: &Sandbox, folders: &Folders, seen: &Path) {
        let policy = Policy {
            read: ["/usr", "/bin", "/lib", "/lib64", "/etc"]
                .map(PathBuf::from)
                .to_vec(),
            write: vec![folders.tree(), "/dev/null".into()],
            session_folder: Some(folders.agent.clone()),
        };
        let confinement = Confinement::new(sandbox, &policy, "seal").unwrap();
        let own = std::env::vars_os().collect();
        let mut command = confinement.command("sh", &own).unwrap();
        let script = "try() { ln -s /etc $1 2>/dev/null && echo made || echo held; }
                      cd $0/sub; try before; read -r line; try after; cd .. 2>/dev/null; try above";
        command
            .args(["-c", script])
            .arg(seen)
            .current_dir(folders.tree())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = confinement.spawn(&mut command).unwrap();
        let mut printed = child.stdout.take().unwrap();
        let mut first = [0; 5];
        printed.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"made\n");
        quarantine_tree(folders).unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"go on\n").await.unwrap();
        let mut rest = String::new();
        printed.read_to_string(&mut rest).await.unwrap();
        child.wait().await.unwrap();
        assert_eq!(rest, "held\nheld\n");
        assert_eq!(names(&folders.tree().join("sub")), ["before", "file"]);
    }
}
