//! Caches that were unused for a month are removed, and nothing else is.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::remote::Remote;

/// A cache that was last used this many days ago.
fn cache(remote: &Remote, name: &str, days: u64) -> PathBuf {
    let cache = remote.data("data/caches/repository/base").join(name);
    fs::create_dir_all(&cache).unwrap();
    fs::write(cache.join("installed"), "much\n").unwrap();
    let used = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    File::open(&cache).unwrap().set_modified(used).unwrap();
    cache
}

#[tokio::test]
async fn caches_unused_for_a_month_are_removed_without_a_budget() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let (fresh, old) = (cache(&remote, "deps-1", 29), cache(&remote, "deps-2", 31));
    assert_eq!(workspaces.remove_unused().await, 1);
    assert!(fresh.join("installed").exists() && !old.exists());
    assert_eq!(workspaces.remove_unused().await, 0);
}
