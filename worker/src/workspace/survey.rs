//! What the commit that a session starts from holds: the repository's own knowledge, and which of the asked paths are there.
//! All of it is read from git, none from the agent's folder.

use std::collections::HashSet;

use ralph_shared::wire::{KNOWLEDGE_FOLDER, KnowledgeFolder, KnowledgeText, Rename, Survey, SurveyOrder};

use super::address;
use super::error::{GitError, WorkspaceError};
use super::folder::Workspace;
use super::git::Git;

/// Knowledge files that are read, how large each may be, and all together: they go in one message. Bytes.
const FILES: usize = 200;
const FILE_BYTES: usize = 64 << 10;
const ALL_BYTES: usize = 200 << 10;
/// Paths of each sort that are told. With the files they stay far below what a message may have.
const TOLD_PATHS: usize = 300;
/// Longest path that is told. Bytes.
const PATH_BYTES: usize = 300;

impl Workspace {
    /// Looks up what `order` asks for in the commit that the work started from. `None` without a repository.
    ///
    /// # Errors
    /// When git fails.
    pub async fn survey(&self, order: &SurveyOrder) -> Result<Option<Survey>, WorkspaceError> {
        let (Some(git), Some(head)) = (self.git_of(), self.start()) else {
            return Ok(None);
        };
        let mut survey = Survey {
            head: head.to_owned(),
            ..Survey::default()
        };
        if let Some(since) = &order.since
            && since != head
            && address::is_object_id(since)
        {
            changed(git, since, &mut survey).await?;
        }
        if !order.paths.is_empty() {
            look(git, &order.paths, &mut survey).await?;
        }
        let tree = knowledge_tree(git, head).await?;
        if tree != order.knowledge {
            survey.knowledge = Some(match tree {
                Some(tree) => knowledge(git, tree).await?,
                None => KnowledgeFolder::default(),
            });
        }
        Ok(Some(survey))
    }
}

/// What was added, deleted and renamed since a commit that may not be here.
async fn changed(git: &Git, since: &str, survey: &mut Survey) -> Result<(), GitError> {
    let known = git
        .run("cat-file")
        .args(["-e", &format!("{since}^{{commit}}")])
        .accept(&[0, 1, 128])
        .output()
        .await?;
    if known.code != 0 {
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
        ])
        .args([survey.head.as_str()])
        .output()
        .await?;
    let mut words = changed
        .stdout
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    while let Some(status) = words.next() {
        let Some(path) = words.next() else { break };
        match status[0] {
            b'A' => tell(&mut survey.present, path),
            b'D' => tell(&mut survey.deleted, path),
            _ => {
                let Some(to) = words.next() else { break };
                let short = path.len().max(to.len()) <= PATH_BYTES;
                if short && survey.renamed.len() < TOLD_PATHS {
                    survey.renamed.push(Rename {
                        from: lossy(path),
                        to: lossy(to),
                    });
                }
            }
        }
    }
    Ok(())
}

fn tell(paths: &mut Vec<String>, path: &[u8]) {
    if paths.len() < TOLD_PATHS && path.len() <= PATH_BYTES {
        paths.push(lossy(path));
    }
}

fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// A path is there as a file or a folder, or as the end of one: entries often name a file without its folders.
async fn look(git: &Git, paths: &[String], survey: &mut Survey) -> Result<(), GitError> {
    let listed = git
        .run("ls-tree")
        .args(["-r", "-z", "--name-only", &survey.head])
        .output()
        .await?;
    let asked: HashSet<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
    let mut found: HashSet<&[u8]> = HashSet::new();
    for file in listed.stdout.split(|byte| *byte == 0) {
        let mut note = |part: &[u8]| {
            if let Some(path) = asked.get(part) {
                found.insert(path);
            }
        };
        note(file);
        for (at, _) in file.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            note(&file[..at]);
            note(&file[at + 1..]);
        }
    }
    for path in paths {
        if found.contains(path.as_bytes()) {
            survey.present.push(path.clone());
        } else {
            survey.missing.push(path.clone());
        }
    }
    Ok(())
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

/// The folder's own Markdown files; no links, nothing in folders below. A path of this name that is no folder holds none.
async fn knowledge(git: &Git, tree: String) -> Result<KnowledgeFolder, GitError> {
    let listed = git
        .run("ls-tree")
        .args(["-z", "-l", &tree])
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
        if !mode.starts_with("100") || !name.ends_with(".md") || name.starts_with('.') {
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
        });
    }
    Ok(folder)
}
