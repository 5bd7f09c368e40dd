//! Sent prompts. A frame is stored once, under its hash. One row holds the bodies of all prompts of one
//! feature in a batch of claims: they share most of their words and compress well together. A repeated claim
//! has its own row, under its dispatch's id.

use std::collections::BTreeMap;
use std::io::{BufWriter, Read as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use ralph_api::body::SectionView;
use ralph_shared::at_length::{at_length, by_length};
use ralph_shared::ids::DispatchId;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

/// The lowest level that considers more than one earlier occurrence of a word; the fastest level misses most
/// repetitions.
const COMPRESSION: Compression = Compression::new(3);
/// Bytes that are compressed at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Longest set of prompts to unpack: more than 256 prompts with the longest descriptions. Bytes.
const MAX_UNPACKED_BYTES: u64 = 512 * 1024 * 1024;

/// Stores frames; existing ones stay.
pub async fn keep_frames(conn: &mut PgConnection, frames: &[(String, String)]) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into texts (sha256, body)
         select * from unnest($1::text[], $2::text[])
         on conflict do nothing",
        &frames.iter().map(|(hash, _)| hash.clone()).collect::<Vec<_>>(),
        &frames.iter().map(|(_, body)| body.clone()).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A prompt without its frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPrompt {
    /// Hash of the frame.
    pub frame: String,
    pub body: String,
    /// The memory sections, by priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<SentSection>,
}

/// Status and size of a prompt's section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentSection {
    pub name: String,
    /// `shown`, `empty`, or `no room`.
    pub status: String,
    /// Length. Unicode characters.
    pub chars: usize,
    /// Budget. Unicode characters.
    pub allowed: usize,
}

impl From<SentSection> for SectionView {
    fn from(sent: SentSection) -> Self {
        Self {
            name: sent.name,
            status: sent.status,
            chars: sent.chars,
            allowed: sent.allowed,
        }
    }
}

/// Prompts of one row, by dispatch.
pub type Prompts = BTreeMap<Uuid, StoredPrompt>;

/// Stores rows of prompts; an existing row stays.
pub async fn keep(conn: &mut PgConnection, rows: &BTreeMap<Uuid, Prompts>) -> sqlx::Result<()> {
    let bytes = rows
        .values()
        .flat_map(Prompts::values)
        .map(|sent| sent.body.len())
        .sum();
    let packed: Vec<Vec<u8>> = by_length(bytes, || rows.values().map(pack).collect());
    sqlx::query!(
        "insert into prompts (id, packed)
         select * from unnest($1::uuid[], $2::bytea[])
         on conflict do nothing",
        &rows.keys().copied().collect::<Vec<_>>(),
        &packed,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes a dispatch's prompt and its memory uses before it gets a new prompt; parts of the new one, under
/// the hash `anew`, stay. Also removes it from a row with other prompts, where a purge could not delete it.
pub async fn forget(conn: &mut PgConnection, dispatch: DispatchId, anew: Option<&str>) -> sqlx::Result<()> {
    let row = sqlx::query!(
        "select p.id, p.packed
         from dispatches d
         join prompts p on p.id = d.prompts_id
         where d.id = $1 and p.id <> d.id
         for update of p",
        dispatch.0,
    )
    .fetch_optional(&mut *conn)
    .await?;
    if let Some(row) = row
        && let Some(packed) = at_length(|| packed_without(dispatch, &row.packed))
    {
        sqlx::query!("update prompts set packed = $2 where id = $1", row.id, packed)
            .execute(&mut *conn)
            .await?;
    }
    sqlx::query!(
        "with uses as (
           delete from memory_uses where dispatch_id = $1
         ), parts as (
           delete from blob_parts where prompt_of = $1 and sha256 is distinct from $2
         )
         delete from prompts where id = $1",
        dispatch.0,
        anew,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The last prompt of a dispatch: frame and body.
pub async fn read(conn: &mut PgConnection, dispatch: DispatchId) -> sqlx::Result<Option<(String, String)>> {
    let Some(sent) = sent(conn, dispatch).await? else {
        return Ok(None);
    };
    let frame = sqlx::query_scalar!("select body from texts where sha256 = $1", sent.frame)
        .fetch_optional(conn)
        .await?;
    Ok(frame.map(|frame| (frame, sent.body)))
}

/// The sections of a dispatch's last prompt; empty when the prompt is no longer stored.
pub async fn sections(conn: &mut PgConnection, dispatch: DispatchId) -> sqlx::Result<Vec<SentSection>> {
    let sent = sent(conn, dispatch).await?;
    Ok(sent.map(|sent| sent.sections).unwrap_or_default())
}

async fn sent(conn: &mut PgConnection, dispatch: DispatchId) -> sqlx::Result<Option<StoredPrompt>> {
    let rows = sqlx::query_scalar!(
        "select p.packed from dispatches d join prompts p on p.id in (d.prompts_id, d.id) where d.id = $1
         order by p.id = d.id desc",
        dispatch.0,
    )
    .fetch_all(conn)
    .await?;
    Ok(at_length(|| {
        let mut rows = rows.iter();
        rows.find_map(|packed| unpack(packed)?.remove(&dispatch.0))
    }))
}

/// The row without this dispatch's prompt; `None` when the row does not contain it.
fn packed_without(dispatch: DispatchId, packed: &[u8]) -> Option<Vec<u8>> {
    let mut prompts = unpack(packed)?;
    prompts.remove(&dispatch.0)?;
    Some(pack(&prompts))
}

fn pack(prompts: &Prompts) -> Vec<u8> {
    // Compresses while serializing: a batch of claims has megabytes of prompts.
    let mut gzip = BufWriter::with_capacity(PIECE_BYTES, GzEncoder::new(Vec::new(), COMPRESSION));
    // This cannot fail: the keys are strings, and the bytes go to memory.
    let _ = serde_json::to_writer(&mut gzip, prompts);
    let gzip = gzip.into_inner().map(GzEncoder::finish);
    gzip.ok().and_then(Result::ok).unwrap_or_default()
}

fn unpack(packed: &[u8]) -> Option<Prompts> {
    let mut json = Vec::new();
    GzDecoder::new(packed)
        .take(MAX_UNPACKED_BYTES)
        .read_to_end(&mut json)
        .ok()?;
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_prompts_unpack_unchanged_and_compress_tenfold() {
        let body = (0..1_400).map(|n| format!("{n} ")).collect::<String>();
        let prompts: Prompts = (0..256)
            .map(|n| {
                let sent = StoredPrompt {
                    frame: "f".repeat(64),
                    body: format!("{body}{n}"),
                    sections: Vec::new(),
                };
                (Uuid::from_u128(n), sent)
            })
            .collect();
        let packed = pack(&prompts);
        assert!(
            packed.len() * 10 < prompts.len() * body.len(),
            "{} bytes",
            packed.len()
        );
        assert_eq!(unpack(&packed), Some(prompts));
    }
}
