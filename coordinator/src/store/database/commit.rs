//! Commits that others see before they are on the disk.
//!
//! To wait for the disk is most of what a short transaction takes. Whatever only moves work on inside (a task that is there, that is
//! claimed, that is done) needn't: the next step sees it at once, and should the server crash now, all of it is taken back together,
//! as if none of these steps had happened. What is told outside, where nobody could take it back, waits for [`flush`].

use sqlx::{PgPool, Postgres, Transaction};

/// Begins a transaction whose commit returns as soon as others see it. Until a [`flush`], or any commit that waits as usual, a crash of
/// the server may take it back: as a whole, and with everything that was committed after it.
///
/// # Errors
/// When the database can't be reached.
pub async fn begin_unflushed(db: &PgPool) -> sqlx::Result<Transaction<'static, Postgres>> {
    db.begin_with("begin; set local synchronous_commit = off").await
}

/// The same for who takes tasks out of the queue: no other claim does so meanwhile, of whichever coordinator. So `max_parallel` and the
/// limits hold exactly, for whatever is read within it.
///
/// # Errors
/// When the database can't be reached.
pub async fn begin_claims(db: &PgPool) -> sqlx::Result<Transaction<'static, Postgres>> {
    db.begin_with("begin; set local synchronous_commit = off; select pg_advisory_xact_lock(7226, 1)")
        .await
}

/// Returns when everything that was committed before is kept as the server's `synchronous_commit` says: on its disk, and on those of its
/// replicas where that is asked for.
///
/// # Errors
/// When the database can't be reached: then it isn't known what is kept.
pub async fn flush(db: &PgPool) -> sqlx::Result<()> {
    // A commit waits only if its transaction wrote: this writes a few bytes of log, and no row.
    sqlx::raw_sql("select pg_logical_emit_message(true, 'ralph', '') is null")
        .execute(db)
        .await
        .map(drop)
}
