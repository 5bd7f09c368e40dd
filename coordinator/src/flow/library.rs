//! What people do with the memory: fill it, search it (SPEC 6.5, 9.1).

use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::{ContextV7, Timestamp, Uuid};

use super::pick::{Picked, pick};
use super::recall::{Question, calibrate};
use crate::domain::recall::{Kind, Query, Scope, analyse};
use crate::store;
use crate::store::library::{Given, Origin};
use crate::store::recall::NewDoc;

/// Entries of one transaction of an import.
const CHUNK: usize = 500;
/// Category of imported learnings that have none.
const NO_CATEGORY: &str = "other";

/// A line of an import file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImportLine {
    /// Its name elsewhere; the same name is imported once.
    pub id: String,
    /// When it was learned.
    #[serde(with = "time::serde::rfc3339")]
    pub date: OffsetDateTime,
    /// What it is about.
    pub title: String,
    /// What was learned.
    #[serde(default)]
    pub body: String,
    /// Files that it is about.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Keywords.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// A line of a file of questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QueryLine {
    /// Comes back with the answer.
    pub query_id: String,
    /// When it is asked: only entries older than it count.
    #[serde(with = "time::serde::rfc3339")]
    pub date: OffsetDateTime,
    /// As a task's.
    pub title: String,
    /// As a task's.
    #[serde(default)]
    pub description: String,
}

/// Imports lines as learnings of a repository; returns how many were new. Afterwards the memory's words are counted and
/// its floor is found.
pub async fn import(db: &PgPool, repo_id: &str, lines: &[ImportLine]) -> sqlx::Result<usize> {
    let given: Vec<Given> = lines
        .iter()
        .map(|line| Given {
            id: id_of(line.date),
            repo_id: repo_id.to_owned(),
            kind: Kind::Learning,
            origin: Origin::Import,
            category: NO_CATEGORY.to_owned(),
            title: line.title.clone(),
            body: line.body.clone(),
            tags: line.tags.clone(),
            paths: line.paths.clone(),
            feature: None,
            created_at: line.date,
            external_id: Some(line.id.clone()),
        })
        .collect();
    add(db, &given).await
}

/// Stores and indexes given entries; returns how many were new.
pub async fn add(db: &PgPool, given: &[Given]) -> sqlx::Result<usize> {
    let mut new = 0;
    for chunk in given.chunks(CHUNK) {
        let mut tx = db.begin().await?;
        let stored = store::library::insert_given(&mut tx, chunk).await?;
        new += stored.len();
        let docs: Vec<NewDoc> = chunk
            .iter()
            .filter(|given| stored.contains(&given.id))
            .map(|given| NewDoc {
                entry: given.id,
                repo_id: given.repo_id.clone(),
                kind: given.kind,
                created_at: given.created_at,
                words: analyse(
                    Scope::new(&given.repo_id, given.kind),
                    &given.title,
                    &given.body,
                    &given.paths,
                    &given.tags,
                ),
            })
            .collect();
        store::recall::insert(&mut tx, &docs).await?;
        tx.commit().await?;
    }
    if new > 0 {
        settle(db).await?;
    }
    Ok(new)
}

/// Counts what was not counted yet and finds the floors of what grew.
pub async fn settle(db: &PgPool) -> sqlx::Result<()> {
    loop {
        let mut tx = db.begin().await?;
        let counted = store::recall::count_keys(&mut tx, 1_000, 0.0).await?;
        tx.commit().await?;
        if counted == 0 {
            break;
        }
    }
    let mut conn = db.acquire().await?;
    while calibrate(&mut conn).await? > 0 {}
    Ok(())
}

/// Searches one kind of entries as a claim does.
pub async fn search(
    db: &PgPool,
    repo_id: &str,
    kind: Kind,
    queries: &[QueryLine],
    limit: usize,
) -> sqlx::Result<Vec<Picked>> {
    let questions: Vec<Question> = queries
        .iter()
        .map(|line| Question {
            repo_id: repo_id.to_owned(),
            kind,
            query: Query::new(&line.title, &line.description, ""),
            now: line.date,
        })
        .collect();
    let mut conn = db.acquire().await?;
    pick(&mut conn, &questions, |_| limit).await
}

/// An id that stands in time where the entry does.
fn id_of(at: OffsetDateTime) -> Uuid {
    let seconds = u64::try_from(at.unix_timestamp()).unwrap_or(0);
    Uuid::new_v7(Timestamp::from_unix(ContextV7::new(), seconds, at.nanosecond()))
}
