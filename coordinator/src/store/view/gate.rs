//! What is known of a feature's gate on its base commit.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::gate;

/// What is known of the gate on the base commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// It passes there.
    Passed,
    /// It fails there: nothing lands before a person decides.
    Failed,
    /// Nobody knows yet: nothing lands before.
    Unknown,
    /// A person said that it may fail there, or took the check out.
    MayFail,
}

/// The gate of a feature's current or last run, on its base commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GateView {
    /// Its commands.
    pub commands: Vec<String>,
    pub base_commit: String,
    pub state: GateState,
    /// The task that tries it there, if there was need of one.
    pub task: Option<String>,
    /// The command that failed when it was tried last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_command: Option<String>,
    /// The end of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Trees on which it both passed and failed: such a gate says little.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flaky_trees: i64,
    /// Who tried it last, for how long, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub checked_at: Option<OffsetDateTime>,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

impl GateView {
    /// Whether a person has to decide about it.
    pub fn fails(&self) -> bool {
        self.state == GateState::Failed
    }
}

impl fmt::Display for GateView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commit = gate::short(&self.base_commit);
        if self.flaky_trees > 0 {
            let trees = if self.flaky_trees == 1 { "tree" } else { "trees" };
            write!(f, "flaky: it passed and failed on {} {trees}; ", self.flaky_trees)?;
        }
        match self.state {
            GateState::Passed => write!(f, "the gate passes on the base commit {commit}"),
            GateState::Unknown => {
                write!(
                    f,
                    "the gate is to be tried on the base commit {commit} before anything lands"
                )
            }
            GateState::MayFail => write!(f, "the gate may fail on the base commit {commit}"),
            GateState::Failed => {
                let command = self.failed_command.as_deref().unwrap_or_default();
                let output = gate::end_of(self.output.as_deref().unwrap_or_default());
                write!(
                    f,
                    "the gate fails on the base commit {commit}: `{command}`\n{output}"
                )
            }
        }
    }
}

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
    // Nobody asks for it in a run of an earlier release.
    let asked = rows
        .into_iter()
        .filter(|row| row.may_fail || row.task.is_some() || row.passed.is_some());
    let gates = asked.map(|row| {
        let state = match row.passed {
            _ if row.may_fail => GateState::MayFail,
            Some(true) => GateState::Passed,
            _ if row.is_over == Some(true) => GateState::MayFail,
            Some(false) => GateState::Failed,
            None => GateState::Unknown,
        };
        let gate = GateView {
            commands: row.gate,
            base_commit: row.base_commit,
            state,
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
