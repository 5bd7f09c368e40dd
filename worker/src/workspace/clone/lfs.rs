//! Git LFS with the setup of the worker's user. Filters run in the worker's own git directory, with the
//! worker's configuration. Objects are stored once per repository. New objects of an agent go to the server
//! before the commit that names them.
//!
//! A repository's `.lfsconfig` names the server, and git-lfs sends the user's credentials there. So it is
//! read only from the feature's base, which people control. An agent's changes to it have no effect.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;

use super::gitdir::quoted;
use crate::faults;
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::{Git, REMOTE};

/// The settings that `git lfs install` writes.
pub(in crate::workspace) const FILTER: &[(&str, &str)] = &[
    ("filter.lfs.process", "git-lfs filter-process"),
    ("filter.lfs.clean", "git-lfs clean -- %f"),
    ("filter.lfs.smudge", "git-lfs smudge -- %f"),
    ("filter.lfs.required", "true"),
];

/// Settings for a machine without git-lfs: a checkout must fail, or an agent would work on the pointers.
/// [`crate::workspace::Trouble`] recognises the words.
pub(in crate::workspace) const MISSING: &[(&str, &str)] = &[
    ("filter.lfs.clean", "echo git-lfs is not installed >&2; false #"),
    ("filter.lfs.smudge", "echo git-lfs is not installed >&2; false #"),
    ("filter.lfs.required", "true"),
];

/// Links the worker's git directory to the repository's shared LFS objects. (`lfs.storage` would also apply
/// to a remote on a local path.)
pub(in crate::workspace) fn share(git: &Git) -> io::Result<()> {
    let Some(storage) = git.lfs_storage() else {
        return Ok(());
    };
    fs::create_dir_all(storage)?;
    match symlink(storage, git.dir().join("lfs")) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

/// The file in a repository with its Git LFS configuration.
const CONFIG: &str = ".lfsconfig";
/// Other settings that git-lfs reads from that file, by `git-lfs-config(5)`, with their defaults.
/// (`lfs.locksverify` and `lfs.ADDRESS.access` may come from anybody: they can only make a trusted server
/// refuse.)
const OTHERS: &[(&str, &str)] = &[
    ("lfs.fetchinclude", ""),
    ("lfs.fetchexclude", ""),
    ("lfs.skipdownloaderrors", "false"),
    ("lfs.allowincompletepush", "false"),
    ("lfs.gitprotocol", "https"),
];
/// Addresses for all remotes. They take precedence over a single remote's.
const URL: &str = "lfs.url";
const PUSH_URL: &str = "lfs.pushurl";

/// Pattern of Git LFS settings in the user's own configuration, which takes precedence over a repository's.
pub(in crate::workspace) const OF_USER: &str = r"^lfs\.[a-z]+$";

/// The Git LFS settings in a git directory, for a git run with another directory's configuration.
pub(in crate::workspace) async fn settled(git: &Git) -> Result<Vec<(String, String)>, GitError> {
    let said = git
        .run("config")
        .args(["--local", "-z", "--get-regexp", r"^lfs\."]);
    let said = said.accept(&[0, 1]).output().await?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let pairs = said.split('\0').filter_map(|pair| pair.split_once('\n'));
    Ok(pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect())
}

/// Writes the Git LFS settings of `base` and the user's configuration into the worker's git directory, where
/// they take precedence over any `.lfsconfig`. Without the commit `base`, the repository's address decides.
pub(in crate::workspace) async fn settle(git: &Git, base: &str) -> Result<(), WorkspaceError> {
    let path = git.dir().join("config");
    let mut config = fs::read_to_string(&path).map_err(WorkspaceError::io("read", &path))?;
    if config.contains("[lfs]") || git.environment().lfs == MISSING {
        return Ok(());
    }
    let resolved = git.run("ls-remote").args(["--get-url", REMOTE]).output();
    let resolved = resolved.await?.word();
    let in_base = in_base(git, base).await?;
    let of_user = &git.environment().lfs_of_user;
    let user = |key: &str| setting(of_user, key);
    let base = |key: &str| setting(&in_base, key);
    let own = base(&format!("remote.{REMOTE}.lfsurl")).map_or_else(|| endpoint(&resolved), str::to_owned);
    let url = user(URL).or(base(URL)).unwrap_or(&own);
    let push_url = user(PUSH_URL).or(base(PUSH_URL)).unwrap_or(url);
    let others = OTHERS
        .iter()
        .map(|(key, default)| (*key, user(key).or(base(key)).unwrap_or(default)));
    config.push_str("[lfs]\n");
    for (key, value) in [(URL, url), (PUSH_URL, push_url)].into_iter().chain(others) {
        let name = key.trim_start_matches("lfs.");
        config.push_str(&format!("\t{name} = {}\n", quoted(value)));
    }
    fs::write(&path, config).map_err(WorkspaceError::io("write", &path))
}

fn setting<'a>(settings: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let mut of_key = settings.iter().rev().filter(|(name, _)| name == key);
    of_key.next().map(|(_, value)| value.as_str())
}

/// The commit's `.lfsconfig`; empty without that commit or file.
async fn in_base(git: &Git, base: &str) -> Result<Vec<(String, String)>, GitError> {
    let listed = git
        .run("ls-tree")
        .args([base, "--", CONFIG])
        .accept(&[0, 128])
        .output()
        .await?;
    if listed.stdout.is_empty() {
        return Ok(Vec::new());
    }
    let blob = format!("--blob={base}:{CONFIG}");
    let said = git
        .run("config")
        .args([blob.as_str(), "--null", "--list"])
        .output()
        .await?;
    Ok(pairs(&said.text()))
}

/// Parses the output of `git config --null`.
pub(in crate::workspace) fn pairs(listed: &str) -> Vec<(String, String)> {
    let pair = |entry: &str| {
        let (key, value) = entry.split_once('\n')?;
        Some((key.to_owned(), value.to_owned()))
    };
    listed.split('\0').filter_map(pair).collect()
}

/// The server that git-lfs derives from a repository's address.
fn endpoint(address: &str) -> String {
    let of_http = |address: &str| {
        let address = address.trim_end_matches('/');
        match address.ends_with(".git") {
            true => format!("{address}/info/lfs"),
            false => format!("{address}.git/info/lfs"),
        }
    };
    match address.split_once("://") {
        Some(("http" | "https", _)) => of_http(address),
        Some(("git", rest)) => of_http(&format!("https://{rest}")),
        Some(_) => address.to_owned(),
        None if address.starts_with('/') => format!("file://{address}"),
        None => address.to_owned(),
    }
}

/// Uploads the objects that `commit` names and `start` doesn't, if the repository uses Git LFS.
///
/// # Errors
/// When the server refuses them.
pub(in crate::workspace) async fn upload(
    git: &Git,
    start: &str,
    commit: &str,
    name: &str,
) -> Result<(), GitError> {
    let used = git
        .lfs_storage()
        .is_some_and(|storage| storage.join("objects").is_dir());
    if !used || start == commit {
        return Ok(());
    }
    // The input of a `pre-push` hook; hooks are off.
    faults::point("lfs.before_upload");
    let pushed = format!("{name} {commit} {name} {start}\n");
    git.run("lfs")
        .args(["pre-push", REMOTE])
        .input(pushed)
        .remote()
        .output()
        .await?;
    faults::point("lfs.after_upload");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_derived_from_addresses_as_git_lfs_does() {
        let rows = [
            ("https://h/a/b", "https://h/a/b.git/info/lfs"),
            ("https://me:pw@h/a/b.git/", "https://me:pw@h/a/b.git/info/lfs"),
            ("git://h/a", "https://h/a.git/info/lfs"),
            ("/srv/a.git", "file:///srv/a.git"),
            ("file:///srv/a", "file:///srv/a"),
            ("git@h:a/b.git", "git@h:a/b.git"),
            ("ssh://git@h/a", "ssh://git@h/a"),
        ];
        for (address, server) in rows {
            assert_eq!(endpoint(address), server, "{address}");
        }
    }
}
