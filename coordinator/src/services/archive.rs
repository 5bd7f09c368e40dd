//! Moves transcripts of settled dispatches from the stream to Postgres, bounded and compressed, so that old
//! attempts can be replayed later. A long transcript keeps only its beginning and its end.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use ralph_shared::at_length::at_length;
use ralph_shared::ids::DispatchId;
use tokio_util::sync::CancellationToken;

use super::Deps;
use crate::domain::text::excerpt::Excerpt;
use crate::store;

/// Pause between rounds.
const ROUND: Duration = Duration::from_secs(3);
/// Transcripts of one round.
const MAX_ROUND: usize = 200;
/// Stored bytes of a transcript's beginning before compression.
const HEAD_BYTES: usize = 3 * 1024 * 1024;
/// Stored bytes of its end.
const TAIL_BYTES: usize = 1024 * 1024;

pub async fn run(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(ROUND) => {}
        }
        let streamed = deps.bus.transcripts_in_stream(MAX_ROUND * 5).await?;
        if streamed.is_empty() {
            continue;
        }
        let ids: Vec<uuid::Uuid> = streamed.iter().map(|d| d.0).collect();
        let mut conn = deps.db.acquire().await?;
        let settled = store::dispatch::transcript::settled(&mut conn, &ids).await?;
        drop(conn);
        for dispatch in settled.into_iter().take(MAX_ROUND) {
            if shutdown.is_cancelled() {
                return Ok(());
            }
            archive(deps, dispatch).await?;
        }
    }
}

async fn archive(deps: &Deps, dispatch: DispatchId) -> anyhow::Result<()> {
    let Some(holder) = store::dispatch::transcript::holder(&mut *deps.db.acquire().await?, dispatch).await?
    else {
        return deps.bus.forget_transcript(dispatch).await;
    };
    let excerpt = Excerpt::new(HEAD_BYTES, TAIL_BYTES);
    let gathered = deps.bus.transcript(dispatch, &holder, excerpt).await?;
    let seen = i64::try_from(gathered.seen()).unwrap_or(i64::MAX);
    let kept = gathered.entries();
    let entries = kept.len();
    let body = at_length(|| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        for entry in kept.into_values() {
            serde_json::to_writer(&mut gzip, &entry)?;
            gzip.write_all(b"\n")?;
        }
        gzip.finish()
    })?;
    let mut conn = deps.db.acquire().await?;
    let entries = i32::try_from(entries).unwrap_or(i32::MAX);
    // If its worker has sent nothing of it yet, it may still do so.
    if seen > 0 {
        store::dispatch::transcript::keep(&mut conn, dispatch, &body, entries, seen).await?;
    }
    drop(conn);
    deps.bus.forget_transcript(dispatch).await
}
