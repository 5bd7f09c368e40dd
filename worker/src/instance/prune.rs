//! Asks the coordinator now and then, and on its order, which attempt refs to remove from their remotes, and removes them. Also deletes
//! expired files of sessions without a repository.

use std::sync::Arc;
use std::time::Duration;

use ralph_shared::wire::{PruneAnswer, PruneRequest, Pruned};

use crate::instance::Instance;

/// Pause between requests without an order.
const EVERY: Duration = Duration::from_secs(10 * 60);
/// How many sessions' protocol logs are kept.
const PROTOCOL_LOGS: usize = 100;
/// Most answers handled in one round, so that it ends.
const MAX_ANSWERS: usize = 1_000;

/// Runs until the worker drains.
pub async fn run(instance: Arc<Instance>) {
    loop {
        instance.workspaces.delete_expired().await;
        let logs = instance.home.protocol_logs();
        instance.workspaces.delete_old(logs, PROTOCOL_LOGS).await;
        tokio::select! {
            () = instance.draining.cancelled() => return,
            () = round(&instance) => {}
        }
        tokio::select! {
            () = instance.draining.cancelled() => return,
            () = instance.prune_now.notified() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

async fn round(instance: &Instance) {
    let mut request = PruneRequest {
        worker: instance.config.name.clone(),
        incarnation: instance.incarnation,
        pools: instance.config.pools.clone(),
        pruned: None,
    };
    for _ in 0..MAX_ANSWERS {
        let answer = match instance.broker.prune(&request).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(
                    error = format!("{error:#}"),
                    "no answer about refs to prune; asking again later"
                );
                return;
            }
        };
        let PruneAnswer::Refs {
            feature,
            repository,
            base,
            refs,
        } = answer
        else {
            return;
        };
        let names: Vec<String> = refs.iter().map(|one| one.name.clone()).collect();
        let (workspaces, address) = (&instance.workspaces, &repository.address);
        let pruned = workspaces.prune(address, &base, &names).await;
        let error = pruned.error.map(|error| instance.redactor.text(&error));
        match &error {
            None => tracing::info!(%feature, refs = pruned.gone.len(), "removed refs of old attempts"),
            Some(error) => tracing::warn!(%feature, error, "failed to remove refs of old attempts"),
        }
        let gone = refs.iter().filter(|one| pruned.gone.contains(&one.name));
        request.pruned = Some(Pruned {
            feature,
            gone: gone.map(|one| one.dispatch).collect(),
            error,
        });
    }
}
