//! Features: the row with its counters, and the texts.

pub mod branch;
pub mod hook;
pub mod original;
pub mod priority;
pub mod schedule;

use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::MergeHow;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::domain::run::RunSettings;
use crate::domain::states::{FailurePolicy, FeatureState, TaskState};
use crate::domain::status::counts::Counts;
use crate::store::feature::priority::Precedence;

#[derive(Debug, Clone)]
pub struct NewFeature {
    pub id: FeatureId,
    pub name: String,
    pub repo_id: String,
    pub repo_address: Option<String>,
    pub base_ref: Option<String>,
    pub base_commit: Option<String>,
    pub branch: Option<String>,
    pub max_parallel: i32,
    pub failure_policy: FailurePolicy,
    pub description: String,
    pub spec: Option<String>,
    pub plan: Option<String>,
    /// Steps whose result a person approves.
    pub approve: Vec<SessionKind>,
    pub review_rounds: i32,
    /// How to merge it into its base at its end.
    pub merge: Option<MergeHow>,
    /// Whether tasks on the same paths run one after the other.
    pub avoid_conflicts: bool,
    /// The folder that its tasks work in, on the machine of their pool.
    pub dir: Option<String>,
    pub precedence: Precedence,
}

impl NewFeature {
    /// A feature without a repository. Its tasks run one after the other, and failures do not stop it.
    pub fn new(name: String, repo_id: String) -> Self {
        Self {
            id: FeatureId::new(),
            name,
            repo_id,
            repo_address: None,
            base_ref: None,
            base_commit: None,
            branch: None,
            max_parallel: 1,
            failure_policy: FailurePolicy::Continue,
            description: String::new(),
            spec: None,
            plan: None,
            approve: Vec::new(),
            review_rounds: 0,
            merge: None,
            avoid_conflicts: false,
            dir: None,
            precedence: Precedence::default(),
        }
    }
}

/// Inserts a feature with its first run. `false` when its repository has a feature of that name.
pub async fn insert(
    conn: &mut PgConnection,
    new: &NewFeature,
    held: &Locked,
    run: Option<&RunSettings>,
) -> sqlx::Result<bool> {
    let first = run.cloned().unwrap_or_default();
    let count = |state| held.counts.of(state);
    let inserted = sqlx::query!(
        "with feature as (
           insert into features
             (id, name, repo_id, repo_address, base_ref, base_commit, branch, max_parallel, failure_policy,
              approve, review_rounds, merge, avoid_conflicts, dir, state, current_run, pending, blocked, done, failed,
              cancelled, skipped, needs_review)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $18, $19, $20, $21, $22, $23, $24, $25, $26)
           on conflict (repo_id, name) do nothing
           returning id
         ), run as (
           insert into runs
             (id, feature_id, max_iterations, max_time_ms, max_cost_usd, max_tokens, session_ms, idle_ms, output_bytes,
              backoff_ms, model, model_strategy, agent, gate, limit_grows, review, gate_may_fail, protect,
              landing, max_speculation, gate_retries, iterations, gate_steps, cold)
           select $19, id, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42,
                  $43, $44, $45, $46, $47, $48
           from feature
           where $19::uuid is not null
         )
         insert into feature_texts (feature_id, description, spec, plan)
         select id, $15, $16, $17 from feature",
        new.id.0,
        new.name,
        new.repo_id,
        new.repo_address,
        new.base_ref,
        new.base_commit,
        new.branch,
        new.max_parallel,
        new.failure_policy as FailurePolicy,
        &new.approve as &[SessionKind],
        new.review_rounds,
        new.merge.map(|one| one.into_str()),
        new.avoid_conflicts,
        new.dir,
        new.description,
        new.spec,
        new.plan,
        held.state as FeatureState,
        held.current_run.map(|run| run.0),
        count(TaskState::Pending),
        count(TaskState::Blocked),
        count(TaskState::Done),
        count(TaskState::Failed),
        count(TaskState::Cancelled),
        count(TaskState::Skipped),
        count(TaskState::NeedsReview),
        first.max_iterations,
        first.max_time_ms,
        first.max_cost_usd,
        first.max_tokens,
        first.session_ms,
        first.idle_ms,
        first.output_bytes,
        first.backoff_ms,
        first.model,
        first.model_strategy.into_str(),
        first.agent,
        &first.gate,
        first.limit_grows,
        first.review,
        first.gate_may_fail,
        &first.protect,
        first.landing.into_str(),
        first.max_speculation,
        first.gate_retries,
        first.first_iteration - 1,
        Json(&first.gate_steps) as _,
        first.cold,
    )
    .execute(conn)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

/// Stores a draft's settings for its first run and for its tasks.
pub async fn keep_draft(
    conn: &mut PgConnection,
    id: FeatureId,
    first_run: &Value,
    task_defaults: &Value,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update features set first_run = $2, task_defaults = $3 where id = $1",
        id.0,
        first_run,
        task_defaults,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The settings that [`keep_draft`] stored, for the run and for tasks.
pub async fn draft(conn: &mut PgConnection, id: FeatureId) -> sqlx::Result<(Option<Value>, Option<Value>)> {
    let row = sqlx::query!(
        "select first_run, task_defaults from features where id = $1",
        id.0
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map_or((None, None), |row| (row.first_run, row.task_defaults)))
}

/// A feature's row while a step holds its lock.
#[derive(Debug, Clone)]
pub struct Locked {
    pub id: FeatureId,
    pub name: String,
    pub repo_id: String,
    pub has_repository: bool,
    /// Whether its tasks work in a folder of one machine.
    pub has_dir: bool,
    pub state: FeatureState,
    pub failure_policy: FailurePolicy,
    pub current_run: Option<RunId>,
    pub approve: Vec<SessionKind>,
    pub review_rounds: i32,
    pub avoid_conflicts: bool,
    pub counts: Counts,
}

impl Locked {
    /// The row that this transaction inserts, without tasks; nobody else can see it yet.
    pub fn inserted(new: &NewFeature) -> Self {
        Self {
            id: new.id,
            name: new.name.clone(),
            repo_id: new.repo_id.clone(),
            has_repository: new.repo_address.is_some(),
            has_dir: new.dir.is_some(),
            state: FeatureState::Draft,
            failure_policy: new.failure_policy,
            current_run: None,
            approve: new.approve.clone(),
            review_rounds: new.review_rounds,
            avoid_conflicts: new.avoid_conflicts,
            counts: Counts::default(),
        }
    }

    pub fn begin(&mut self, run: RunId) {
        self.state = FeatureState::Running;
        self.current_run = Some(run);
    }
}

macro_rules! counts {
    ($row:expr) => {{
        let mut counts = $crate::domain::status::counts::Counts::default();
        counts.add($crate::domain::states::TaskState::Pending, $row.pending);
        counts.add($crate::domain::states::TaskState::Blocked, $row.blocked);
        counts.add($crate::domain::states::TaskState::Done, $row.done);
        counts.add($crate::domain::states::TaskState::Failed, $row.failed);
        counts.add($crate::domain::states::TaskState::Cancelled, $row.cancelled);
        counts.add($crate::domain::states::TaskState::Skipped, $row.skipped);
        counts.add($crate::domain::states::TaskState::NeedsReview, $row.needs_review);
        counts
    }};
}

/// Locks features in the order of their ids: the first lock of every change to a graph (DESIGN 2).
pub async fn lock(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<Locked>> {
    let rows = sqlx::query!(
        r#"select id, name, repo_id, repo_address is not null as "has_repository!", dir is not null as "has_dir!",
                  state as "state: FeatureState", failure_policy as "failure_policy: FailurePolicy", current_run,
                  approve as "approve: Vec<SessionKind>", review_rounds, avoid_conflicts, pending, blocked, done, failed, cancelled, skipped,
                  needs_review
           from features
           where id = any($1)
           order by id
           for no key update"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Locked {
            id: FeatureId(row.id),
            counts: counts!(row),
            name: row.name,
            repo_id: row.repo_id,
            has_repository: row.has_repository,
            has_dir: row.has_dir,
            state: row.state,
            failure_policy: row.failure_policy,
            current_run: row.current_run.map(RunId),
            approve: row.approve,
            review_rounds: row.review_rounds,
            avoid_conflicts: row.avoid_conflicts,
        })
        .collect())
}

/// Writes back changes of locked features.
pub async fn save<'f>(
    conn: &mut PgConnection,
    features: impl Iterator<Item = &'f Locked> + Clone,
) -> sqlx::Result<()> {
    let c = |state| features.clone().map(|f| f.counts.of(state)).collect::<Vec<_>>();
    let ids: Vec<Uuid> = features.clone().map(|feature| feature.id.0).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let runs = features
        .clone()
        .map(|feature| feature.current_run.map(|run| run.0));
    sqlx::query!(
        "update features f
         set state = n.state, current_run = n.current_run, pending = n.pending, blocked = n.blocked, done = n.done,
             failed = n.failed, cancelled = n.cancelled, skipped = n.skipped, needs_review = n.needs_review,
             updated_at = now()
         from unnest($1::uuid[], $2::feature_state[], $3::uuid[], $4::int[], $5::int[], $6::int[], $7::int[], $8::int[],
                     $9::int[], $10::int[])
                as n(id, state, current_run, pending, blocked, done, failed, cancelled, skipped, needs_review)
         where f.id = n.id",
        &ids,
        &features.clone().map(|feature| feature.state).collect::<Vec<_>>() as &[FeatureState],
        &runs.collect::<Vec<_>>() as &[Option<Uuid>],
        &c(TaskState::Pending),
        &c(TaskState::Blocked),
        &c(TaskState::Done),
        &c(TaskState::Failed),
        &c(TaskState::Cancelled),
        &c(TaskState::Skipped),
        &c(TaskState::NeedsReview),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The text of a feature that a step writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    Spec,
    Plan,
    /// A graph that waits for approval.
    ProposedGraph,
}

/// Stores a text of a feature; `None` deletes it.
pub async fn write(
    conn: &mut PgConnection,
    id: FeatureId,
    which: Text,
    text: Option<&str>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update feature_texts
         set spec = case when $2 = 'spec' then $3 else spec end,
             plan = case when $2 = 'plan' then $3 else plan end,
             proposed_graph = case when $2 = 'graph' then $3 else proposed_graph end
         where feature_id = $1",
        id.0,
        match which {
            Text::Spec => "spec",
            Text::Plan => "plan",
            Text::ProposedGraph => "graph",
        },
        text,
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[derive(Debug, Clone, Default)]
pub struct Texts {
    pub description: String,
    pub spec: Option<String>,
    pub plan: Option<String>,
    pub proposed_graph: Option<String>,
}

pub async fn texts(conn: &mut PgConnection, id: FeatureId) -> sqlx::Result<Option<Texts>> {
    sqlx::query_as!(
        Texts,
        "select description, spec, plan, proposed_graph from feature_texts where feature_id = $1",
        id.0
    )
    .fetch_optional(conn)
    .await
}

/// The newest task of a feature, whose settings new tasks inherit, and the number of its reviews.
#[derive(Debug, Clone)]
pub struct Newest {
    pub role: SessionKind,
    pub verify: bool,
    pub max_retries: i32,
    pub pool: String,
    pub reviews: i64,
}

/// The address of a feature's repository, if any; the outer `None` means that there is no such feature.
pub async fn repository(conn: &mut PgConnection, id: FeatureId) -> sqlx::Result<Option<Option<String>>> {
    sqlx::query_scalar!("select repo_address from features where id = $1", id.0)
        .fetch_optional(conn)
        .await
}

pub async fn repo_id(conn: &mut PgConnection, id: FeatureId) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!("select repo_id from features where id = $1", id.0)
        .fetch_optional(conn)
        .await
}

pub async fn newest_task(conn: &mut PgConnection, id: FeatureId) -> sqlx::Result<Option<Newest>> {
    sqlx::query_as!(
        Newest,
        r#"select t.role as "role: SessionKind", t.verify, t.max_retries, x.pool,
                  (select count(*) from tasks r where r.feature_id = $1 and r.role = 'review') as "reviews!"
           from tasks t
           join task_texts x on x.task_id = t.id
           where t.feature_id = $1 and t.role not in ('git', 'check')
           order by t.id desc
           limit 1"#,
        id.0
    )
    .fetch_optional(conn)
    .await
}

/// Whether work was done that the last review did not see: later tasks, or retried ones; without a review,
/// any. A review sees the tasks that are done when its session starts, or when a person ends the review.
pub async fn done_since_review(conn: &mut PgConnection, id: FeatureId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"with last as (
             select t.id, greatest(
                      (select max(claimed_at) from dispatches where task_id = t.id and kind = 'review'),
                      (select max(at) from task_logs where task_id = t.id and what in ('skip', 'cancel', 'done'))
                    ) as seen_at
             from tasks t
             where t.feature_id = $1 and t.role = 'review'
             order by t.id desc
             limit 1
           )
           select coalesce(
                    (select true from tasks
                     where feature_id = $1 and role = 'work' and state = 'done'
                       and id > coalesce((select id from last), '00000000-0000-0000-0000-000000000000')
                     limit 1),
                    (select true
                     from (
                       select task_id
                       from dispatches
                       where feature_id = $1 and journal is not null and kind = 'work' and outcome = 'done'
                         and settled_at > (select seen_at from last)
                       -- A plan reads no others then.
                       order by settled_at, id
                     ) d
                     cross join lateral (
                       select true
                       from tasks
                       where feature_id = $1 and id = d.task_id and role = 'work' and state = 'done'
                       limit 1
                     ) t
                     limit 1),
                    false
                  ) as "done!""#,
        id.0,
    )
    .fetch_one(conn)
    .await
}

/// The task of a feature's step, if any.
pub async fn step(conn: &mut PgConnection, id: FeatureId, role: SessionKind) -> sqlx::Result<Option<TaskId>> {
    let id = sqlx::query_scalar!(
        "select id from tasks where feature_id = $1 and role = $2 order by id desc limit 1",
        id.0,
        role as SessionKind,
    )
    .fetch_optional(conn)
    .await?;
    Ok(id.map(TaskId))
}

pub async fn running(conn: &mut PgConnection) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!("select id from features where state = 'running' order by id")
        .fetch_all(conn)
        .await
}

/// Counters from a recount of the task rows. While the feature is locked, any difference from the stored
/// counters is an error.
pub async fn recount(conn: &mut PgConnection, id: FeatureId) -> sqlx::Result<Counts> {
    let rows = sqlx::query!(
        r#"select state as "state: TaskState", count(*)::int as "n!" from tasks where feature_id = $1 group by state"#,
        id.0,
    )
    .fetch_all(conn)
    .await?;
    let mut counts = Counts::default();
    for row in rows {
        counts.add(row.state, row.n);
    }
    Ok(counts)
}

/// The pool of a feature whose tasks work in a folder.
pub async fn dir_pool(conn: &mut PgConnection, id: FeatureId) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "select coalesce(
                  (select x.pool
                   from tasks t
                   join task_texts x on x.task_id = t.id
                   where t.feature_id = f.id and x.pool like 'dir-%'
                   order by t.id
                   limit 1),
                  -- A draft has no tasks yet.
                  f.task_defaults ->> 'pool'
                )
         from features f
         where f.id = $1 and f.dir is not null",
        id.0,
    )
    .fetch_optional(conn)
    .await
    .map(Option::flatten)
}
