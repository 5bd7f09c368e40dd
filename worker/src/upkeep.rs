//! Keeps this worker's disk tidy from time to time: mirrors are packed, and what nobody used for long goes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::life::Life;
use crate::workspace::Untidy;

/// How often it looks whether a mirror is to be packed.
const EVERY: Duration = Duration::from_secs(15 * 60);
/// How often it looks for what nobody used.
const FORGET: Duration = Duration::from_secs(24 * 60 * 60);

/// Goes on until the worker drains, which ends a git that packs.
pub async fn run(life: Arc<Life>) {
    let mut forgot = None;
    loop {
        tokio::select! {
            () = life.draining.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        tokio::select! {
            () = life.draining.cancelled() => return,
            () = tidy(&life, &mut forgot) => {}
        }
    }
}

async fn tidy(life: &Life, forgot: &mut Option<Instant>) {
    life.workspaces.pack_mirrors(Untidy::default()).await;
    if forgot.is_none_or(|at| at.elapsed() >= FORGET) {
        *forgot = Some(Instant::now());
        life.workspaces.forget_unused().await;
    }
}
