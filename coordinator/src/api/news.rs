//! Everything that changes, as one stream: which feature it is, and that is all. Whoever is told reads anew what they show of it.
//!
//! However many listen, one task hears the signals; it passes on what came within a moment as one event a feature. An event carries nothing
//! that could be missed: whoever was away is told that anything may have changed.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::StreamExt as _;
use ralph_shared::ids::FeatureId;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::api::http::app::App;
use crate::api::http::problem::Problem;

/// What comes within it is told at once.
const MOMENT: Duration = Duration::from_millis(100);
/// Features that a slow listener may be behind by.
const WAITING: usize = 256;

/// Something changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Changed {
    /// The feature; `null` where anything may have changed, as for whoever has only begun to listen.
    pub feature: Option<String>,
}

/// Whoever hears it, while somebody listens.
#[derive(Debug, Clone, Default)]
pub struct News(Arc<Mutex<Weak<Ear>>>);

#[derive(Debug)]
struct Ear {
    told: broadcast::Sender<Changed>,
    _hearing: DropGuard,
}

/// What changes from now on: an event `changed` for each feature of which something does, at most ten a second each. The first event, and
/// one after a gap, names no feature: anything may have changed, so whoever lost the connection reads anew and has missed nothing.
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

/// The stream.
pub fn stream(app: &App) -> impl IntoResponse + use<> {
    let ear = app.news.join(app);
    let first = futures::stream::iter([Changed { feature: None }]);
    let state = (ear.told.subscribe(), ear, app.shutdown.clone());
    let later = futures::stream::unfold(state, |(mut told, ear, shutdown)| async move {
        let changed = tokio::select! {
            () = shutdown.cancelled() => return None,
            changed = told.recv() => match changed {
                Ok(changed) => changed,
                Err(RecvError::Lagged(_)) => Changed { feature: None },
                Err(RecvError::Closed) => return None,
            },
        };
        Some((changed, (told, ear, shutdown)))
    });
    let events = first.chain(later).map(|changed| {
        let json = serde_json::to_string(&changed).unwrap_or_default();
        Ok::<_, Infallible>(Event::default().event("changed").data(json))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

impl News {
    fn join(&self, app: &App) -> Arc<Ear> {
        let mut ear = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ear) = ear.upgrade() {
            return ear;
        }
        let (told, _) = broadcast::channel(WAITING);
        let token = app.shutdown.child_token();
        tokio::spawn(hear(app.clone(), told.clone(), token.clone()));
        let new = Arc::new(Ear {
            told,
            _hearing: token.drop_guard(),
        });
        *ear = Arc::downgrade(&new);
        new
    }
}

/// Hears signals until nobody listens any more.
async fn hear(app: App, told: broadcast::Sender<Changed>, ended: CancellationToken) {
    let subject = app.deps.bus.subjects.events_all();
    let signals = app.deps.bus.client.subscribe(subject).await;
    let Ok(mut signals) = signals else {
        tracing::warn!("what changes can't be heard; pages that are open look for themselves");
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
            let _ = told.send(Changed { feature });
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
    fn a_signal_names_its_feature() {
        let id = FeatureId(Uuid::from_u128(7));
        let subject = format!("ralph.events.{}", id.0.simple());
        assert_eq!(feature(&subject), Some(id.short()));
        assert_eq!(feature("ralph.events.x"), None);
    }
}
