//! Invariants of a feature, whatever happened while it ran: checked in git, in the accepted outcomes, in the
//! agents' own log, in the process table, and by recounting all counters.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use ralph_coordinator::store;
use ralph_shared::ids::FeatureId;

use super::repository::Repository;
use super::world::World;

/// Time for agents of a dead worker to see the end of their input.
const PROCESSES_END: Duration = Duration::from_secs(10);

/// Queries about one feature that return violations.
const RULES: &[(&str, &str)] = &[
    (
        "open_blockers equals a recount",
        "select x.key || ': ' || t.open_blockers
         from tasks t join task_texts x on x.task_id = t.id
         where t.feature_id = $1
           and t.open_blockers <> (select count(*) from dependencies d join tasks b on b.id = d.blocker_id
                                   where d.task_id = t.id and b.state not in ('done', 'skipped'))
                                + (select count(*) from tasks p where p.id = t.parent_id and p.open_blockers > 0)",
    ),
    (
        "open_children equals a recount",
        "select x.key || ': ' || t.open_children || ' of ' || t.children
         from tasks t
         join task_texts x on x.task_id = t.id
         cross join lateral (
           select count(*) as n, count(*) filter (where c.state not in ('done', 'skipped', 'cancelled')) as open
           from tasks c where c.parent_id = t.id
         ) counted
         where t.feature_id = $1 and (t.children <> counted.n or t.open_children <> counted.open)",
    ),
    (
        "the queue holds exactly the claimable tasks",
        "select coalesce(q.task_id, t.id)::text || ' is ' || coalesce(t.state::text, 'gone')
         from (select * from ready_tasks where feature_id = $1) q
         full join (
           select t.id, t.state, t.conflicts >= 2 and t.next_kind = 'work' as has_turns
           from tasks t
           join features f on f.id = t.feature_id
           where f.id = $1 and f.state = 'running' and t.children = 0 and t.open_blockers = 0 and not t.held
             and (t.state = 'pending' or (t.state = 'in_progress' and t.next_kind = 'verify'))
             and not exists (select 1 from dispatches d where d.id = t.dispatch_id and d.state = 'live')
         ) t on t.id = q.task_id
         where ((q.task_id is null and not t.has_turns) or t.id is null) and q.kind is distinct from 'integrate'",
    ),
    (
        "an attempt has one accepted result",
        "select x.key || ' attempt ' || d.attempt || ': ' || count(*)
         from dispatches d join task_texts x on x.task_id = d.task_id
         where d.feature_id = $1 and d.kind = 'work' and d.state = 'settled' and d.outcome <> 'door'
         group by x.key, d.task_id, d.attempt
         having count(*) > 1",
    ),
    (
        "a task lands at most once, and once more after each revert",
        "select x.key || ': ' || count(*)
         from dispatches d join task_texts x on x.task_id = d.task_id
         where d.feature_id = $1 and d.kind = 'integrate' and d.state = 'settled' and d.outcome = 'merged'
         group by x.key, d.task_id
         having count(*) > 1 + (select count(*) from integrations r where r.task_id = d.task_id and r.state = 'reverted')",
    ),
];

/// Further queries about a complete feature.
const COMPLETE: &[(&str, &str)] = &[
    (
        "every task is done",
        "select x.key || ' is ' || t.state::text
         from tasks t join task_texts x on x.task_id = t.id
         where t.feature_id = $1 and t.state <> 'done'",
    ),
    (
        "nothing is live or open",
        "select id::text from dispatches where feature_id = $1 and state = 'live'
         union all
         select id::text from integrations where feature_id = $1 and state in ('waiting', 'turn', 'decided')",
    ),
    (
        "every leaf has one accepted session, that of its last attempt",
        "select x.key || ': ' || count(d.id)
         from tasks t
         join task_texts x on x.task_id = t.id
         left join dispatches d on d.task_id = t.id and d.kind = 'work' and d.state = 'settled' and d.outcome = 'done'
                               and d.attempt = t.attempt
         where t.feature_id = $1 and t.children = 0 and t.role <> 'check'
         group by x.key, t.id
         having count(d.id) <> 1",
    ),
];

impl World {
    /// Checks the invariants that always hold.
    ///
    /// # Errors
    /// The first violation.
    pub async fn check_counts(&self, feature: FeatureId) -> anyhow::Result<()> {
        self.check_rules(feature, RULES).await?;
        let mut tx = self.db.begin().await?;
        let rows = store::feature::lock(&mut tx, &[feature.0]).await?;
        let stored = rows.first().context("the feature is gone")?.counts;
        let counted = store::feature::recount(&mut tx, feature).await?;
        ensure!(
            stored == counted,
            "the counters are {stored:?}, a recount gives {counted:?}"
        );
        Ok(())
    }

    async fn check_rules(
        &self,
        feature: FeatureId,
        rules: &[(&'static str, &'static str)],
    ) -> anyhow::Result<()> {
        for (rule, query) in rules {
            let broken: Vec<String> = sqlx::query_scalar(*query)
                .bind(feature.0)
                .fetch_all(&self.db)
                .await
                .with_context(|| format!("failed to check that {rule}"))?;
            ensure!(broken.is_empty(), "violated: {rule}: {broken:?}");
        }
        Ok(())
    }

    /// Checks that a feature is complete, and that every unique event happened exactly once. With a
    /// repository, checks that the branch has every leaf's commit once.
    ///
    /// # Errors
    /// The first violation, with the state of everything.
    pub async fn check_complete(
        &self,
        feature: FeatureId,
        branch: Option<(&Repository, &str)>,
    ) -> anyhow::Result<()> {
        let checked = self.check_all(feature, branch).await;
        match checked {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.tell().await)),
        }
    }

    async fn check_all(&self, feature: FeatureId, branch: Option<(&Repository, &str)>) -> anyhow::Result<()> {
        self.check_counts(feature).await?;
        self.check_rules(feature, COMPLETE).await?;
        let leaves = self.leaves(feature).await?;
        if let Some((repository, branch)) = branch {
            let (repository, name) = (repository.clone(), branch.to_owned());
            // Git runs as a blocking process; other features of the test continue meanwhile.
            let mut landed = tokio::task::spawn_blocking(move || repository.landed(&name)).await??;
            landed.sort();
            let expected: Vec<&String> = leaves.iter().map(|(task, _)| task).collect();
            ensure!(
                landed.iter().collect::<BTreeSet<_>>().len() == landed.len()
                    && landed.iter().eq(expected.iter().copied()),
                "{branch} has {landed:?}, not {expected:?}"
            );
        }
        self.check_effects(&leaves)
    }

    /// Leaves and the dispatches whose results were accepted, with short ids.
    async fn leaves(&self, feature: FeatureId) -> anyhow::Result<Vec<(String, String)>> {
        let rows: Vec<(uuid::Uuid, uuid::Uuid)> = sqlx::query_as(
            "select t.id, d.id
             from tasks t
             join dispatches d on d.task_id = t.id and d.kind = 'work' and d.state = 'settled' and d.outcome = 'done'
                              and d.attempt = t.attempt
             where t.feature_id = $1 and t.children = 0",
        )
        .bind(feature.0)
        .fetch_all(&self.db)
        .await?;
        let mut leaves: Vec<_> = rows
            .into_iter()
            .map(|(task, dispatch)| (ralph_shared::ids::TaskId(task).to_string(), dispatch.to_string()))
            .collect();
        leaves.sort();
        Ok(leaves)
    }

    /// Checks that no session did its work twice, and that each accepted result has an agent's effect.
    fn check_effects(&self, leaves: &[(String, String)]) -> anyhow::Result<()> {
        let lines = self.effects_lines();
        let mut seen = BTreeSet::new();
        for line in &lines {
            let words: Vec<&str> = line.split(' ').collect();
            let [name, task, _attempt, dispatch, ..] = words[..] else {
                anyhow::bail!("unreadable effect: {line}")
            };
            ensure!(
                seen.insert((name, dispatch)),
                "dispatch {dispatch} of {task} had its effect {name} twice"
            );
        }
        for (task, dispatch) in leaves {
            let of_task: Vec<_> = lines
                .iter()
                .filter(|line| line.split(' ').nth(1) == Some(task))
                .collect();
            ensure!(
                of_task.is_empty()
                    || of_task
                        .iter()
                        .any(|line| line.split(' ').nth(3) == Some(dispatch)),
                "{dispatch} was accepted for {task}, but only these had effects: {of_task:?}"
            );
        }
        Ok(())
    }

    /// Waits, for a bounded time, until no session process of this world is left.
    ///
    /// # Errors
    /// The remaining processes.
    pub async fn check_processes(&self) -> anyhow::Result<()> {
        let until = tokio::time::Instant::now() + PROCESSES_END;
        loop {
            let remaining = self.session_processes();
            if remaining.is_empty() {
                return Ok(());
            }
            ensure!(
                tokio::time::Instant::now() < until,
                "still running: {remaining:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Processes with a session's variable and a path of this world in their environment: pid and command
    /// line.
    pub fn session_processes(&self) -> Vec<(u32, String)> {
        let world = self.dir().display().to_string();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let environ =
                    String::from_utf8_lossy(&fs::read(entry.path().join("environ")).ok()?).into_owned();
                let of_session = environ
                    .split('\0')
                    .any(|variable| variable.starts_with("RALPH_DISPATCH="));
                let command = fs::read(entry.path().join("cmdline")).ok()?;
                (of_session && environ.contains(&world))
                    .then(|| (pid, String::from_utf8_lossy(&command).replace('\0', " ")))
            })
            .collect()
    }
}
