//! Deletes old by-products of sessions: transcripts, prompts, memory uses, unreadable reports (SPEC 6.8). It
//! deletes a few rows per transaction, so that nobody waits for it.

use sqlx::PgPool;

pub use crate::domain::retention::RetentionDays;
use crate::store;

/// Rows of one transaction.
const TOGETHER: i64 = 500;
/// Transactions per round and kind; the rest follows in the next round.
const ROUNDS: usize = 100;

/// Retention of the log of changes. Days: a year, and some time to look.
const CHANGES_DAYS: f64 = 400.0;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    pub transcripts: u64,
    pub prompts: u64,
    pub uses: u64,
    pub bad_reports: u64,
}

/// Deletes old rows; does nothing while another coordinator does so.
///
/// # Errors
/// When the database fails. Earlier rows stay removed.
pub async fn tick(db: &PgPool, kept: &RetentionDays) -> sqlx::Result<Removed> {
    remove(db, Kind::Changes, Some(CHANGES_DAYS)).await?;
    Ok(Removed {
        transcripts: remove(db, Kind::Transcripts, kept.transcripts).await?,
        prompts: remove(db, Kind::Prompts, kept.prompts).await?,
        uses: remove(db, Kind::Uses, kept.uses).await?,
        bad_reports: remove(db, Kind::BadReports, kept.bad_reports).await?,
    })
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Transcripts,
    Prompts,
    Uses,
    BadReports,
    Changes,
}

async fn remove(db: &PgPool, kind: Kind, days: Option<f64>) -> sqlx::Result<u64> {
    let Some(days) = days else {
        return Ok(0);
    };
    let mut removed = 0;
    for _ in 0..ROUNDS {
        let mut tx = db.begin().await?;
        let gone = match store::expired::try_lock(&mut tx).await? {
            false => 0,
            true => match kind {
                Kind::Transcripts => store::expired::transcripts(&mut tx, days, TOGETHER).await?,
                Kind::Prompts => store::expired::prompts(&mut tx, days, TOGETHER).await?,
                Kind::Uses => store::expired::uses(&mut tx, days, TOGETHER).await?,
                Kind::BadReports => store::expired::bad_reports(&mut tx, days, TOGETHER).await?,
                Kind::Changes => store::expired::changes(&mut tx, days, TOGETHER).await?,
            },
        };
        tx.commit().await?;
        removed += gone;
        if gone < TOGETHER.unsigned_abs() {
            break;
        }
    }
    Ok(removed)
}
