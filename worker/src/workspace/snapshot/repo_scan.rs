//! Scan of a session's start commit: the repository's knowledge files, and which of the requested paths
//! exist. All of it is read from git, nothing from the agent's folder.

use std::collections::{HashMap, HashSet};

use ralph_shared::at_length::by_length;
use ralph_shared::wire::{KNOWLEDGE_FOLDER, KnowledgeFolder, KnowledgeText, Rename, RepoScan, RepoScanOrder};

use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::folder::Workspace;
use crate::workspace::git::Git;
use crate::workspace::git::address;
use crate::workspace::publish::rebase::{exists, is_ancestor};

/// Limits of knowledge files, since they go in one message: their number, the size of one, and the total
/// size. Bytes.
const FILES: usize = 200;
const FILE_BYTES: usize = 64 << 10;
const ALL_BYTES: usize = 200 << 10;
/// Most reported paths of each kind. With the files they stay far below the size limit of a message.
const MAX_REPORTED_PATHS: usize = 300;
/// Most commits whose renames are followed one by one.
const COMMITS: usize = 1_000;
/// Longest path that is reported. Bytes.
const PATH_BYTES: usize = 300;

impl Workspace {
    /// Scans the work's start commit as `order` requests. `None` without a repository.
    pub async fn scan_repository(&self, order: &RepoScanOrder) -> Result<Option<RepoScan>, WorkspaceError> {
        let (Some(git), Some(head)) = (self.git_of(), self.start()) else {
            return Ok(None);
        };
        let mut scan = RepoScan {
            head: head.to_owned(),
            ..RepoScan::default()
        };
        if let Some(since) = &order.since
            && since != head
            && address::is_object_id(since)
        {
            changed(git, since, &mut scan).await?;
        }
        if !order.paths.is_empty() {
            list_paths(git, &order.paths, &mut scan).await?;
        }
        let tree = knowledge_tree(git, head).await?;
        if tree != order.knowledge {
            scan.knowledge = Some(match tree {
                Some(tree) => knowledge(git, tree, self.base().unwrap_or(head)).await?,
                None => KnowledgeFolder::default(),
            });
        }
        Ok(Some(scan))
    }
}

/// Paths that were added, deleted and renamed since the commit `since`, which may be missing here or be on
/// another branch. Paths that only that branch has don't count as deleted.
async fn changed(git: &Git, since: &str, scan: &mut RepoScan) -> Result<(), GitError> {
    if !exists(git, &format!("{since}^{{commit}}")).await? {
        return Ok(());
    }
    let changed = git
        .run("diff-tree")
        .args([
            "-r",
            "-z",
            "--name-status",
            "-M",
            "-l500",
            "--diff-filter=ADR",
            since,
            &scan.head,
        ])
        .output()
        .await?;
    let words = changed.stdout.split(|byte| *byte == 0);
    let mut words = words.filter(|word| !word.is_empty());
    let (mut added, mut deleted) = (Vec::new(), Vec::new());
    while let Some(status) = words.next() {
        let Some(path) = words.next() else { break };
        match status[0] {
            b'A' => added.push(path),
            b'D' => deleted.push(path),
            _ => {
                let Some(to) = words.next() else { break };
                renamed(scan, path, to);
            }
        }
    }
    if !added.is_empty() && !deleted.is_empty() {
        let renames = renames_by_commit(git, since, &scan.head).await?;
        let now = final_paths(&renames);
        let added_now: HashSet<&[u8]> = added.iter().copied().collect();
        let mut renamed_to = HashSet::new();
        deleted.retain(|path| match now.get(path).filter(|to| added_now.contains(**to)) {
            Some(to) => {
                renamed(scan, path, to);
                renamed_to.insert(*to);
                false
            }
            None => true,
        });
        added.retain(|path| !renamed_to.contains(path));
    }
    added.into_iter().for_each(|path| report(&mut scan.present, path));
    if !deleted.is_empty() && is_ancestor(git, since, &scan.head).await? {
        deleted
            .into_iter()
            .for_each(|path| report(&mut scan.deleted, path));
    }
    Ok(())
}

/// The renames in each commit between both, oldest first, in git's format. After several changes a renamed
/// file can differ too much from its origin, but rarely from one commit to the next.
async fn renames_by_commit(git: &Git, since: &str, head: &str) -> Result<Vec<u8>, GitError> {
    let most = format!("--max-count={COMMITS}");
    let range = format!("{since}..{head}");
    let options = [
        "--reverse",
        "--topo-order",
        "-z",
        "--name-status",
        "-M",
        "-l500",
        "--diff-filter=R",
        "--format=",
        &most,
        &range,
        "--",
    ];
    Ok(git.run("log").args(options).output().await?.stdout)
}

/// Maps the first path of each renamed file to its last.
fn final_paths(renames: &[u8]) -> HashMap<&[u8], &[u8]> {
    let mut words = renames
        .split(|byte| *byte == 0)
        .map(<[u8]>::trim_ascii_start)
        .filter(|word| !word.is_empty());
    let mut origins: HashMap<&[u8], &[u8]> = HashMap::new();
    while let (Some(_), Some(from), Some(to)) = (words.next(), words.next(), words.next()) {
        let origin = origins.remove(from).unwrap_or(from);
        origins.insert(to, origin);
    }
    origins.into_iter().map(|(now, origin)| (origin, now)).collect()
}

fn renamed(scan: &mut RepoScan, from: &[u8], to: &[u8]) {
    let short = from.len().max(to.len()) <= PATH_BYTES;
    if short && scan.renamed.len() < MAX_REPORTED_PATHS {
        scan.renamed.push(Rename {
            from: lossy(from),
            to: lossy(to),
        });
    }
}

fn report(paths: &mut Vec<String>, path: &[u8]) {
    if paths.len() < MAX_REPORTED_PATHS && path.len() <= PATH_BYTES {
        paths.push(lossy(path));
    }
}

fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Splits the requested paths into present and missing. A path is present as a file, a folder, or the end of
/// a file's path: entries often name a file without its folders.
async fn list_paths(git: &Git, paths: &[String], scan: &mut RepoScan) -> Result<(), GitError> {
    let listed = git
        .run("ls-tree")
        .args(["-r", "-z", "--name-only", &scan.head])
        .output()
        .await?;
    let asked: HashSet<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
    let found = by_length(listed.stdout.len(), || present(&listed.stdout, &asked));
    for path in paths {
        if found.contains(path.as_bytes()) {
            scan.present.push(path.clone());
        } else {
            scan.missing.push(path.clone());
        }
    }
    Ok(())
}

/// The requested paths that exist as a file, a folder, or the end of a file's path.
fn present<'a>(files: &[u8], asked: &HashSet<&'a [u8]>) -> HashSet<&'a [u8]> {
    let mut found = HashSet::new();
    for file in files.split(|byte| *byte == 0) {
        let mut note = |part: &[u8]| found.extend(asked.get(part).copied());
        note(file);
        for (at, _) in file.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            note(&file[..at]);
            note(&file[at + 1..]);
        }
    }
    found
}

async fn knowledge_tree(git: &Git, head: &str) -> Result<Option<String>, GitError> {
    let found = git
        .run("rev-parse")
        .args(["--verify", "--quiet", &format!("{head}:{KNOWLEDGE_FOLDER}")])
        .accept(&[0, 1, 128])
        .output()
        .await?;
    Ok((found.code == 0)
        .then(|| found.word())
        .filter(|tree| !tree.is_empty()))
}

/// Object ids of the knowledge files in a commit, by name. Empty when there are none, or the commit is missing.
async fn knowledge_ids(git: &Git, commit: &str) -> Result<HashMap<String, String>, GitError> {
    let listed = git
        .run("ls-tree")
        .args(["-r", "-z", &format!("{commit}:{KNOWLEDGE_FOLDER}")])
        .accept(&[0, 128])
        .output()
        .await?;
    let mut ids = HashMap::new();
    for line in listed.stdout.split(|byte| *byte == 0) {
        let line = String::from_utf8_lossy(line);
        if let Some((about, name)) = line.split_once('\t')
            && let Some(id) = about.split_whitespace().nth(2)
        {
            ids.insert(name.to_owned(), id.to_owned());
        }
    }
    Ok(ids)
}

/// The Markdown files of the folder and its subfolders, without links and hidden files; none if the path is
/// no folder. Each file records whether `base` has the same version.
async fn knowledge(git: &Git, tree: String, base: &str) -> Result<KnowledgeFolder, GitError> {
    let at_base = knowledge_ids(git, base).await?;
    let listed = git
        .run("ls-tree")
        .args(["-r", "-z", "-l", &tree])
        .accept(&[0, 128])
        .output()
        .await?;
    let mut folder = KnowledgeFolder {
        tree: Some(tree),
        ..KnowledgeFolder::default()
    };
    let mut bytes = 0;
    for line in listed.stdout.split(|byte| *byte == 0) {
        let line = String::from_utf8_lossy(line);
        let Some((about, name)) = line.split_once('\t') else {
            continue;
        };
        let mut about = about.split_whitespace();
        let (Some(mode), Some("blob"), Some(id), Some(size)) =
            (about.next(), about.next(), about.next(), about.next())
        else {
            continue;
        };
        let is_hidden = name.split('/').any(|part| part.starts_with('.'));
        if !mode.starts_with("100") || !name.ends_with(".md") || is_hidden {
            continue;
        }
        let size: usize = size.parse().unwrap_or(usize::MAX);
        if size > FILE_BYTES
            || folder.files.len() >= FILES
            || bytes + size > ALL_BYTES
            || name.len() > PATH_BYTES
        {
            folder.left_out += 1;
            continue;
        }
        bytes += size;
        let text = git.run("cat-file").args(["blob", id]).output().await?.text();
        folder.files.push(KnowledgeText {
            name: name.to_owned(),
            text,
            at_base: at_base.get(name).is_some_and(|there| there == id),
        });
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_are_followed_through_several_commits() {
        let steps = b"R090\0a\0b\0R100\0x\0y\0\nR070\0b\0c\0R080\0y\0x\0";
        let now = final_paths(steps);
        let of = |name: &str| now.get(name.as_bytes()).map(|now| String::from_utf8_lossy(now));
        assert_eq!(of("a").as_deref(), Some("c"));
        assert_eq!(of("x").as_deref(), Some("x"));
        assert_eq!(of("b"), None);
        assert!(final_paths(b"").is_empty());
    }
}
