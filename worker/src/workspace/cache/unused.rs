//! Removes caches of old key states that were not used for long, whatever the disk budget.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{files, warm};
use crate::workspace::workspaces::Workspaces;

/// Data without use for this long is removed.
const UNUSED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The same for build output, which is large and which the next gate makes anew.
const WARM_UNUSED_FOR: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// Most caches removed in one call.
const MAX_CACHES: usize = 100;

impl Workspaces {
    /// Removes caches that were not used for 30 days, up to a limit per call; returns how many. Skips caches
    /// in use. Dropping the future leaves the rest for the next call.
    pub async fn remove_unused(&self) -> usize {
        let mut removed = 0;
        let data = self.data().to_owned();
        let unused = tokio::task::spawn_blocking(move || unused_caches(&data, SystemTime::now())).await;
        for cache in unused.unwrap_or_default() {
            let shown = cache.display().to_string();
            match tokio::task::spawn_blocking(move || files::delete(&cache)).await {
                Ok(Ok(_)) => removed += 1,
                Ok(Err(error)) => {
                    tracing::warn!(cache = shown, %error, "failed to remove an unused cache")
                }
                Err(_) => {}
            }
        }
        if removed > 0 {
            tracing::info!(caches = removed, "removed caches that were not used for 30 days");
        }
        removed
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
