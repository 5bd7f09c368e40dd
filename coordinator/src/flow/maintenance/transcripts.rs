//! Reads a session's transcript. It stays in the stream for a while after the session, then moves to
//! Postgres. A reader takes both and merges them by entry number, so the move causes neither a gap nor a
//! repetition.

use std::collections::BTreeMap;
use std::io::Read as _;

use anyhow::Context as _;
use flate2::read::GzDecoder;
use ralph_shared::at_length::at_length;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::TranscriptEntry;
use sqlx::{PgConnection, PgPool};

use crate::bus::Bus;
use crate::domain::text::excerpt::Excerpt;
use crate::store;

/// Most bytes of a stored transcript that are read.
const MAX_STORED_BYTES: u64 = 64 * 1024 * 1024;

/// The whole known transcript, in order. Of the entries in the stream, at most `half_bytes` of the beginning
/// and of the end.
pub async fn entries(
    bus: &Bus,
    db: &PgPool,
    dispatch: DispatchId,
    half_bytes: usize,
) -> anyhow::Result<Vec<TranscriptEntry>> {
    // The stream first: entries that leave it meanwhile are in Postgres by then.
    let streamed = Excerpt::new(half_bytes, half_bytes);
    let mut conn = db.acquire().await.context("no connection to the database")?;
    let holder = store::dispatch::transcript::holder(&mut conn, dispatch).await?;
    drop(conn);
    let mut found = match holder {
        Some(holder) => bus.transcript(dispatch, &holder, streamed).await?.entries(),
        None => BTreeMap::new(),
    };
    let mut conn = db.acquire().await.context("no connection to the database")?;
    for (seq, entry) in stored_entries(&mut conn, dispatch).await? {
        // The stored copy may omit entries that the stream still has.
        found.entry(seq).or_insert(entry);
    }
    Ok(found.into_values().collect())
}

/// The entries in Postgres, by number.
pub async fn stored_entries(
    conn: &mut PgConnection,
    dispatch: DispatchId,
) -> sqlx::Result<BTreeMap<u64, TranscriptEntry>> {
    let Some(body) = store::dispatch::transcript::read(conn, dispatch).await? else {
        return Ok(BTreeMap::new());
    };
    Ok(at_length(|| {
        let mut lines = Vec::new();
        // A truncated body is read up to its end.
        let _ = GzDecoder::new(body.as_slice())
            .take(MAX_STORED_BYTES)
            .read_to_end(&mut lines);
        let lines = lines.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice::<TranscriptEntry>(line).ok())
            .map(|entry| (entry.seq, entry))
            .collect()
    }))
}
