//! What is known of a session's transcript: it lives in the stream until a while after its session, then in Postgres (DESIGN 1.1).
//! A reader takes both and goes by the entries' numbers, so that the moment of moving shows neither a gap nor a repetition.

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

/// A kept transcript is read no further. Bytes.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// All that is known of a transcript, in order; of what is still in the stream at most `half_bytes` of the beginning and of the end.
///
/// # Errors
/// When JetStream or the database can't be asked.
pub async fn entries(
    bus: &Bus,
    db: &PgPool,
    dispatch: DispatchId,
    half_bytes: usize,
) -> anyhow::Result<Vec<TranscriptEntry>> {
    // The stream first: what leaves it meanwhile stands in Postgres by then.
    let streamed = Excerpt::new(half_bytes, half_bytes);
    let mut conn = db.acquire().await.context("no connection to the database")?;
    let holder = store::dispatch::transcript::holder(&mut conn, dispatch).await?;
    drop(conn);
    let mut found = match holder {
        Some(holder) => bus.transcript(dispatch, &holder, streamed).await?.entries(),
        None => BTreeMap::new(),
    };
    let mut conn = db.acquire().await.context("no connection to the database")?;
    for (seq, entry) in kept(&mut conn, dispatch).await? {
        // What is kept may say that it left out what the stream still has.
        found.entry(seq).or_insert(entry);
    }
    Ok(found.into_values().collect())
}

/// The entries that Postgres keeps, by number.
pub async fn kept(
    conn: &mut PgConnection,
    dispatch: DispatchId,
) -> sqlx::Result<BTreeMap<u64, TranscriptEntry>> {
    let Some(body) = store::dispatch::transcript::read(conn, dispatch).await? else {
        return Ok(BTreeMap::new());
    };
    Ok(at_length(|| {
        let mut lines = Vec::new();
        // A body that breaks off is shown as far as it goes.
        let _ = GzDecoder::new(body.as_slice())
            .take(MAX_KEPT_BYTES)
            .read_to_end(&mut lines);
        let lines = lines.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice::<TranscriptEntry>(line).ok())
            .map(|entry| (entry.seq, entry))
            .collect()
    }))
}
