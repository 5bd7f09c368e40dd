//! Commands of people on the memory: add, import, search, restore, purge, revoke (SPEC 6.5, 9.1).

use std::collections::BTreeSet;

pub use ralph_api::body::{EditMemory, ImportLine, QueryLine};
use ralph_shared::ids::DispatchId;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::{ContextV7, Timestamp, Uuid};

use super::capture;
use super::recall::{Question, calibrate};
use crate::domain::recall::lifecycle::{NotRestorable, comes_back};
use crate::domain::recall::{Kind, Query, is_same_content, replaces};
use crate::flow::cascade;
use crate::flow::memory::copies::{self, Reach};
use crate::flow::memory::embedding::Meaning;
use crate::flow::memory::select::{Selection, select_entries};
use crate::store;
use crate::store::memory::library::{GivenEntry, Origin, RestoreCandidate};
use crate::store::memory::postings::Tail;

/// Entries per transaction of an import.
const CHUNK: usize = 500;
/// Category of imported learnings without one.
const NO_CATEGORY: &str = "other";

/// Imports entries into a repository's memory and returns the number of new ones. An entry is not new if it
/// has the words of an existing one, if it is older than a person's entry on the same, or if it is a learning
/// that was exported from this memory. Then counts the memory's words and finds its floor.
pub async fn import(db: &PgPool, repo_id: &str, lines: &[ImportLine]) -> sqlx::Result<usize> {
    let new = import_part(db, repo_id, lines).await?;
    store::retry_serialization(|| settle(db)).await?;
    Ok(new)
}

/// Imports a part without the count, which the last part, or upkeep, makes.
pub async fn import_part(db: &PgPool, repo_id: &str, lines: &[ImportLine]) -> sqlx::Result<usize> {
    let names: Vec<String> = lines.iter().map(|line| line.id.clone()).collect();
    let own = store::memory::import::learnings_named(&mut *db.acquire().await?, repo_id, &names).await?;
    let given: Vec<GivenEntry> = lines
        .iter()
        .filter(|line| line.kind == Kind::Knowledge || !own.contains(&line.id))
        .map(|line| GivenEntry {
            id: id_of(line.date),
            repo_id: repo_id.to_owned(),
            // Only iterations write journals.
            kind: match line.kind {
                Kind::Knowledge => Kind::Knowledge,
                Kind::Learning | Kind::Journal => Kind::Learning,
            },
            origin: Origin::Import,
            category: line.category.clone().unwrap_or_else(|| NO_CATEGORY.to_owned()),
            title: line.title.clone(),
            body: line.body.clone(),
            tags: line.tags.iter().map(|tag| tag.to_lowercase()).collect(),
            paths: line.paths.clone(),
            feature: line.feature.clone(),
            created_at: line.date,
            external_id: Some(line.id.clone()),
        })
        .collect();
    store::retry_serialization(|| let_come_back(db, repo_id, &names)).await?;
    store_given(db, &given).await
}

async fn let_come_back(db: &PgPool, repo_id: &str, names: &[String]) -> sqlx::Result<()> {
    let mut tx = db.begin().await?;
    lock(&mut tx, &[repo_id.to_owned()]).await?;
    store::memory::library::let_come_back(&mut tx, repo_id, names).await?;
    tx.commit().await
}

/// Stores and indexes entries and returns the number of new ones. Retries when another transaction held the
/// same rows.
pub async fn add(db: &PgPool, given: &[GivenEntry]) -> sqlx::Result<usize> {
    let new = store_given(db, given).await?;
    if new > 0 {
        store::retry_serialization(|| settle(db)).await?;
    }
    Ok(new)
}

async fn store_given(db: &PgPool, given: &[GivenEntry]) -> sqlx::Result<usize> {
    let mut new = 0;
    for chunk in given.chunks(CHUNK) {
        new += store::retry_serialization(|| add_together(db, chunk)).await?;
    }
    Ok(new)
}

async fn add_together(db: &PgPool, given: &[GivenEntry]) -> sqlx::Result<usize> {
    let mut tx = db.begin().await?;
    let repos: BTreeSet<&str> = given.iter().map(|one| one.repo_id.as_str()).collect();
    store::memory::library::lock(&mut tx, &repos.into_iter().collect::<Vec<_>>()).await?;
    let new = only_new(&mut tx, given).await?;
    let stored = store::memory::library::insert_given(&mut tx, &new).await?;
    index(&mut tx, &stored).await?;
    tx.commit().await?;
    Ok(stored.len())
}

/// Omits imported knowledge that a live entry already states, or that is older than a person's entry on the
/// same.
async fn only_new(conn: &mut PgConnection, given: &[GivenEntry]) -> sqlx::Result<Vec<GivenEntry>> {
    let is_imported = |one: &&GivenEntry| one.origin == Origin::Import && one.kind == Kind::Knowledge;
    let imported: Vec<&GivenEntry> = given.iter().filter(is_imported).collect();
    let mut known: BTreeSet<Uuid> = BTreeSet::new();
    for old in store::memory::import::existing(conn, &imported).await? {
        let new = imported[old.beside];
        let says_it = is_same_content(
            (&new.title, &new.tags, &new.body),
            (&old.title, &old.tags, &old.body),
        );
        let is_later = old.by_hand_at.is_some_and(|at| at > new.created_at);
        if says_it || is_later && replaces(&new.title, &new.tags, &old.title, &old.tags) {
            known.insert(new.id);
        }
    }
    Ok(given
        .iter()
        .filter(|one| !known.contains(&one.id))
        .cloned()
        .collect())
}

/// Merges waiting entries into the index and finds the floors of memories that grew.
pub async fn settle(db: &PgPool) -> sqlx::Result<()> {
    loop {
        let mut tx = db.begin().await?;
        let counted = store::memory::postings::merge(&mut tx, 500).await?;
        tx.commit().await?;
        if counted == 0 {
            break;
        }
    }
    let mut conn = db.acquire().await?;
    while calibrate(&mut conn).await? > 0 {}
    Ok(())
}

/// Searches one kind of entries like a claim.
pub async fn search(
    db: &PgPool,
    meaning: Meaning<'_>,
    repo_id: &str,
    kind: Kind,
    queries: &[QueryLine],
    limit: usize,
) -> sqlx::Result<Vec<Selection>> {
    let questions: Vec<Question> = queries
        .iter()
        .map(|line| Question {
            repo_id: repo_id.to_owned(),
            kind,
            query: Query::new(&line.title, &line.description, ""),
            text: format!("{}\n{}", line.title, line.description),
            now: line.date,
        })
        .collect();
    let mut conn = db.acquire().await?;
    let fresh = store::memory::postings::fresh(&mut conn, &Tail::default()).await?;
    select_entries(&mut conn, meaning, &questions, &fresh, |_| limit).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    Changed,
    Gone,
    /// Another entry has replaced it, so nobody would see the change.
    ReplacedBy(Uuid),
}

pub async fn edit(db: &PgPool, id: Uuid, edit: &EditMemory) -> sqlx::Result<Edited> {
    let mut tx = db.begin().await?;
    let repos = store::memory::retract::repositories(&mut tx, &[id], &[]).await?;
    lock(&mut tx, &repos).await?;
    if let Some(by) = store::memory::retract::successor(&mut tx, id).await? {
        return Ok(Edited::ReplacedBy(by));
    }
    let tags: Option<Vec<String>> = edit
        .tags
        .as_ref()
        .map(|tags| tags.iter().map(|tag| tag.to_lowercase()).collect());
    let found = store::memory::library::edit(
        &mut tx,
        id,
        edit.title.as_deref(),
        edit.category.as_deref(),
        edit.body.as_deref(),
        tags.as_deref(),
    )
    .await?;
    store::memory::distill::note_edit(&mut tx, id).await?;
    store::memory::index::remove(&mut tx, &[id]).await?;
    index(&mut tx, &[id]).await?;
    tx.commit().await?;
    Ok(if found { Edited::Changed } else { Edited::Gone })
}

pub async fn prune(db: &PgPool, ids: &[Uuid]) -> sqlx::Result<()> {
    let mut tx = db.begin().await?;
    let repos = store::memory::retract::repositories(&mut tx, ids, &[]).await?;
    lock(&mut tx, &repos).await?;
    store::memory::library::prune(&mut tx, ids).await?;
    store::memory::index::remove(&mut tx, ids).await?;
    tx.commit().await
}

#[derive(Debug, Clone)]
pub enum Restored {
    /// Number of hidden entries that are live again.
    Entries(usize),
    /// None is restored, since these cannot come back.
    Refused(Vec<(RestoreCandidate, NotRestorable)>),
}

/// Restores hidden entries, all or none. Released entries whose files exist can be found again at once.
pub async fn restore(db: &PgPool, ids: &[Uuid]) -> sqlx::Result<Restored> {
    let mut tx = db.begin().await?;
    let repos = store::memory::retract::repositories(&mut tx, ids, &[]).await?;
    lock(&mut tx, &repos).await?;
    let (mut back, mut stay) = (Vec::new(), Vec::new());
    for entry in store::memory::library::restore_candidates(&mut tx, ids).await? {
        match comes_back(entry.hidden) {
            Ok(true) => back.push(entry),
            Ok(false) => {}
            Err(why) => stay.push((entry, why)),
        }
    }
    let ids: Vec<Uuid> = back.iter().map(|entry| entry.id).collect();
    store::memory::library::restore(&mut tx, &ids).await?;
    stay.extend(repeated(&mut tx, back).await?);
    if !stay.is_empty() {
        return Ok(Restored::Refused(stay));
    }
    index_again(&mut tx, &ids).await?;
    tx.commit().await?;
    Ok(Restored::Entries(ids.len()))
}

/// Restored knowledge that an entry with the same content excludes: one that came while it was hidden, or a
/// newer one that is restored with it.
async fn repeated(
    conn: &mut PgConnection,
    back: Vec<RestoreCandidate>,
) -> sqlx::Result<Vec<(RestoreCandidate, NotRestorable)>> {
    let ids: Vec<Uuid> = back.iter().map(|entry| entry.id).collect();
    let mut similar = store::memory::library::similar_knowledge(conn, &ids).await?;
    let mut stay = Vec::new();
    // An entry in quarantine replaces nothing yet.
    for entry in back.into_iter().filter(|entry| entry.is_released) {
        let others = similar.remove(&entry.id).unwrap_or_default();
        let by = others.into_iter().find(|other| {
            let has_place = other.id > entry.id || ids.binary_search(&other.id).is_err();
            has_place && replaces(&other.title, &other.tags, &entry.title, &entry.tags)
        });
        if let Some(by) = by {
            let replaced = RestoreCandidate {
                superseded_by: Some(by.id),
                ..entry
            };
            stay.push((replaced, NotRestorable::Replaced));
        }
    }
    Ok(stay)
}

/// Deletes entries for good, with all entries distilled from them and the prompts of ended attempts that
/// showed them. Entries that they replaced become live again. Returns the numbers of deleted entries and
/// prompts.
pub async fn purge(db: &PgPool, ids: &[Uuid]) -> sqlx::Result<(i64, i64)> {
    let mut tx = db.begin().await?;
    // A session that merges these entries answers before or after this, never between.
    let repos = store::memory::retract::repositories(&mut tx, ids, &[]).await?;
    lock(&mut tx, &repos).await?;
    let mut ids = ids.to_vec();
    ids.extend(store::memory::distill::made_from(&mut tx, &ids).await?);
    let ids = ids.as_slice();
    store::memory::index::remove(&mut tx, ids).await?;
    let restored = store::memory::retract::restore_replaced(&mut tx, ids).await?;
    // A claim that shows one of them stores its prompt before this, so that the purge finds it, or later
    // notices the purge and stores none.
    store::memory::exposures::hold_back_prompts(&mut tx).await?;
    let gone = store::memory::library::purge(&mut tx, ids).await?;
    index_again(&mut tx, &restored).await?;
    tx.commit().await?;
    Ok(gone)
}

/// Entries that a revocation removed, and its reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revocation {
    pub entries: usize,
    pub reach: Reach,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    Entries(Revocation),
    /// Nothing was revoked: the attempt is not over, and would add more entries later.
    StillOpen,
}

/// Revokes all entries of a dispatch's attempt and all entries distilled from them. Entries that they
/// replaced become live again. Copies of them by later attempts go back to quarantine.
pub async fn revoke(db: &PgPool, dispatch: DispatchId) -> sqlx::Result<Revoked> {
    let mut tx = db.begin().await?;
    // Reports lock the feature before the memory, so they come before or after this.
    if let Some(of) = store::dispatch::read(&mut tx, &[dispatch.0]).await?.pop() {
        cascade::lock_features(&mut tx, &BTreeSet::from([of.feature])).await?;
    }
    let attempt = store::memory::retract::of_attempt(&mut tx, dispatch).await?;
    if attempt.is_open {
        return Ok(Revoked::StillOpen);
    }
    let revoked = revoke_entries(&mut tx, &attempt.ids).await?;
    tx.commit().await?;
    Ok(Revoked::Entries(revoked))
}

/// Revokes the entries of dispatches that are over, within the caller's transaction.
pub(in crate::flow) async fn revoke_entries(
    conn: &mut PgConnection,
    dispatches: &[Uuid],
) -> sqlx::Result<Revocation> {
    // A session that merges these entries answers before this, so that this finds the answer, or later, and
    // its answer is ignored.
    let repos = store::memory::retract::repositories(conn, &[], dispatches).await?;
    lock(conn, &repos).await?;
    let revoked = store::memory::retract::of_dispatches(conn, dispatches).await?;
    store::memory::retract::hide(conn, &revoked).await?;
    let reach = copies::reach(conn, &revoked, dispatches).await?;
    store::memory::retract::forget_words(conn, dispatches).await?;
    let hidden: Vec<Uuid> = revoked.iter().chain(&reach.doubted).copied().collect();
    let words = dispatches.iter().chain(&reach.journals);
    let gone: Vec<Uuid> = hidden.iter().chain(words).copied().collect();
    store::memory::index::remove(conn, &gone).await?;
    // A copy in doubt may be a witness of a revoked entry. It counts for itself once a person restores it.
    let mut restored = store::memory::retract::restore_replaced(conn, &revoked).await?;
    restored.extend(store::memory::retract::restore_replaced(conn, &reach.doubted).await?);
    index_again(conn, &restored).await?;
    Ok(Revocation {
        entries: revoked.len(),
        reach,
    })
}

async fn lock(conn: &mut PgConnection, repos: &[String]) -> sqlx::Result<()> {
    let repos: Vec<&str> = repos.iter().map(String::as_str).collect();
    store::memory::library::lock(conn, &repos).await
}

/// Indexes stored entries that may be found. Knowledge replaces older versions.
pub(in crate::flow) async fn index(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<()> {
    let mut released = store::memory::retract::to_index(conn, ids).await?;
    released.sort_by_key(|one| (one.created_at, one.id));
    capture::admit(conn, released).await
}

/// Indexes entries that were admitted before. They replace nothing.
pub(in crate::flow) async fn index_again(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<()> {
    let released = store::memory::retract::to_index(conn, ids).await?;
    let repos: BTreeSet<String> = released.iter().map(|one| one.repo_id.clone()).collect();
    lock(conn, &repos.into_iter().collect::<Vec<_>>()).await?;
    let findable = released.into_iter().map(capture::Findable::new).collect();
    capture::make_findable(conn, findable).await
}

/// An id with the time of the entry.
pub(in crate::flow) fn id_of(at: OffsetDateTime) -> Uuid {
    let seconds = u64::try_from(at.unix_timestamp()).unwrap_or(0);
    Uuid::new_v7(Timestamp::from_unix(ContextV7::new(), seconds, at.nanosecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_outside_of_the_range_of_utc_are_refused() {
        for (date, taken) in [
            ("2026-01-31T12:00:00+02:00", true),
            ("0000-01-01T00:00:00Z", true),
            ("0000-01-01T00:00:00+01:00", false),
            ("9999-12-31T23:59:59Z", true),
            ("9999-12-31T23:59:59-01:00", false),
        ] {
            let line = serde_json::json!({"id": "e", "date": date, "title": "t"});
            let line: Result<ImportLine, _> = serde_json::from_value(line);
            assert_eq!(line.is_ok(), taken, "{date}: {line:?}");
            let written = line.map(|line| serde_json::to_value(line).is_ok());
            assert!(written.unwrap_or(true), "{date}");
        }
    }
}
