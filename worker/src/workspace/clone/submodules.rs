//! Submodules: checked out at the recorded commits from mirrors of their own. After the session the worker
//! reads their files without the agent's git directories.
//!
//! The worker's credentials fetch only from addresses that the feature's base names, which agents can't
//! change: an agent could name a repository that it may not read. Nor may a repository from elsewhere name
//! one on this machine.
//!
//! A submodule's files belong to another repository. An attempt's change of a submodule counts only as a
//! commit that is at the submodule's remote. Any other change fails the attempt's push with a message, and
//! its folder stays.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_shared::wire::GitOrder;
use serde::{Deserialize, Serialize};

use super::gitdir::{self, Head, ObjectFormat};
use super::gitmodules;
use super::mirror::FetchRequest;
use crate::faults;
use crate::workspace::clone::{self, Start};
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::Git;
use crate::workspace::git::environment::Identity;
use crate::workspace::record::{self, Folders};
use crate::workspace::workspaces::Workspaces;
use crate::workspace::{
    git::address,
    snapshot::{commit, modes},
};

/// Deepest nesting of submodules that is followed.
const NESTING: u32 = 8;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::workspace) struct Submodule {
    /// Relative to the tree's root.
    pub path: String,
    pub commit: String,
    /// The repository, with a login if the configuration has one.
    pub address: String,
    pub dir: PathBuf,
}

/// The checked-out submodules, outermost first.
///
/// # Errors
/// When the list can't be read.
pub(in crate::workspace) fn of(folders: &Folders) -> Result<Vec<Submodule>, WorkspaceError> {
    let path = list(folders);
    match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        bytes => {
            let bytes = bytes.map_err(WorkspaceError::io("read", &path))?;
            serde_json::from_slice(&bytes).map_err(|error| WorkspaceError::io("parse", &path)(error.into()))
        }
    }
}

fn list(folders: &Folders) -> PathBuf {
    folders.modules().join("list.json")
}

/// A repository whose submodules are still to be checked out.
struct Level {
    git: Git,
    commit: String,
    address: String,
    /// The addresses for which the worker's credentials may be used; `None`: all, in a repository that agents
    /// can't write.
    trusted: Option<Vec<String>>,
    /// Relative to the outermost tree's root; ends with `/` unless it is empty.
    prefix: String,
    depth: u32,
}

impl Level {
    fn below(&self, git: Git, submodule: &Submodule) -> Self {
        Self {
            git,
            commit: submodule.commit.clone(),
            address: submodule.address.clone(),
            trusted: None,
            prefix: format!("{}/", submodule.path),
            depth: self.depth + 1,
        }
    }

    fn trusts(&self, address: &str) -> bool {
        let trusted = self.trusted.as_ref();
        trusted.is_none_or(|trusted| trusted.iter().any(|known| known == address))
    }
}

/// Checks out the submodules of `commit`, which is checked out in `git`'s work tree, and gives the agent a
/// git directory in each.
///
/// # Errors
/// When a submodule's repository can't be reached or lacks its commit.
pub(in crate::workspace) async fn check_out(
    workspaces: &Workspaces,
    git: &Git,
    order: &GitOrder,
    commit: &str,
    folders: &Folders,
) -> Result<(), WorkspaceError> {
    let tree = folders.tree();
    if !tree.join(".gitmodules").is_file() {
        return Ok(());
    }
    let modules = folders.modules();
    modes::remove_tree(&modules).map_err(WorkspaceError::io("remove", &modules))?;
    record::make_private(&modules)?;
    let author = commit::author(git);
    let address = &order.repository.address;
    let trusted = gitmodules::declared(git, &order.base, address).await?;
    let mut levels = VecDeque::from([Level {
        git: git.clone(),
        commit: commit.to_owned(),
        address: address.clone(),
        trusted: Some(trusted.into_values().collect()),
        prefix: String::new(),
        depth: 0,
    }]);
    let mut found: Vec<Submodule> = Vec::new();
    while let Some(level) = levels.pop_front() {
        let declared = gitmodules::declared(&level.git, &level.commit, &level.address).await?;
        for (path, commit) in recorded(&level).await? {
            let whole = format!("{}{path}", level.prefix);
            let Some(address) = declared.get(&path).filter(|address| level.trusts(address)) else {
                tracing::warn!(
                    path = whole,
                    "a submodule stays empty: the base doesn't name its address"
                );
                continue;
            };
            let submodule = Submodule {
                dir: modules.join(found.len().to_string()),
                path: whole,
                commit,
                address: address.clone(),
            };
            let git = submodule.check_out(workspaces, &tree, &author).await?;
            if level.depth < NESTING && address::mirror_name(address) != address::mirror_name(&level.address)
            {
                levels.push_back(level.below(git, &submodule));
            }
            found.push(submodule);
        }
    }
    let path = list(folders);
    let bytes =
        serde_json::to_vec(&found).map_err(|error| WorkspaceError::io("write", &path)(error.into()))?;
    fs::write(&path, bytes).map_err(WorkspaceError::io("write", &path))?;
    faults::point("submodules.listed");
    Ok(())
}

/// Paths and commits of a commit's submodules.
async fn recorded(level: &Level) -> Result<Vec<(String, String)>, GitError> {
    let listed = level
        .git
        .run("ls-tree")
        .args(["-r", "-z", &level.commit])
        .output()
        .await?;
    let entries = listed.stdout.split(|byte| *byte == 0);
    let entries = entries.filter_map(|entry| {
        let entry = std::str::from_utf8(entry).ok()?.strip_prefix("160000 commit ")?;
        let (commit, path) = entry.split_once('\t')?;
        Some((path.to_owned(), commit.to_owned()))
    });
    Ok(entries.collect())
}

impl Submodule {
    /// The worker's git for this submodule.
    pub(in crate::workspace) fn git(&self, of: &Git, tree: &Path) -> Git {
        let git = of
            .elsewhere(self.dir.clone(), &self.address)
            .with_tree(tree.join(&self.path));
        self.named(git)
    }

    /// Marks the address as named by a repository. A local path is exempt: only a repository that is itself
    /// local can name one.
    fn named(&self, git: Git) -> Git {
        if address::is_local(&self.address) {
            git
        } else {
            git.named_by_a_repository()
        }
    }

    async fn check_out(
        &self,
        workspaces: &Workspaces,
        tree: &Path,
        author: &Identity,
    ) -> Result<Git, WorkspaceError> {
        let mut mirror = workspaces.mirror_of(&self.address, ObjectFormat::of(&self.commit));
        mirror.git = self.named(mirror.git);
        let wanted = FetchRequest {
            refs: Vec::new(),
            base: &self.commit,
            commit: None,
        };
        faults::point("submodule.before_fetch");
        if mirror.fetch(&wanted).await?.base.is_none() {
            return Err(WorkspaceError::CommitMissing {
                address: address::public(&self.address),
                commit: self.commit.clone(),
                role: "recorded for a submodule",
            });
        }
        let git = self.git(&mirror.git, tree);
        let start = Start {
            commit: self.commit.clone(),
            brings: None,
        };
        faults::point("submodule.before_checkout");
        let folder = tree.join(&self.path);
        fs::create_dir_all(&folder).map_err(WorkspaceError::io("make the folder", &folder))?;
        // Agents can't change that repository, so its own `.lfsconfig` is trusted.
        clone::check_out(&git, &start, &self.commit, &mirror.objects()).await?;
        faults::point("submodule.before_git_dir");
        let dir = folder.join(".git");
        let config = format!(
            "[remote \"origin\"]\n\turl = {}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n{}",
            gitdir::quoted(&address::public(&self.address)),
            gitdir::user_section(author),
        );
        let format = ObjectFormat::of(&self.commit);
        let head = Head::Commit(&self.commit);
        gitdir::make(&dir, format, head, Some(&mirror.objects()), false, &config)
            .and_then(|()| fs::copy(git.dir().join("index"), dir.join("index")).map(drop))
            .map_err(WorkspaceError::io("make the clone", &dir))?;
        faults::point("submodule.checked_out");
        Ok(git)
    }
}
