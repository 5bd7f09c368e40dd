//! Moves attempts that an earlier release stored as branches to refs of their own. An old branch is removed
//! only after the remote lists the attempt at its new ref, and only if the branch is unchanged. An
//! interrupted move continues where it stopped.

use std::collections::BTreeMap;

use ralph_shared::attempts::{BRANCHES, REFS, elsewhere};

use super::prune::{BATCH, Pruned, check, remote_refs, remove};
use super::push;
use crate::faults;
use crate::workspace::clone::gitdir::ObjectFormat;
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::{Git, address};
use crate::workspace::workspaces::Workspaces;

impl Workspaces {
    /// Moves attempts, named by their branches, to refs of their own, with the refs beside them. `base` is a
    /// commit of the repository. `gone` holds the attempts without a branch afterwards.
    pub async fn move_attempts(&self, repository: &str, base: &str, names: &[String]) -> Pruned {
        let failed = |error: String| {
            let address = address::public(repository);
            Some(format!(
                "failed to move attempts of {address} out of its branches: {error}"
            ))
        };
        match self.try_move(repository, base, names).await {
            Ok((gone, error)) => Pruned {
                gone,
                error: error.and_then(failed),
            },
            Err(error) => Pruned {
                gone: Vec::new(),
                error: failed(error.to_string()),
            },
        }
    }

    async fn try_move(
        &self,
        repository: &str,
        base: &str,
        names: &[String],
    ) -> Result<(Vec<String>, Option<String>), WorkspaceError> {
        check(repository, base, names)?;
        let mirror = self.mirror_of(repository, ObjectFormat::of(base));
        mirror.ensure().await?;
        let git = &mirror.git;
        let at = remote_refs(git, names).await?;
        let old: Vec<(&String, &String)> = at.iter().filter(|(name, _)| name.starts_with(BRANCHES)).collect();
        let mut error = None;
        for batch in old.chunks(BATCH) {
            let moves: Vec<(&String, &String, String)> = batch
                .iter()
                .filter_map(|(name, id)| Some((*name, *id, elsewhere(name)?)))
                .collect();
            let missing: Vec<&(&String, &String, String)> =
                moves.iter().filter(|(_, _, new)| !at.contains_key(new)).collect();
            if !missing.is_empty() {
                let _lock = mirror.lock().await?;
                let refspecs = missing.iter().map(|(old, _, new)| format!("+{old}:{new}"));
                mirror.fetch_arguments(refspecs).await?;
            }
            let new: Vec<(String, String)> = missing
                .iter()
                .map(|(_, id, new)| ((*id).clone(), new.clone()))
                .collect();
            faults::point("moving.before_push");
            let refused = push::create_all(git, &new, REFS).await;
            faults::point("moving.between");
            if let Some((_, why)) = refused.into_iter().next() {
                error.get_or_insert(why.to_string());
            }
            if let Err(why) = remove_moved(git, names, &moves).await {
                error.get_or_insert(why.to_string());
            }
        }
        let remaining = match old.is_empty() {
            true => BTreeMap::new(),
            false => remote_refs(git, names).await?,
        };
        let remains = |name: &&String| {
            let beside = format!("{name}{}", ralph_shared::wire::ORPHANS_SUFFIX);
            remaining
                .keys()
                .any(|found| found == *name || found.starts_with(&beside))
        };
        let gone = names.iter().filter(|name| !remains(name)).cloned().collect();
        let differ = || "the new ref has something else; compare both refs".to_owned();
        let any_remains = names.iter().any(|name| remains(&name));
        Ok((gone, any_remains.then(|| error.unwrap_or_else(differ))))
    }
}

/// Removes the branches whose attempts the remote lists at their new refs.
async fn remove_moved(
    git: &Git,
    names: &[String],
    moves: &[(&String, &String, String)],
) -> Result<(), GitError> {
    let at = remote_refs(git, names).await?;
    let is_there =
        |(old, id, new): &&(&String, &String, String)| at.get(new) == Some(*id) && at.get(*old) == Some(*id);
    let safe: Vec<(&String, &String)> = moves
        .iter()
        .filter(is_there)
        .map(|(old, id, _)| (*old, *id))
        .collect();
    if safe.is_empty() {
        return Ok(());
    }
    remove(git, &safe).await
}
