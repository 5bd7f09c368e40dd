//! Keeps this worker's disk tidy from time to time: mirrors are packed, and what nobody used for long goes. A disk that is nearly full is
//! said, whoever filled it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::disk::free_bytes;
use crate::instance::Instance;
use crate::reminder::Reminder;
use crate::workspace::Untidy;

/// How often it looks whether a mirror is to be packed.
const EVERY: Duration = Duration::from_secs(15 * 60);
/// How often it looks for what nobody used.
const FORGET: Duration = Duration::from_secs(24 * 60 * 60);
/// How often the free space of the disk is checked.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Goes on until the worker drains, which ends a git that packs.
pub async fn run(instance: Arc<Instance>) {
    tokio::select! {
        () = instance.draining.cancelled() => {}
        () = tidy_now_and_then(&instance) => {}
        () = watch_disk(&instance) => {}
    }
}

/// Tells of a disk with less room than sessions are to leave: what they can't write is then no session's fault, and nobody's is ended.
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
                    "the disk is nearly full, and what sessions write may not fit: free some of it, or set `disk_budget_mb` of [workspace]"
                );
            }
        } else if free.is_some() && low.over() {
            tracing::info!("the disk has room again");
        }
        tokio::time::sleep(DISK_CHECK_INTERVAL).await;
    }
}

async fn tidy_now_and_then(instance: &Instance) {
    let mut forgot = None;
    loop {
        tokio::time::sleep(EVERY).await;
        tidy(instance, &mut forgot).await;
    }
}

async fn tidy(instance: &Instance, forgot: &mut Option<Instant>) {
    instance.workspaces.pack_mirrors(Untidy::default()).await;
    if forgot.is_none_or(|at| at.elapsed() >= FORGET) {
        *forgot = Some(Instant::now());
        instance.workspaces.forget_unused().await;
    }
}
