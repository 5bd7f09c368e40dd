//! Detects a session that fills the disk. Other sessions use the disk too, and the session's own report needs
//! space.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::disk::{deleted_open_bytes, free_bytes, used_since};

/// How often the disk is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// After a scan that clears the session, pause for this multiple of the scan's duration: a disk filled by
/// others may stay full.
const REST: u32 = 20;
const REST_MOST: Duration = Duration::from_secs(10);

/// Watches the disk until it is dropped.
pub struct Watcher {
    filled: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Watcher {
    /// Receiver that becomes true once the session has filled the disk.
    pub fn filled(&self) -> watch::Receiver<bool> {
        self.filled.clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until the session has filled the disk. Without a watcher, waits forever.
pub async fn until_filled(filled: &mut watch::Receiver<bool>) {
    if filled.wait_for(|filled| *filled).await.is_err() {
        std::future::pending().await
    }
}

/// Watches the disks of a session's folders, where `reserve_bytes` must stay free.
pub fn watch(folders: [PathBuf; 3], reserve_bytes: u64) -> Watcher {
    let (sender, filled) = watch::channel(false);
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let began = i64::try_from(began.as_secs()).unwrap_or(i64::MAX);
    let task = tokio::spawn(async move {
        let mut pause = CHECK_INTERVAL;
        loop {
            tokio::time::sleep(pause).await;
            pause = CHECK_INTERVAL;
            // The folders may be on different disks.
            let free = folders.iter().filter_map(|folder| free_bytes(folder)).min();
            let free = free.unwrap_or(u64::MAX);
            if free >= reserve_bytes {
                continue;
            }
            let (held, looked) = (folders.clone(), Instant::now());
            let held = tokio::task::spawn_blocking(move || {
                let written: u64 = held.iter().map(|folder| used_since(folder, began)).sum();
                written + deleted_open_bytes(&held)
            });
            if fills(free, held.await.unwrap_or(0), reserve_bytes) {
                let _ = sender.send(true);
                return;
            }
            pause = pause_after(looked.elapsed());
        }
    });
    Watcher { filled, task }
}

fn pause_after(took: Duration) -> Duration {
    (took * REST).clamp(CHECK_INTERVAL, REST_MOST)
}

/// Whether the session is the cause of the low space. A session that wrote less than the reserve is not,
/// whatever the folders held before.
fn fills(free_bytes: u64, held_bytes: u64, reserve_bytes: u64) -> bool {
    free_bytes < reserve_bytes && held_bytes >= reserve_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_that_wrote_much_is_blamed_for_a_full_disk() {
        assert!(!fills(100, 1_000, 100));
        assert!(fills(99, 100, 100));
        assert!(!fills(0, 99, 100));
        assert!(!fills(0, 0, 1));
    }

    #[test]
    fn pauses_between_scans_grow_with_the_scan_time() {
        assert_eq!(pause_after(Duration::ZERO), CHECK_INTERVAL);
        assert_eq!(pause_after(Duration::from_millis(100)), Duration::from_secs(2));
        assert_eq!(pause_after(Duration::from_secs(60)), REST_MOST);
    }
}
