//! Known results of a feature's gate on its base commit.

use std::collections::HashMap;

pub use ralph_api::view::{GateState, GateView};
use sqlx::PgConnection;
use uuid::Uuid;

/// The gates of features that have one and a repository.
pub(super) async fn gates(
    conn: &mut PgConnection,
    features: &[Uuid],
) -> sqlx::Result<HashMap<Uuid, GateView>> {
    let rows = sqlx::query!(
        r#"select f.id, f.base_commit as "base_commit!", r.gate as "gate!", r.gate_may_fail as "may_fail!",
                  c.id as "task?", c.is_over as "is_over?", g.passed as "passed?", g.command, g.output, g.worker as "worker?",
                  g.duration_ms as "duration_ms?", g.checked_at as "checked_at?",
                  (select count(*) from gate_checks k
                   where k.repo_id = f.repo_id and k.gate_hash = md5(array_to_json(r.gate)::text) and k.passed and k.failures > 0)
                    as "flaky!"
           from unnest($1::uuid[]) as wanted(id)
           cross join lateral (
             select id, repo_id, base_commit, current_run, check_task
             from features
             where id = wanted.id and repo_address is not null and base_commit is not null
             limit 1
           ) f
           cross join lateral (
             select gate, gate_may_fail
             from runs
             where feature_id = f.id
             order by id is not distinct from f.current_run desc, started_at desc
             limit 1
           ) r
           left join lateral (
             select id, state in ('done', 'skipped', 'cancelled') as is_over
             from tasks
             where id = f.check_task
             limit 1
           ) c on true
           left join gate_checks g
             on g.repo_id = f.repo_id and g.base_commit = f.base_commit
             and g.gate_hash = md5(array_to_json(r.gate)::text)
           where cardinality(r.gate) > 0"#,
        features,
    )
    .fetch_all(conn)
    .await?;
    // Runs of earlier releases do not check their gate.
    let asked = rows
        .into_iter()
        .filter(|row| row.may_fail || row.task.is_some() || row.passed.is_some());
    let gates = asked.map(|row| {
        let gate = GateView {
            commands: row.gate,
            base_commit: row.base_commit,
            state: state(row.may_fail, row.passed, row.is_over == Some(true)),
            task: row.task.map(|id| ralph_shared::ids::TaskId(id).short()),
            failed_command: row.command,
            output: row.output,
            flaky_trees: row.flaky,
            worker: row.worker,
            duration_ms: row.duration_ms,
            checked_at: row.checked_at,
        };
        (row.id, gate)
    });
    Ok(gates.collect())
}

fn state(may_fail: bool, passed: Option<bool>, is_over: bool) -> GateState {
    match passed {
        _ if may_fail => GateState::MayFail,
        Some(true) => GateState::Passed,
        _ if is_over => GateState::MayFail,
        Some(false) => GateState::Failed,
        None => GateState::Unknown,
    }
}
