//! Submodules after an agent's session. Git inspects a submodule by running in it, with the configuration
//! there. So before the worker's git sees the tree, this module reads the submodules' git directories as
//! plain files and moves them away.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::modes;
use crate::workspace::clone::submodules::{self, Submodule};
use crate::workspace::error::WorkspaceError;
use crate::workspace::git::address;
use crate::workspace::git::{Git, REMOTE};
use crate::workspace::paths::{inside, lexical};
use crate::workspace::publish::rebase;
use crate::workspace::record::{self, Folders};

/// Longest file of a git directory that is read.
const FILE_BYTES: u64 = 1 << 20;

/// Moves the git directories of submodules away, and stages their current commits.
///
/// # Errors
/// When a submodule has a commit or changes that its remote lacks.
pub(in crate::workspace) async fn settle(git: &Git, folders: &Folders) -> Result<(), WorkspaceError> {
    let tree = folders.tree();
    let submodules = submodules::of(folders)?;
    if !submodules.is_empty() {
        modes::open_up(&tree).map_err(WorkspaceError::io("change modes in", &tree))?;
    }
    let heads = heads(&submodules, folders)?;
    let mut levels = vec![(git.clone(), PathBuf::new())];
    levels.extend(submodules.iter().map(|submodule| {
        let prefix = PathBuf::from(&submodule.path);
        (submodule.git(git, &tree), prefix)
    }));
    for (git, prefix) in &levels {
        // The agent may have made the tree inaccessible; listing the worker's index needs no work tree.
        let index = git.at(git.dir().to_owned());
        let listed = index.run("ls-files").args(["-z", "--stage"]).output().await?;
        let links = listed
            .stdout
            .split(|byte| *byte == 0)
            .filter(|entry| entry.starts_with(b"160000 "));
        for link in links {
            let Some(tab) = link.iter().position(|byte| *byte == b'\t') else {
                continue;
            };
            let path = prefix.join(OsStr::from_bytes(&link[tab + 1..]));
            move_aside(&tree, path.as_os_str().as_bytes(), &folders.nested())?;
        }
    }
    // Inner submodules first: the outer ones record their commits.
    for (submodule, (own, _)) in submodules.iter().zip(&levels[1..]).rev() {
        let head = heads.get(&submodule.path).unwrap_or(&submodule.commit);
        if is_uninitialized(&tree, submodule) {
            continue;
        }
        check(own, submodule, head, folders).await?;
        if *head == submodule.commit {
            continue;
        }
        let mut outer = levels[1..].iter().filter(|(_, prefix)| {
            Path::new(&submodule.path).starts_with(prefix) && *prefix != Path::new(&submodule.path)
        });
        let (outer, prefix) = outer.next_back().unwrap_or(&levels[0]);
        let place = Path::new(&submodule.path)
            .strip_prefix(prefix)
            .unwrap_or(Path::new(""));
        let entry = format!("160000,{head},{}", place.display());
        outer
            .run("update-index")
            .args(["--cacheinfo", &entry])
            .output()
            .await?;
    }
    Ok(())
}

/// The commit of each submodule after the session. Written down before anything is moved, so that a later try
/// knows them too.
fn heads(submodules: &[Submodule], folders: &Folders) -> Result<BTreeMap<String, String>, WorkspaceError> {
    if submodules.is_empty() {
        return Ok(BTreeMap::new());
    }
    let path = folders.modules().join("heads.json");
    if let Ok(bytes) = fs::read(&path) {
        return serde_json::from_slice(&bytes)
            .map_err(|error| WorkspaceError::io("parse", &path)(error.into()));
    }
    let tree = folders.tree();
    let read = |submodule: &Submodule| Some((submodule.path.clone(), head_in(&tree, &submodule.path)?));
    let heads: BTreeMap<_, _> = submodules.iter().filter_map(read).collect();
    let new = path.with_extension("new");
    serde_json::to_vec(&heads)
        .map_err(io::Error::from)
        .and_then(|bytes| fs::write(&new, bytes))
        .and_then(|()| fs::rename(&new, &path))
        .map_err(WorkspaceError::io("write", &path))?;
    Ok(heads)
}

/// Whether the submodule's folder is missing, or empty as after `git submodule deinit`.
fn is_uninitialized(tree: &Path, submodule: &Submodule) -> bool {
    match inside(tree, Path::new(&submodule.path)) {
        Some(folder) => fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none()),
        None => true,
    }
}

/// Refuses a state that nobody could fetch from the submodule's remote.
async fn check(
    git: &Git,
    submodule: &Submodule,
    head: &str,
    folders: &Folders,
) -> Result<(), WorkspaceError> {
    let refuse = |what: String| WorkspaceError::Submodule {
        path: submodule.path.clone(),
        what,
        address: address::public(&submodule.address),
        kept: folders.agent.clone(),
    };
    let options = [
        "--quiet",
        "--no-tags",
        "--no-auto-maintenance",
        "--no-write-fetch-head",
    ];
    let fetched = git
        .run("fetch")
        .args(options)
        .args([REMOTE, head])
        .remote()
        .output()
        .await;
    if !rebase::exists(git, &format!("{head}^{{tree}}")).await? {
        return match fetched {
            Err(error) if error.trouble.is_remote() && !error.words.contains("not our ref") => {
                Err(error.into())
            }
            _ => Err(refuse(format!("at {head}, which is not"))),
        };
    }
    git.run("add").args(["-A", "."]).output().await?;
    let staged = git.run("write-tree").output().await?.word();
    if staged != rebase::tree_of(git, head).await? {
        return Err(refuse("with changes that are in no commit".to_owned()));
    }
    Ok(())
}

/// The `HEAD` commit of the git directory in the folder `path`, read as plain files.
pub(in crate::workspace) fn head_in(tree: &Path, path: &str) -> Option<String> {
    let folder = inside(tree, Path::new(path))?;
    let mut dir = folder.join(".git");
    if fs::symlink_metadata(&dir).ok()?.is_file() {
        let place = read(&dir)?;
        let place = folder.join(place.strip_prefix("gitdir:")?.trim());
        dir = inside(tree, lexical(&place).strip_prefix(tree).ok()?)?;
    }
    if !fs::symlink_metadata(&dir).ok()?.is_dir() {
        return None;
    }
    let head = read(&dir.join("HEAD"))?;
    let head = head.trim();
    let Some(name) = head.strip_prefix("ref:").map(str::trim) else {
        return address::is_object_id(head).then(|| head.to_owned());
    };
    if !address::is_ref(name) {
        return None;
    }
    let loose = inside(&dir, Path::new(name).parent()?)
        .and_then(|folder| read(&folder.join(Path::new(name).file_name()?)));
    let packed = || {
        let refs = read(&dir.join("packed-refs"))?;
        let line = refs
            .lines()
            .find_map(|line| line.strip_suffix(name)?.strip_suffix(' '));
        line.map(str::to_owned)
    };
    let found = loose.or_else(packed)?;
    address::is_object_id(found.trim()).then(|| found.trim().to_owned())
}

/// Reads a small plain file.
pub(in crate::workspace) fn read(path: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok()?;
    (metadata.is_file() && metadata.len() <= FILE_BYTES).then(|| fs::read_to_string(path).ok())?
}

/// Moves `.git` out of the folder `path` of the tree into `aside`. Returns whether there was one.
pub(in crate::workspace) fn move_aside(
    tree: &Path,
    path: &[u8],
    aside: &Path,
) -> Result<bool, WorkspaceError> {
    let Some(folder) = inside(tree, Path::new(OsStr::from_bytes(path))) else {
        return Ok(false);
    };
    let dir = folder.join(".git");
    if fs::symlink_metadata(&dir).is_err() {
        return Ok(false);
    }
    record::make_private(aside)?;
    let free = (0_u32..)
        .map(|number| aside.join(number.to_string()))
        .find(|place| !place.exists());
    let place = free.unwrap_or_else(|| aside.join("last"));
    fs::rename(&dir, &place).map_err(WorkspaceError::io("move away", &dir))?;
    Ok(true)
}
