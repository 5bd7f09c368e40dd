//! Prompts that were sent: the frame once under its hash, the rest with its dispatch.

use sqlx::PgConnection;
use uuid::Uuid;

/// Stores frames; those that stand already stay.
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

/// A prompt of one dispatch.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Sent {
    pub dispatch: Uuid,
    pub frame: String,
    pub body: String,
}

/// Stores prompts; asked again, the first one stays.
pub async fn keep(conn: &mut PgConnection, prompts: &[Sent]) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into prompts (dispatch_id, frame, body)
         select * from unnest($1::uuid[], $2::text[], $3::text[])
         on conflict do nothing",
        &prompts.iter().map(|p| p.dispatch).collect::<Vec<_>>(),
        &prompts.iter().map(|p| p.frame.clone()).collect::<Vec<_>>(),
        &prompts.iter().map(|p| p.body.clone()).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The prompt that a dispatch was sent: frame and body.
pub async fn read(conn: &mut PgConnection, dispatch: Uuid) -> sqlx::Result<Option<(String, String)>> {
    let row = sqlx::query!(
        "select t.body as frame, p.body from prompts p join texts t on t.sha256 = p.frame where p.dispatch_id = $1",
        dispatch,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| (row.frame, row.body)))
}
