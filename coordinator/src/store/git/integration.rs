//! Integrations: the turn, the decision, the landing (DESIGN 6).

use ralph_shared::attempts::AttemptPlace;
use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

/// A lost check is not repeated after this many checks.
const LOST_CHECKS: i32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "integration_state", rename_all = "snake_case")]
pub enum IntegrationState {
    /// In the feature's queue.
    Waiting,
    /// It has the turn: a dispatch rebases it.
    Turn,
    /// Old and new head are fixed; a worker pushes the new one.
    Decided,
    /// Landed.
    Merged,
    /// It conflicts with the head.
    Conflict,
    /// The command gate refused it.
    GateFailed,
    /// The remote refused it for good.
    Failed,
    /// A person took the task away before the decision.
    Withdrawn,
    /// It landed and was reverted.
    Reverted,
}

#[derive(Debug, Clone)]
pub struct Integration {
    pub id: Uuid,
    pub feature: FeatureId,
    pub task: TaskId,
    pub attempt: i32,
    pub source_commit: String,
    pub source_ref: String,
    pub state: IntegrationState,
    pub dispatch: Option<DispatchId>,
    pub old: Option<String>,
    pub new: Option<String>,
    pub new_ref: Option<String>,
    /// Dispatches that tried to land it, except those that could not reach the repository.
    pub tries: i32,
    /// Consecutive dispatches that could not reach the repository.
    pub away: i32,
    /// Whether an agent judged and passed exactly the source commit.
    pub judged: bool,
    /// Whether a person approved the attempt as it is.
    pub approved: bool,
    /// The model of the attempt, if one was chosen.
    pub model: Option<String>,
}

/// Queues a passed attempt for its feature's turn. `approved`: a person accepted it as it is.
pub async fn queue(
    conn: &mut PgConnection,
    feature: FeatureId,
    task: TaskId,
    attempt: i32,
    commit: &str,
    source_ref: &str,
    approved: bool,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into integrations (id, feature_id, task_id, attempt, source_commit, source_ref, approved, state, queued_at)
         values ($1, $2, $3, $4, $5, $6, $7, 'waiting', clock_timestamp())",
        Uuid::now_v7(),
        feature.0,
        task.0,
        attempt,
        commit,
        source_ref,
        approved,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn open_of_tasks(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<Integration>> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"select i.id, i.feature_id, i.task_id, i.attempt, i.source_commit, i.source_ref,
                  i.state as "state: IntegrationState", i.dispatch_id, i.old, i.new, i.new_ref, i.tries,
                  i.away_tries, i.approved,
                  coalesce((
                    select true from dispatches v
                    where v.task_id = i.task_id and v.kind = 'verify' and v.outcome = 'passed'
                      and v.start_commit = i.source_commit
                    limit 1
                  ), false) as "judged!",
                  (select coalesce(m.model_used, m.model) from dispatches m
                   where m.task_id = i.task_id and m.attempt = i.attempt and m.kind in ('work', 'review')
                   order by m.claimed_at desc, m.id desc
                   limit 1) as model
           from integrations i
           where i.task_id = any($1) and i.state in ('waiting', 'turn', 'decided')"#,
        tasks,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Integration {
            id: row.id,
            feature: FeatureId(row.feature_id),
            task: TaskId(row.task_id),
            attempt: row.attempt,
            source_commit: row.source_commit,
            source_ref: row.source_ref,
            state: row.state,
            dispatch: row.dispatch_id.map(DispatchId),
            old: row.old,
            new: row.new,
            new_ref: row.new_ref,
            tries: row.tries,
            away: row.away_tries,
            judged: row.judged,
            approved: row.approved,
            model: row.model,
        })
        .collect())
}

/// For each feature, the task of the next claimable integration. A decided one, or a turn without a holder,
/// goes first. Otherwise the best and oldest one that waits and that no colliding task holds, unless a
/// dispatch holds or checks the turn.
pub async fn next_turns(
    conn: &mut PgConnection,
    features: &[Uuid],
) -> sqlx::Result<Vec<(FeatureId, TaskId)>> {
    let rows = sqlx::query!(
        r#"select f.id as "feature_id!", next.task_id as "task_id!"
           from unnest($1::uuid[]) as f(id)
           cross join lateral (
             select exists (select 1 from tasks c where c.feature_id = f.id and c.conflicts >= 2) as any
           ) colliding
           cross join lateral (
             -- Until the gate is known to pass on the base, nothing lands but what was decided.
             select coalesce((
               select true
               from features g
               cross join lateral (
                 select 1 from tasks
                 where id = g.check_task and state not in ('done', 'skipped', 'cancelled')
                 limit 1
               ) c
               where g.id = f.id
               limit 1
             ), false) as any
           ) checking
           cross join lateral (
             select i.task_id, i.dispatch_id, i.state, i.cleared
             from integrations i
             join tasks t on t.id = i.task_id
             where i.feature_id = f.id and i.state in ('waiting', 'turn', 'decided')
               and not (checking.any and i.state <> 'decided')
               and not (colliding.any and i.state = 'waiting' and held_by_collision(i))
             -- What conflicted twice goes before what could make it conflict again.
             order by i.state = 'waiting', t.conflicts < 2, t.priority, i.queued_at, i.id
             limit 1
           ) next
           where next.dispatch_id is null
             -- What lands in batches waits for the gate's word.
             and (next.state <> 'waiting' or next.cleared or not coalesce((
               select r.landing = 'batch' and r.gate <> '{}'
               from features g join runs r on r.id = g.current_run
               where g.id = f.id
             ), false))
             -- One that is queued already keeps its place, whatever goes before it by now: two would claim one turn.
             and not exists (
               select 1 from integrations i join ready_tasks r on r.task_id = i.task_id and r.kind = 'integrate'
               where i.feature_id = f.id and i.task_id <> next.task_id and i.state in ('waiting', 'turn', 'decided')
             )"#,
        features,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (FeatureId(row.feature_id), TaskId(row.task_id)))
        .collect())
}

/// Gives the turn of a task's integration to a dispatch; a decided one stays decided. A verification within
/// the turn does not count as a try to land.
pub async fn give_turn(conn: &mut PgConnection, tasks: &[Uuid], dispatches: &[Uuid]) -> sqlx::Result<u64> {
    let given = sqlx::query!(
        "update integrations i
         set dispatch_id = g.dispatch_id,
             tries = tries + (select count(*)::int from tasks t where t.id = i.task_id and t.next_kind = 'integrate'),
             state = case when i.state = 'decided' then i.state else 'turn' end
         from unnest($1::uuid[], $2::uuid[]) as g(task_id, dispatch_id)
         where i.task_id = g.task_id and i.state in ('waiting', 'turn', 'decided')",
        tasks,
        dispatches,
    )
    .execute(conn)
    .await?;
    Ok(given.rows_affected())
}

/// Takes the turn from lost dispatches: an undecided integration waits again, a decided one stays decided. A
/// lost check proves nothing. An attempt that is verified within its turn keeps the turn for the next
/// verifier.
pub async fn release_turn(conn: &mut PgConnection, dispatches: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "update integrations
         set dispatch_id = null,
             -- What its worker died of may have been the gate.
             check_result = case when state = 'waiting' and checks >= $2 then 'lost' else check_result end,
             state = case
               when state = 'turn' and (select next_kind from tasks where id = task_id) <> 'verify' then 'waiting'
               else state
             end
         where dispatch_id = any($1) and state in ('waiting', 'turn', 'decided')",
        dispatches,
        LOST_CHECKS,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores the decision of the turn's holder. Also `true` when the same decision was stored before.
pub async fn decide(
    conn: &mut PgConnection,
    dispatch: DispatchId,
    old: &str,
    new: &str,
    new_ref: &str,
) -> sqlx::Result<bool> {
    let decided = sqlx::query!(
        "update integrations
         set state = 'decided', old = $2, new = $3, new_ref = $4, decided_at = coalesce(decided_at, now())
         where dispatch_id = $1
           and (state = 'turn' or (state = 'decided' and old = $2 and new = $3))",
        dispatch.0,
        old,
        new,
        new_ref,
    )
    .execute(conn)
    .await?;
    Ok(decided.rows_affected() == 1)
}

/// Paths and tasks of a conflict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collision {
    pub paths: Vec<String>,
    /// Last twelve digits of the ids of the tasks on the other side.
    pub others: Vec<String>,
}

/// The end of an integration.
#[derive(Debug, Clone)]
pub struct ClosedIntegration {
    pub task: TaskId,
    /// A final state.
    pub state: IntegrationState,
    /// Its commit on the branch.
    pub landed: Option<String>,
    /// Whether it landed without a change, since the branch already contained it.
    pub empty: bool,
    pub collision: Collision,
    /// The gate's output, without parts that differ from run to run.
    pub gate_signature: Option<String>,
}

impl ClosedIntegration {
    pub fn without_landing(task: TaskId, state: IntegrationState) -> Self {
        Self {
            task,
            state,
            landed: None,
            empty: false,
            collision: Collision::default(),
            gate_signature: None,
        }
    }
}

pub async fn close(conn: &mut PgConnection, closed: &ClosedIntegration) -> sqlx::Result<()> {
    sqlx::query!(
        "update integrations
         set state = $2, landed_commit = $3, empty = $4, conflict_paths = $5, collided = $6, ended_at = now(),
             gate_signature = $7, dispatch_id = null
         where task_id = $1 and state in ('waiting', 'turn', 'decided')",
        closed.task.0,
        closed.state as IntegrationState,
        closed.landed.as_deref(),
        closed.empty,
        &closed.collision.paths,
        &closed.collision.others,
        closed.gate_signature.as_deref(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns an integration to the queue, where it keeps its place.
pub async fn requeue(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<()> {
    sqlx::query!(
        "update integrations
         set state = 'waiting', dispatch_id = null, old = null, new = null, new_ref = null, decided_at = null,
             ahead = null, check_result = null, checked_tree = null
         where task_id = $1 and state in ('turn', 'decided')",
        task.0,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records that a dispatch could not reach the repository, which does not count as a try to land, or that one
/// reached it again.
pub async fn note_away(conn: &mut PgConnection, task: TaskId, is_away: bool) -> sqlx::Result<()> {
    sqlx::query!(
        "update integrations
         set tries = case when $2::bool then greatest(tries - 1, 0) else tries end,
             away_tries = case when $2::bool then away_tries + 1 else 0 end
         where task_id = $1 and state in ('waiting', 'turn', 'decided')",
        task.0,
        is_away,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Has the attempt judged again within its turn, on the branch's head. Nothing else of the feature lands
/// meanwhile.
pub async fn judge_again(
    conn: &mut PgConnection,
    task: TaskId,
    commit: &str,
    commit_ref: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update integrations
         set source_commit = $2, source_ref = $3, dispatch_id = null
         where task_id = $1 and state = 'turn'",
        task.0,
        commit,
        commit_ref,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Frees the turn of these tasks for their next dispatch; decided ones stay decided.
pub async fn keep_turn(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "update integrations set dispatch_id = null where task_id = any($1) and state in ('turn', 'decided')",
        tasks,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Parts of the names of a task's attempt refs.
#[derive(Debug, Clone)]
pub struct RefNames {
    feature: String,
    task: TaskId,
}

impl RefNames {
    pub fn new(feature: &str, task: TaskId) -> Self {
        Self {
            feature: feature.to_owned(),
            task,
        }
    }

    /// `refs/ralph/attempts/<feature>/<task>/<attempt>-<dispatch>`, or the same path below
    /// `refs/heads/ralph-attempts/`. No two dispatches share a ref (DESIGN 6).
    pub fn attempt_ref(&self, place: AttemptPlace, attempt: i32, dispatch: DispatchId) -> String {
        let folder = place.folder();
        format!("{folder}{}/{}/{attempt}-{dispatch}", self.feature, self.task)
    }
}

pub async fn names(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<RefNames>> {
    let feature = sqlx::query_scalar!(
        "select f.name from tasks t join features f on f.id = t.feature_id where t.id = $1",
        task.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(feature.map(|feature| RefNames { feature, task }))
}
