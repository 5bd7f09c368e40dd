//! How a command for people is told to stop: its sessions are then ended in order, so that no agent outlives it.

use std::io;

use futures::future::select_all;
use ralph_shared::wire::EndReason;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// What gets a reason to end with the first of these signals. To be called in a runtime.
///
/// # Errors
/// When a signal can't be listened to.
pub fn on(kinds: &[SignalKind]) -> io::Result<watch::Receiver<Option<EndReason>>> {
    let signals: Vec<_> = kinds
        .iter()
        .map(|kind| signal(*kind))
        .collect::<io::Result<_>>()?;
    let (end, told) = watch::channel(None);
    tokio::spawn(async move {
        let mut signals = signals;
        let waits = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
        select_all(waits).await;
        end.send_replace(Some(EndReason::Interrupted));
    });
    Ok(told)
}

/// Waits for the reason; for ever when there will be none.
pub async fn wait_for_end(mut end: watch::Receiver<Option<EndReason>>) {
    if end.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
}
