//! A feature's branch in the clone that the command is called in.

use super::client::{Client, escape};
use super::git::{git, git_shown};
use super::start::Usage;
use crate::store::view::FeatureView;

/// Shows what the feature changed since its base.
///
/// # Errors
/// When the feature has no code, or git fails.
pub async fn diff(client: &Client, feature: &str, stat: bool) -> anyhow::Result<()> {
    let fetched = fetch(client, feature).await?;
    let range = format!("{}...{}", fetched.base, fetched.head);
    let mut args = vec!["diff"];
    if stat {
        args.push("--stat");
    }
    args.push(&range);
    git_shown(&args).await
}

/// Checks the feature's branch out, here.
///
/// # Errors
/// When the feature has no code, or git refuses, since files would be overwritten, say.
pub async fn checkout(client: &Client, feature: &str) -> anyhow::Result<()> {
    let fetched = fetch(client, feature).await?;
    let here = format!("refs/heads/{}", fetched.branch);
    if git(None, &["rev-parse", "--verify", "--quiet", &here])
        .await
        .is_err()
    {
        return git_shown(&["switch", "--create", &fetched.branch, &fetched.head]).await;
    }
    git_shown(&["switch", &fetched.branch]).await?;
    git_shown(&["merge", "--ff-only", &fetched.head]).await
}

struct Fetched {
    branch: String,
    base: String,
    head: String,
}

async fn fetch(client: &Client, feature: &str) -> anyhow::Result<Fetched> {
    git(None, &["rev-parse", "--git-dir"]).await.map_err(|_| {
        Usage("the current folder is in no git repository; call it in a clone of the feature's".into())
    })?;
    let view: FeatureView = client.get(&format!("/features/{}", escape(feature))).await?;
    let (Some(address), Some(branch), Some(base)) = (view.repo, view.branch, view.base_commit) else {
        anyhow::bail!("the feature `{}` has no repository", view.name);
    };
    let source = format!("refs/heads/{branch}");
    git(None, &["fetch", "--quiet", "--no-tags", "--", &address, &source])
        .await
        .map_err(|error| {
            error.context(format!(
                "the branch `{branch}` can't be fetched; did a task of the feature land yet?"
            ))
        })?;
    let head = git(None, &["rev-parse", "FETCH_HEAD"]).await?;
    Ok(Fetched { branch, base, head })
}
