//! Event streams of features.
//!
//! One task reads a watched feature for all of its clients: after a signal, and every second. Each event
//! contains the whole small state and replaces the previous one, so a slow or a returning client misses
//! nothing.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::response::sse::Event;
use futures::{Stream, StreamExt as _};
use parking_lot::Mutex;
use ralph_shared::ids::FeatureId;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::services::Deps;
use crate::store::view::{self, Progress};

/// Interval between reads of a watched feature without a signal.
const POLL: Duration = Duration::from_secs(1);
/// Shortest pause between two reads, despite signals.
const SHORTEST: Duration = Duration::from_millis(100);

/// The watched features.
#[derive(Debug, Clone, Default)]
pub struct Feeds(Arc<Mutex<HashMap<FeatureId, Weak<Feed>>>>);

/// One watched feature. Its reader ends with the last client.
#[derive(Debug)]
struct Feed {
    latest: watch::Receiver<Option<Arc<Snapshot>>>,
    _reader: DropGuard,
}

/// The last read progress.
#[derive(Debug)]
struct Snapshot {
    json: String,
    over: bool,
}

/// Streams the feature's progress as events named `progress`; the last one comes when the run has ended.
pub fn events(
    feeds: &Feeds,
    deps: &Deps,
    shutdown: CancellationToken,
    id: FeatureId,
) -> impl Stream<Item = Result<Event, Infallible>> + use<> {
    let feed = feeds.join(deps, &shutdown, id);
    let state = (feed.latest.clone(), feed, shutdown, false);
    futures::stream::unfold(state, |(mut latest, feed, shutdown, ended)| async move {
        if ended {
            return None;
        }
        let snapshot = tokio::select! {
            () = shutdown.cancelled() => return None,
            snapshot = next(&mut latest) => snapshot?,
        };
        let event = Event::default().event("progress").data(&snapshot.json);
        Some((Ok(event), (latest, feed, shutdown, snapshot.over)))
    })
}

/// The next unseen state; the first call returns the current one.
async fn next(latest: &mut watch::Receiver<Option<Arc<Snapshot>>>) -> Option<Arc<Snapshot>> {
    loop {
        latest.changed().await.ok()?;
        if let Some(snapshot) = latest.borrow_and_update().clone() {
            return Some(snapshot);
        }
    }
}

impl Feeds {
    fn join(&self, deps: &Deps, shutdown: &CancellationToken, id: FeatureId) -> Arc<Feed> {
        let mut feeds = self.0.lock();
        if let Some(feed) = feeds.get(&id).and_then(Weak::upgrade) {
            return feed;
        }
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let (sender, latest) = watch::channel(None);
        let token = shutdown.child_token();
        tokio::spawn(read(deps.clone(), id, sender, token.clone()));
        let feed = Arc::new(Feed {
            latest,
            _reader: token.drop_guard(),
        });
        feeds.insert(id, Arc::downgrade(&feed));
        feed
    }
}

/// Reads a feature until nobody watches it.
async fn read(
    deps: Deps,
    id: FeatureId,
    sender: watch::Sender<Option<Arc<Snapshot>>>,
    ended: CancellationToken,
) {
    // Without signals, polling suffices (DESIGN 1.5).
    let signals = deps.bus.client.subscribe(deps.bus.subjects.events(id)).await;
    let mut signals = signals.map_or_else(
        |_| futures::stream::pending().left_stream(),
        |s| s.map(|_| ()).right_stream(),
    );
    let mut shown: Option<Progress> = None;
    loop {
        let lease_ms = deps.settings.lease_ms();
        let read = async { view::progress(&mut *deps.db.acquire().await?, id, lease_ms).await }.await;
        match read {
            Ok(Some(progress)) if shown.as_ref().is_some_and(|shown| same(shown, &progress)) => {}
            Ok(Some(progress)) => {
                if let Ok(json) = serde_json::to_string(&progress) {
                    let over = progress.is_over();
                    sender.send_replace(Some(Arc::new(Snapshot { json, over })));
                }
                shown = Some(progress);
            }
            // The feature was deleted, so the streams end with the sender.
            Ok(None) => return,
            Err(error) => tracing::debug!(%error, feature = %id, "could not read a watched feature"),
        }
        let wait = async {
            tokio::time::sleep(SHORTEST).await;
            let _ = tokio::time::timeout(POLL - SHORTEST, signals.next()).await;
        };
        tokio::select! {
            () = ended.cancelled() => return,
            () = wait => {}
        }
    }
}

/// Whether both differ at most in elapsed times.
fn same(shown: &Progress, read: &Progress) -> bool {
    let without_clock = |progress: &Progress| {
        let mut progress = progress.clone();
        if let Some(run) = &mut progress.feature.run {
            run.elapsed_ms = 0;
        }
        for session in &mut progress.sessions {
            session.elapsed_ms = 0;
        }
        progress
    };
    without_clock(shown) == without_clock(read)
}
