//! Packs this worker's mirrors from time to time.

use std::sync::Arc;
use std::time::Duration;

use crate::life::Life;
use crate::workspace::Untidy;

/// How often it looks whether one is to be packed.
const EVERY: Duration = Duration::from_secs(15 * 60);

/// Goes on until the worker drains, which ends a git that packs.
pub async fn run(life: Arc<Life>) {
    loop {
        tokio::select! {
            () = life.draining.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        tokio::select! {
            () = life.draining.cancelled() => return,
            _ = life.workspaces.pack_mirrors(Untidy::default()) => {}
        }
    }
}
