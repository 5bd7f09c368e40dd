//! Signals that stop a command for people: they end its sessions in order, so that no agent outlives the
//! command.

use std::io;

use futures::future::select_all;
use ralph_shared::wire::EndReason;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Returns a channel that gets a reason to end on the first of these signals. Must be called in a runtime.
pub fn on(kinds: &[SignalKind]) -> io::Result<watch::Receiver<Option<EndReason>>> {
    let signals: Vec<_> = kinds
        .iter()
        .map(|kind| signal(*kind))
        .collect::<io::Result<_>>()?;
    let (end, receiver) = watch::channel(None);
    tokio::spawn(async move {
        let mut signals = signals;
        let waits = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
        select_all(waits).await;
        end.send_replace(Some(EndReason::Interrupted));
    });
    Ok(receiver)
}

/// Waits for the reason. Without a sender, waits forever.
pub async fn wait_for_end(mut end: watch::Receiver<Option<EndReason>>) {
    if end.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
}
