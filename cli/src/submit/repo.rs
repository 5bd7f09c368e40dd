//! Finds and checks the repository of a submission, and pins it to a commit.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use ralph_api::body::{DirRef, RepoRef};
use ralph_api::view::{FeatureView, Page};
use ralph_domain::names;
use ralph_domain::names::repository::{choose_base, is_address, normalised, without_secret};
use ralph_shared::machine::dir_pool;
use ralph_shared::wire::MergeHow;

use super::top_level::top_level;
use crate::args::usage::Usage;
use crate::client::{ApiError, Client, escape};
use crate::config::Config;
use crate::git::checked_out;
use crate::git::git;

/// The repository, and its base.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Repository")]
pub struct RepoFlags {
    /// Address or path of the repository; a path is for workers on this machine [default: that of the current folder]
    #[arg(long, env = "RALPH_REPO", value_name = "URL|PATH")]
    repo: Option<String>,
    /// Branch or tag to start from [default: the checked-out branch]
    #[arg(long, env = "RALPH_BASE", value_name = "REF")]
    base: Option<String>,
    /// The feature's branch [default: ralph/NAME]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// No repository: each task gets an empty folder (`--workspace scratch`)
    #[arg(long, conflicts_with_all = ["repo", "base", "branch"])]
    no_repo: bool,
    /// Where agents work: each attempt in a clone of its own (git), in an empty folder (scratch), or all of
    /// them, one at a time, in the folder itself (dir), where nothing is committed and nothing undone
    #[arg(long, value_enum, default_value_t = WorkspaceMode::Git, value_name = "MODE")]
    workspace: WorkspaceMode,
}

impl RepoFlags {
    /// Whether any flag sets the place of work.
    pub fn is_given(&self) -> bool {
        self.repo.is_some() || self.no_repo || self.workspace != WorkspaceMode::Git
    }
}

/// Workspace mode (DESIGN 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum WorkspaceMode {
    /// A clone for each attempt
    #[default]
    Git,
    /// The folder itself: --repo PATH, else the current one
    Dir,
    /// An empty folder
    Scratch,
}

/// The folder for in-place work, if any.
///
/// # Errors
/// When the folder does not exist, or a flag has no meaning with it.
pub async fn dir(flags: &RepoFlags) -> anyhow::Result<Option<DirRef>> {
    if flags.workspace != WorkspaceMode::Dir {
        return Ok(None);
    }
    if flags.no_repo || flags.base.is_some() || flags.branch.is_some() {
        let why = "--workspace dir works in the folder as it is; leave out --base, --branch and --no-repo";
        return Err(Usage(why.to_owned()).into());
    }
    let given = flags.repo.as_deref().unwrap_or(".");
    let path = Path::new(given)
        .canonicalize()
        .ok()
        .filter(|path| path.is_dir())
        .ok_or_else(|| {
            Usage(format!(
                "there is no folder {given} on this machine; name one with --repo PATH"
            ))
        })?;
    let path = path
        .to_str()
        .with_context(|| format!("the path {} is not UTF-8", path.display()))?
        .to_owned();
    let pool = dir_pool();
    let id = match top_level(Some(&path)).await {
        Ok(top) => identity_at(&top, &path).await,
        Err(_) => format!("{pool}:{path}"),
    };
    Ok(Some(DirRef { path, pool, id }))
}

/// Resolves the flags to a repository; `feature` is its name, or empty if not known yet.
///
/// # Errors
/// When the repository or its base does not exist, or the feature's branch is taken.
pub async fn resolve(flags: &RepoFlags, feature: &str, client: &Client) -> anyhow::Result<Option<RepoRef>> {
    if flags.no_repo || flags.workspace != WorkspaceMode::Git {
        return Ok(None);
    }
    if let Some(branch) = &flags.branch {
        ralph_shared::branch::check(branch).map_err(|error| Usage(error.to_string()))?;
    }
    let found = match &flags.repo {
        Some(address) if is_address(address) => remote(address, flags.base.as_deref()).await?,
        given => local(given.as_deref(), flags.base.as_deref()).await?,
    };
    let branch = match (&flags.branch, feature) {
        (Some(branch), _) => Some(branch.clone()),
        (None, "") => None,
        (None, feature) => Some(names::branch(feature)),
    };
    if let Some(branch) = &branch
        && found.has_tag(branch).await?
    {
        return Err(Usage(format!(
            "`{branch}` is a tag in {}, and git could not distinguish a branch of that name; choose another with --branch",
            without_secret(&found.address)
        ))
        .into());
    }
    if let Some(branch) = &branch
        && let Some(existing) = found.in_the_way(branch).await?
    {
        return Err(branch_conflict(client, feature, branch, &existing, &found).await);
    }
    Ok(Some(RepoRef {
        address: found.address,
        id: Some(found.id),
        base_ref: Some(found.base_ref),
        base_commit: Some(found.base_commit),
        branch,
    }))
}

/// The top folder of the submitted checkout, if it is on this machine.
pub async fn local_top(flags: &RepoFlags) -> Option<PathBuf> {
    let is_elsewhere = flags.repo.as_deref().is_some_and(is_address);
    if flags.no_repo || flags.workspace != WorkspaceMode::Git || is_elsewhere {
        return None;
    }
    top_level(flags.repo.as_deref()).await.ok()
}

/// Warnings about a local checkout, before its feature is submitted and later merged as `how` says.
pub async fn warnings(flags: &RepoFlags, how: Option<MergeHow>) -> impl Iterator<Item = String> {
    let warnings = [
        uncommitted(flags).await,
        filters(flags).await,
        checked_out(flags, how).await,
    ];
    warnings.into_iter().flatten()
}

/// A warning about uncommitted changes of a local checkout, which agents won't see.
async fn uncommitted(flags: &RepoFlags) -> Option<String> {
    let top = local_top(flags).await.filter(|_| flags.base.is_none())?;
    let changed = git(Some(&top), &["status", "--porcelain", "--untracked-files=no"])
        .await
        .ok()?;
    let (files, are) = match changed.lines().count() {
        0 => return None,
        1 => ("1 file".to_owned(), "isn't"),
        n => (format!("{n} files"), "aren't"),
    };
    Some(format!(
        "{files} in {} {are} committed: agents start from the last commit, without them",
        top.display()
    ))
}

/// A warning about filters of a local repository that workers' git may not know.
async fn filters(flags: &RepoFlags) -> Option<String> {
    super::filters::warning(&local_top(flags).await?).await
}

/// The effect of a merge as `how` says on a local checkout of the feature's base, if there is one.
pub async fn checked_out(flags: &RepoFlags, how: Option<MergeHow>) -> Option<String> {
    if flags.no_repo || flags.workspace != WorkspaceMode::Git || how.is_none() {
        return None;
    }
    if flags.repo.as_deref().is_some_and(is_address) {
        let base = flags.base.as_deref()?;
        return checked_out::warning(flags.repo.as_deref()?, base, how).await;
    }
    let top = top_level(flags.repo.as_deref()).await.ok()?;
    let base = match &flags.base {
        Some(base) => base.clone(),
        None => git(Some(&top), &["symbolic-ref", "--quiet", "--short", "HEAD"])
            .await
            .ok()?,
    };
    checked_out::warning(top.to_str()?, &base, how).await
}

struct FoundRepository {
    address: String,
    id: String,
    base_ref: String,
    base_commit: String,
}

impl FoundRepository {
    async fn has_tag(&self, name: &str) -> anyhow::Result<bool> {
        let tag = format!("refs/tags/{name}");
        let refs = git(None, &["ls-remote", "--tags", "--", &self.address, &tag]).await?;
        Ok(refs.lines().any(|line| line.split('\t').nth(1) == Some(&*tag)))
    }

    /// An existing branch that conflicts: this one, else one that git can't have beside it.
    async fn in_the_way(&self, branch: &str) -> anyhow::Result<Option<String>> {
        let above = names::above(branch).map(|above| format!("refs/heads/{above}"));
        let below = format!("{branch}/");
        let patterns = above.chain([format!("refs/heads/{branch}"), format!("refs/heads/{below}*")]);
        let patterns: Vec<String> = patterns.collect();
        let mut args = vec!["ls-remote", "--", &self.address];
        args.extend(patterns.iter().map(String::as_str));
        let refs = git(None, &args).await?;
        let mut existing: Vec<&str> = refs
            .lines()
            .filter_map(|line| line.split('\t').nth(1)?.strip_prefix("refs/heads/"))
            .filter(|name| {
                *name == branch
                    || name.starts_with(&below)
                    || names::above(branch).any(|above| above == *name)
            })
            .collect();
        existing.sort_by_key(|name| *name != branch);
        Ok(existing.first().map(|name| (*name).to_owned()))
    }
}

/// Why the feature can't have this branch while `existing` exists.
async fn branch_conflict(
    client: &Client,
    feature: &str,
    branch: &str,
    existing: &str,
    found: &FoundRepository,
) -> anyhow::Error {
    let path = format!("/features/{}?repo={}", escape(feature), escape(&found.id));
    let same: anyhow::Result<FeatureView> = client.get(&path).await;
    let problem = match same {
        Ok(same) if same.repo_id == found.id && same.branch.as_deref() == Some(branch) => format!(
            "the feature `{feature}` stands already ({}); see `ralph feature show {feature}`, or choose \
             another name",
            same.id
        ),
        // Other errors don't matter here: the branch exists.
        Err(error) if error.downcast_ref::<ApiError>().is_none() => return error,
        Ok(_) | Err(_) => match owner(client, existing, &found.id).await {
            Ok(Some(owner)) => names::branch_taken(branch, existing, &owner),
            Ok(None) if existing != branch => format!(
                "{}, which exists in {} and is no feature's; choose another branch with --branch, or rename that one",
                names::branch_beside(branch, existing),
                found.address
            ),
            Ok(None) => format!(
                "the branch `{branch}` exists in {} already and is no feature's; choose another name, or another branch with \
                 --branch, or delete the branch if nobody needs it",
                found.address
            ),
            Err(error) => return error,
        },
    };
    Usage(problem).into()
}

/// The name of the feature of the repository that lands on this branch.
async fn owner(client: &Client, branch: &str, repo_id: &str) -> anyhow::Result<Option<String>> {
    let all: Page<FeatureView> = client.list("/features", "", usize::MAX).await?;
    let lands =
        |feature: &FeatureView| feature.repo_id == repo_id && feature.branch.as_deref() == Some(branch);
    Ok(all.items.into_iter().find(lands).map(|feature| feature.name))
}

async fn local(given: Option<&str>, base: Option<&str>) -> anyhow::Result<FoundRepository> {
    let top = top_level(given).await?;
    let at = Some(top.as_path());
    let shown = top.display();
    if git(at, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
        .await
        .is_err()
        && base.is_none()
    {
        return Err(Usage(format!(
            "the repository {shown} has no commit on the checked-out branch; commit something first, or name another \
             branch with --base"
        ))
        .into());
    }
    let base_ref = match base {
        Some(base) => base.to_owned(),
        None => git(at, &["symbolic-ref", "--quiet", "--short", "HEAD"])
            .await
            .map_err(|_| {
                Usage(format!(
                    "no branch is checked out in {shown}; name one with --base"
                ))
            })?,
    };
    let commit = format!("{base_ref}^{{commit}}");
    let base_commit = git(
        at,
        &["rev-parse", "--verify", "--quiet", "--end-of-options", &commit],
    )
    .await
    .map_err(|_| unknown_base(&base_ref, &shown.to_string()))?;
    // A linked work tree may be removed before the work is done; its main repository stays.
    let address = match main_of(&top).await {
        Some(main) => main,
        None => top
            .to_str()
            .with_context(|| {
                format!("the path {shown} is not UTF-8; give the repository's address with --repo")
            })?
            .to_owned(),
    };
    let id = identity_at(&top, &address).await;
    Ok(FoundRepository {
        id,
        address,
        base_ref,
        base_commit,
    })
}

/// `[workspace] repo_id` of the repository's own file.
fn configured(top: &Path) -> Option<String> {
    let path = top.join(".ralph.toml");
    // An unreadable file is reported where its limits are read.
    let config = path.is_file().then(|| Config::read(&path).ok())??;
    config.workspace.repo_id.filter(|id| !id.is_empty())
}

/// The identity of the repository at `top`: the configured one, else its origin's address unless that is a
/// relative path, else its own path.
async fn identity_at(top: &Path, address: &str) -> String {
    if let Some(id) = configured(top) {
        return id;
    }
    match git(Some(top), &["config", "--get", "remote.origin.url"]).await {
        // An origin that is a path may be relative to the repository.
        Ok(origin) if is_address(&origin) || origin.starts_with('/') => normalised(&origin),
        Ok(_) | Err(_) => match main_of(top).await {
            Some(main) => normalised(&main),
            None => normalised(address),
        },
    }
}

/// Path of the main repository, if `top` is a linked work tree (`git worktree add`).
async fn main_of(top: &Path) -> Option<String> {
    let ask = [
        "rev-parse",
        "--path-format=absolute",
        "--git-dir",
        "--git-common-dir",
    ];
    let dirs = git(Some(top), &ask).await.ok()?;
    let (own, common) = dirs.split_once('\n')?;
    (own != common).then(|| common.strip_suffix("/.git").unwrap_or(common).to_owned())
}

/// Identity of a repository for memory: an address or a path stands for its repository, any other word is an
/// identity, and `None` means the repository of this folder. Outside of any repository, that of features
/// without code.
pub async fn identity(given: Option<&str>) -> anyhow::Result<String> {
    let top = match given {
        Some(address) if is_address(address) => return Ok(normalised(address)),
        Some(path) if path.starts_with(['/', '.']) && Path::new(path).exists() => top_level(given).await?,
        Some(name) => return Ok(name.to_owned()),
        None => match top_level(None).await {
            Ok(top) => top,
            Err(_) => return Ok(String::new()),
        },
    };
    Ok(identity_at(&top, &top.display().to_string()).await)
}

/// The identity that a submission from this folder would have, if there is a repository.
pub async fn here() -> Option<String> {
    let given = std::env::var("RALPH_REPO").ok().filter(|given| !given.is_empty());
    let id = identity(given.as_deref()).await.ok()?;
    Some(id).filter(|id| !id.is_empty())
}

async fn remote(address: &str, base: Option<&str>) -> anyhow::Result<FoundRepository> {
    let refs = git(None, &["ls-remote", "--symref", "--", address])
        .await
        .with_context(|| format!("the repository {} can't be reached", without_secret(address)))?;
    let (base_ref, base_commit) = choose_base(&refs, base).ok_or_else(|| match base {
        Some(base) => unknown_base(base, &without_secret(address)),
        None => Usage(format!(
            "the repository {} has no commit, or no default branch; name a branch with --base",
            without_secret(address)
        )),
    })?;
    Ok(FoundRepository {
        id: normalised(address),
        address: address.to_owned(),
        base_ref,
        base_commit,
    })
}

fn unknown_base(base: &str, repository: &str) -> Usage {
    Usage(format!(
        "there is no branch, tag or commit `{base}` in {repository}; name another with --base"
    ))
}
