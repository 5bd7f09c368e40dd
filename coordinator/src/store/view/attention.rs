//! Tasks that need a decision: they wait for a person, failed for good, or were cancelled while others wait
//! for them. Each with a person's choices.

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::task::TaskRef;
use crate::domain::states::{TaskState, Verification};
use crate::domain::status::choices::{self, Choices};

/// Reads this many of the newest tasks that failed or need a person.
const NEWEST_TASKS: i64 = 10_000;
/// Names tasks of larger features by id, since a look-up of a key reads all of a feature's tasks.
const MOST_NAMED: i32 = 2_000;

/// A task that a person has to decide on.
#[derive(Debug, Clone)]
pub struct Asking {
    pub id: TaskId,
    pub feature: String,
    /// `FEATURE/KEY`, or the id where the key is ambiguous.
    pub name: String,
    pub title: String,
    pub state: TaskState,
    pub reason: Option<String>,
    /// End of its last session.
    pub since: Option<OffsetDateTime>,
    pub choices: Choices,
    pub is_approval: bool,
    /// Whether its last session ended because nobody answered it.
    pub asks: bool,
}

impl From<Asking> for TaskRef {
    fn from(task: Asking) -> Self {
        Self {
            id: task.id.short(),
            title: task.title,
            status: task.state,
            reason: task.reason,
            name: Some(task.name),
            commands: task.choices.all(),
        }
    }
}

/// Tasks to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionScope {
    /// Tasks of one feature that wait for a person or failed.
    Of(FeatureId),
    /// Such tasks of all unfinished features.
    All,
    /// Cancelled tasks of a feature that others wait for.
    Cancelled(FeatureId),
}

/// Reads these tasks, the oldest first, at most `limit`.
pub async fn asking(conn: &mut PgConnection, which: AttentionScope, limit: i64) -> sqlx::Result<Vec<Asking>> {
    let (feature, cancelled) = match which {
        AttentionScope::Of(feature) => (Some(feature.0), false),
        AttentionScope::All => (None, false),
        AttentionScope::Cancelled(feature) => (Some(feature.0), true),
    };
    let rows = sqlx::query!(
        r#"select t.id, t.feature_id, f.name as feature, x.key, x.title, t.state as "state: TaskState", x.reason,
                  t.role as "role: SessionKind", t.verification as "verification: Verification",
                  last.settled_at as "since?", last.settled_at is not null as "has_session!",
                  coalesce(last.failure = 'unanswered', false) as "asks!",
                  (select count(*) from (select 1 from features g where g.name = f.name limit 2) named) = 1 as "named!",
                  case when f.pending + f.blocked + f.done + f.failed + f.cancelled + f.skipped + f.needs_review <= $3 then (
                    select count(*)
                    from (select 1
                          from tasks o
                          join task_texts y on y.task_id = o.id
                          where o.feature_id = f.id and y.key = x.key
                          limit 2) keyed
                  ) = 1 else false end as "keyed!",
                  case t.role
                    when 'spec' then texts.spec is not null
                    when 'plan' then texts.plan is not null
                    when 'build' then texts.proposed_graph is not null
                    else coalesce((
                      select true
                      from dispatches d
                      where d.task_id = t.id and d.kind in ('work', 'review') and d.commit is not null and d.pushed_ref is not null
                      limit 1
                    ), false)
                  end as "has_result!"
           from (
             select task_id
             from (select task_id from task_texts where reason is not null order by task_id desc limit $4) newest
             where $1::uuid is null
             union all
             select id
             from tasks
             where feature_id = $1 and children = 0
               and case when $2 then state = 'cancelled' else state in ('needs_review', 'failed') end
           ) asked
           cross join lateral (select * from tasks where id = asked.task_id limit 1) t
           join task_texts x on x.task_id = t.id
           join features f on f.id = t.feature_id
           join feature_texts texts on texts.feature_id = f.id
           left join lateral (
             select settled_at, failure from dispatches where task_id = t.id and settled_at is not null order by id desc limit 1
           ) last on true
           where t.children = 0
             and case when $2 then exists (
                        select
                        from dependencies e
                        join tasks w on w.id = e.task_id
                        where e.blocker_id = t.id and w.state = 'blocked'
                      )
                      else t.state in ('needs_review', 'failed') end
             and ($1 is not null or f.state not in ('done', 'cancelled'))
           order by t.id
           limit $5"#,
        feature,
        cancelled,
        MOST_NAMED,
        NEWEST_TASKS,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let id = TaskId(row.id);
            let feature = match row.named {
                true => row.feature,
                false => FeatureId(row.feature_id).short(),
            };
            let name = match row.keyed {
                true => format!("{feature}/{}", row.key),
                false => id.short(),
            };
            let facts = choices::Facts {
                feature: &feature,
                task: &name,
                state: row.state,
                role: row.role,
                verification: row.verification,
                has_result: row.has_result,
                has_session: row.has_session,
            };
            let (choices, is_approval) = (choices::of(&facts), choices::is_approval(&facts));
            Asking {
                id,
                feature,
                name,
                title: row.title,
                state: row.state,
                reason: row.reason,
                since: row.since,
                choices,
                is_approval,
                asks: row.asks && row.state == TaskState::NeedsReview,
            }
        })
        .collect())
}
