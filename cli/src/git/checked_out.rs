//! Warns that merging a feature will affect a local checkout of the target branch.

use std::path::Path;

use ralph_shared::wire::MergeHow;

use crate::git::git;

/// The effect of the merge on a checkout of `branch` in the repository at `address`; `None` without such a
/// checkout, or if the repository isn't on this machine.
pub async fn warning(address: &str, branch: &str, how: Option<MergeHow>) -> Option<String> {
    if matches!(how, None | Some(MergeHow::Command)) {
        return None;
    }
    let path = address.strip_prefix("file://").unwrap_or(address);
    if !path.starts_with('/') {
        return None;
    }
    let at = Some(Path::new(path));
    let listed = git(at, &["worktree", "list", "--porcelain"]).await.ok()?;
    let place = checkout_of(&listed, branch)?;
    let setting = git(at, &["config", "--get", "receive.denyCurrentBranch"])
        .await
        .ok();
    Some(words(branch, place, setting.as_deref()))
}

/// The folder where `branch` is checked out, from the output of `git worktree list --porcelain`.
fn checkout_of<'a>(listed: &'a str, branch: &str) -> Option<&'a str> {
    let wanted = format!("branch refs/heads/{branch}");
    listed
        .split("\n\n")
        .find(|tree| tree.lines().any(|line| line == wanted))?
        .lines()
        .find_map(|line| line.strip_prefix("worktree "))
}

fn words(branch: &str, place: &str, setting: Option<&str>) -> String {
    let begin = format!("`{branch}` is checked out in {place}");
    match setting.map(str::to_lowercase).as_deref() {
        None | Some("updateinstead") => format!(
            "{begin}: when the feature is done its files there follow the merge. As long as something in them is changed, git \
             refuses it: commit or stash it first, or check another branch out"
        ),
        Some("warn" | "ignore" | "false" | "no" | "off" | "0") => format!(
            "{begin}, and receive.denyCurrentBranch there lets the branch move under it: after the merge git will show its \
             files as changed, until `git reset --hard`"
        ),
        Some(refuses) => format!(
            "{begin}, and receive.denyCurrentBranch={refuses} there refuses the merge: check another branch out before the \
             feature is done, or let the files follow (`git -C {place} config receive.denyCurrentBranch updateInstead`)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkout_of_finds_the_worktree_of_a_branch() {
        let listed = "worktree /srv/a\nHEAD 1\nbranch refs/heads/main\n\nworktree /srv/b c\nHEAD 2\nbranch \
                      refs/heads/main-2\n\nworktree /srv/d\nHEAD 3\ndetached\n\nworktree /srv/e\nbare\n";
        assert_eq!(checkout_of(listed, "main"), Some("/srv/a"));
        assert_eq!(checkout_of(listed, "main-2"), Some("/srv/b c"));
        assert_eq!(checkout_of(listed, "other"), None);
    }

    #[test]
    fn the_warning_depends_on_receive_deny_current_branch() {
        let rows = [
            (None, "files there follow"),
            (Some("updateInstead"), "files there follow"),
            (Some("refuse"), "=refuse there refuses the merge"),
            (Some("true"), "=true there refuses"),
            (Some("warn"), "show its files as changed"),
        ];
        for (setting, expected) in rows {
            let words = words("main", "/srv/a", setting);
            assert!(words.contains(expected), "{setting:?}: {words}");
        }
    }
}
