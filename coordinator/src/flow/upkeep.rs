//! What keeps the memory in order in the background: each step idempotent, safe to die half-way (SPEC 6.7).

use sqlx::PgPool;

use super::capture;
use super::recall::calibrate;
use crate::domain::recall::{Kind, Scope, analyse};
use crate::store;
use crate::store::recall::NewDoc;

/// What one step takes at most.
const TASKS: i64 = 100;
const DOCS: i64 = 1_000;
const ENTRIES: i64 = 500;
const ATTEMPTS: i64 = 500;
/// An entry's words are counted so long after it was indexed: by then every transaction that began before it has ended.
const SETTLED_SECONDS: f64 = 10.0;

/// What a tick did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Upkept {
    /// Tasks whose learnings left quarantine, since a person said that they are done.
    pub released: usize,
    /// Journal entries of ended runs that can be found now.
    pub indexed: usize,
    /// Entries whose words were counted.
    pub counted: u64,
    /// Attempts whose ending weighed what they were shown.
    pub weighed: i64,
    /// Memories whose floor was found.
    pub calibrated: usize,
}

/// Works once.
pub async fn tick(db: &PgPool) -> sqlx::Result<Upkept> {
    let mut conn = db.acquire().await?;
    let tasks = store::memory::unreleased_of_done(&mut conn, TASKS).await?;
    drop(conn);
    if !tasks.is_empty() {
        let mut tx = db.begin().await?;
        capture::release(&mut tx, &tasks, Vec::new()).await?;
        tx.commit().await?;
    }
    let mut tx = db.begin().await?;
    let ended = store::recall::ended_entries(&mut tx, ENTRIES).await?;
    let docs: Vec<NewDoc> = ended.iter().map(journal_doc).collect();
    store::recall::insert(&mut tx, &docs).await?;
    tx.commit().await?;
    let mut tx = db.begin().await?;
    let counted = store::recall::count_keys(&mut tx, DOCS, SETTLED_SECONDS).await?;
    tx.commit().await?;
    let mut conn = db.acquire().await?;
    let weighed = store::memory::weigh(&mut conn, ATTEMPTS).await?;
    Ok(Upkept {
        released: tasks.len(),
        indexed: docs.len(),
        counted,
        weighed: weighed.attempts,
        calibrated: if counted == 0 {
            calibrate(&mut conn).await?
        } else {
            0
        },
    })
}

fn journal_doc(entry: &store::recall::EndedEntry) -> NewDoc {
    let body = format!(
        "{}\n{}",
        entry.journal,
        entry.failure.as_deref().unwrap_or_default()
    );
    NewDoc {
        entry: entry.dispatch,
        repo_id: entry.repo_id.clone(),
        kind: Kind::Journal,
        created_at: entry.settled_at,
        words: analyse(
            Scope::new(&entry.repo_id, Kind::Journal),
            &entry.title,
            &body,
            &entry.files_changed,
            &[],
        ),
    }
}
