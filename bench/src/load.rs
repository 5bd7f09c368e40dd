//! Workloads: task-graph files, and their submission.

use anyhow::bail;
use ralph_coordinator::bus::Bus;
use ralph_coordinator::domain::graph::{self, Limits};
use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::store;
use ralph_coordinator::store::feature::NewFeature;
use ralph_coordinator::{
    domain::run::defaults::TaskDefaults,
    flow::submit::{self, Start, Submission, Submitted},
};
use serde_json::json;
use sqlx::PgPool;

/// `n` tasks without dependencies. The first word of a title is the task's number.
pub fn independent(n: usize) -> String {
    graph(n, |_| Vec::new())
}

/// `n` tasks, each waiting for the one before.
pub fn chain(n: usize) -> String {
    graph(n, |task| task.checked_sub(1).into_iter().collect())
}

/// `n` pairs of a ready task and a task that waits for it.
pub fn pairs(n: usize) -> String {
    graph(2 * n, |task| {
        (task % 2 == 1)
            .then_some(task.wrapping_sub(1))
            .into_iter()
            .collect()
    })
}

/// `layers` of `width` tasks: task (l, j) waits for (l-1, j) and (l-1, (7j+3) mod width).
pub fn layered(layers: usize, width: usize) -> String {
    graph(layers * width, |task| match task.checked_sub(width) {
        None => Vec::new(),
        Some(above) => {
            let (layer, j) = (above / width, task % width);
            vec![above, layer * width + (7 * j + 3) % width]
        }
    })
}

fn graph(n: usize, after: impl Fn(usize) -> Vec<usize>) -> String {
    let tasks: Vec<_> = (0..n)
        .map(|task| {
            let mut after: Vec<String> = after(task)
                .into_iter()
                .map(|blocker| format!("k{blocker}"))
                .collect();
            after.dedup();
            json!({ "key": format!("k{task}"), "title": task.to_string(), "after": after })
        })
        .collect();
    json!({ "tasks": tasks }).to_string()
}

/// Tasks for a scripted agent, one after the other, with the script of each task's sessions.
pub fn scripted<'s>(scripts: impl IntoIterator<Item = &'s str>) -> String {
    let tasks: Vec<_> = scripts
        .into_iter()
        .enumerate()
        .map(|(number, script)| json!({ "key": format!("k{number}"), "title": number.to_string(), "description": script }))
        .collect();
    json!({ "tasks": tasks }).to_string()
}

/// One task whose title has the time of its submission. Seconds since 1970.
pub fn single(number: usize, submitted: f64) -> String {
    json!({ "tasks": [{ "key": "k", "title": format!("{number} {submitted:.6}") }] }).to_string()
}

/// Submits a graph as feature `name`, without a repository and without verification, and starts its run.
pub async fn submit(db: &PgPool, bus: &Bus, name: &str, text: &str) -> anyhow::Result<()> {
    submit_on(db, bus, name, text, None).await
}

/// Like [`submit()`], on a repository: its address, and the base commit.
pub async fn submit_on(
    db: &PgPool,
    bus: &Bus,
    name: &str,
    text: &str,
    repository: Option<(&str, &str)>,
) -> anyhow::Result<()> {
    let run = RunSettings {
        backoff_ms: 1_000,
        ..RunSettings::default()
    };
    submit_as(db, bus, name, text, repository, run, 3).await
}

/// Like [`submit_on`], with these settings of the run, and this many retries of each task.
pub async fn submit_as(
    db: &PgPool,
    bus: &Bus,
    name: &str,
    text: &str,
    repository: Option<(&str, &str)>,
    run: RunSettings,
    max_retries: i32,
) -> anyhow::Result<()> {
    let graph = graph::load("tasks.json", text, &Limits::file()).map_err(|e| anyhow::anyhow!("{e}"))?;
    let submission = Submission {
        feature: NewFeature {
            repo_address: repository.map(|(address, _)| address.to_owned()),
            base_ref: repository.map(|_| "main".to_owned()),
            base_commit: repository.map(|(_, base)| base.to_owned()),
            branch: repository.map(|_| format!("ralph/{name}")),
            max_parallel: 4096,
            ..NewFeature::new(name.to_owned(), String::new())
        },
        graph,
        defaults: TaskDefaults {
            max_retries,
            verify: false,
            pool: "default".to_owned(),
        },
        limits: Vec::new(),
        start: Start::Now(run),
    };
    let (submitted, signals) = submit::submit(db, &submission).await?;
    bus.emit(signals).await;
    store::flush(db).await?;
    match submitted {
        Submitted::Accepted { run: Some(_), .. } => Ok(()),
        other => bail!("the feature {name} was not accepted: {other:?}"),
    }
}

/// Number of dispatches that were opened before all blockers of their task were done.
pub async fn ran_too_early(database: &str) -> sqlx::Result<i64> {
    let mut conn = crate::database::connection(database).await?;
    sqlx::query_scalar(
        "select count(*)
         from dependencies e
         join dispatches d on d.task_id = e.task_id
         where not exists (
           select from dispatches b
           where b.task_id = e.blocker_id and b.outcome = 'done' and b.settled_at <= d.claimed_at
         )",
    )
    .fetch_one(&mut conn)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layered_graph_has_the_documented_size() {
        let graph = graph::load("t", &layered(10, 200), &Limits::file()).map(|g| (g.nodes.len(), g.edges));
        assert_eq!(graph.ok(), Some((2_000, 3_600)));
    }
}
