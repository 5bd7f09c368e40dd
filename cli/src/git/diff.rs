//! `feature diff` and `task diff`: changes as git shows them in the current clone.

use anyhow::Context as _;
use clap::Args;
use ralph_api::view::{DispatchView, FeatureView, Landing, Page, TaskDetail};

use super::branch::{Fetched, fetch_feature};
use crate::args::globals::Globals;
use crate::client::{Client, escape};
use crate::git::{fetch, git, git_paged, has_commit, source, within_repository};
use crate::terminal::local_time::when;

/// The task, and the format of its change.
#[derive(Debug, Args)]
pub struct TaskDiffArgs {
    /// Id of the task, its beginning, or FEATURE/KEY
    #[arg(value_name = "TASK")]
    task: String,
    /// Only the change of this attempt, since its start
    #[arg(long, value_name = "N")]
    attempt: Option<i32>,
    /// Only file names and sizes of changes
    #[arg(long)]
    stat: bool,
}

/// Shows the feature's changes since its base.
///
/// # Errors
/// When the feature has no code, or git fails.
pub async fn of_feature(globals: &Globals, client: &Client, feature: &str, stat: bool) -> anyhow::Result<()> {
    let fetched = fetch_feature(client, feature).await?;
    let (base, head) = (&fetched.base, &fetched.head);
    let begin = match begin_if_merged(client, feature, &fetched).await? {
        Some(begin) => begin,
        None => base.clone(),
    };
    show(globals, stat, &[format!("{begin}...{head}")]).await
}

/// Parent of the feature's first landing, if the base already contains that landing or its change: a diff
/// against such a base would be empty.
async fn begin_if_merged(
    client: &Client,
    feature: &str,
    fetched: &Fetched,
) -> anyhow::Result<Option<String>> {
    let path = format!("/features/{}/landings", escape(feature));
    let landings: Page<Landing> = client.list(&path, "", usize::MAX).await?;
    let Some(first) = landings.items.last().map(|landing| landing.commit.as_str()) else {
        return Ok(None);
    };
    let (base, head) = (&fetched.base, &fetched.head);
    let contains = ["merge-base", "--is-ancestor", first, base];
    let differs = ["diff", "--quiet", &format!("{base}...{head}"), "--"];
    let is_merged = git(None, &contains).await.is_ok() || git(None, &differs).await.is_ok();
    if !is_merged {
        return Ok(None);
    }
    let before = ["rev-parse", "--verify", "--quiet", &format!("{first}^")];
    Ok(git(None, &before).await.ok())
}

/// Shows the change that the task landed; before it lands, the change of all its attempts since they left
/// the feature's branch; or the change of one attempt.
///
/// # Errors
/// When there is no such change, its branch is gone, or git fails.
pub async fn of_task(globals: &Globals, client: &Client, args: TaskDiffArgs) -> anyhow::Result<()> {
    let change = change(client, &args.task, args.attempt).await?;
    show(globals, args.stat, &change).await
}

/// The change of all attempts as text.
pub async fn text_of_task(client: &Client, task: &str) -> anyhow::Result<String> {
    let change = change(client, task, None).await?;
    let change = change.iter().map(String::as_str);
    let args: Vec<&str> = ["diff", "--no-color"]
        .into_iter()
        .chain(change)
        .chain(["--"])
        .collect();
    git(None, &args).await
}

/// Revisions for git to compare.
async fn change(client: &Client, task: &str, number: Option<i32>) -> anyhow::Result<Vec<String>> {
    within_repository().await?;
    let detail: TaskDetail = client.get(&format!("/tasks/{}", escape(task))).await?;
    let feature: FeatureView = client
        .get(&format!("/features/{}", escape(&detail.task.feature)))
        .await?;
    let (Some(address), Some(branch), Some(base)) = (&feature.repo, &feature.branch, &feature.base_commit)
    else {
        anyhow::bail!("the feature `{}` has no repository", feature.name);
    };
    let address = &source(None, address).await;
    let branch = format!("refs/heads/{branch}");
    if let (None, Some(landed)) = (number, &detail.landed_commit) {
        if !has_commit(landed).await {
            fetch(address, &branch).await?;
        }
        return Ok(vec![format!("{landed}^"), landed.clone()]);
    }
    let (dispatch, commit) = attempt(&detail, number)?;
    if !has_commit(commit).await {
        let pushed = dispatch.pushed_ref.as_deref().unwrap_or_default();
        if let Some(at) = dispatch.pruned_at {
            anyhow::bail!(
                "the branch `{pushed}` was removed {}; nothing else has its commit",
                when(at)
            );
        }
        fetch(address, pushed)
            .await
            .with_context(|| format!("the branch `{pushed}` can't be fetched"))?;
    }
    match (number, &dispatch.start_commit) {
        (Some(_), Some(start)) => Ok(vec![start.clone(), commit.to_owned()]),
        _ => {
            // The branch does not exist before the first landing.
            let landed = git(None, &["ls-remote", "--exit-code", "--", address, &branch]).await;
            let head = match landed {
                Ok(_) => fetch(address, &branch).await?,
                Err(_) => base.clone(),
            };
            Ok(vec![format!("{head}...{commit}")])
        }
    }
}

/// The last session that has a commit, of this attempt or of all, and that commit.
fn attempt(detail: &TaskDetail, number: Option<i32>) -> anyhow::Result<(&DispatchView, &str)> {
    let of = |dispatch: &&DispatchView| number.is_none_or(|number| dispatch.attempt == number);
    let found = detail.dispatches.iter().rev().filter(of).find_map(|dispatch| {
        let commit = dispatch.commit.as_deref()?;
        dispatch.pushed_ref.as_ref().map(|_| (dispatch, commit))
    });
    let task = &detail.task.id;
    found.with_context(|| match number {
        Some(number) => {
            format!("attempt {number} of {task} has no change; `ralph task show {task}` lists its attempts")
        }
        None => format!("no attempt of {task} has a change yet"),
    })
}

async fn show(globals: &Globals, stat: bool, what: &[String]) -> anyhow::Result<()> {
    let what: Vec<&str> = what.iter().map(String::as_str).collect();
    let how: &[&str] = if stat { &["diff", "--stat"] } else { &["diff"] };
    git_paged(globals, &[how, &what, &["--"]].concat()).await
}
