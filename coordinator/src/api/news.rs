//! All changes as one stream of events, each with only the id of the changed feature. A client then reads the
//! feature again.
//!
//! One task receives the signals for all clients. It merges the signals of a moment into one event per
//! feature. A client misses nothing: after a gap it gets an event that says that anything may have changed.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::StreamExt as _;
use parking_lot::Mutex;
use ralph_shared::ids::FeatureId;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::api::http::app::App;
use crate::api::http::problem::Problem;

/// Signals within this time become one event per feature.
const MOMENT: Duration = Duration::from_millis(100);
/// Most events queued for a slow client.
const WAITING: usize = 256;

/// A change of a feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Changed {
    /// The feature; `null` if anything may have changed, as in the first event of a stream.
    pub feature: Option<String>,
}

/// The shared receiver of signals, which lives as long as its clients.
#[derive(Debug, Clone, Default)]
pub struct News(Arc<Mutex<Weak<Listener>>>);

#[derive(Debug)]
struct Listener {
    changes: broadcast::Sender<Changed>,
    _listening: DropGuard,
}

/// Streams changes from now on: an event `changed` for each changed feature, at most ten a second per
/// feature. The first event, and one after a gap, names no feature: anything may have changed, so a client
/// that lost its connection reads everything again and misses nothing.
#[utoipa::path(
    get,
    path = "/events",
    operation_id = "watch_all",
    tag = "features",
    responses((
        status = 200,
        body = Changed,
        content_type = "text/event-stream",
        description = "Server-sent events named `changed`"
    ))
)]
pub async fn events(State(app): State<App>) -> Result<impl IntoResponse, Problem> {
    Ok(stream(&app))
}

pub fn stream(app: &App) -> impl IntoResponse + use<> {
    let listener = app.news.join(app);
    let first = futures::stream::iter([Changed { feature: None }]);
    let state = (listener.changes.subscribe(), listener, app.shutdown.clone());
    let later = futures::stream::unfold(state, |(mut changes, listener, shutdown)| async move {
        let changed = tokio::select! {
            () = shutdown.cancelled() => return None,
            changed = changes.recv() => match changed {
                Ok(changed) => changed,
                Err(RecvError::Lagged(_)) => Changed { feature: None },
                Err(RecvError::Closed) => return None,
            },
        };
        Some((changed, (changes, listener, shutdown)))
    });
    let events = first.chain(later).map(|changed| {
        let json = serde_json::to_string(&changed).unwrap_or_default();
        Ok::<_, Infallible>(Event::default().event("changed").data(json))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

impl News {
    fn join(&self, app: &App) -> Arc<Listener> {
        let mut listener = self.0.lock();
        if let Some(listener) = listener.upgrade() {
            return listener;
        }
        let (changes, _) = broadcast::channel(WAITING);
        let token = app.shutdown.child_token();
        tokio::spawn(listen(app.clone(), changes.clone(), token.clone()));
        let new = Arc::new(Listener {
            changes,
            _listening: token.drop_guard(),
        });
        *listener = Arc::downgrade(&new);
        new
    }
}

/// Receives signals until the last client is gone.
async fn listen(app: App, changes: broadcast::Sender<Changed>, ended: CancellationToken) {
    let subject = app.deps.bus.subjects.events_all();
    let signals = app.deps.bus.client.subscribe(subject).await;
    let Ok(mut signals) = signals else {
        tracing::warn!("could not subscribe to changes; open pages poll instead");
        return ended.cancelled().await;
    };
    loop {
        let Some(Some(first)) = ended.run_until_cancelled(signals.next()).await else {
            return;
        };
        let mut changed: BTreeSet<Option<String>> = BTreeSet::from([feature(&first.subject)]);
        let moment = tokio::time::sleep(MOMENT);
        tokio::pin!(moment);
        loop {
            tokio::select! {
                () = &mut moment => break,
                signal = signals.next() => match signal {
                    Some(signal) => changed.insert(feature(&signal.subject)),
                    None => break,
                },
            };
        }
        for feature in changed {
            let _ = changes.send(Changed { feature });
        }
    }
}

/// The feature that a signal's subject names.
fn feature(subject: &str) -> Option<String> {
    let id = Uuid::try_parse(subject.rsplit('.').next()?).ok()?;
    Some(FeatureId(id).short())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_of_a_signal_names_its_feature() {
        let id = FeatureId(Uuid::from_u128(7));
        let subject = format!("ralph.events.{}", id.0.simple());
        assert_eq!(feature(&subject), Some(id.short()));
        assert_eq!(feature("ralph.events.x"), None);
    }
}
