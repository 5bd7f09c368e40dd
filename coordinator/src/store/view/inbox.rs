//! Everything that waits for a person, over all features, with the person's choices.

pub use ralph_api::view::{ConditionCount, InboxItem, InboxKind, InboxView};
use ralph_shared::wire::Concerns;
use sqlx::PgConnection;
use uuid::Uuid;

use super::attention::{Asking, AttentionScope, asking};
use super::dispatch::QuestionView;
use super::feature::{FeatureView, TaskCounts, features};
use super::progress::next_of;
use super::system::cost_of;
use super::worker::{WorkerView, shown};
use crate::domain::budget::levels::Hold;
use crate::domain::status::condition::Word;
use crate::domain::status::why_waiting::line;
use crate::store;
use crate::store::dispatch::DispatchState;
use crate::store::memory::worth::SwitchedOff;
use crate::store::view::WaitingView;
use crate::store::view::availability::{sites, waiting};

/// Most choices of a question that get a command.
const MOST_CHOICES: usize = 5;
/// Most tasks, features and questions to name, of each.
const NAMED: i64 = 500;
/// Newest features to sum up.
const SUMMED: i64 = 500;
/// Most queued tasks to count.
const COUNTED: i64 = 10_000;

/// A worker without a heartbeat within `lease_ms` counts as unable to start anything.
pub async fn inbox(conn: &mut PgConnection, lease_ms: i64) -> sqlx::Result<InboxView> {
    let mut items = Vec::new();
    let tasks = asking(conn, AttentionScope::All, NAMED).await?;
    let failed_in: Vec<String> = tasks.iter().map(|task| task.feature.clone()).collect();
    let asked = questions(conn).await?;
    // A task that only waits for an answer is listed once, as its question.
    let is_asked = |task: &Asking| {
        task.asks
            && asked
                .iter()
                .any(|item| item.task.as_deref() == Some(&*task.id.short()))
    };
    items.extend(tasks.into_iter().filter(|task| !is_asked(task)).map(of_task));
    items.extend(asked);
    for (handle, id, feature) in in_need(conn).await? {
        if let Some(item) = of_feature(conn, &handle, id, &feature, &failed_in).await? {
            items.push(item);
        }
    }
    for reason in store::budget::reasons(conn, NAMED).await? {
        items.extend(of_limit(&reason));
    }
    let workers = store::worker::list(conn, lease_ms).await?;
    let accounts = store::availability::not_open(conn).await?;
    let queued = store::queue::ready::queued(conn, None, COUNTED).await?;
    let lacking = waiting(&queued, &sites(&workers, &accounts));
    items.extend(lacking.iter().filter(|one| one.door.is_none()).map(of_pool));
    items.extend(shown(workers, &accounts).iter().flat_map(of_agents));
    let switched_off = store::memory::worth::switched_off(conn).await?;
    items.extend(switched_off.into_iter().map(of_memory));
    items.sort_by_key(|item| item.kind);
    let ids = sqlx::query_scalar!("select id from features order by id desc limit $1", SUMMED)
        .fetch_all(&mut *conn)
        .await?;
    let all = features(conn, &ids).await?;
    Ok(InboxView {
        items,
        features: counted(&all),
        tasks: all
            .iter()
            .fold(TaskCounts::default(), |sum, feature| sum.and(&feature.tasks)),
        cost_usd: all
            .iter()
            .fold(cost_of(&all), |sum, feature| sum + feature.in_flight_usd),
        estimated: all.iter().any(|feature| feature.estimated),
    })
}

fn counted(features: &[FeatureView]) -> Vec<ConditionCount> {
    let mut counts: Vec<ConditionCount> = Vec::new();
    for feature in features {
        let word = feature.condition.word;
        match counts.iter_mut().find(|count| count.word == word) {
            Some(count) => count.features += 1,
            None => counts.push(ConditionCount { word, features: 1 }),
        }
    }
    counts
}

fn of_pool(waiting: &WaitingView) -> InboxItem {
    InboxItem {
        kind: InboxKind::Worker,
        name: format!("pool {}", waiting.pool),
        reason: waiting.to_string(),
        commands: vec![format!("ralph-worker run --pool {}", waiting.pool)],
        ..InboxItem::empty()
    }
}

fn of_memory(off: SwitchedOff) -> InboxItem {
    InboxItem {
        kind: InboxKind::Memory,
        commands: vec![
            format!("ralph memory report --repo '{}'", off.repo_id),
            format!("ralph memory resume --repo '{}'", off.repo_id),
        ],
        name: off.repo_id,
        reason: format!("its memory is switched off: {}", off.reason),
        since: Some(off.off_since),
        ..InboxItem::empty()
    }
}

fn of_task(task: Asking) -> InboxItem {
    let kind = match task.state {
        crate::domain::states::TaskState::Failed => InboxKind::Failed,
        _ if task.is_approval => InboxKind::Approval,
        _ => InboxKind::Review,
    };
    InboxItem {
        kind,
        name: task.name,
        feature: Some(task.feature),
        task: Some(task.id.short()),
        title: Some(task.title),
        reason: task.reason.unwrap_or_else(|| "no reason given".to_owned()),
        since: task.since,
        commands: task.choices.all(),
        question: None,
    }
}

/// Features that may need a decision as a whole, by name or id.
async fn in_need(conn: &mut PgConnection) -> sqlx::Result<Vec<(String, Uuid, FeatureView)>> {
    let rows = sqlx::query!(
        r#"select f.id, (select count(*) from (select 1 from features g where g.name = f.name limit 2) named) = 1 as "named!"
           from features f
           where f.state in ('planned', 'ready', 'failed', 'paused')
           order by f.id desc
           limit $1"#,
        NAMED,
    )
    .fetch_all(&mut *conn)
    .await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let views = features(conn, &ids).await?;
    let named = rows.into_iter().zip(views).map(|(row, view)| {
        let handle = match row.named {
            true => view.name.clone(),
            false => view.id.clone(),
        };
        (handle, row.id, view)
    });
    Ok(named.collect())
}

/// The decision that a feature needs as a whole; `None` when it needs none, or when one of its tasks explains
/// it.
async fn of_feature(
    conn: &mut PgConnection,
    handle: &str,
    id: Uuid,
    feature: &FeatureView,
    asking: &[String],
) -> sqlx::Result<Option<InboxItem>> {
    let is_listed = asking.iter().any(|name| name == handle);
    let kind = match feature.condition.word {
        Word::Limit => InboxKind::Limit,
        Word::Ready | Word::Stopped => InboxKind::Run,
        Word::Paused => InboxKind::Paused,
        Word::Blocked if !is_listed => InboxKind::Blocked,
        Word::Failed if !is_listed => InboxKind::Failed,
        _ => return Ok(None),
    };
    let named = FeatureView {
        name: handle.to_owned(),
        ..feature.clone()
    };
    let next = next_of(conn, ralph_shared::ids::FeatureId(id), &named, &[]).await?;
    let run = feature.run.as_ref();
    let mut commands = vec![format!("ralph feature show {handle}")];
    commands.extend(next.map(|next| next.command));
    let again = format!("ralph feature run {handle}");
    if feature.needs_run && !commands.contains(&again) {
        commands.push(again);
    }
    Ok(Some(InboxItem {
        kind,
        name: handle.to_owned(),
        feature: Some(handle.to_owned()),
        reason: match run.and_then(|run| run.reason.as_deref()) {
            Some(reason) => format!("{}: {reason}", feature.condition),
            None => feature.condition.to_string(),
        },
        since: run.and_then(|run| run.ended_at),
        commands,
        ..InboxItem::empty()
    }))
}

/// Unanswered questions on unfinished tasks, unless a later session continued without an answer.
async fn questions(conn: &mut PgConnection) -> sqlx::Result<Vec<InboxItem>> {
    let rows = sqlx::query!(
        r#"select f.name as feature, x.title, q.id, q.asked, q.choices, q.asked_at, q.waits_until, t.id as task,
                  d.state as "state: DispatchState"
           from (select * from questions where answer is null order by asked_at desc limit $1) q
           join tasks t on t.id = q.task_id
           join features f on f.id = t.feature_id
           join task_texts x on x.task_id = t.id
           join dispatches d on d.id = q.dispatch_id
           where t.state in ('pending', 'blocked', 'in_progress', 'needs_review', 'failed')
             and f.state not in ('done', 'cancelled')
             and not exists (
               select from dispatches o
               where o.task_id = t.id and o.id > d.id and o.kind not in ('verify', 'integrate', 'check')
             )
           order by q.asked_at, q.id"#,
        NAMED,
    )
    .fetch_all(conn)
    .await?;
    let items = rows.into_iter().map(|row| {
        let task = ralph_shared::ids::TaskId(row.task).short();
        let question = QuestionView {
            id: row.id,
            asked: row.asked,
            choices: row.choices,
            asked_at: row.asked_at,
            waits_until: row.waits_until.filter(|_| row.state == DispatchState::Live),
            answer: None,
            answered_by: None,
            answered_at: None,
        };
        InboxItem {
            kind: InboxKind::Question,
            name: task.clone(),
            feature: Some(row.feature),
            title: Some(row.title),
            reason: line(&question.words()),
            since: Some(row.asked_at),
            commands: answer_commands(&task, question.choices.len())
                .chain([format!("ralph logs {task}")])
                .collect(),
            question: Some(question),
            task: Some(task),
        }
    });
    Ok(items.collect())
}

/// A command for each choice; without choices, one command that takes any words.
fn answer_commands(task: &str, choices: usize) -> impl Iterator<Item = String> {
    let answer = format!("ralph task answer {task}");
    let of_choice = |number: usize| match choices {
        0 => answer.clone(),
        _ => format!("{answer} --choice {number}"),
    };
    (1..=choices.clamp(1, MOST_CHOICES))
        .map(of_choice)
        .collect::<Vec<_>>()
        .into_iter()
}

/// A limit that lets nothing start, except those of features and tasks.
fn of_limit(reason: &str) -> Option<InboxItem> {
    let hold = Hold::read(reason)?;
    // A feature that its own limit holds is an item itself.
    (!hold.words.starts_with("feature ") && !hold.words.starts_with("task ")).then(|| InboxItem {
        kind: InboxKind::Limit,
        name: hold.words.split(' ').next().unwrap_or_default().to_owned(),
        reason: hold.words.clone(),
        commands: vec!["ralph budget".to_owned(), hold.raises.clone()],
        ..InboxItem::empty()
    })
}

/// Agents of a worker that only a person can repair.
fn of_agents(worker: &WorkerView) -> Vec<InboxItem> {
    let doors = worker.doors.iter();
    let concerned = doors.filter(|door| door.door.concerns() == Concerns::Agent);
    concerned
        .map(|door| InboxItem {
            kind: InboxKind::Agent,
            name: format!("{} on {}", door.agent, worker.name),
            reason: line(&door.to_string()),
            commands: vec![
                format!("ralph worker show {}", worker.name),
                "ralph-worker doctor".to_owned(),
            ],
            ..InboxItem::empty()
        })
        .collect()
}
