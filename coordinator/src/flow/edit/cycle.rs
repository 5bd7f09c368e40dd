//! Describes the cycle that an edge would close, for people (SPEC 2.5).

use std::collections::{BTreeMap, BTreeSet};

use ralph_shared::ids::TaskId;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::store;
use crate::store::task::waits::Moment;

/// Most steps of a search; a longer cycle is printed without its middle.
const MOST_STEPS: usize = 200;
/// Most tasks of a cycle in the text.
const MOST_NAMED: usize = 12;

/// Describes how the end of one of `blockers` waits, through others, for one of `targets`. The caller knows
/// that it does.
pub async fn describe(
    conn: &mut PgConnection,
    task: TaskId,
    blockers: &[Uuid],
    targets: &BTreeSet<Moment>,
) -> sqlx::Result<String> {
    let begin: Vec<Moment> = blockers
        .iter()
        .map(|&task| Moment { task, is_end: true })
        .collect();
    let mut path = vec![task.0];
    path.extend(shortest_path(conn, begin, targets).await?);
    path.push(task.0);
    // For people, the end and the start of a task in a row are one task.
    path.dedup();
    if path.len() > MOST_NAMED {
        path.drain(MOST_NAMED / 2..path.len() - MOST_NAMED / 2);
    }
    let titles: BTreeMap<Uuid, String> = store::task::dependencies::titles(conn, &path)
        .await?
        .into_iter()
        .collect();
    let named = path.iter().map(|id| match titles.get(id) {
        Some(title) => format!("{} `{title}`", TaskId(*id)),
        None => TaskId(*id).to_string(),
    });
    let named: Vec<String> = named.collect();
    Ok(format!("that would be a circle: {}", named.join(" waits for ")))
}

/// The tasks on the shortest path from `begin` to a target, both included.
async fn shortest_path(
    conn: &mut PgConnection,
    begin: Vec<Moment>,
    targets: &BTreeSet<Moment>,
) -> sqlx::Result<Vec<Uuid>> {
    let mut came_from: BTreeMap<Moment, Option<Moment>> =
        begin.iter().map(|&moment| (moment, None)).collect();
    let mut frontier = begin;
    for _ in 0..MOST_STEPS {
        if let Some(&found) = frontier.iter().find(|moment| targets.contains(moment)) {
            let mut tasks = Vec::new();
            let mut at = Some(found);
            while let Some(moment) = at {
                tasks.push(moment.task);
                at = came_from.get(&moment).copied().flatten();
            }
            tasks.reverse();
            return Ok(tasks);
        }
        let mut next = Vec::new();
        for (from, to) in store::task::waits::awaited(conn, &frontier).await? {
            if let std::collections::btree_map::Entry::Vacant(new) = came_from.entry(to) {
                new.insert(Some(from));
                next.push(to);
            }
        }
        frontier = next;
    }
    // Too long to show whole.
    Ok(targets.iter().map(|moment| moment.task).take(1).collect())
}
