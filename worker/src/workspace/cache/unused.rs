//! Removes data that was not used for long, whatever the disk budget: caches of old key states, and attempt
//! refs in mirrors. A ref is fetched again when it is needed. Its objects stay, since a mirror is never
//! collected.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ralph_shared::attempts::{BRANCHES, REFS};
use ralph_shared::wire::WorkspaceOrder;

use super::{budget, files, warm};
use crate::workspace::error::WorkspaceError;
use crate::workspace::workspaces::Workspaces;
use crate::workspace::{clone::mirror, record};

/// Data without use for this long is removed.
const UNUSED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The same for build output, which is large and which the next gate makes anew.
const WARM_UNUSED_FOR: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// Most caches removed in one call.
const MAX_CACHES: usize = 100;
/// Most refs deleted per mirror in one call.
const MAX_REFS: usize = 10_000;
/// Longest git run in one mirror.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub caches: usize,
    /// Refs of attempts, in all mirrors.
    pub refs: usize,
}

impl Workspaces {
    /// Removes data that was not used for 30 days, up to a limit per call. Skips data in use. Dropping the
    /// future leaves the rest for the next call.
    pub async fn forget_unused(&self) -> Forgotten {
        let now = SystemTime::now();
        let mut forgotten = Forgotten::default();
        let data = self.data().to_owned();
        let unused = tokio::task::spawn_blocking(move || unused_caches(&data, now)).await;
        for cache in unused.unwrap_or_default() {
            let shown = cache.display().to_string();
            match tokio::task::spawn_blocking(move || files::delete(&cache)).await {
                Ok(Ok(_)) => forgotten.caches += 1,
                Ok(Err(error)) => {
                    tracing::warn!(cache = shown, %error, "failed to remove an unused cache")
                }
                Err(_) => {}
            }
        }
        let mirrors: Vec<PathBuf> = files::folders_in(&record::mirrors(self.data())).collect();
        // Folders with an extension are incomplete or broken mirrors.
        for mirror in mirrors.iter().filter(|path| path.extension().is_none()) {
            match self.forget_attempts(mirror, now).await {
                Ok(refs) => forgotten.refs += refs,
                Err(error) => {
                    tracing::warn!(mirror = %mirror.display(), %error, "failed to delete old refs of a mirror");
                }
            }
        }
        if forgotten != Forgotten::default() {
            let Forgotten { caches, refs } = forgotten;
            tracing::info!(caches, refs, "removed data that was not used for 30 days");
        }
        forgotten
    }

    /// Deletes the refs of old attempts in a mirror, except those that existing workspaces need. Returns how
    /// many.
    async fn forget_attempts(&self, mirror: &Path, now: SystemTime) -> Result<usize, WorkspaceError> {
        let Some(_lock) = mirror::try_lock(mirror)? else {
            return Ok(0);
        };
        mirror::clean(mirror)?;
        let git = self.git_in(mirror.to_owned());
        let most = format!("--count={MAX_REFS}");
        let options = [
            "--sort=committerdate",
            "--format=%(committerdate:unix) %(refname)",
            &most,
            REFS,
            BRANCHES,
        ];
        let listed = git.run("for-each-ref").args(options).gently_within(TIMEOUT);
        let listed = listed.output().await?.text();
        // Read under the lock: every process that fetches already has a record.
        let named = named(self.data())?;
        let old = old(&listed, now).filter(|name| !named.contains(*name));
        let old: Vec<String> = old.map(|name| format!("delete {name}\n")).collect();
        if !old.is_empty() {
            let deleted = git.run("update-ref").args(["--stdin"]).input(old.concat());
            deleted.gently_within(TIMEOUT).output().await?;
        }
        Ok(old.len())
    }
}

fn unused_caches(data: &Path, now: SystemTime) -> Vec<PathBuf> {
    let is_unused = |path: &PathBuf| {
        // An incomplete copy may have its source's times.
        let is_whole = path.extension().is_none();
        let used = fs::metadata(path).and_then(|found| found.modified());
        let most = if warm::is_entry(path) {
            WARM_UNUSED_FOR
        } else {
            UNUSED_FOR
        };
        is_whole && used.is_ok_and(|used| now.duration_since(used).is_ok_and(|rest| rest > most))
    };
    files::caches(data).filter(is_unused).take(MAX_CACHES).collect()
}

/// The refs named in orders of workspaces.
fn named(data: &Path) -> Result<BTreeSet<String>, WorkspaceError> {
    let mut named = BTreeSet::new();
    for (_, _, record) in budget::recorded(data)? {
        if let WorkspaceOrder::Git(order) = record.order {
            named.insert(order.attempt_ref);
            named.extend(order.start_ref);
        }
    }
    Ok(named)
}

/// The refs of `<seconds> <name>` lines whose commits are older than [`UNUSED_FOR`].
fn old(listed: &str, now: SystemTime) -> impl Iterator<Item = &str> {
    let since = now.checked_sub(UNUSED_FOR).unwrap_or(UNIX_EPOCH);
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    listed.lines().filter_map(move |line| {
        let (made, name) = line.split_once(' ')?;
        (made.parse::<u64>().ok()? < since).then_some(name)
    })
}
