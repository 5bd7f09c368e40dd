//! Pushes a decided integration onto the feature branch. After a failure or timeout, the push's result is
//! unknown until the branch is looked up.

use ralph_shared::wire::{Decided, IntegrationEnd};

use super::push::{self, PUSH_TRIES};
use super::rebase;
use super::site::Site;
use crate::faults;
use crate::workspace::clone::mirror::FetchRequest;
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::Git;

/// The branch's commit that the push expects; `None` when the branch must not exist.
pub(in crate::workspace) fn expected(decided: &Decided) -> Option<&str> {
    let old = decided.old.as_str();
    (!old.bytes().all(|digit| digit == b'0')).then_some(old)
}

/// The end, if `head` already contains the decided commit.
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

/// Pushes to `target` (a whole ref name), with retries while they can help, until the result is known or
/// can't be known now.
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
                // A refused push with read access is a person's decision at the server, not an outage.
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

/// The end after the branch moved, with or without the decided commit.
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
                "{target} moved from {} to {}, without {}",
                decided.old,
                found.unwrap_or("nowhere"),
                decided.new
            ),
        },
    })
}
