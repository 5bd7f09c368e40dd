//! Filters that a repository's attributes name (for example git-crypt), but that only its own configuration
//! defines. A worker's git doesn't know them, and refuses files that need them.

use std::path::Path;

use crate::config::{Config, read_table};
use crate::git::git;

/// A warning about the filters of the repository at `top`, if the user's git and the worker don't know one.
pub async fn warning(top: &Path) -> Option<String> {
    let attributes = ":(glob)**/.gitattributes";
    let grep = ["grep", "-h", "-o", "-E", "filter=[^[:space:]]+", "--", attributes];
    let found = git(Some(top), &grep).await.ok()?;
    let mut names: Vec<&str> = found
        .lines()
        .filter_map(|line| line.strip_prefix("filter="))
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names.into_iter().filter(|name| *name != "lfs") {
        if is_of_user(name).await || is_of_worker(name) {
            continue;
        }
        let pathspec = format!(":(attr:filter={name})");
        let files = git(Some(top), &["ls-files", "--", &pathspec])
            .await
            .unwrap_or_default();
        let path = files.lines().next().unwrap_or(".gitattributes");
        return Some(format!(
            "`{path}` needs the filter `{name}`, which at most this repository's own configuration defines; a worker's git doesn't \
             know it and will refuse the work: set it up for the worker's user (`git config --global filter.{name}.clean …`), or \
             name its commands in `[git.filters.{name}]` of the worker's .ralph.toml"
        ));
    }
    None
}

/// Whether the user's git configuration defines the filter.
async fn is_of_user(name: &str) -> bool {
    for verb in ["clean", "smudge", "process"] {
        let key = format!("filter.{name}.{verb}");
        if git(Some(Path::new("/")), &["config", "--get", &key])
            .await
            .is_ok()
        {
            return true;
        }
    }
    false
}

/// Whether the `.ralph.toml` here, which a worker on this machine reads, defines the filter.
fn is_of_worker(name: &str) -> bool {
    let table = Config::locate()
        .ok()
        .flatten()
        .and_then(|path| read_table(&path).ok());
    let filters = table.as_ref().and_then(|table| table.get("git")?.get("filters"));
    filters.is_some_and(|filters| filters.get(name).is_some())
}
