//! The part of a repository that a mirror holds: everything, or as little as `[workspace]` says, and more
//! when the work needs it.

use std::path::Path;

use super::gitdir::{self, SHALLOW};
use super::mirror::{FetchRequest, Fetched, Mirror};
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::publish::rebase;
use crate::workspace::settings::History;

/// How often a truncated history is deepened before all of it is fetched.
const DEEPENINGS: u32 = 3;

impl History {
    /// The lines for a mirror's configuration.
    pub(in crate::workspace) fn config(&self) -> String {
        match &self.filter {
            None => String::new(),
            Some(filter) => format!(
                "{}\tpartialCloneFilter = {}\n",
                gitdir::PARTIAL,
                gitdir::quoted(filter)
            ),
        }
    }

    /// Options of a fetch into the mirror `dir`. Only an empty mirror gets a short history: later fetches
    /// extend it.
    pub(in crate::workspace) fn options(&self, dir: &Path) -> Vec<String> {
        let depth = self.depth.filter(|_| is_empty(dir));
        let depth = depth.map(|depth| format!("--depth={depth}"));
        let filter = self.filter.iter().map(|filter| format!("--filter={filter}"));
        depth.into_iter().chain(filter).collect()
    }
}

fn is_empty(dir: &Path) -> bool {
    let entries = |folder: &str| {
        std::fs::read_dir(dir.join(folder))
            .into_iter()
            .flatten()
            .flatten()
    };
    // An interrupted fetch leaves only an unusable `tmp_pack_…`.
    let is_partial = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("tmp_");
    entries("objects/pack").all(is_partial)
        && entries("objects").all(|entry| matches!(entry.file_name().to_str(), Some("info" | "pack")))
}

impl Mirror {
    /// As [`Self::fetch`], but with the whole history between the base and the requested commits, which
    /// merging and searching need. `borrower` is a git directory that borrows from this mirror.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub(in crate::workspace) async fn fetch_whole(
        &self,
        wanted: &FetchRequest<'_>,
        borrower: &Path,
    ) -> Result<Fetched, WorkspaceError> {
        let fetched = self.fetch_all_between(wanted).await?;
        gitdir::borrow(borrower, &self.objects())
            .map_err(WorkspaceError::io("make the git directory", borrower))?;
        Ok(fetched)
    }

    /// As [`Self::fetch_whole`], before a borrower exists.
    pub(in crate::workspace) async fn fetch_all_between(
        &self,
        wanted: &FetchRequest<'_>,
    ) -> Result<Fetched, WorkspaceError> {
        let fetched = self.fetch(wanted).await?;
        self.make_whole(wanted, &fetched).await?;
        Ok(fetched)
    }

    async fn make_whole(&self, wanted: &FetchRequest<'_>, fetched: &Fetched) -> Result<(), WorkspaceError> {
        let ends_early = || self.git.dir().join(SHALLOW).exists();
        if !ends_early() {
            return Ok(());
        }
        let _lock = self.lock().await?;
        let tips = fetched.refs.iter().chain([&fetched.commit]).flatten();
        let tips: Vec<&str> = tips.map(String::as_str).collect();
        let named = wanted.refs.iter().zip(&fetched.refs);
        let named = named.filter(|(_, found)| found.is_some());
        let mut refspecs: Vec<String> = named.map(|(name, _)| format!("+{name}:{name}")).collect();
        if refspecs.is_empty() {
            refspecs.extend(tips.iter().map(|tip| (*tip).to_owned()));
        }
        let mut commits = self.history.depth.unwrap_or(1).max(16);
        for _ in 0..DEEPENINGS {
            if !ends_early() || self.all_after(wanted.base, &tips).await? {
                return Ok(());
            }
            let longer = vec![format!("--deepen={commits}")];
            self.fetch_with(longer, refspecs.iter()).await?;
            commits = commits.saturating_mul(8);
        }
        if ends_early() && !self.all_after(wanted.base, &tips).await? {
            let all = vec!["--unshallow".to_owned()];
            self.fetch_with(all, refspecs.iter()).await?;
        }
        Ok(())
    }

    async fn all_after(&self, base: &str, tips: &[&str]) -> Result<bool, GitError> {
        for tip in tips {
            if !rebase::is_ancestor(&self.git, base, tip).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
