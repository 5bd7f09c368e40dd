//! What to say where tasks wait and no run is under way: without a word, people wait for what never begins.

use time::OffsetDateTime;

use crate::cli::client::{Client, escape};
use crate::cli::local_time::when;
use crate::domain::states::FeatureState;
use crate::store::view::{FeatureView, TaskDetail};

/// Says so after something was queued in a task's feature. That is done, so where the look-up fails, nothing is said.
pub async fn hint_of_task(client: &Client, task: &str) {
    if let Some((feature, _)) = task.split_once('/') {
        return hint(client, feature).await;
    }
    let detail: anyhow::Result<TaskDetail> = client.get(&format!("/tasks/{}", escape(task))).await;
    if let Ok(detail) = detail {
        hint(client, &detail.task.feature).await;
    }
}

/// The same of a feature.
pub async fn hint(client: &Client, feature: &str) {
    let view: anyhow::Result<FeatureView> = client.get(&format!("/features/{}", escape(feature))).await;
    if let Ok(view) = view {
        hint_at(&view);
    }
}

/// The same after a task was resolved, where a run of its feature ended before.
pub async fn hint_of_resolved(client: &Client, task: &str) {
    let detail: anyhow::Result<TaskDetail> = client.get(&format!("/tasks/{}", escape(task))).await;
    let Ok(detail) = detail else {
        return;
    };
    let path = format!("/features/{}", escape(&detail.task.feature));
    let view: anyhow::Result<FeatureView> = client.get(&path).await;
    if let Ok(view) = view.as_ref()
        && view.run.is_some()
    {
        hint_at(view);
    }
}

/// The same of a feature as it is now.
pub fn hint_at(feature: &FeatureView) {
    if let Some(words) = words(feature) {
        eprintln!("{words}");
    }
}

/// What to do about it; `None` where what is open begins by itself, or the last run ended with what is left.
pub fn words(feature: &FeatureView) -> Option<String> {
    let name = &feature.name;
    let waiting = match feature.tasks.open() {
        0 if feature.needs_run => {
            return Some(format!(
                "nothing of `{name}` waits any more, and no run has ended it: `ralph-coordinator feature run {name} --wait` \
                 does"
            ));
        }
        0 => return None,
        1 => format!("1 task of `{name}` waits"),
        n => format!("{n} tasks of `{name}` wait"),
    };
    let begins = |at| match feature.every {
        Some(_) => format!(
            "copies of `{name}` begin by themselves, the next one at {}",
            when(at)
        ),
        None => format!("{waiting} until {}: its run begins then", when(at)),
    };
    match feature.status {
        FeatureState::Paused => Some(format!(
            "{waiting} while it is paused: `ralph-coordinator feature resume {name}` goes on"
        )),
        FeatureState::Running => {
            let at = feature.not_before.filter(|at| *at > OffsetDateTime::now_utc())?;
            Some(format!(
                "{waiting} until {}: `{name}` begins nothing before",
                when(at)
            ))
        }
        _ if feature.needs_run => Some(format!(
            "{waiting} and no run is under way, so nothing begins by itself: `ralph-coordinator feature run {name} --wait` \
             starts one"
        )),
        _ => feature.begins_at.map(begins),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn feature(status: &str, needs_run: bool, pending: i64, blocked: i64) -> FeatureView {
        let counts = json!({
            "total": 9, "pending": pending, "blocked": blocked, "in_progress": 0, "done": 1, "failed": 0,
            "cancelled": 0, "skipped": 0, "needs_review": 0,
        });
        let view = json!({
            "id": "f-1", "name": "todo", "status": status, "repo_id": "r", "max_parallel": 4,
            "failure_policy": "continue", "tasks": counts, "needs_run": needs_run,
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        });
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn what_waits_for_a_person_to_start_it_is_told() {
        let ready = words(&feature("ready", true, 2, 1)).unwrap();
        assert!(
            ready.starts_with("3 tasks of `todo` wait and no run")
                && ready.contains("`ralph-coordinator feature run todo --wait`"),
            "{ready}"
        );
        let one = words(&feature("failed", true, 0, 1)).unwrap();
        assert!(one.starts_with("1 task of `todo` waits and no run"), "{one}");
        let paused = words(&feature("paused", false, 1, 0)).unwrap();
        assert!(
            paused.contains("`ralph-coordinator feature resume todo`"),
            "{paused}"
        );
        let resolved = words(&feature("ready", true, 0, 0)).unwrap();
        assert!(
            resolved.starts_with("nothing of `todo` waits any more")
                && resolved.contains("`ralph-coordinator feature run todo --wait`"),
            "{resolved}"
        );
        assert_eq!(words(&feature("ready", false, 0, 0)), None);
        assert_eq!(words(&feature("running", false, 1, 0)), None);
        assert_eq!(words(&feature("cancelled", false, 1, 0)), None);
        assert_eq!(words(&feature("done", false, 0, 0)), None);
    }
}
