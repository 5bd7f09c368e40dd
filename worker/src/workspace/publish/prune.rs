//! Removes expired attempt refs from the remote, and verifies the removal by listing the remote's refs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ralph_shared::attempts::{self, BRANCHES, REFS};
use ralph_shared::wire::ORPHANS_SUFFIX;

use crate::faults;
use crate::workspace::clone::gitdir::ObjectFormat;
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::address;
use crate::workspace::git::{Git, REMOTE};
use crate::workspace::workspaces::Workspaces;

/// Most refs removed by one push.
pub(in crate::workspace) const BATCH: usize = 100;

/// Result of removing or moving refs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pruned {
    /// The requested refs that the remote no longer has, nor any ref beside them.
    pub gone: Vec<String>,
    /// Why other refs remain, if any do.
    pub error: Option<String>,
}

impl Workspaces {
    /// Removes attempt refs (whole names) and refs beside them from a repository, also where the same attempts
    /// are among branches. `base` is a commit of the repository. A missing ref counts as gone.
    pub async fn prune(&self, repository: &str, base: &str, names: &[String]) -> Pruned {
        self.try_prune(repository, base, names)
            .await
            .unwrap_or_else(|error| Pruned {
                gone: Vec::new(),
                error: Some(removal_failed(repository, error)),
            })
    }

    async fn try_prune(
        &self,
        repository: &str,
        base: &str,
        names: &[String],
    ) -> Result<Pruned, WorkspaceError> {
        check(repository, base, names)?;
        let mirror = self.mirror_of(repository, ObjectFormat::of(base));
        mirror.ensure().await?;
        let git = &mirror.git;
        let present = remote_refs(git, names).await?;
        let mut failed = None;
        for batch in present.iter().collect::<Vec<_>>().chunks(BATCH) {
            faults::point("prune.before_push");
            if let Err(error) = remove(git, batch).await {
                failed.get_or_insert(error);
            }
            faults::point("prune.after_push");
        }
        let left = if present.is_empty() {
            present
        } else {
            remote_refs(git, names).await?
        };
        let left_of: BTreeSet<&str> = left
            .keys()
            .flat_map(|found| beside(found).chain([found.as_str()]))
            .filter_map(attempts::below)
            .collect();
        let gone = names
            .iter()
            .filter(|name| attempts::below(name).is_some_and(|below| !left_of.contains(below)));
        Ok(Pruned {
            gone: gone.cloned().collect(),
            error: failed
                .filter(|_| !left.is_empty())
                .map(|error| removal_failed(repository, error)),
        })
    }
}

fn removal_failed(repository: &str, error: impl fmt::Display) -> String {
    let address = address::public(repository);
    format!("failed to remove branches of attempts from {address}: {error}")
}

/// Refuses names that are no attempt's: no other ref is ever removed or moved.
pub(in crate::workspace) fn check(
    repository: &str,
    base: &str,
    names: &[String],
) -> Result<(), WorkspaceError> {
    let usable = !repository.is_empty() && !repository.starts_with('-') && !repository.contains(['\n', '\0']);
    if !usable || !address::is_object_id(base) {
        return Err(WorkspaceError::Order(
            "its repository or base is invalid".to_owned(),
        ));
    }
    let wrong = |name: &&String| attempts::below(name).is_none() || !address::is_ref(name);
    match names.iter().find(wrong) {
        Some(name) => Err(WorkspaceError::Order(format!("{name} is no ref of an attempt"))),
        None => Ok(()),
    }
}

/// The refs at the remote, in either place, of `names` and beside them, with their commits.
pub(in crate::workspace) async fn remote_refs(
    git: &Git,
    names: &[String],
) -> Result<BTreeMap<String, String>, GitError> {
    let patterns = patterns(names);
    if patterns.is_empty() {
        // Without a pattern git lists all refs of the remote.
        return Ok(BTreeMap::new());
    }
    let listed = git
        .run("ls-remote")
        .args([REMOTE])
        .args(patterns)
        .remote()
        .output()
        .await?;
    // A ref that isn't listed counts as gone.
    listed.must_be_whole("ls-remote")?;
    let at: BTreeMap<String, String> = listed
        .text()
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(id, name)| (name.to_owned(), id.to_owned()))
        .collect();
    let named: BTreeSet<&str> = names.iter().filter_map(|name| attempts::below(name)).collect();
    let is_named = |found: &str| {
        let mut of = beside(found).chain([found]).filter_map(attempts::below);
        of.any(|below| named.contains(below))
    };
    Ok(at.into_iter().filter(|(found, _)| is_named(found)).collect())
}

/// Patterns for `names` and all refs beside them, limited to their features: the attempts of all features are
/// many after a year.
fn patterns(names: &[String]) -> BTreeSet<String> {
    let below = names.iter().filter_map(|name| attempts::below(name));
    below
        .map(|name| match name.split_once('/') {
            Some((feature, _)) => format!("{feature}/*"),
            None => format!("{name}*"),
        })
        .flat_map(|rest| [REFS, BRANCHES].map(|folder| format!("{folder}{rest}")))
        .collect()
}

/// The attempt refs that `found` may be beside.
fn beside(found: &str) -> impl Iterator<Item = &str> {
    found.match_indices(ORPHANS_SUFFIX).map(|(at, _)| &found[..at])
}

/// Removes refs that are still at the commits where they were found.
pub(in crate::workspace) async fn remove(git: &Git, refs: &[(&String, &String)]) -> Result<(), GitError> {
    let leases = refs
        .iter()
        .map(|(name, id)| format!("--force-with-lease={name}:{id}"));
    let gone = refs.iter().map(|(name, _)| format!(":{name}"));
    git.run("push")
        .args(["--porcelain", "--no-verify"])
        .args(leases)
        .args([REMOTE])
        .args(gone)
        .remote()
        .output()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_only_the_named_features() {
        let names = ["todo/t-1/1-d-1", "todo/t-2/1-d-2", "other/t-3/2-d-3", "alone"];
        let names = names.map(|name| format!("{REFS}{name}"));
        let patterns = patterns(&names);
        let expected = ["alone*", "other/*", "todo/*"];
        let expected = expected
            .into_iter()
            .flat_map(|name| [REFS, BRANCHES].map(|folder| format!("{folder}{name}")));
        assert_eq!(patterns, expected.collect());
    }
}
