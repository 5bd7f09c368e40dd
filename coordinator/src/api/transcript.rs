//! What sessions show: their transcripts, as far as they are known or as they grow, and the prompts that they got.
//!
//! A transcript lives in the stream until a while after its session and then in Postgres (DESIGN 1.1). A reader takes both
//! and goes by the entries' numbers, so that the moment of moving shows neither a gap nor a repetition.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Read as _;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use flate2::read::GzDecoder;
use ralph_shared::ids::{DispatchId, TaskId};
use ralph_shared::wire::{TranscriptBatch, TranscriptEntry};
use serde::Deserialize;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::app::App;
use super::body::{Following, PromptSent, Transcript};
use super::locate;
use super::problem::Problem;
use super::request::Asked;
use crate::store;
use crate::store::view::{self, TranscriptOf};

/// Messages of one transcript that are read from the stream.
const MAX_MESSAGES: usize = 20_000;
/// A kept transcript is read no further. Bytes.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;
/// How often a transcript that is followed is looked at.
const POLL: Duration = Duration::from_millis(500);
/// Events that wait for a slow reader.
const WAITING_EVENTS: usize = 256;

/// Which attempt.
#[derive(Debug, Deserialize)]
pub struct AttemptQuery {
    #[serde(default)]
    attempt: Option<i32>,
}

/// The transcript of an attempt, or of the last session.
pub async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
    Asked(query): Asked<AttemptQuery>,
) -> Result<Json<Transcript>, Problem> {
    let (of, dispatch) = find(&app, &id, query.attempt).await?;
    let items = entries(&app, dispatch, 0).await?;
    Ok(Json(Transcript { of, items }))
}

/// The prompt of an attempt, or of the last session.
pub async fn prompt(
    State(app): State<App>,
    Path(id): Path<String>,
    Asked(query): Asked<AttemptQuery>,
) -> Result<Json<PromptSent>, Problem> {
    let (of, dispatch) = find(&app, &id, query.attempt).await?;
    let sent = store::prompt::read(&mut *app.db().await?, dispatch.0).await?;
    let (frame, body) =
        sent.ok_or_else(|| Problem::not_found(format!("the prompt of {} is no longer kept", of.dispatch)))?;
    Ok(Json(PromptSent { of, frame, body }))
}

async fn find(app: &App, task: &str, attempt: Option<i32>) -> Result<(TranscriptOf, DispatchId), Problem> {
    let mut conn = app.db().await?;
    let id = locate::task(&mut conn, task).await?;
    let found = view::dispatch_of_attempt(&mut conn, id, attempt).await?;
    let Some(dispatch) = found else {
        return Err(Problem::not_found(match attempt {
            Some(n) => {
                format!("{id} has no attempt {n}; `ralph-coordinator task show {id}` lists its attempts")
            }
            None => format!("no session of {id} has started yet"),
        }));
    };
    let of = view::of_dispatch(&mut conn, dispatch).await?;
    of.map(|of| (of, dispatch))
        .ok_or_else(|| Problem::not_found("the task was deleted meanwhile"))
}

/// What is known of a transcript from number `from` on.
async fn entries(app: &App, dispatch: DispatchId, from: u64) -> Result<Vec<TranscriptEntry>, Problem> {
    let mut found = BTreeMap::new();
    // The stream first: what leaves it meanwhile stands in Postgres by then.
    for body in app.deps.bus.transcript(dispatch, MAX_MESSAGES).await? {
        if let Ok(batch) = serde_json::from_slice::<TranscriptBatch>(&body) {
            found.extend(batch.entries.into_iter().map(|entry| (entry.seq, entry)));
        }
    }
    if let Some(kept) = store::transcript::read(&mut *app.db().await?, dispatch).await? {
        let mut lines = Vec::new();
        // A body that breaks off is shown as far as it goes.
        let _ = GzDecoder::new(kept.as_slice())
            .take(MAX_KEPT_BYTES)
            .read_to_end(&mut lines);
        for line in lines.split(|byte| *byte == b'\n') {
            if let Ok(entry) = serde_json::from_slice::<TranscriptEntry>(line) {
                found.insert(entry.seq, entry);
            }
        }
    }
    Ok(found.split_off(&from).into_values().collect())
}

/// The sessions of a task as they happen, from the one of `attempt`, else the last one, until nothing more will come. Each
/// entry's event id lets a reader go on after it (`Last-Event-ID`).
pub async fn events(
    State(app): State<App>,
    Path(id): Path<String>,
    Asked(query): Asked<AttemptQuery>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let task = locate::task(&mut *app.db().await?, &id).await?;
    let resume = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
        .map(|text| {
            Position::parse(text).ok_or_else(|| Problem::invalid("`Last-Event-ID` is none of this stream"))
        })
        .transpose()?;
    let start = match resume {
        Some(position) => Some(position),
        None => {
            let found = view::dispatch_of_attempt(&mut *app.db().await?, task, query.attempt).await?;
            if found.is_none()
                && let Some(attempt) = query.attempt
            {
                return Err(Problem::not_found(format!("{task} has no attempt {attempt}")));
            }
            found.map(|dispatch| Position { dispatch, next: 0 })
        }
    };
    let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
    let follower = Follower { app, task, sender };
    tokio::spawn(follower.run(start));
    let stream = futures::stream::unfold(receiver, |mut receiver| async {
        let event: Event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(event), receiver))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

/// Where a reader is: `DISPATCH:NUMBER` of the last entry, as an event's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    dispatch: DispatchId,
    next: u64,
}

impl Position {
    fn parse(text: &str) -> Option<Self> {
        let (dispatch, seq) = text.split_once(':')?;
        Some(Self {
            dispatch: DispatchId(Uuid::try_parse(dispatch).ok()?),
            next: seq.parse::<u64>().ok()?.checked_add(1)?,
        })
    }

    fn of(dispatch: DispatchId, seq: u64) -> String {
        format!("{}:{seq}", dispatch.0.simple())
    }
}

/// One reader's sessions, read until it leaves.
struct Follower {
    app: App,
    task: TaskId,
    sender: mpsc::Sender<Event>,
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
            self.one(position).await;
            after = Some(position.dispatch);
        }
        loop {
            match self.next(after).await {
                Ok(Next::Dispatch(dispatch)) => {
                    self.one(Position { dispatch, next: 0 }).await;
                    after = Some(dispatch);
                }
                Ok(Next::Over(status)) => {
                    return self.say(Event::default(), &Following::End { status }).await;
                }
                Ok(Next::Nothing) | Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Tells one session to its end.
    async fn one(&self, mut position: Position) {
        let mut announced = false;
        loop {
            // Asked before the entries are: when it had ended by then, they are all.
            let of = match self.describe(position.dispatch).await {
                Ok(Some(of)) => of,
                Ok(None) => return,
                Err(_) => {
                    tokio::time::sleep(POLL).await;
                    continue;
                }
            };
            let live = of.live;
            if !announced {
                self.say(Event::default(), &Following::Dispatch(of)).await;
                announced = true;
            }
            let read = entries(&self.app, position.dispatch, position.next).await;
            let known = read.is_ok();
            for entry in read.unwrap_or_default() {
                position.next = entry.seq + 1;
                let event = Event::default().id(Position::of(position.dispatch, entry.seq));
                self.say(event, &Following::Entry(entry)).await;
            }
            if !live && known {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn describe(&self, dispatch: DispatchId) -> sqlx::Result<Option<TranscriptOf>> {
        view::of_dispatch(&mut *self.app.deps.db.acquire().await?, dispatch).await
    }

    async fn next(&self, after: Option<DispatchId>) -> sqlx::Result<Next> {
        let mut conn = self.app.deps.db.acquire().await?;
        if let Some(dispatch) = view::dispatch_after(&mut conn, self.task, after).await? {
            return Ok(Next::Dispatch(dispatch));
        }
        let Some(task) = view::tasks(&mut conn, &[self.task.0]).await?.pop() else {
            return Ok(Next::Over("deleted".to_owned()));
        };
        let open = matches!(task.status.as_str(), "pending" | "blocked" | "in_progress");
        let running = view::feature_of_task_runs(&mut conn, self.task).await?;
        Ok(if open && running {
            Next::Nothing
        } else {
            Next::Over(task.status.as_str().to_owned())
        })
    }

    async fn say(&self, event: Event, what: &Following) {
        if let Ok(json) = serde_json::to_string(what) {
            // A reader that left ends the follower.
            let _ = self.sender.send(event.data(json)).await;
        }
    }
}

enum Next {
    Dispatch(DispatchId),
    Nothing,
    Over(String),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_reader_goes_on_after_the_entry_that_it_names() {
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
