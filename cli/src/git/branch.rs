//! A feature's branch in the current clone.

use std::path::Path;

use ralph_api::view::{FeatureView, Landing, Page};

use crate::client::{Client, escape};
use crate::git::{fetch, git, git_shown, source, within_repository};

/// Checks out the feature's branch in the current clone. In the feature's own repository, checks out the
/// branch's head instead, so that work can still land on the branch.
///
/// # Errors
/// When the feature has no code, or git refuses, for example to overwrite files.
pub async fn checkout(client: &Client, feature: &str) -> anyhow::Result<()> {
    let fetched = fetch_feature(client, feature).await?;
    if is_here(&fetched.address).await {
        return git_shown(&["switch", "--detach", &fetched.head]).await;
    }
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

/// Whether the current folder belongs to the repository at `address`.
async fn is_here(address: &str) -> bool {
    let folder = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    let path = address.strip_prefix("file://").unwrap_or(address);
    let there = match path.starts_with('/') {
        true => git(Some(Path::new(path)), &folder).await.ok(),
        false => None,
    };
    there.is_some() && git(None, &folder).await.ok() == there
}

/// A feature's branch, fetched into this clone.
pub(crate) struct Fetched {
    address: String,
    branch: String,
    /// Commit where the feature began.
    pub base: String,
    pub head: String,
}

/// Fetches the feature's branch.
///
/// # Errors
/// When the current folder is in no clone, the feature has no code, or git fails.
pub(crate) async fn fetch_feature(client: &Client, feature: &str) -> anyhow::Result<Fetched> {
    within_repository().await?;
    let view: FeatureView = client.get(&format!("/features/{}", escape(feature))).await?;
    let (Some(address), Some(branch), Some(base)) = (view.repo, view.branch, view.base_commit) else {
        anyhow::bail!("the feature `{}` has no repository", view.name);
    };
    let head = fetch(&source(None, &address).await, &format!("refs/heads/{branch}"))
        .await
        .map_err(|error| {
            error.context(format!(
                "the branch `{branch}` can't be fetched; did a task of the feature land yet?"
            ))
        })?;
    Ok(Fetched {
        address,
        branch,
        base,
        head,
    })
}

/// Commits of a branch that are drawn, unless the output is wide.
pub const SHOWN_LANDINGS: usize = 20;

/// Draws a feature's branch down to its base, a commit per line.
pub fn graph((base, commit): (Option<&str>, Option<&str>), landed: &Page<Landing>) -> String {
    let short = |commit: &str| commit.chars().take(10).collect::<String>();
    let mut lines = Vec::new();
    for landing in &landed.items {
        let note = match (landing.reverted, landing.empty) {
            (true, _) => " (reverted)",
            (_, true) => " (changes nothing)",
            _ => "",
        };
        lines.push(format!(
            "  * {}  {}  {}{note}\n",
            short(&landing.commit),
            landing.task,
            landing.title
        ));
    }
    if landed.next.is_some() {
        lines.push("  : and more; `--output wide` shows them\n".to_owned());
    }
    if let (false, Some(base), Some(commit)) = (landed.items.is_empty(), base, commit) {
        lines.push(format!("  o {}  {base}\n", short(commit)));
    }
    lines.concat()
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    #[test]
    fn the_graph_shows_the_branch_down_to_its_base() {
        let landing = |title: &str, reverted, empty| Landing {
            commit: "0123456789abcdef".to_owned(),
            task: "t-000000000001".to_owned(),
            key: "a".to_owned(),
            title: title.to_owned(),
            attempt: 1,
            empty,
            reverted,
            at: OffsetDateTime::UNIX_EPOCH,
        };
        let mut landed = Page::whole(vec![
            landing("Revert: Do a", false, false),
            landing("Do b", false, true),
            landing("Do a", true, false),
        ]);
        let base = (Some("main"), Some("fedcba9876543210"));
        assert_eq!(
            graph(base, &landed),
            "  * 0123456789  t-000000000001  Revert: Do a\n  * 0123456789  t-000000000001  Do b (changes nothing)\n  \
             * 0123456789  t-000000000001  Do a (reverted)\n  o fedcba9876  main\n"
        );
        landed.next = Some("cursor".to_owned());
        assert!(graph(base, &landed).contains("  : and more; `--output wide` shows them\n"));
        assert_eq!(graph(base, &Page::whole(Vec::new())), "");
    }
}
