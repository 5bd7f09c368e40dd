//! Attempt refs whose time is over are removed from the remote; whether they went is looked up, not believed.

use std::collections::{BTreeMap, BTreeSet};

use ralph_shared::attempts::{self, BRANCHES, REFS};
use ralph_shared::wire::ORPHANS_SUFFIX;

use crate::faults;
use crate::workspace::clone::gitdir::ObjectFormat;
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::address;
use crate::workspace::git::{Git, REMOTE};
use crate::workspace::workspaces::Workspaces;

/// Refs that one push removes.
pub(in crate::workspace) const BATCH: usize = 100;

/// What became of refs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Those that are not at the remote (any more), nor anything beside them, of those that were named.
    pub gone: Vec<String>,
    /// Why the others are, if any are.
    pub error: Option<String>,
}

impl Workspaces {
    /// Removes attempt refs (whole names) from a repository, with what is beside them, also where the same attempts stand among branches
    /// or were moved from there; `base` is a commit of it. A ref that isn't there is gone.
    pub async fn prune(&self, repository: &str, base: &str, names: &[String]) -> Pruned {
        self.try_prune(repository, base, names)
            .await
            .unwrap_or_else(|error| Pruned {
                gone: Vec::new(),
                error: Some(format!(
                    "failed to remove branches of attempts from {}: {error}",
                    address::public(repository)
                )),
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
        let there = remote_refs(git, names).await?;
        let mut failed = None;
        for batch in there.iter().collect::<Vec<_>>().chunks(BATCH) {
            faults::point("prune.before_push");
            if let Err(error) = remove(git, batch).await {
                failed.get_or_insert(error);
            }
            faults::point("prune.after_push");
        }
        let left = if there.is_empty() {
            there
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
            error: failed.filter(|_| !left.is_empty()).map(|error| {
                format!(
                    "failed to remove branches of attempts from {}: {error}",
                    address::public(repository)
                )
            }),
        })
    }
}

/// Refuses what is no attempt's: nothing else is ever removed or moved.
pub(in crate::workspace) fn check(
    repository: &str,
    base: &str,
    names: &[String],
) -> Result<(), WorkspaceError> {
    let usable = !repository.is_empty() && !repository.starts_with('-') && !repository.contains(['\n', '\0']);
    if !usable || !address::is_object_id(base) {
        return Err(WorkspaceError::Order("its repository is not usable".to_owned()));
    }
    let wrong = |name: &&String| attempts::below(name).is_none() || !address::is_ref(name);
    match names.iter().find(wrong) {
        Some(name) => Err(WorkspaceError::Order(format!("{name} is no ref of an attempt"))),
        None => Ok(()),
    }
}

/// Which of `names`, and of what is beside them, are at the remote in either place, and where.
pub(in crate::workspace) async fn remote_refs(
    git: &Git,
    names: &[String],
) -> Result<BTreeMap<String, String>, GitError> {
    let patterns = patterns(names);
    if patterns.is_empty() {
        // Without one git lists all that the remote has.
        return Ok(BTreeMap::new());
    }
    let listed = git
        .run("ls-remote")
        .args([REMOTE])
        .args(patterns)
        .remote()
        .output()
        .await?;
    // What isn't listed counts as gone.
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

/// What matches `names` and all that may be beside them: not the attempts of all features, which are many after a year.
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

/// The refs beside which `found` is, if they are attempts'.
fn beside(found: &str) -> impl Iterator<Item = &str> {
    found.match_indices(ORPHANS_SUFFIX).map(|(at, _)| &found[..at])
}

/// Removes refs that are still where they were found.
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
    fn only_the_features_of_what_is_named_are_listed() {
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
