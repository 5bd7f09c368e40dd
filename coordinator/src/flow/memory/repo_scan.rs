//! Takes a worker's findings in a session's start commit. The repository's own knowledge becomes entries
//! (SPEC 6.5), and entries about missing files are stale until these return (SPEC 6.7).
//!
//! Workers scan heads of feature branches only, never attempts. A file with the same content in the
//! feature's base came from people and is trusted. Any other file may come from a task: it is an agent's
//! entry beside the base's, and replaces nothing. Branches may differ; the head that was surveyed last
//! counts.

use std::collections::{BTreeSet, HashMap};

use ralph_shared::ids::FeatureId;
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{MOST_TAGS, TAG_CHARS, TITLE_CHARS};
use ralph_shared::wire::{
    KNOWLEDGE_FOLDER, KnowledgeFolder, KnowledgeText, RepoScan, RepoScanOrder, sha256_hex,
};
use sqlx::{Connection as _, PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{capture, library};
use crate::domain::recall::Kind as EntryKind;
use crate::domain::text::knowledge_file::KnowledgeFile;
use crate::flow::Settings;
use crate::flow::guard::is_away;
use crate::store;
use crate::store::dispatch::context::TaskFacts;
use crate::store::memory::library::{GivenEntry, Origin};
use crate::store::memory::repo_scan::Files;

/// Whether a session of the task starts from landed work only.
pub(in crate::flow) fn starts_at_head(task: &TaskFacts) -> bool {
    task.repo_address.is_some() && task.role == SessionKind::Work && task.start_commit.is_none()
}

/// Survey orders for sessions that start from the head of their feature's branch, by feature.
pub(in crate::flow) async fn orders(
    conn: &mut PgConnection,
    settings: &Settings,
    tasks: &[TaskFacts],
) -> sqlx::Result<HashMap<Uuid, RepoScanOrder>> {
    let starting = tasks
        .iter()
        .filter(|task| settings.memory && starts_at_head(task));
    let features: BTreeSet<Uuid> = starting.map(|task| task.feature.0).collect();
    if features.is_empty() {
        return Ok(HashMap::new());
    }
    let features: Vec<Uuid> = features.into_iter().collect();
    store::memory::repo_scan::orders(conn, &features).await
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Surveyed {
    /// Number of new, changed and missing knowledge files.
    pub files: usize,
    /// Number of entries whose files went missing or returned.
    pub stale: usize,
    /// See `stale`.
    pub back: usize,
    /// Entries whose files were renamed.
    pub renamed: usize,
}

/// Takes a worker's findings at a feature's head. Retries when another transaction held the same rows.
pub async fn take(db: &PgPool, feature: FeatureId, scan: &RepoScan) -> sqlx::Result<Surveyed> {
    store::retry_serialization(|| try_take(db, feature, scan)).await
}

async fn try_take(db: &PgPool, feature: FeatureId, scan: &RepoScan) -> sqlx::Result<Surveyed> {
    let mut tx = db.begin().await?;
    let Some(known) = store::memory::repo_scan::known(&mut tx, feature).await? else {
        return Ok(Surveyed::default());
    };
    let repo = known.repo_id.as_str();
    store::memory::library::lock(&mut tx, &[repo]).await?;
    let mut surveyed = Surveyed {
        renamed: rename(&mut tx, repo, scan).await?,
        ..Surveyed::default()
    };
    let renamed = scan.renamed.iter().map(|rename| &rename.to);
    let present: Vec<String> = scan.present.iter().chain(renamed).cloned().collect();
    let back = store::memory::repo_scan::present(&mut tx, repo, &present).await?;
    let gone = store::memory::repo_scan::missing(&mut tx, repo, &scan.missing, &scan.deleted).await?;
    if !gone.is_empty() {
        let stale = store::memory::repo_scan::mark_stale(&mut tx, repo, &gone).await?;
        store::memory::index::remove(&mut tx, &stale).await?;
        surveyed.stale = stale.len();
    }
    if !back.is_empty() {
        let live = store::memory::repo_scan::unmark_stale(&mut tx, repo, &back).await?;
        library::index_again(&mut tx, &live).await?;
        surveyed.back = live.len();
    }
    store::memory::repo_scan::keep_head(&mut tx, feature, repo, &scan.head).await?;
    if let Some(folder) = &scan.knowledge {
        surveyed.files = knowledge(&mut tx, feature, repo, &known.files, folder).await?;
    }
    tx.commit().await?;
    if surveyed != Surveyed::default() {
        tracing::info!(
            repo,
            head = scan.head,
            ?surveyed,
            "the memory follows the repository"
        );
    }
    Ok(surveyed)
}

async fn rename(conn: &mut PgConnection, repo: &str, scan: &RepoScan) -> sqlx::Result<usize> {
    if scan.renamed.is_empty() {
        return Ok(0);
    }
    let names = scan
        .renamed
        .iter()
        .map(|rename| (rename.from.clone(), rename.to.clone()));
    let (from, to): (Vec<String>, Vec<String>) = names.unzip();
    let renamed = store::memory::repo_scan::rename(conn, repo, &from, &to).await?;
    store::memory::index::remove(conn, &renamed).await?;
    library::index_again(conn, &renamed).await?;
    Ok(renamed.len())
}

/// Updates the entries of a repository's files to the present content of the folder. Returns the number of
/// changed files.
async fn knowledge(
    conn: &mut PgConnection,
    feature: FeatureId,
    repo: &str,
    before: &Files,
    folder: &KnowledgeFolder,
) -> sqlx::Result<usize> {
    let now: Files = folder
        .files
        .iter()
        .map(|file| (file.name.clone(), sha256_hex(file.text.as_bytes())))
        .collect();
    let mut changed = 0;
    for file in &folder.files {
        let sha256 = &now[&file.name];
        if before.get(&file.name) == Some(sha256) {
            continue;
        }
        if file.at_base {
            changed += usize::from(forget_landed(conn, feature, repo, &file.name).await?);
        }
        if !store::memory::repo_scan::is_same(conn, repo, &id_of_file(feature, file), sha256).await? {
            changed += usize::from(keep(conn, feature, repo, file, sha256).await?);
        }
    }
    let mut kept = now;
    let mut gone = Vec::new();
    if folder.left_out > 0 {
        // A file that could not be read this time may still be there.
        for (name, sha256) in before {
            kept.entry(name.clone()).or_insert_with(|| sha256.clone());
        }
    } else {
        // Also files of an earlier feature's head: this feature may start without them.
        let named = store::memory::repo_scan::named(conn, repo).await?;
        let known = before.keys().map(String::as_str);
        let known: BTreeSet<&str> = known.chain(named.iter().filter_map(|id| name_of(id))).collect();
        let missing = known.into_iter().filter(|name| !kept.contains_key(*name));
        gone.extend(missing.map(str::to_owned));
    }
    changed += forget_gone(conn, feature, repo, &gone).await?;
    if folder.left_out > 0 {
        tracing::warn!(
            repo,
            files = folder.left_out,
            "some knowledge files are left out: there are too many, or they are too large"
        );
    }
    store::memory::repo_scan::keep_files(conn, feature, folder.tree.as_deref(), &kept).await?;
    Ok(changed)
}

/// Forgets files that are no longer there. Returns the number of changed ones.
async fn forget_gone(
    conn: &mut PgConnection,
    feature: FeatureId,
    repo: &str,
    gone: &[String],
) -> sqlx::Result<usize> {
    if gone.is_empty() {
        return Ok(0);
    }
    let mut changed = 0;
    for name in gone {
        changed += usize::from(forget_landed(conn, feature, repo, name).await?);
    }
    let elsewhere = store::memory::repo_scan::had_elsewhere(conn, feature, repo, gone).await?;
    for name in gone.iter().filter(|name| !elsewhere.contains(name)) {
        if let Some(id) = store::memory::repo_scan::unname(conn, repo, &external_id(name)).await? {
            hide(conn, &[id]).await?;
            changed += 1;
        }
    }
    Ok(changed)
}

/// Hides the entry of a file; the entry that it replaced becomes live again.
async fn hide(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    store::memory::library::prune(conn, ids).await?;
    store::memory::index::remove(conn, ids).await?;
    let back = store::memory::retract::restore_replaced(conn, ids).await?;
    library::index_again(conn, &back).await
}

/// Hides the entry of a file that only the feature's branch had. Returns whether there was one.
async fn forget_landed(
    conn: &mut PgConnection,
    feature: FeatureId,
    repo: &str,
    name: &str,
) -> sqlx::Result<bool> {
    let Some(id) = store::memory::repo_scan::unname(conn, repo, &landed_id(feature, name)).await? else {
        return Ok(false);
    };
    hide(conn, &[id]).await?;
    Ok(true)
}

/// The id of a file's entry: one for all heads with the base's content, and one for each other branch.
fn id_of_file(feature: FeatureId, file: &KnowledgeText) -> String {
    if file.at_base {
        external_id(&file.name)
    } else {
        landed_id(feature, &file.name)
    }
}

fn external_id(name: &str) -> String {
    format!("{KNOWLEDGE_FOLDER}/{name}")
}

fn landed_id(feature: FeatureId, name: &str) -> String {
    format!("{}:{}", feature.short(), external_id(name))
}

fn name_of(external_id: &str) -> Option<&str> {
    external_id.strip_prefix(KNOWLEDGE_FOLDER)?.strip_prefix('/')
}

/// Makes an entry of a new or changed file, if possible. An entry that the database refuses does not stop the
/// others. Returns whether anything changed.
async fn keep(
    conn: &mut PgConnection,
    feature: FeatureId,
    repo: &str,
    file: &KnowledgeText,
    sha256: &str,
) -> sqlx::Result<bool> {
    let mut part = conn.begin().await?;
    match write(&mut part, feature, repo, file, sha256).await {
        Ok(changed) => {
            part.commit().await?;
            Ok(changed)
        }
        Err(error) if is_away(&error) => Err(error),
        Err(error) => {
            part.rollback().await?;
            let file = id_of_file(feature, file);
            tracing::warn!(repo, file, %error, "a knowledge file can't be stored; its older entry stays");
            Ok(false)
        }
    }
}

/// Makes an entry of a file that replaces the file's older one. Returns whether the file can be read.
async fn write(
    conn: &mut PgConnection,
    feature: FeatureId,
    repo: &str,
    file: &KnowledgeText,
    sha256: &str,
) -> sqlx::Result<bool> {
    let external_id = id_of_file(feature, file);
    let read = match KnowledgeFile::parse(&file.text.replace('\0', "\u{fffd}")) {
        Ok(read) => read,
        Err(why) => {
            tracing::warn!(repo, file = external_id, %why, "a knowledge file can't be read; its older entry stays");
            return Ok(false);
        }
    };
    let old = if file.at_base {
        // A file that only a branch had, and that is merged now, counts as written by people.
        let landed = store::memory::repo_scan::landed_copies(conn, repo, sha256).await?;
        hide(conn, &landed).await?;
        store::memory::repo_scan::unname(conn, repo, &external_id).await?
    } else {
        forget_landed(conn, feature, repo, &file.name).await?;
        None
    };
    let at = read
        .created_at
        .and_then(ralph_api::body::utc::written)
        .unwrap_or_else(OffsetDateTime::now_utc)
        .min(OffsetDateTime::now_utc());
    let given = GivenEntry {
        id: library::id_of(at),
        repo_id: repo.to_owned(),
        kind: EntryKind::Knowledge,
        origin: match file.at_base {
            true => Origin::Repository,
            false => Origin::Attempt,
        },
        category: String::new(),
        title: read.title.chars().take(TITLE_CHARS).collect(),
        body: capture::bounded(&read.body),
        tags: read
            .tags
            .iter()
            .take(MOST_TAGS)
            .map(|tag| tag.chars().take(TAG_CHARS).collect())
            .collect(),
        paths: Vec::new(),
        feature: read.feature,
        created_at: at,
        external_id: Some(external_id),
    };
    let stored = store::memory::library::insert_given(conn, std::slice::from_ref(&given)).await?;
    store::memory::repo_scan::name(conn, given.id, sha256, old).await?;
    if let Some(old) = old {
        store::memory::index::remove(conn, &[old]).await?;
    }
    library::index(conn, &stored).await?;
    Ok(true)
}
