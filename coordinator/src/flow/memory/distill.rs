//! Merges learnings that say nearly the same in a session of its own (SPEC 6.7): a task with the role
//! `distill`, in a feature and with a budget of its own. Merged entries stay and link to their replacement.

use std::collections::HashMap;

use ralph_shared::ids::{DispatchId, FeatureId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{Knowledge, Learning};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{capture, library};
use crate::domain::recall::Kind as EntryKind;
use crate::domain::recall::lifecycle::{Distill, MOST_MERGED, MOST_MERGED_CHARS, mergers};
use crate::domain::run::RunSettings;
use crate::flow::claim::opened::Opened;
use crate::flow::{Signals, submit};
use crate::prompt;
use crate::store;
use crate::store::feature::{Locked, NewFeature};
use crate::store::memory::Source;
use crate::store::memory::distill::{Mergeable, NewDistillation, Tagged};
use crate::store::memory::exposures::Use;
use crate::store::memory::library::{GivenEntry, Origin};
use crate::store::task::NewTask;
use crate::store::view::memory_id;

/// Most groups per round.
const GROUPS: i64 = 5_000;
/// Retries of such a session.
const RETRIES: i32 = 1;
/// Limits of its run: those of a session (SPEC 3.4), and a day.
const SESSION_MS: i64 = 60 * 60 * 1000;
const IDLE_MS: i64 = 10 * 60 * 1000;
const RUN_MS: i64 = 24 * 60 * 60 * 1000;
const OUTPUT_BYTES: i64 = 50 * 1024 * 1024;
const BACKOFF_MS: i64 = 10_000;
/// Most files per merged learning.
const MAX_PATHS: usize = 20;

/// Starts sessions for due groups, at most one per repository. Returns their number.
pub async fn begin(db: &PgPool, distill: Distill) -> sqlx::Result<(usize, Signals)> {
    let mut signals = Signals::default();
    // In a transaction of its own: a change of an entry locks its memory and then waits for such a row.
    store::memory::distill::close_abandoned(&mut *db.acquire().await?).await?;
    let mut tx = db.begin().await?;
    if !store::memory::distill::try_lock(&mut tx).await? {
        return Ok((0, signals));
    }
    let groups = store::memory::distill::groups(&mut tx, distill.above, GROUPS).await?;
    let mut due: Vec<Tagged> = Vec::new();
    for group in groups {
        if distill.is_due(group.group) && due.iter().all(|other| other.repo_id != group.repo_id) {
            due.push(group);
        }
    }
    // A change of an entry comes either before a session gets it, or finds the session.
    let repos: Vec<&str> = due.iter().map(|group| group.repo_id.as_str()).collect();
    store::memory::library::lock(&mut tx, &repos).await?;
    let mut begun = 0;
    for group in due {
        let (spent_usd, sessions) = store::memory::distill::spent_today(&mut tx).await?;
        let Some(usd) = distill.allowance_usd(spent_usd, sessions) else {
            break;
        };
        start(&mut tx, &group, usd, &mut signals).await?;
        begun += 1;
    }
    tx.commit().await?;
    Ok((begun, signals))
}

async fn start(conn: &mut PgConnection, group: &Tagged, usd: f64, signals: &mut Signals) -> sqlx::Result<()> {
    let most = i64::try_from(MOST_MERGED).unwrap_or(i64::MAX);
    let mut entries = store::memory::distill::with_tag(conn, &group.repo_id, &group.tag, most).await?;
    let mut chars = 0;
    entries.retain(|entry| {
        chars += entry.title.chars().count() + entry.body.chars().count();
        chars <= MOST_MERGED_CHARS
    });
    let feature = FeatureId::new();
    let name = format!("distill-{}", &feature.0.simple().to_string()[20..]);
    let new = NewFeature {
        id: feature,
        ..NewFeature::new(name, group.repo_id.clone())
    };
    let run = RunSettings {
        max_time_ms: Some(RUN_MS),
        max_cost_usd: Some(usd),
        session_ms: SESSION_MS,
        idle_ms: IDLE_MS,
        output_bytes: OUTPUT_BYTES,
        backoff_ms: BACKOFF_MS,
        ..RunSettings::default()
    };
    let defaults = crate::domain::run::defaults::TaskDefaults {
        max_retries: RETRIES,
        verify: false,
        ..crate::domain::run::defaults::TaskDefaults::default()
    };
    let task = submit::step(SessionKind::Distill, 0, "", &defaults);
    let Some(run) = submit(conn, &new, &task, &run, signals).await? else {
        return Ok(());
    };
    let noted = NewDistillation {
        id: Uuid::now_v7(),
        repo_id: group.repo_id.clone(),
        tag: group.tag.clone(),
        task: task.id,
        run,
        entries: entries.iter().map(|entry| entry.id).collect(),
        group_size: group.group.size,
    };
    tracing::info!(
        repo = group.repo_id,
        tag = group.tag,
        entries = noted.entries.len(),
        feature = new.name,
        "a session merges learnings"
    );
    store::memory::distill::insert(conn, &noted).await
}

/// Stores a feature with one step and starts its run. `None` when the repository has a feature of that name.
async fn submit(
    conn: &mut PgConnection,
    feature: &NewFeature,
    step: &NewTask,
    settings: &RunSettings,
    signals: &mut Signals,
) -> sqlx::Result<Option<RunId>> {
    let mut held = Locked::inserted(feature);
    held.counts.add(step.state(), 1);
    held.begin(RunId::new());
    if !store::feature::insert(conn, feature, &held, Some(settings)).await? {
        return Ok(None);
    }
    let step = std::slice::from_ref(step);
    signals.got_work(store::task::insert_begun(conn, feature.id, step, &[], Some(settings)).await?);
    signals.features.insert(feature.id);
    Ok(held.current_run)
}

/// Learnings for a session to merge.
#[derive(Debug)]
pub(in crate::flow) struct Order {
    /// The learnings as its prompt shows them.
    pub merging: prompt::Merging,
    /// The entries in its prompt, in order.
    entries: Vec<Uuid>,
}

impl Order {
    /// The entries that its prompt shows, for storage: a purge finds the prompt by them.
    pub(in crate::flow) fn uses(&self, dispatch: DispatchId) -> impl Iterator<Item = Use> {
        self.entries.iter().zip(0..).map(move |(entry, place)| Use {
            dispatch: dispatch.0,
            kind: EntryKind::Learning,
            entry: *entry,
            place,
            score: 0.0,
            left_out: None,
        })
    }
}

/// Learnings that opened sessions merge.
pub(in crate::flow) async fn merging(
    conn: &mut PgConnection,
    opened: &[Opened],
) -> sqlx::Result<HashMap<TaskId, Order>> {
    let tasks: Vec<Uuid> = opened
        .iter()
        .filter(|d| d.kind == SessionKind::Distill)
        .map(|d| d.task.0)
        .collect();
    if tasks.is_empty() {
        return Ok(HashMap::new());
    }
    let ordered = store::memory::distill::ordered(conn, &tasks).await?;
    Ok(ordered
        .into_iter()
        .map(|order| (order.task, live(order)))
        .collect())
}

/// The entries of an order that are still live.
fn live(order: store::memory::distill::Ordered) -> Order {
    let live = order.entries.into_iter().filter(|entry| entry.live);
    let (entries, learnings) = live
        .map(|entry| {
            let mergeable = prompt::Mergeable {
                id: memory_id(EntryKind::Learning, entry.id),
                category: entry.category,
                tags: entry.tags,
                text: format!("{}\n{}", entry.title, entry.body).trim().to_owned(),
            };
            (entry.id, mergeable)
        })
        .unzip();
    Order {
        merging: prompt::Merging {
            tag: order.tag,
            learnings,
        },
        entries,
    }
}

/// Answer of a merging session.
#[derive(Debug, Clone)]
pub(in crate::flow) struct MergedLearnings {
    pub task: TaskId,
    pub source: Source,
    pub learnings: Vec<Learning>,
    pub knowledge: Vec<Knowledge>,
}

/// Takes a session's answer: its learnings replace the ones that they merge. If any entry of its prompt was
/// revoked or corrected meanwhile, the answer is ignored, since it may contain that entry.
pub(in crate::flow) async fn take(conn: &mut PgConnection, answer: &MergedLearnings) -> sqlx::Result<()> {
    let task = answer.task;
    let Some(order) = store::memory::distill::ordered(conn, &[task.0]).await?.pop() else {
        return store::memory::distill::close(conn, task, 0, 0).await;
    };
    store::memory::library::lock(conn, &[&order.repo_id]).await?;
    // Read again under the lock.
    let entries = match store::memory::distill::ordered(conn, &[task.0]).await?.pop() {
        Some(order) => order.entries,
        None => Vec::new(),
    };
    let all = i64::try_from(entries.len()).ok();
    if entries.iter().any(|entry| !entry.live) || store::memory::distill::given(conn, task).await? != all {
        tracing::info!(task = %answer.task, "an entry to merge changed meanwhile, so the answer is ignored");
        return store::memory::distill::close(conn, task, 0, 0).await;
    }
    let sources: Vec<Uuid> = entries.iter().map(|entry| entry.id).collect();
    let given: HashMap<String, Uuid> = sources
        .iter()
        .map(|id| (memory_id(EntryKind::Learning, *id), *id))
        .collect();
    let claimed: Vec<Vec<String>> = answer.learnings.iter().map(|one| one.merges.clone()).collect();
    let (mut made, mut merged) = (0, 0);
    for (learning, old) in answer.learnings.iter().zip(mergers(&given, &claimed)) {
        if old.is_empty() {
            continue;
        }
        let new = GivenEntry {
            paths: paths(&entries, &old),
            ..entry(
                &order.repo_id,
                EntryKind::Learning,
                learning.category.as_str(),
                &learning.tags,
                &learning.body,
            )
        };
        keep(conn, answer, &new, &old, &sources).await?;
        (made, merged) = (made + 1, merged + old.len());
    }
    for knowledge in &answer.knowledge {
        let new = GivenEntry {
            title: knowledge.title.clone(),
            ..entry(
                &order.repo_id,
                EntryKind::Knowledge,
                "",
                &knowledge.tags,
                &knowledge.body,
            )
        };
        keep(conn, answer, &new, &[], &sources).await?;
    }
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    store::memory::distill::close(conn, task, count(made), count(merged)).await
}

fn entry(repo_id: &str, kind: EntryKind, category: &str, tags: &[String], body: &str) -> GivenEntry {
    GivenEntry {
        id: Uuid::now_v7(),
        repo_id: repo_id.to_owned(),
        kind,
        origin: Origin::Distilled,
        category: category.to_owned(),
        title: String::new(),
        body: capture::bounded(body),
        tags: tags.to_vec(),
        paths: Vec::new(),
        feature: None,
        created_at: OffsetDateTime::now_utc(),
        external_id: None,
    }
}

/// The files of merged entries, each once.
fn paths(entries: &[Mergeable], merged: &[Uuid]) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let of = entries.iter().filter(|entry| merged.contains(&entry.id));
    for path in of.flat_map(|entry| &entry.paths) {
        if paths.len() < MAX_PATHS && !paths.contains(path) {
            paths.push(path.clone());
        }
    }
    paths
}

/// Stores and indexes one entry that replaces the merged ones.
async fn keep(
    conn: &mut PgConnection,
    answer: &MergedLearnings,
    new: &GivenEntry,
    merged: &[Uuid],
    sources: &[Uuid],
) -> sqlx::Result<()> {
    let stored = store::memory::library::insert_given(conn, std::slice::from_ref(new)).await?;
    let from = (answer.task, DispatchId(answer.source.dispatch));
    store::memory::distill::supersede(conn, new.id, from, merged, sources).await?;
    store::memory::index::remove(conn, merged).await?;
    library::index(conn, &stored).await
}
