//! The push of a decided integration onto the feature branch. A push that failed or timed out is unknown until the
//! branch was looked up.

use ralph_shared::wire::{Decided, IntegrationEnd};

use super::push::{self, PUSH_TRIES};
use super::rebase;
use super::site::Site;
use crate::faults;
use crate::workspace::clone::mirror::FetchRequest;
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::Git;

/// Where the branch must be for the push; `None` when it must not be there.
pub(in crate::workspace) fn expected(decided: &Decided) -> Option<&str> {
    let old = decided.old.as_str();
    (!old.bytes().all(|digit| digit == b'0')).then_some(old)
}

/// The end, if the decided commit is in `head`.
pub(in crate::workspace) async fn merged_already(
    git: &Git,
    decided: &Decided,
    head: Option<&str>,
) -> Result<Option<IntegrationEnd>, GitError> {
    let Some(head) = head else { return Ok(None) };
    if !rebase::is_ancestor(git, &decided.new, head).await? {
        return Ok(None);
    }
    let empty = rebase::is_empty(git, &decided.new).await?;
    Ok(Some(IntegrationEnd::Merged {
        commit: decided.new.clone(),
        empty,
    }))
}

/// Pushes to `target` (a whole ref name), as often as that can help, until it is known what became of it or can't be known now.
pub(in crate::workspace) async fn land(
    site: &Site<'_>,
    target: &str,
    decided: &Decided,
    empty: bool,
) -> Result<IntegrationEnd, WorkspaceError> {
    let git = &site.git;
    let expected = expected(decided);
    let mut tries = 0;
    loop {
        tries += 1;
        faults::point("integrate.before_push");
        let pushed = push::push_once(git, &decided.new, target, expected).await;
        faults::point("integrate.after_push");
        let Err(error) = pushed else {
            return Ok(IntegrationEnd::Merged {
                commit: decided.new.clone(),
                empty,
            });
        };
        let found = push::look_up(git, target).await;
        if let Ok(found) = &found
            && found.as_deref() != expected
        {
            return elsewhere(site, target, decided, found.as_deref()).await;
        }
        if tries >= PUSH_TRIES || !error.trouble.retry_can_help() {
            let unknown = found
                .err()
                .map(|error| format!("; whether it arrived is not known: {error}"));
            return Ok(IntegrationEnd::Failed {
                retry: error.trouble.retry_can_help(),
                // Whoever may read but not push is refused by what a person decided there.
                away: error.trouble.is_away(),
                message: format!(
                    "failed to push {} to {target}: {error}{}",
                    decided.new,
                    unknown.unwrap_or_default()
                ),
            });
        }
        tokio::time::sleep(push::pause(tries)).await;
    }
}

/// The branch moved: with the decided commit in it, or without.
async fn elsewhere(
    site: &Site<'_>,
    target: &str,
    decided: &Decided,
    found: Option<&str>,
) -> Result<IntegrationEnd, WorkspaceError> {
    let Site {
        git,
        mirror,
        git_order,
        ..
    } = site;
    let wanted = FetchRequest {
        refs: vec![target],
        base: &git_order.base,
        commit: None,
    };
    let head = mirror.fetch(&wanted).await?.refs.into_iter().next().flatten();
    Ok(match merged_already(git, decided, head.as_deref()).await? {
        Some(merged) => merged,
        None => IntegrationEnd::Void {
            reason: format!(
                "{target} went from {} to {}, without {}",
                decided.old,
                found.unwrap_or("nowhere"),
                decided.new
            ),
        },
    })
}
