//! Requests that are answered one by one: hello, heartbeat, decide, blob, check, prune, session.

use std::time::Duration;

use async_nats::Message;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use futures::stream::select_all;
use ralph_shared::subjects::{COORDINATORS, is_inbox};
use ralph_shared::wire::{
    BlobAnswer, BlobRequest, CheckAnswer, CheckRequest, DecideAnswer, DecideRequest, Heartbeat, Hello,
    HelloAnswer, MAX_TEXT_BYTES, PART_BYTES, PruneRequest, SessionCall, Text,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::Deps;
use crate::bus::Bus;
use crate::{flow, store};

/// Requests under way at once.
const IN_FLIGHT: usize = 16;
/// Concurrent heartbeats and hellos. They wait for no other request: a lease must not end because decisions
/// or checks take long.
const HEARTBEATS_IN_FLIGHT: usize = 8;

/// How long the answer to a hello waits for the consumers of its pools: claims need none, and heartbeats wait
/// behind it.
const CONSUMERS: Duration = Duration::from_secs(1);

const MAX_PARTS: i32 = (MAX_TEXT_BYTES / PART_BYTES) as i32;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Hello,
    Heartbeat,
    Decide,
    Blob,
    Check,
    Prune,
    Session,
}

pub async fn run(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let subjects = &deps.bus.subjects;
    let beats = [
        (Kind::Hello, subjects.hello()),
        (Kind::Heartbeat, subjects.heartbeat()),
    ];
    let others = [
        (Kind::Decide, subjects.decide()),
        (Kind::Blob, subjects.blob()),
        (Kind::Check, subjects.check()),
        (Kind::Prune, subjects.prune()),
        (Kind::Session, subjects.session()),
    ];
    let first = Deps {
        db: deps.reserved.first.clone(),
        ..deps.clone()
    };
    tokio::try_join!(
        serve_kinds(&first, shutdown, beats.into(), HEARTBEATS_IN_FLIGHT),
        serve_kinds(deps, shutdown, others.into(), IN_FLIGHT),
    )?;
    Ok(())
}

/// Answers requests of these kinds, at most `most` at once.
async fn serve_kinds(
    deps: &Deps,
    shutdown: &CancellationToken,
    kinds: Vec<(Kind, String)>,
    most: usize,
) -> anyhow::Result<()> {
    let mut streams = Vec::new();
    for (kind, subject) in kinds {
        let subscription = deps
            .bus
            .client
            .queue_subscribe(subject, COORDINATORS.to_owned())
            .await?;
        streams.push(subscription.map(move |message| (kind, message)));
    }
    let mut requests = select_all(streams);
    let mut serving = JoinSet::new();
    loop {
        let (kind, message) = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(served) = serving.join_next() => {
                note_panic(served);
                continue;
            }
            next = requests.next(), if serving.len() < most => match next {
                Some(request) => request,
                None => anyhow::bail!("the subscriptions to requests ended"),
            },
        };
        let deps = deps.clone();
        serving.spawn(async move {
            if let Err(error) = serve(&deps, kind, &message).await {
                tracing::warn!(%error, ?kind, "request could not be answered; the worker repeats it");
            }
        });
    }
    while let Some(served) = serving.join_next().await {
        note_panic(served);
    }
    Ok(())
}

/// A panic affects no other request; the worker asks again.
pub(super) fn note_panic(served: Result<(), JoinError>) {
    if let Err(error) = served {
        tracing::error!(%error, "serving a request panicked");
    }
}

async fn ensure_consumers(bus: &Bus, pools: &[String]) {
    for pool in pools {
        if let Err(error) = bus.ensure_ticket_consumer(pool).await {
            tracing::warn!(error = format!("{error:#}"), pool, "no tickets for this pool yet");
        }
    }
}

async fn serve(deps: &Deps, kind: Kind, message: &Message) -> sqlx::Result<()> {
    let Deps {
        db, bus, settings, ..
    } = deps;
    match kind {
        Kind::Hello => {
            if let Some(request) = read::<Hello>(message) {
                reply(bus, message, &hello(deps, &request).await?).await;
            }
        }
        Kind::Heartbeat => {
            if let Some(beat) = read::<Heartbeat>(message) {
                let answered = flow::workers::heartbeat::heartbeat(db, settings, &beat).await?;
                reply(bus, message, &answered).await;
            }
        }
        Kind::Decide => {
            if let Some(request) = read::<DecideRequest>(message) {
                let decided = flow::integrate::decide(db, &request).await;
                let failed = |reason| DecideAnswer::Failed { reason };
                let decided = decided.unwrap_or_else(|error| failed(error.to_string()));
                reply(bus, message, &decided).await;
            }
        }
        Kind::Check => {
            if let Some(request) = read::<CheckRequest>(message) {
                reply(bus, message, &check(deps, &request).await?).await;
            }
        }
        Kind::Prune => {
            if let Some(request) = read::<PruneRequest>(message) {
                let next = flow::maintenance::retention::next(db, &request).await?;
                reply(bus, message, &next).await;
            }
        }
        Kind::Session => {
            if let Some(request) = read::<SessionCall>(message) {
                let (answered, signals) = flow::workers::question::call(db, settings, &request).await?;
                reply(bus, message, &answered).await;
                bus.emit(signals).await;
            }
        }
        Kind::Blob => {
            if let Some(request) = read::<BlobRequest>(message) {
                let given = blob(deps, &request).await;
                let failed = |reason| BlobAnswer::Failed { reason };
                let given = given.unwrap_or_else(|error| failed(error.to_string()));
                reply(bus, message, &given).await;
            }
        }
    }
    Ok(())
}

async fn hello(deps: &Deps, hello: &Hello) -> sqlx::Result<HelloAnswer> {
    let answered = flow::workers::hello::hello(&deps.db, &deps.settings, hello).await?;
    if matches!(answered, HelloAnswer::Welcome { .. })
        && tokio::time::timeout(CONSUMERS, ensure_consumers(&deps.bus, &hello.pools))
            .await
            .is_err()
    {
        tracing::warn!("no tickets for a worker's pools yet: JetStream gives no answer");
    }
    Ok(answered)
}

async fn check(deps: &Deps, request: &CheckRequest) -> sqlx::Result<CheckAnswer> {
    if let Some(found) = &request.survey {
        let renewed = flow::apply::graph_check::renew(&deps.db, &deps.settings, request, found).await?;
        return Ok(renewed.map_or(CheckAnswer::Fine, |prompt| CheckAnswer::Again { prompt }));
    }
    let text = match &request.text {
        Text::Inline(text) => text.clone(),
        Text::Parts { sha256, .. } => {
            match store::blob::text(&mut *deps.db.acquire().await?, sha256).await? {
                Ok(text) => text,
                // Its report will wait for the text.
                Err(_) => return Ok(CheckAnswer::Fine),
            }
        }
    };
    let again = flow::apply::graph_check::check(&deps.db, &deps.settings, request, &text).await?;
    Ok(match again {
        Some(prompt) => CheckAnswer::Again {
            prompt: Text::Inline(prompt),
        },
        None => CheckAnswer::Fine,
    })
}

async fn blob(deps: &Deps, request: &BlobRequest) -> sqlx::Result<BlobAnswer> {
    let mut conn = deps.db.acquire().await?;
    match request {
        BlobRequest::Put {
            sha256,
            index,
            base64,
        } => {
            let bytes = match STANDARD.decode(base64) {
                Ok(bytes) if bytes.len() <= PART_BYTES => bytes,
                Ok(bytes) => {
                    return Ok(failed(format!(
                        "a part has {} bytes, at most {PART_BYTES} fit",
                        bytes.len()
                    )));
                }
                Err(error) => return Ok(failed(format!("the part is not base64: {error}"))),
            };
            let index = match i32::try_from(*index) {
                Ok(index) if index < MAX_PARTS => index,
                Ok(_) | Err(_) => {
                    return Ok(failed(format!("a text has at most {MAX_PARTS} parts")));
                }
            };
            store::blob::put(&mut conn, sha256, index, &bytes, None).await?;
            Ok(BlobAnswer::Stored)
        }
        BlobRequest::Get { sha256, index } => {
            let Ok(index) = i32::try_from(*index) else {
                return Ok(BlobAnswer::Missing);
            };
            let part = store::blob::get(&mut conn, sha256, index).await?;
            Ok(part.map_or(BlobAnswer::Missing, |bytes| BlobAnswer::Part {
                base64: STANDARD.encode(bytes),
            }))
        }
    }
}

fn failed(reason: String) -> BlobAnswer {
    BlobAnswer::Failed { reason }
}

/// Reads a request. An unreadable one is logged and gets no answer, since a later coordinator may read it.
pub fn read<T: DeserializeOwned>(message: &Message) -> Option<T> {
    match serde_json::from_slice(&message.payload) {
        Ok(request) => Some(request),
        Err(error) => {
            tracing::warn!(%error, subject = %message.subject, "a request could not be read");
            None
        }
    }
}

/// Answers a request, only to an inbox.
pub async fn reply(bus: &Bus, message: &Message, answer: &impl Serialize) {
    let Some(reply) = message.reply.clone() else {
        return;
    };
    if !is_inbox(&reply) {
        tracing::warn!(subject = %message.subject, %reply, "a request names a reply subject that is no inbox; it gets no answer");
        return;
    }
    match serde_json::to_vec(answer) {
        Ok(body) => {
            if let Err(error) = bus.client.publish(reply, body.into()).await {
                tracing::debug!(%error, "answer not published; the worker repeats the request");
            }
        }
        Err(error) => tracing::error!(%error, "answer could not be written"),
    }
}
