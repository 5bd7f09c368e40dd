//! Long texts, stored in parts (DESIGN 3).

use ralph_shared::at_length::at_length;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{MAX_TEXT_BYTES, PART_BYTES, TextError, sha256_hex};
use sqlx::PgConnection;
use uuid::Uuid;

/// Stores one part; a repeated call only extends its life. `prompt_of` is the dispatch whose prompt this is.
pub async fn put(
    conn: &mut PgConnection,
    sha256: &str,
    index: i32,
    bytes: &[u8],
    prompt_of: Option<DispatchId>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into blob_parts (sha256, index, bytes, prompt_of) values ($1, $2, $3, $4)
         on conflict (sha256, index) do update
         set created_at = now(), prompt_of = coalesce(excluded.prompt_of, blob_parts.prompt_of)
         where blob_parts.created_at < now() - interval '1 hour'
            or coalesce(excluded.prompt_of, blob_parts.prompt_of) is distinct from blob_parts.prompt_of",
        sha256,
        index,
        bytes,
        prompt_of.map(|dispatch| dispatch.0),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores a whole text in parts. Returns its hash.
pub async fn put_text(
    conn: &mut PgConnection,
    text: &str,
    prompt_of: Option<DispatchId>,
) -> sqlx::Result<String> {
    let sha256 = sha256_hex(text.as_bytes());
    for (index, part) in text.as_bytes().chunks(PART_BYTES).enumerate() {
        let index = i32::try_from(index).unwrap_or(i32::MAX);
        put(conn, &sha256, index, part, prompt_of).await?;
    }
    Ok(sha256)
}

/// Deletes the parts of these dispatches' prompts. A worker that has not fetched them yet returns its task.
pub async fn forget_prompts(conn: &mut PgConnection, dispatches: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!("delete from blob_parts where prompt_of = any($1)", dispatches)
        .execute(conn)
        .await?;
    Ok(())
}

pub async fn get(conn: &mut PgConnection, sha256: &str, index: i32) -> sqlx::Result<Option<Vec<u8>>> {
    sqlx::query_scalar!(
        "select bytes from blob_parts where sha256 = $1 and index = $2",
        sha256,
        index
    )
    .fetch_optional(conn)
    .await
}

/// Reads a whole text and checks its hash; replaces invalid UTF-8. Does not fetch a text that is too long: it
/// would exhaust the memory of one coordinator after the other.
pub async fn text(conn: &mut PgConnection, sha256: &str) -> sqlx::Result<Result<String, TextError>> {
    let size = sqlx::query_scalar!(
        r#"select coalesce(sum(length(bytes)), 0) as "size!" from blob_parts where sha256 = $1"#,
        sha256
    )
    .fetch_one(&mut *conn)
    .await?;
    let size_bytes = u64::try_from(size).unwrap_or(0);
    if size_bytes > MAX_TEXT_BYTES as u64 {
        return Ok(Err(TextError::TooLong {
            sha256: sha256.to_owned(),
            size_bytes,
        }));
    }
    let parts = sqlx::query_scalar!(
        "select bytes from blob_parts where sha256 = $1 order by index",
        sha256
    )
    .fetch_all(conn)
    .await?;
    if parts.is_empty() {
        return Ok(Err(TextError::Missing {
            sha256: sha256.to_owned(),
        }));
    }
    Ok(at_length(|| whole(&parts, sha256)))
}

/// Joins the parts and checks the hash.
fn whole(parts: &[Vec<u8>], sha256: &str) -> Result<String, TextError> {
    let whole = parts.concat();
    let actual = sha256_hex(&whole);
    if actual != sha256 {
        return Err(TextError::WrongHash {
            sha256: sha256.to_owned(),
            actual,
        });
    }
    let valid = String::from_utf8(whole);
    Ok(valid.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Deletes texts older than `hours`, at most 1,000 parts a call; returns their number.
pub async fn prune(conn: &mut PgConnection, hours: i32) -> sqlx::Result<u64> {
    let gone = sqlx::query!(
        "delete from blob_parts
         where (sha256, index) in (
           select sha256, index from blob_parts where created_at < now() - $1 * interval '1 hour' limit 1000
         )",
        f64::from(hours),
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}

/// Stores a report that could not be applied; a repeated one is stored once.
pub async fn keep_bad_report(
    conn: &mut PgConnection,
    dispatch: Option<DispatchId>,
    error: &str,
    body: &[u8],
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into bad_reports (dispatch_id, error, body)
         select $1, $2, $3
         where not exists (
           select 1 from bad_reports where dispatch_id is not distinct from $1 and sha256(body) = sha256($3)
         )",
        dispatch.map(|dispatch| dispatch.0),
        error,
        body,
    )
    .execute(conn)
    .await?;
    Ok(())
}
