//! Live transcripts: follows one task from session to session until the task ends.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt as _};
use ralph_shared::ids::{DispatchId, TaskId};
use ralph_shared::wire::TranscriptEntry;
use std::collections::BTreeMap;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::body::Following;
use super::transcript::{SessionQuery, no_such_session, numbered, stored_entries};
use crate::api::http::app::App;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{PathParams, QueryParams};
use crate::bus::TranscriptReader;
use crate::store;
use crate::store::view::{self, TranscriptOf};

/// Interval between reads of a followed transcript.
const POLL: Duration = Duration::from_millis(500);
/// Most events queued for a slow client.
const WAITING_EVENTS: usize = 256;

/// Streams the sessions of a task as they happen, starting with the session of `attempt`, else with the last
/// one, until the task ends. A reader can continue after an entry by its event id (`Last-Event-ID`).
#[utoipa::path(
    get,
    path = "/tasks/{id}/transcript/events",
    operation_id = "follow_transcript",
    tag = "tasks",
    params(
        SessionQuery,
        (
            "last-event-id" = Option<String>,
            Header,
            description = "Continues after the event with this id",
            pattern = "^[0-9a-f]{32}:[0-9]{1,18}$"
        )
    ),
    responses((
        status = 200,
        body = Following,
        content_type = "text/event-stream",
        description = "Server-sent events; events of entries have ids for `last-event-id`"
    ))
)]
pub async fn events(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<SessionQuery>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let task = locate::task(&mut *app.db().await?, &id).await?;
    let resume = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
        .map(|text| {
            Position::parse(text)
                .ok_or_else(|| Problem::refused("`Last-Event-ID` is not an id of this stream"))
        })
        .transpose()?;
    let start = match resume {
        Some(position) => {
            if !view::is_of_task(&mut *app.db().await?, position.dispatch, task).await? {
                return Err(Problem::refused("`Last-Event-ID` belongs to another task"));
            }
            Some(position)
        }
        None => {
            let found = view::session_of_task(&mut *app.db().await?, task, query.attempt, query.kind).await?;
            if found.is_none() && (query.attempt.is_some() || query.kind.is_some()) {
                return Err(no_such_session(task, query.attempt, query.kind));
            }
            found.map(|dispatch| Position { dispatch, next: 0 })
        }
    };
    let stream = follow(app, task, start).filter_map(|(id, what)| async move {
        let json = serde_json::to_string(&what).ok()?;
        let event = match id {
            Some(id) => Event::default().id(id),
            None => Event::default(),
        };
        Some(Ok::<_, Infallible>(event.data(json)))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

/// An event; a transcript entry's event has an id for continuing after it.
type NumberedEvent = (Option<String>, Following);

/// Streams the sessions of a task from `start` until the task ends.
pub fn follow(app: App, task: TaskId, start: Option<Position>) -> impl Stream<Item = NumberedEvent> {
    let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
    let follower = Follower { app, task, sender };
    tokio::spawn(follower.run(start));
    futures::stream::unfold(receiver, |mut receiver| async {
        let event: NumberedEvent = receiver.recv().await?;
        Some((event, receiver))
    })
}

/// A client's position: `DISPATCH:NUMBER` of the last entry, as an event's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub dispatch: DispatchId,
    /// Number of the next entry.
    pub next: u64,
}

impl Position {
    /// Parses an event's id.
    pub fn parse(text: &str) -> Option<Self> {
        let (dispatch, seq) = text.split_once(':')?;
        Some(Self {
            dispatch: DispatchId(Uuid::try_parse(dispatch).ok()?),
            next: seq.parse::<u64>().ok()?.checked_add(1)?,
        })
    }

    /// The id of an entry's event.
    pub fn of(dispatch: DispatchId, seq: u64) -> String {
        format!("{}:{seq}", dispatch.0.simple())
    }
}

/// Reads a task's sessions for one client until the client disconnects.
struct Follower {
    app: App,
    task: TaskId,
    sender: mpsc::Sender<NumberedEvent>,
}

impl Follower {
    async fn run(self, start: Option<Position>) {
        let shutdown = self.app.shutdown.clone();
        let sender = self.sender.clone();
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = sender.closed() => {}
            () = self.follow(start) => {}
        }
    }

    async fn follow(&self, start: Option<Position>) {
        let mut after = None;
        if let Some(position) = start {
            self.follow_session(position).await;
            after = Some(position.dispatch);
        }
        loop {
            match self.next(after).await {
                Ok(NextSession::Dispatch(dispatch)) => {
                    self.follow_session(Position { dispatch, next: 0 }).await;
                    after = Some(dispatch);
                }
                Ok(NextSession::Ended(status)) => {
                    return self.send(None, Following::End { status }).await;
                }
                Ok(NextSession::Nothing) | Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Follows one session to its end.
    async fn follow_session(&self, mut position: Position) {
        let mut announced = false;
        let mut reader = None;
        loop {
            // Described before the entries are read: if the session has ended, the entries are complete.
            match self.describe(position.dispatch).await {
                Ok(Some(of)) => {
                    let live = of.live;
                    if !announced {
                        self.send(None, Following::Dispatch(of)).await;
                        announced = true;
                    }
                    if self.send_entries(&mut position, &mut reader, live).await.is_ok() && !live {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => tracing::debug!(%error, "could not read a followed session"),
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sends new entries, and all remaining entries when the session has ended.
    async fn send_entries(
        &self,
        position: &mut Position,
        reader: &mut Option<TranscriptReader>,
        live: bool,
    ) -> Result<(), Problem> {
        let bus = &self.app.deps.bus;
        let mut conn = self.app.db().await?;
        let Some(holder) = store::dispatch::transcript::holder(&mut conn, position.dispatch).await? else {
            return Ok(());
        };
        drop(conn);
        loop {
            let open = match reader.take() {
                Some(open) => open,
                None => bus.read_transcript(position.dispatch).await?,
            };
            // After an error the next reader starts over, and the numbers tell new entries apart.
            let more = open.more().await?;
            *reader = Some(open);
            if more.is_empty() {
                break;
            }
            self.send_new(position, numbered(more, &holder)).await;
        }
        if !live {
            self.send_new(position, stored_entries(&self.app, position.dispatch).await?)
                .await;
            if let Some(done) = reader.take() {
                done.close().await;
            }
        }
        Ok(())
    }

    async fn send_new(&self, position: &mut Position, mut found: BTreeMap<u64, TranscriptEntry>) {
        for (seq, entry) in found.split_off(&position.next) {
            position.next = seq + 1;
            let id = Position::of(position.dispatch, seq);
            self.send(Some(id), Following::Entry(entry)).await;
        }
    }

    async fn describe(&self, dispatch: DispatchId) -> sqlx::Result<Option<TranscriptOf>> {
        view::of_dispatch(&mut *self.app.deps.db.acquire().await?, dispatch).await
    }

    async fn next(&self, after: Option<DispatchId>) -> sqlx::Result<NextSession> {
        let mut conn = self.app.deps.db.acquire().await?;
        if let Some(dispatch) = view::dispatch_after(&mut conn, self.task, after).await? {
            return Ok(NextSession::Dispatch(dispatch));
        }
        let Some(task) = view::tasks(&mut conn, &[self.task.0], self.app.deps.settings.lease_ms())
            .await?
            .pop()
        else {
            return Ok(NextSession::Ended("deleted".to_owned()));
        };
        let open = matches!(task.status.into_str(), "pending" | "blocked" | "in_progress");
        let running = view::feature_of_task_runs(&mut conn, self.task).await?;
        Ok(if open && running {
            NextSession::Nothing
        } else {
            NextSession::Ended(task.status.into_str().to_owned())
        })
    }

    async fn send(&self, id: Option<String>, what: Following) {
        // A closed channel ends the follower elsewhere.
        let _ = self.sender.send((id, what)).await;
    }
}

enum NextSession {
    Dispatch(DispatchId),
    Nothing,
    Ended(String),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_reader_continues_after_the_entry_of_its_last_event_id() {
        let dispatch = DispatchId::new();
        let position = Position::parse(&Position::of(dispatch, 41)).unwrap();
        assert_eq!(position, Position { dispatch, next: 42 });
        for bad in [
            "",
            "1",
            ":1",
            "x:1",
            &format!("{}:x", dispatch.0),
            &format!("{}:{}", dispatch.0, u64::MAX),
        ] {
            assert_eq!(Position::parse(bad), None, "{bad}");
        }
    }
}
