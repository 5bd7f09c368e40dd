//! Submissions for a folder of one machine (DESIGN 6, `dir`).

use ralph_shared::machine::is_dir_pool;

use crate::api::body::DirRef;
use crate::api::http::app::App;
use crate::api::http::problem::Problem;
use crate::api::memory;
use crate::api::submit::checked_pool;
use crate::flow::submit::Submission;
use crate::store;
use crate::store::feature::NewFeature;

/// The refusal of a pool for work in a folder.
pub(in crate::api) const ELSEWHERE: &str = "work in a folder goes to the workers on its machine; omit `pool`";

/// Sets a feature's folder after checking it.
pub(in crate::api) fn set_dir(feature: &mut NewFeature, dir: Option<DirRef>) -> Result<(), Problem> {
    let Some(dir) = dir else { return Ok(()) };
    if feature.repo_address.is_some() {
        return Err(Problem::refused(
            "a feature works in clones of a repository or in a folder, not both",
        ));
    }
    if feature.merge.is_some() || feature.avoid_conflicts {
        return Err(Problem::refused(
            "work in a folder itself has no merges and no conflicts; omit `merge` and `avoid_conflicts`",
        ));
    }
    let up = dir.path.split('/').any(|part| part == "..");
    if !dir.path.starts_with('/') || dir.path.contains(['\0', '\n']) || up {
        return Err(Problem::refused(format!(
            "`{}` is not the absolute path of a folder; write it from the root, without `..`",
            dir.path
        )));
    }
    memory::check_repo(&dir.id)?;
    feature.max_parallel = 1;
    feature.repo_id = dir.id;
    feature.dir = Some(dir.path);
    Ok(())
}

/// The pool of a submission.
pub(in crate::api) fn pool_for(dir: Option<&DirRef>, change: Option<String>) -> Result<String, Problem> {
    match (dir, change) {
        (None, change) => checked_pool(change),
        (Some(_), Some(_)) => Err(Problem::refused(ELSEWHERE)),
        (Some(dir), None) if is_dir_pool(&dir.pool) => Ok(dir.pool.clone()),
        (Some(dir), None) => Err(Problem::invalid(format!(
            "`{}` is not the pool of a machine",
            dir.pool
        ))),
    }
}

/// The pool of a task that joins a feature, which may work in a folder.
pub(super) fn pool_of_addition(folder: Option<String>, change: &Option<String>) -> Result<String, Problem> {
    match (folder, change) {
        (Some(_), Some(_)) => Err(Problem::refused(ELSEWHERE)),
        (Some(pool), None) => Ok(pool),
        (None, pool) => checked_pool(pool.clone()),
    }
}

/// A warning when no worker may work in the folder.
pub(in crate::api) async fn warn_unserved(
    app: &App,
    submission: &Submission,
) -> Result<Option<String>, Problem> {
    let Some(dir) = &submission.feature.dir else {
        return Ok(None);
    };
    let pool = &submission.defaults.pool;
    let pools = store::worker::pools(&mut *app.db().await?, app.deps.settings.lease_ms()).await?;
    Ok((!pools.iter().any(|(served, _)| served == pool)).then(|| {
        format!(
            "no worker on the machine of {dir} may work in its folders yet: start one there with `ralph-worker run --dir {dir}` \
             (or `dirs` of `[workspace]` in its .ralph.toml)"
        )
    }))
}
