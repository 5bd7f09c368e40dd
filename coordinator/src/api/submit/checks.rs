//! Checks of submissions and edits.

use ralph_shared::address::public;
use ralph_shared::branch;
use ralph_shared::repositories::Repositories;
use ralph_shared::subjects::is_label;

use crate::api::body::{BudgetOptions, InvalidRunSettings, RepoRef};
use crate::api::http::app::App;
use crate::api::http::problem::Problem;
use crate::domain::budget::levels::{Level, Limit};
use crate::domain::graph::Graph;
use crate::domain::names;
use crate::domain::run::DEFAULT_MAX_PARALLEL;
use crate::domain::run::defaults::TaskDefaults;
use crate::store;
use crate::store::budget::Tasks;
use crate::store::feature::NewFeature;

const MOST_REVIEW_ROUNDS: i32 = 20;

pub(in crate::api) fn invalid_settings(options: InvalidRunSettings) -> Problem {
    match options {
        InvalidRunSettings::FirstIteration(_)
        | InvalidRunSettings::FixedNeedsModel
        | InvalidRunSettings::AboveCeiling { .. }
        | InvalidRunSettings::Name(_)
        | InvalidRunSettings::Pattern(_)
        | InvalidRunSettings::Step => Problem::refused(options.to_string()),
        InvalidRunSettings::Negative(_)
        | InvalidRunSettings::Retries(_)
        | InvalidRunSettings::Strategy(_)
        | InvalidRunSettings::EmptyCommand => Problem::invalid(options.to_string()),
    }
}

pub(in crate::api) fn check_name(name: &str) -> Result<(), Problem> {
    names::check(name).map_err(|error| Problem::invalid(error.to_string()))
}

pub(in crate::api) fn check_repo(repo: &RepoRef, allowed: &Repositories) -> Result<(), Problem> {
    let is_commit = |id: &str| {
        matches!(id.len(), 40 | 64)
            && id
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    if let Some(commit) = repo.base_commit.as_deref().filter(|id| !is_commit(id)) {
        return Err(Problem::invalid(format!(
            "`repo.base_commit` must be a full commit id in lower-case hex, not `{commit}`; omit it for the head of `base_ref`"
        )));
    }
    if repo.address.is_empty() || repo.address.starts_with('-') || repo.address.contains(['\0', '\n']) {
        return Err(Problem::invalid(format!(
            "`repo.address`: git does not accept the address `{}`",
            public(&repo.address)
        )));
    }
    allowed
        .check(&repo.address)
        .map_err(|error| Problem::refused(format!("`repo.address`: {error}")))?;
    if let Some(name) = &repo.branch {
        branch::check(name).map_err(|error| Problem::refused(format!("`repo.branch`: {error}")))?;
    }
    Ok(())
}

pub(in crate::api) fn checked_retries(change: Option<i32>) -> Result<i32, Problem> {
    match change.unwrap_or_else(|| TaskDefaults::default().max_retries) {
        n @ 0..=100 => Ok(n),
        _ => Err(Problem::invalid("`max_retries` is 0 to 100")),
    }
}

pub(in crate::api) fn checked_rounds(change: i32) -> Result<i32, Problem> {
    match change {
        rounds @ 0..=MOST_REVIEW_ROUNDS => Ok(rounds),
        _ => Err(Problem::invalid("`review_rounds` is 0 to 20")),
    }
}

pub(super) fn checked_parallel(change: Option<i32>, in_dir: bool) -> Result<i32, Problem> {
    match (in_dir, change) {
        (true, None | Some(1)) => Ok(1),
        (true, Some(2..)) => Err(Problem::refused(
            "only one session at a time works in a folder itself; omit `max_parallel`, or use a repository",
        )),
        (false, None) => Ok(DEFAULT_MAX_PARALLEL),
        (false, Some(n @ 1..)) => Ok(n),
        _ => Err(Problem::invalid("`max_parallel` must be at least 1")),
    }
}

/// Checks that no task of a graph for a folder names a pool.
pub(super) fn names_no_pool(graph: &Graph) -> Result<(), Problem> {
    match graph.nodes.iter().find(|node| node.pool.is_some()) {
        Some(node) => Err(Problem::refused(format!(
            "the task `{}` names a pool, but only the workers on the folder's machine can do it; omit the pool",
            node.key
        ))),
        None => Ok(()),
    }
}

pub(super) fn check_merge(feature: &NewFeature) -> Result<(), Problem> {
    if feature.merge.is_some() && feature.repo_address.is_none() {
        return Err(Problem::refused(
            "a feature without a repository can't be merged; omit `merge`",
        ));
    }
    if let (Some(_), Some(base)) = (feature.merge, &feature.base_ref)
        && branch::check(base).is_err()
    {
        let why =
            format!("`{base}` is not a branch that can be merged into; start from a branch, or omit `merge`");
        return Err(Problem::refused(why));
    }
    Ok(())
}

pub(in crate::api) fn checked_pool(change: Option<String>) -> Result<String, Problem> {
    let pool = change.unwrap_or_else(|| TaskDefaults::default().pool);
    if is_label(&pool) {
        Ok(pool)
    } else {
        Err(Problem::invalid(format!(
            "`{pool}` can't name a pool: use 1 to 40 of a-z, 0-9 and `-`"
        )))
    }
}

/// Limits in addition to the run's, checked against the limits of their levels, or of this feature.
pub(in crate::api) async fn limits(
    app: &App,
    options: &BudgetOptions,
    feature: &str,
) -> Result<Vec<(Level, Limit)>, Problem> {
    if options.is_none() {
        return Ok(Vec::new());
    }
    let ceilings = &app.deps.settings.levels;
    let levels = store::budget::read(&mut *app.db().await?, ceilings, Tasks::Of(&[]), false).await?;
    options
        .checked(|level| levels.limit(level, feature))
        .map_err(Problem::refused)
}
