//! Streams for open pages: changes, and the entries of a session.

use std::convert::Infallible;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use maud::{Markup, html};
use ralph_shared::kind::SessionKind;
use serde::Deserialize;

use super::site::Site;
use super::transcript::Calls;
use super::words::state;
use crate::api::body::Following;
use crate::api::follow::{Position, follow};
use crate::api::http::access::bounded;
use crate::api::{http::locate, news};
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;
use crate::store::view;

/// Streams changes, as the API does.
pub async fn changes(State(site): State<Site>, visitor: Visitor) -> Result<Response, Trouble> {
    let response = news::stream(&site.app).into_response();
    Ok(bounded(site.app, visitor.holder.hash, response)?)
}

/// Start of a followed transcript.
#[derive(Debug, Deserialize)]
pub struct From {
    /// Start after the event with this id, unless the browser sends a last event id.
    after: Option<String>,
}

/// Streams the sessions of a task from there on as rendered entries. Reads earlier entries again, so that
/// tool calls that started earlier are known.
pub async fn transcript(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Result<Response, Trouble> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let after = last.or(from.after.as_deref()).and_then(Position::parse);
    let mut conn = site.app.db().await?;
    let task = locate::task(&mut conn, &id).await?;
    let start = match after {
        Some(after) if view::is_of_task(&mut conn, after.dispatch, task).await? => Some(Position {
            dispatch: after.dispatch,
            next: 0,
        }),
        _ => {
            let last = view::session_of_task(&mut conn, task, None, None::<SessionKind>).await?;
            last.map(|dispatch| Position { dispatch, next: 0 })
        }
    };
    drop(conn);
    let mut transcript = Transcript {
        known: after.map_or(0, |after| after.next),
        calls: Calls::default(),
        is_first: true,
    };
    let events = follow(site.app.clone(), task, start).filter_map(move |(id, what)| {
        let name = if matches!(what, Following::End { .. }) {
            "end"
        } else {
            "entry"
        };
        let shown = transcript.show(&what);
        let event = shown.and_then(|shown| {
            let event = Event::default().event(name).json_data(shown.into_string()).ok()?;
            Some(Ok::<_, Infallible>(match id {
                Some(id) => event.id(id),
                None => event,
            }))
        });
        std::future::ready(event)
    });
    let response = Sse::new(events).keep_alive(KeepAlive::default()).into_response();
    Ok(bounded(site.app, visitor.holder.hash, response)?)
}

/// The part of a transcript that the browser has.
struct Transcript {
    /// Number of the current session's entries that the browser has.
    known: u64,
    calls: Calls,
    is_first: bool,
}

impl Transcript {
    /// Renders an event; `None` if the browser has it already.
    fn show(&mut self, what: &Following) -> Option<Markup> {
        match what {
            Following::Dispatch(of) => {
                let is_further = !std::mem::take(&mut self.is_first);
                if is_further {
                    self.calls = Calls::default();
                    self.known = 0;
                }
                let heading = html! { li.entry.t-session id={ "s-" (of.dispatch) } { (of.kind.into_str()) ", attempt " (of.attempt) " on " (of.worker) } };
                (is_further || self.known == 0).then_some(heading)
            }
            Following::Entry(entry) if entry.seq < self.known => {
                self.calls.record(entry);
                None
            }
            Following::Entry(entry) => self.calls.show(entry),
            Following::End { status } => {
                Some(html! { li.entry.t-session #end { "Nothing more will come: " (state(status)) } })
            }
        }
    }
}
