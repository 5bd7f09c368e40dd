//! The top folder of a local repository, or why git can't use it.

use std::path::{Path, PathBuf};

use crate::args::usage::Usage;
use crate::git::git;

/// The top folder of the given repository, else of the current one; the git directory of a bare one.
///
/// # Errors
/// When there is no repository, git can't use it, or the path is a folder inside it.
pub async fn top_level(given: Option<&str>) -> anyhow::Result<PathBuf> {
    let Some(given) = given else {
        let top = git(None, &["rev-parse", "--show-toplevel"]).await.map_err(|error| match is_none(&error) {
            true => Usage("the current folder is in no git repository; name one with --repo, or give --no-repo for work without code".into()),
            false => unusable("the repository of the current folder", &error),
        })?;
        return Ok(PathBuf::from(top));
    };
    let path = Path::new(given).canonicalize().map_err(|error| {
        Usage(format!(
            "there is no repository {given}: {error}; give its path or its address"
        ))
    })?;
    let is_bare = git(Some(&path), &["rev-parse", "--is-bare-repository"]).await;
    let top = match &is_bare {
        Ok(bare) if bare == "true" => git(Some(&path), &["rev-parse", "--absolute-git-dir"]).await,
        Ok(_) => git(Some(&path), &["rev-parse", "--show-toplevel"]).await,
        Err(error) if is_none(error) => {
            return Err(Usage(format!(
                "{} is no git repository; `git init` makes one",
                path.display()
            ))
            .into());
        }
        Err(error) => return Err(unusable(&path.display().to_string(), error).into()),
    };
    let top = PathBuf::from(top?);
    if top.canonicalize().unwrap_or_else(|_| top.clone()) != path {
        return Err(Usage(format!(
            "{} is no git repository, only a folder of {}; name that one, or run `git init` in the folder",
            path.display(),
            top.display()
        ))
        .into());
    }
    Ok(path)
}

/// Whether git reports that there is no repository at all.
fn is_none(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("not a git repository")
}

/// The error for an existing repository that git can't use, with git's own words: its owner, a needed git
/// version, or a configuration error.
fn unusable(what: &str, error: &anyhow::Error) -> Usage {
    Usage(format!("git can't use {what}: {error:#}"))
}
