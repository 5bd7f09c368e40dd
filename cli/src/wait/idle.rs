//! What to do next about a feature that doesn't go on by itself: without a word, people wait for what never begins.

use ralph_api::view::{Progress, TaskDetail};

use crate::client::{Client, escape};
use crate::terminal::condition;

/// The feature of a task, by its name; `None` where the look-up fails.
pub async fn feature_of(client: &Client, task: &str) -> Option<String> {
    if let Some((feature, _)) = task.split_once('/') {
        return Some(feature.to_owned());
    }
    let detail: TaskDetail = client.get(&format!("/tasks/{}", escape(task))).await.ok()?;
    Some(detail.task.feature_name)
}

/// Says what to do next, after something was done: where the look-up fails, nothing is said.
pub async fn hint(client: &Client, feature: &str) {
    let path = format!("/features/{}/progress", escape(feature));
    let progress: anyhow::Result<Progress> = client.get(&path).await;
    if let Ok(progress) = progress {
        hint_at(&progress);
    }
}

/// The same of a feature as it is now.
pub(super) fn hint_at(progress: &Progress) {
    if let Some(words) = words(progress) {
        eprintln!("{words}");
    }
}

/// The same as a text; `None` where it goes on by itself, or is over.
fn words(progress: &Progress) -> Option<String> {
    let feature = &progress.feature;
    let is = condition::words(&feature.condition);
    match &progress.next {
        Some(next) => Some(format!("`{}` is {is}\n{}", feature.name, next_line(next))),
        None => feature
            .condition
            .until
            .map(|_| format!("`{}` is {is}", feature.name)),
    }
}

/// The command on a line of its own, so that it pastes as it is.
fn next_line(next: &ralph_domain::status::next::Next) -> String {
    format!("next: {}", next.command)
}
