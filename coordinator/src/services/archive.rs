//! Transcripts of settled dispatches go from the stream to Postgres, bounded and compressed, so that old attempts can be
//! replayed when the stream has forgotten them (DESIGN 1.1).

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::TranscriptBatch;
use tokio_util::sync::CancellationToken;

use super::Deps;
use crate::store;

/// Pause between rounds.
const ROUND: Duration = Duration::from_secs(3);
/// Transcripts of one round.
const MAX_ROUND: usize = 200;
/// Messages that are read of one transcript.
const MAX_MESSAGES: usize = 20_000;
/// What is kept of one transcript before compression. Bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Archives until `shutdown`.
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
        let settled = store::transcript::settled(&mut conn, &ids).await?;
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
    let bodies = deps.bus.transcript(dispatch, MAX_MESSAGES).await?;
    let mut lines = Vec::new();
    let mut entries = 0;
    'all: for body in bodies {
        let Ok(batch) = serde_json::from_slice::<TranscriptBatch>(&body) else {
            continue;
        };
        for entry in batch.entries {
            let line = serde_json::to_vec(&entry)?;
            if lines.len() + line.len() > MAX_BYTES {
                break 'all;
            }
            lines.extend(line);
            lines.push(b'\n');
            entries += 1;
        }
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&lines)?;
    let body = gzip.finish()?;
    let mut conn = deps.db.acquire().await?;
    store::transcript::keep(&mut conn, dispatch, &body, entries).await?;
    drop(conn);
    deps.bus.forget_transcript(dispatch).await
}
