//! Takes a work tree out of the reach of a process that outlived its session.
//!
//! What a sandbox lets a session write is a folder, not a path: whoever still runs keeps that right wherever the folder is moved, also
//! through files that it has open. It could swap a folder for a link between two looks of the worker's git, which would then read
//! what the link leads to; or put the configuration of a repository back that was taken away. So everything in the tree is moved
//! into a new folder, which no session was ever given, before git looks at it.
//!
//! ```text
//! tree, one by one ─► tree.new      tree ─► tree.old-…      tree.new ─► tree      tree.old-… is removed
//! ```
//!
//! A worker that dies in between goes on where it was.

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

/// How the folder is called that a tree was in.
const OLD: &str = "tree.old";

/// Moves the tree into a folder that only the worker can reach. A tree that is no folder stays.
///
/// # Errors
/// When the disk refuses it.
pub(in crate::workspace) fn quarantine_tree(folders: &Folders) -> Result<(), WorkspaceError> {
    let tree = folders.tree();
    let new = folders.agent.join("tree.new");
    // Another one each time: whoever still runs may fill the one before, so that it can't be removed.
    let old = folders.agent.join(format!("{OLD}-{}", Uuid::new_v4().simple()));
    if fs::symlink_metadata(&tree).is_err() && new.is_dir() {
        fs::rename(&new, &tree).map_err(WorkspaceError::io("move", &new))?;
    }
    if !fs::symlink_metadata(&tree).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(());
    }
    record::make_private(&new)?;
    at_length(|| move_entries(&tree, &new))
        .map_err(WorkspaceError::io("take out of its session's reach", &tree))?;
    faults::point("snapshot.emptied");
    fs::rename(&tree, &old).map_err(WorkspaceError::io("move", &tree))?;
    faults::point("snapshot.between_trees");
    fs::rename(&new, &tree).map_err(WorkspaceError::io("move", &new))?;
    remove_old(&folders.agent);
    Ok(())
}

/// Removes the folders that trees were in. What can't be removed goes with the workspace.
fn remove_old(agent: &Path) {
    let entries = fs::read_dir(agent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(OLD)) {
        if let Err(error) = modes::remove_tree(&entry.path()) {
            tracing::warn!(%error, folder = %entry.path().display(), "what a tree was in stays for now");
        }
    }
}

/// Moves what is in one folder into another one. What somebody puts into it or takes away meanwhile is no part of the work.
fn move_entries(from: &Path, to: &Path) -> io::Result<()> {
    modes::open_folder(from)?;
    let from = Dir::open_ambient_dir(from, ambient_authority())?;
    let to = Dir::open_ambient_dir(to, ambient_authority())?;
    let names = from.entries()?.map(|entry| entry.map(|entry| entry.file_name()));
    for name in names.collect::<io::Result<Vec<OsString>>>()? {
        let mut moved = from.rename(&name, &to, &name);
        if is(&moved, io::ErrorKind::PermissionDenied) {
            // A folder that is moved elsewhere is written to.
            let _ = modes::add_below(&from, Path::new(&name));
            moved = from.rename(&name, &to, &name);
        }
        let is_no_more = is(&moved, io::ErrorKind::NotFound);
        let is_there = [
            io::ErrorKind::AlreadyExists,
            io::ErrorKind::DirectoryNotEmpty,
            io::ErrorKind::IsADirectory,
            io::ErrorKind::NotADirectory,
        ];
        if !is_no_more && !is_there.iter().any(|kind| is(&moved, *kind)) {
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

    /// A workspace with a folder in its tree that can't be written.
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
    fn all_of_a_tree_is_in_another_folder_by_the_same_name() {
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
    fn a_worker_that_died_goes_on_where_it_was() {
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
            let left = die();
            quarantine_tree(&folders).unwrap();
            assert_eq!(names(&folders.tree()), ["file", "sub"], "{left:?}");
            assert_eq!(names(&folders.agent), ["home", "tmp", "tree"], "{left:?}");
        }
    }

    #[tokio::test]
    async fn who_outlived_its_session_has_no_hand_in_it_any_more() {
        if support().abi < REQUIRED_ABI {
            eprintln!("this kernel's Landlock is too old: nothing to try");
            return;
        }
        let sandbox = Sandbox {
            mode: SandboxMode::Landlock,
            ..Sandbox::default()
        };
        let (_data, folders) = workspace();
        outlive(&sandbox, &folders, &folders.tree()).await;
        let (_data, folders) = workspace();
        if let Some(shared) = shared_path(&sandbox, &folders.agent, &folders.tree()) {
            outlive(&sandbox, &folders, &shared).await;
        }
    }

    /// Has a process that sees the tree by this path try to write before the tree is moved and after it.
    async fn outlive(sandbox: &Sandbox, folders: &Folders, seen: &Path) {
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
