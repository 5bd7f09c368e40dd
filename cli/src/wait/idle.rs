//! Suggests the next step for a feature that doesn't run by itself, so that nobody waits in vain.

use ralph_api::view::{Progress, TaskDetail};

use crate::client::{Client, escape};
use crate::terminal::condition;

/// The name of a task's feature; `None` if the lookup fails.
pub async fn feature_of(client: &Client, task: &str) -> Option<String> {
    if let Some((feature, _)) = task.split_once('/') {
        return Some(feature.to_owned());
    }
    let detail: TaskDetail = client.get(&format!("/tasks/{}", escape(task))).await.ok()?;
    Some(detail.task.feature_name)
}

/// Prints the next step after a command; prints nothing if the lookup fails.
pub async fn hint(client: &Client, feature: &str) {
    let path = format!("/features/{}/progress", escape(feature));
    let progress: anyhow::Result<Progress> = client.get(&path).await;
    if let Ok(progress) = progress {
        hint_at(&progress);
    }
}

/// Prints the next step for a feature, if any.
pub(super) fn hint_at(progress: &Progress) {
    if let Some(words) = words(progress) {
        eprintln!("{words}");
    }
}

/// The next step for a feature; `None` if it runs by itself, or has ended.
fn words(progress: &Progress) -> Option<String> {
    let feature = &progress.feature;
    let is = condition::words(&feature.condition);
    match &progress.next {
        // The command is on its own line, ready to paste.
        Some(next) => Some(format!("`{}` is {is}\nnext: {}", feature.name, next.command)),
        None => feature
            .condition
            .until
            .map(|_| format!("`{}` is {is}", feature.name)),
    }
}
