//! Fills a database with the memory of a repository after years.

use ralph_coordinator::domain::recall::{Kind as EntryKind, Scope, analyse};
use ralph_coordinator::flow::memory::library;
use ralph_coordinator::store::memory::index::{self, NewDoc};
use ralph_shared::ids::{RunId, TaskId};
use sqlx::{PgConnection, PgPool};
use time::{Duration, OffsetDateTime};
use uuid::{ContextV7, Timestamp, Uuid};

use super::memory::{ATTEMPTS, FilledDatabase, TASKS};
use super::memory_text::Text;
use crate::servers::Servers;
use crate::system::System;

const JOURNAL: usize = 1_000_000;
const LEARNINGS: usize = 100_000;
const KNOWLEDGE: usize = 20_000;
pub(super) const ENTRIES: usize = JOURNAL + LEARNINGS + KNOWLEDGE;
/// Entries of one transaction.
const CHUNK: usize = 2_000;
/// Dispatches per old task, and tasks per old feature.
const DISPATCHES_A_TASK: usize = 10;
const TASKS_A_FEATURE: usize = 1_000;
const REPO: &str = "bench.example/memory";

/// A database with these entries, or fewer by this factor.
pub(super) async fn filled(
    servers: &Servers,
    name: &str,
    fewer: usize,
) -> anyhow::Result<(System, FilledDatabase)> {
    let system = System::fresh(servers, name).await?;
    let db = system.pool(2).await?;
    run(
        &db,
        "create unlogged table bench_keys (entry uuid, keys bigint[])",
    )
    .await?;
    let mut text = Text(1);
    journal(&db, &mut text, JOURNAL / fewer).await?;
    for (kind, entries) in [
        (EntryKind::Learning, LEARNINGS / fewer),
        (EntryKind::Knowledge, KNOWLEDGE / fewer),
    ] {
        learned(&db, &mut text, kind, entries).await?;
    }
    // Upkeep would do this in some hundred steps.
    run(
        &db,
        "insert into memory_postings (key, block, entries, stands)
         select key, ((n - 1) / 128)::int, array_agg(posting order by posting), max(n)
         from (
           select key, memory_posting(d.id, d.created_at) as posting, row_number() over (partition by key order by d.id) as n,
                  count(*) over (partition by key) as of_key
           from bench_keys b join memory_entries d using (entry) cross join unnest(b.keys) as k(key)
         ) p
         where (n - 1) / 128 > (of_key - 1) / 128 - 32
         group by key, (n - 1) / 128",
    )
    .await?;
    run(&db, "truncate memory_unmerged; drop table bench_keys").await?;
    library::settle(&db).await?;
    run(
        &db,
        "insert into memory_paths (repo_id, path)
         select distinct repo_id, path from learnings cross join unnest(paths) as p(path)",
    )
    .await?;
    let (run_id, tasks) = tried(&db, &mut text).await?;
    run(&db, "vacuum analyze").await?;
    run(&db, "checkpoint").await?;
    db.close().await;
    let db = system.coordinators_pool(2).await?;
    Ok((
        system,
        FilledDatabase {
            db,
            run: run_id,
            tasks,
        },
    ))
}

async fn run(db: &PgPool, sql: &'static str) -> sqlx::Result<()> {
    sqlx::raw_sql(sql).execute(db).await.map(drop)
}

/// An id and a time, which grow together.
fn at(number: usize, of: usize) -> (Uuid, OffsetDateTime) {
    let ago = Duration::days(700) * (1.0 - number as f64 / of as f64) + Duration::days(2);
    let at = OffsetDateTime::now_utc() - ago;
    let seconds = u64::try_from(at.unix_timestamp()).unwrap_or(0);
    (
        Uuid::new_v7(Timestamp::from_unix(ContextV7::new(), seconds, at.nanosecond())),
        at,
    )
}

fn doc(
    entry: Uuid,
    kind: EntryKind,
    created_at: OffsetDateTime,
    title: &str,
    body: &str,
    paths: &[String],
    tags: &[String],
) -> NewDoc {
    NewDoc {
        number: None,
        entry,
        repo_id: REPO.to_owned(),
        kind,
        created_at,
        words: analyse(Scope::new(REPO, kind), title, body, paths, tags),
    }
}

/// Inserts a feature of the repository with these tasks (title, description), and with an open or an ended
/// run.
async fn feature(
    db: &PgPool,
    name: &str,
    running: bool,
    tasks: &[(String, String)],
) -> anyhow::Result<(Uuid, Uuid, Vec<Uuid>)> {
    let feature = Uuid::now_v7();
    let ids: Vec<Uuid> = tasks.iter().map(|_| Uuid::now_v7()).collect();
    let mut tx = db.begin().await?;
    sqlx::query(
        "insert into features (id, name, repo_id, repo_address, base_ref, base_commit, branch, state, max_parallel, done)
         values ($1, $2, $3, $3, 'main', repeat('0', 40), $2, $4::feature_state, 64, $5)",
    )
    .bind(feature)
    .bind(name)
    .bind(REPO)
    .bind(if running { "running" } else { "done" })
    .bind(i32::try_from(tasks.len())?)
    .execute(&mut *tx)
    .await?;
    sqlx::query("insert into feature_texts (feature_id, description) values ($1, '')")
        .bind(feature)
        .execute(&mut *tx)
        .await?;
    let run_id = current_run(&mut tx, feature, running).await?;
    sqlx::query(
        "insert into tasks (id, feature_id, state, verify, max_retries, attempt, failures)
         select id, $2, case when $3 then 'pending' else 'done' end::task_state, false, 100, $4, 3
         from unnest($1::uuid[]) as t(id)",
    )
    .bind(&ids)
    .bind(feature)
    .bind(running)
    .bind(i32::try_from(ATTEMPTS)?)
    .execute(&mut *tx)
    .await?;
    sqlx::query(
        "insert into task_texts (task_id, key, title, description)
         select t.id, t.id::text, t.title, t.description
         from unnest($1::uuid[], $2::text[], $3::text[]) as t(id, title, description)",
    )
    .bind(&ids)
    .bind(tasks.iter().map(|(title, _)| title.clone()).collect::<Vec<_>>())
    .bind(
        tasks
            .iter()
            .map(|(_, description)| description.clone())
            .collect::<Vec<_>>(),
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok((feature, run_id, ids))
}

/// Inserts the current run of a feature.
async fn current_run(db: &mut PgConnection, feature: Uuid, running: bool) -> anyhow::Result<Uuid> {
    let run_id = Uuid::now_v7();
    sqlx::query(
        "insert into runs (id, feature_id, session_ms, idle_ms, output_bytes, backoff_ms, model_strategy, outcome, ended_at,
                           journal_indexed_at)
         values ($1, $2, 1, 1, 1, 1, 'cost-optimized', case when $3 then null else 'complete'::run_outcome end,
                 case when $3 then null else now() end, case when $3 then null else now() end)",
    )
    .bind(run_id)
    .bind(feature)
    .bind(running)
    .execute(&mut *db)
    .await?;
    sqlx::query("update features set current_run = $2 where id = $1")
        .bind(feature)
        .bind(run_id)
        .execute(&mut *db)
        .await?;
    Ok(run_id)
}

struct Settled {
    id: Uuid,
    task: Uuid,
    attempt: i32,
    at: OffsetDateTime,
    done: bool,
    journal: String,
    file: String,
}

async fn settled(db: &PgPool, feature: Uuid, run_id: Uuid, rows: &[Settled]) -> anyhow::Result<()> {
    sqlx::query(
        "insert into dispatches (id, task_id, feature_id, run_id, kind, attempt, state, worker, incarnation, lease_until,
                                 claimed_at, settled_at, outcome, journal, files_changed, duration_ms)
         select d.id, d.task_id, $2, $3, 'work', d.attempt, 'settled', 'w', $2, d.at, d.at, d.at,
                case when d.done then 'done' else 'failed' end::attempt_outcome, d.journal, array[d.file], 1000
         from unnest($1::uuid[], $4::uuid[], $5::int[], $6::timestamptz[], $7::bool[], $8::text[], $9::text[])
           as d(id, task_id, attempt, at, done, journal, file)",
    )
    .bind(rows.iter().map(|row| row.id).collect::<Vec<_>>())
    .bind(feature)
    .bind(run_id)
    .bind(rows.iter().map(|row| row.task).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.attempt).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.at).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.done).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.journal.clone()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.file.clone()).collect::<Vec<_>>())
    .execute(db)
    .await?;
    Ok(())
}

/// Inserts journal entries of ended features.
async fn journal(db: &PgPool, text: &mut Text, entries: usize) -> anyhow::Result<()> {
    let a_feature = DISPATCHES_A_TASK * TASKS_A_FEATURE;
    for first in (0..entries).step_by(a_feature) {
        let here = a_feature.min(entries - first);
        let titles: Vec<(String, String)> = (0..here.div_ceil(DISPATCHES_A_TASK))
            .map(|_| (text.words(6), text.words(20)))
            .collect();
        let (feature, run_id, tasks) = feature(db, &format!("old-{first}"), false, &titles).await?;
        let mut rows = Vec::with_capacity(CHUNK);
        let mut docs = Vec::with_capacity(CHUNK);
        for number in 0..here {
            let task = number / DISPATCHES_A_TASK;
            let (id, at) = at(first + number, entries);
            let (journal, file) = (text.words(20), text.file());
            let paths = std::slice::from_ref(&file);
            docs.push(doc(
                id,
                EntryKind::Journal,
                at,
                &titles[task].0,
                &journal,
                paths,
                &[],
            ));
            rows.push(Settled {
                id,
                task: tasks[task],
                attempt: i32::try_from(number % DISPATCHES_A_TASK)? + 1,
                at,
                done: number % 3 != 0,
                journal,
                file,
            });
            if rows.len() == CHUNK || number + 1 == here {
                settled(db, feature, run_id, &rows).await?;
                index(db, &docs).await?;
                rows.clear();
                docs.clear();
            }
        }
    }
    Ok(())
}

/// Inserts learnings or knowledge that other tasks may see.
async fn learned(db: &PgPool, text: &mut Text, kind: EntryKind, entries: usize) -> anyhow::Result<()> {
    let insert = match kind {
        EntryKind::Knowledge => {
            "insert into knowledge (id, repo_id, title, body, tags, paths, created_at, released_at)
             select e.id, $1, e.title, e.body, array[e.tag], array[e.file], e.at, e.at
             from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
               as e(id, title, body, tag, file, at)"
        }
        _ => {
            "insert into learnings (id, repo_id, category, title, body, tags, paths, created_at, released_at)
             select e.id, $1, 'pitfall', e.title, e.body, array[e.tag], array[e.file], e.at, e.at
             from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
               as e(id, title, body, tag, file, at)"
        }
    };
    for first in (0..entries).step_by(CHUNK) {
        let mut docs = Vec::new();
        let (mut ids, mut titles, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        let (mut tags, mut files, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for number in first..entries.min(first + CHUNK) {
            let (id, at) = at(number, entries);
            let (title, body) = (text.words(8), text.words(30));
            let (tag, file) = (vec![text.word()], vec![text.file()]);
            docs.push(doc(id, kind, at, &title, &body, &file, &tag));
            ids.push(id);
            titles.push(title);
            bodies.push(body);
            tags.extend(tag);
            files.extend(file);
            times.push(at);
        }
        sqlx::query(insert)
            .bind(REPO)
            .bind(&ids)
            .bind(&titles)
            .bind(&bodies)
            .bind(&tags)
            .bind(&files)
            .bind(&times)
            .execute(db)
            .await?;
        index(db, &docs).await?;
    }
    Ok(())
}

/// Indexes entries, and stores their keys for the word index, which is built at the end.
async fn index(db: &PgPool, docs: &[NewDoc]) -> anyhow::Result<()> {
    index::insert(&mut *db.acquire().await?, docs).await?;
    let keys = docs.iter().map(|doc| {
        let keys = doc.words.keys(Scope::new(&doc.repo_id, doc.kind));
        format!(
            "{{{}}}",
            keys.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
        )
    });
    sqlx::query(
        "insert into bench_keys (entry, keys)
         select e.entry, e.keys::bigint[] from unnest($1::uuid[], $2::text[]) as e(entry, keys)",
    )
    .bind(docs.iter().map(|doc| doc.entry).collect::<Vec<_>>())
    .bind(keys.collect::<Vec<_>>())
    .execute(db)
    .await?;
    Ok(())
}

/// Inserts tasks of a running feature with many attempts; every attempt failed with a reason.
async fn tried(db: &PgPool, text: &mut Text) -> anyhow::Result<(RunId, Vec<TaskId>)> {
    let texts: Vec<(String, String)> = (0..TASKS).map(|_| (text.words(7), text.words(60))).collect();
    let (feature, run_id, tasks) = feature(db, "now", true, &texts).await?;
    let mut rows = Vec::new();
    for attempt in 1..=ATTEMPTS {
        for task in &tasks {
            rows.push(Settled {
                id: Uuid::now_v7(),
                task: *task,
                attempt: i32::try_from(attempt)?,
                at: OffsetDateTime::now_utc(),
                done: false,
                journal: text.words(40),
                file: text.file(),
            });
        }
    }
    settled(db, feature, run_id, &rows).await?;
    sqlx::query(
        "insert into failure_reports (dispatch_id, task_id, attempt, extracted, category, what_tried, why_failed)
         select id, task_id, attempt, false, 'test_failure', journal, journal from dispatches where feature_id = $1",
    )
    .bind(feature)
    .execute(db)
    .await?;
    sqlx::query(
        "insert into session_memory (feature_id, task_id, dispatch_id, kind, body)
         select feature_id, task_id, id, 'error', journal from dispatches where feature_id = $1",
    )
    .bind(feature)
    .execute(db)
    .await?;
    Ok((RunId(run_id), tasks.into_iter().map(TaskId).collect()))
}
