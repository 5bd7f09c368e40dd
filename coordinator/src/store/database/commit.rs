//! Commits that others see before they are on the disk.
//!
//! Waiting for the disk takes most of a short transaction's time. Steps that only move work on inside the
//! system need not wait. The next step sees their result at once, and a crash of the server takes all of it
//! back together, as if none of the steps had happened. Whatever is said to the outside, where nobody could
//! take it back, waits for [`flush`].

use sqlx::{PgPool, Postgres, Transaction};

/// Begins a transaction whose commit returns as soon as others see it. Until a [`flush`], or another commit
/// that waits as usual, a crash of the server may take it back: as a whole, and with every later commit.
///
/// # Errors
/// When the database cannot be reached.
pub async fn begin_unflushed(db: &PgPool) -> sqlx::Result<Transaction<'static, Postgres>> {
    db.begin_with("begin; set local synchronous_commit = off").await
}

/// The same for code that takes tasks out of the queue; no other claim of any coordinator does so meanwhile.
/// So `max_parallel` and the limits hold exactly for everything that it reads.
///
/// # Errors
/// When the database cannot be reached.
pub async fn begin_claims(db: &PgPool) -> sqlx::Result<Transaction<'static, Postgres>> {
    db.begin_with("begin; set local synchronous_commit = off; select pg_advisory_xact_lock(7226, 1)")
        .await
}

/// Returns when every earlier commit is kept as the server's `synchronous_commit` says: on its disk, and on
/// those of its replicas where configured.
///
/// # Errors
/// When the database cannot be reached; then it is unknown which commits are kept.
pub async fn flush(db: &PgPool) -> sqlx::Result<()> {
    // A commit waits only if its transaction wrote: this writes a few bytes of log, and no row.
    sqlx::raw_sql("select pg_logical_emit_message(true, 'ralph', '') is null")
        .execute(db)
        .await
        .map(drop)
}
