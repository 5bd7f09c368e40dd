//! Background upkeep of the memory: each step is idempotent and safe to die half-way (SPEC 6.7).

use std::collections::BTreeSet;

use ralph_shared::ids::TaskId;
use sqlx::PgPool;
use uuid::Uuid;

use super::capture;
use super::credit;
use super::recall::calibrate;
use super::worth;
use crate::domain::recall::{Kind, Scope, analyse};
use crate::flow::guard::{guarded, is_away};
use crate::store;
use crate::store::memory::index::{EndedRun, NewDoc};

/// Most rows of one step.
const TASKS: i64 = 100;
const DOCS: i64 = 500;
/// Most rounds of one call.
const ROUNDS: usize = 40;
const ENTRIES: i64 = 500;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Upkept {
    /// Tasks whose learnings left quarantine after a person marked them as done.
    pub released: usize,
    /// Journal entries of ended runs that became findable.
    pub indexed: usize,
    /// Entries that were merged into the index, or removed from it.
    pub counted: usize,
    /// Attempts whose end was settled, for the weights of the entries that they used.
    pub weighed: usize,
    /// Memories whose floor was found.
    pub calibrated: usize,
    pub failed: usize,
}

/// Runs one round. A step that fails is logged, and the others still run.
///
/// # Errors
/// When the database is away, or another transaction held the same rows.
pub async fn tick(db: &PgPool) -> sqlx::Result<Upkept> {
    round(db, true).await
}

/// Like [`tick`], without the search for entries that may leave quarantine, which reads every quarantined
/// entry.
pub async fn tick_often(db: &PgPool) -> sqlx::Result<Upkept> {
    round(db, false).await
}

async fn round(db: &PgPool, releases: bool) -> sqlx::Result<Upkept> {
    let mut upkept = Upkept::default();
    let mut step = |name, done: sqlx::Result<usize>| match done {
        Ok(n) => Ok(n),
        Err(error) if is_away(&error) => Err(error),
        Err(error) => {
            tracing::error!(%error, step = name, "a step of the memory's upkeep failed; the others continue");
            upkept.failed += 1;
            Ok(0)
        }
    };
    let released = if releases {
        step("release", guarded(release(db)).await)?
    } else {
        0
    };
    let indexed = step("index", guarded(index(db)).await)?;
    let counted = step("count", guarded(count(db)).await)?;
    let weighed = step("weigh", guarded(credit::weigh(db)).await)?;
    if releases {
        step("switch", guarded(worth::switch(db)).await)?;
    }
    let calibrated = if counted == 0 {
        step(
            "calibrate",
            guarded(async { calibrate(&mut *db.acquire().await?).await }).await,
        )?
    } else {
        0
    };
    Ok(Upkept {
        released,
        indexed,
        counted,
        weighed,
        calibrated,
        ..upkept
    })
}

/// Releases the learnings of done tasks from quarantine: together, or one by one when that fails.
async fn release(db: &PgPool) -> sqlx::Result<usize> {
    let mut conn = db.acquire().await?;
    let tasks = store::memory::unreleased_of_done(&mut conn, TASKS).await?;
    drop(conn);
    if tasks.is_empty() {
        return Ok(0);
    }
    match release_together(db, &tasks).await {
        Err(error) if is_away(&error) || tasks.len() == 1 => return Err(error),
        Err(error) => {
            tracing::warn!(%error, tasks = tasks.len(), "learnings of tasks could not be released together; releasing them one by one");
        }
        Ok(()) => return Ok(tasks.len()),
    }
    let mut released = 0;
    for task in tasks {
        match release_together(db, &[task]).await {
            Ok(()) => released += 1,
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => {
                tracing::error!(%error, task = %TaskId(task), "learnings of a task can't be released from quarantine");
            }
        }
    }
    Ok(released)
}

async fn release_together(db: &PgPool, tasks: &[Uuid]) -> sqlx::Result<()> {
    let mut tx = db.begin().await?;
    capture::release(&mut tx, tasks, Vec::new()).await?;
    tx.commit().await
}

/// Indexes the journals of ended runs: together, or run by run when that fails.
async fn index(db: &PgPool) -> sqlx::Result<usize> {
    let ended = store::memory::index::ended_runs(&mut *db.acquire().await?).await?;
    if ended.is_empty() {
        return Ok(0);
    }
    match guarded(index_together(db, &ended)).await {
        Err(error) if is_away(&error) || ended.len() == 1 => return Err(error),
        Err(error) => {
            tracing::warn!(%error, runs = ended.len(), "journals could not be indexed together; indexing them run by run");
        }
        Ok(indexed) => return Ok(indexed),
    }
    let mut indexed = 0;
    for run in &ended {
        match guarded(index_together(db, std::slice::from_ref(run))).await {
            Ok(more) => indexed += more,
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => {
                tracing::error!(%error, run = %run.id, "the journal of a run can't be indexed");
            }
        }
    }
    Ok(indexed)
}

async fn index_together(db: &PgPool, ended: &[EndedRun]) -> sqlx::Result<usize> {
    let mut tx = db.begin().await?;
    let repos: BTreeSet<&str> = ended.iter().map(|run| run.repo_id.as_str()).collect();
    store::memory::library::lock(&mut tx, &repos.into_iter().collect::<Vec<_>>()).await?;
    let runs: Vec<Uuid> = ended.iter().map(|run| run.id).collect();
    let entries = store::memory::index::ended_entries(&mut tx, &runs, ENTRIES).await?;
    let docs: Vec<NewDoc> = entries.iter().map(journal_doc).collect();
    store::memory::index::insert(&mut tx, &docs).await?;
    tx.commit().await?;
    Ok(docs.len())
}

async fn count(db: &PgPool) -> sqlx::Result<usize> {
    let mut counted = 0;
    for _ in 0..ROUNDS {
        let mut tx = db.begin().await?;
        let merged = store::memory::postings::merge(&mut tx, DOCS).await?;
        tx.commit().await?;
        counted += usize::try_from(merged).unwrap_or(usize::MAX);
        if merged == 0 {
            break;
        }
    }
    Ok(counted)
}

fn journal_doc(entry: &store::memory::index::EndedEntry) -> NewDoc {
    let body = format!(
        "{}\n{}",
        entry.journal,
        entry.failure.as_deref().unwrap_or_default()
    );
    NewDoc {
        number: None,
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
