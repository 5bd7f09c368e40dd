//! Cleans up this worker's disk from time to time: packs mirrors and removes unused caches. Warns if the
//! disk is nearly full, whatever filled it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::disk::free_bytes;
use crate::instance::Instance;
use crate::reminder::Reminder;
use crate::workspace::Untidy;

/// How often to check whether a mirror needs packing.
const EVERY: Duration = Duration::from_secs(15 * 60);
/// How often to look for unused caches.
const REMOVE_UNUSED: Duration = Duration::from_secs(24 * 60 * 60);
/// How often the free space of the disk is checked.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Runs until the worker drains, which also ends a running git.
pub async fn run(instance: Arc<Instance>) {
    tokio::select! {
        () = instance.draining.cancelled() => {}
        () = tidy_now_and_then(&instance) => {}
        () = watch_disk(&instance) => {}
    }
}

/// Warns of a disk with less free space than sessions must leave. A failed write is then no session's fault,
/// and no session is ended for it.
async fn watch_disk(instance: &Instance) {
    let reserve = instance.config.machine.sandbox.resources.disk_reserve_bytes;
    let mut low = Reminder::default();
    loop {
        let free = free_bytes(instance.home.dir());
        if let Some(free) = free.filter(|free| *free < reserve) {
            if low.is_due("low", Instant::now()) {
                tracing::warn!(
                    data = %instance.home.dir().display(),
                    free_mib = free >> 20,
                    reserve_mib = reserve >> 20,
                    "the disk is nearly full, and sessions may fail to write: free some space, or set `disk_budget_mb` of [workspace]"
                );
            }
        } else if free.is_some() && low.over() {
            tracing::info!("the disk has room again");
        }
        tokio::time::sleep(DISK_CHECK_INTERVAL).await;
    }
}

async fn tidy_now_and_then(instance: &Instance) {
    let mut removed = None;
    loop {
        tokio::time::sleep(EVERY).await;
        tidy(instance, &mut removed).await;
    }
}

async fn tidy(instance: &Instance, removed: &mut Option<Instant>) {
    instance.workspaces.pack_mirrors(Untidy::default()).await;
    if removed.is_none_or(|at| at.elapsed() >= REMOVE_UNUSED) {
        *removed = Some(Instant::now());
        instance.workspaces.remove_unused().await;
    }
}
