//! Commits that are visible before they are on disk.
//!
//! Waiting for the disk takes most of a short transaction's time. Steps that only move work inside the system
//! need not wait. The next step sees their result at once, and a server crash undoes all of them together, as
//! if none had happened. Code that tells the outside, where nothing can be undone, first waits for [`flush`].

use sqlx::{PgPool, Postgres, Transaction};

/// Begins a transaction whose commit returns as soon as others see it. A server crash may undo it together
/// with every later commit, until a [`flush`] or an ordinary commit.
pub async fn begin_unflushed(db: &PgPool) -> sqlx::Result<Transaction<'static, Postgres>> {
    db.begin_with("begin; set local synchronous_commit = off").await
}

/// Begins such a transaction for code that takes tasks out of the queue. No other claim of any coordinator
/// does so meanwhile, so `max_parallel` and the limits hold exactly for everything that it reads.
pub async fn begin_claims(db: &PgPool) -> sqlx::Result<Transaction<'static, Postgres>> {
    db.begin_with("begin; set local synchronous_commit = off; select pg_advisory_xact_lock(7226, 1)")
        .await
}

/// Returns when every earlier commit is as durable as the server's `synchronous_commit` demands: on its disk
/// and, where configured, on its replicas' disks.
///
/// # Errors
/// When the database cannot be reached; then it is unknown which commits are durable.
pub async fn flush(db: &PgPool) -> sqlx::Result<()> {
    // A commit waits only if its transaction wrote. This writes a few bytes of log and no row.
    sqlx::raw_sql("select pg_logical_emit_message(true, 'ralph', '') is null")
        .execute(db)
        .await
        .map(drop)
}
