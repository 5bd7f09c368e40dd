//! Rescue of work that an earlier instance of a worker didn't push.

use std::fs;
use std::time::Duration;

use ralph_shared::wire::Snapshot;

use crate::workspace::error::WorkspaceError;
use crate::workspace::folder::{StartPoint, Workspace};
use crate::workspace::locked::LockedWorkspace;
use crate::workspace::record::Record;
use crate::workspace::snapshot::commit::CommitMessage;
use crate::workspace::workspaces::Workspaces;
use crate::workspace::{cache, clone::mirror, record};

/// How long a folder without a record is left alone: a process may be about to write one.
const UNRECORDED: Duration = Duration::from_secs(60);

impl Workspaces {
    /// Workspaces with work that no running process holds, because an earlier instance was killed or its push
    /// failed, and workspaces without a repository whose files are not kept yet. Deletes all other unowned
    /// folders.
    pub async fn unpushed(&self) -> Vec<Workspace> {
        let mut found = Vec::new();
        let records = record::records(self.data());
        let entries = fs::read_dir(&records).into_iter().flatten().flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            match self.adopt(&name).await {
                Ok(workspace) => found.extend(workspace),
                Err(error) => tracing::error!(dispatch = %name, %error, "failed to read a workspace"),
            }
        }
        if fs::read_dir(&records).is_ok_and(|mut left| left.next().is_none()) {
            mirror::delete_broken(&record::mirrors(self.data()));
            cache::delete_halves(self.data());
        }
        found
    }

    async fn adopt(&self, dispatch: &str) -> Result<Option<Workspace>, WorkspaceError> {
        let folders = self.folders(dispatch)?;
        if folders.read()?.is_none() && folders.idle_time().is_none_or(|age| age < UNRECORDED) {
            return Ok(None);
        }
        let Some(locked) = LockedWorkspace::take(folders)? else {
            return Ok(None);
        };
        // A workspace with an unreadable record stays.
        let locked = locked.stay();
        let record = locked.folders().read()?;
        if record.as_ref().is_some_and(Record::holds_files) {
            let workspace = Workspace::scratch(dispatch, locked);
            return Ok(Some(workspace.keep_files_for(self.settings().keep_files_days)));
        }
        let work = record
            .as_ref()
            .and_then(|record| Some((record, record.holds_work()?)));
        let Some((record, (order, start))) = work else {
            locked.remove().await?;
            return Ok(None);
        };
        let git = self
            .git(locked.folders(), order)
            .with_tree(locked.folders().tree());
        let start_point = StartPoint {
            start: start.to_owned(),
            branch: None,
            git,
        };
        Ok(Some(Workspace::git(record, order, start_point, locked)))
    }

    /// Pushes the workspaces of [`Self::unpushed`]. Deletes those that were pushed, or that a server has
    /// refused for longer than files are kept. Returns each dispatch with its snapshot. Others with a
    /// `push_error` stay for the next time.
    pub async fn rescue_unpushed(&self, message: &CommitMessage) -> Vec<(String, Snapshot)> {
        let mut rescued = Vec::new();
        for workspace in self.unpushed().await {
            let snapshot = workspace.finish(message).await;
            let dispatch = workspace.dispatch().to_owned();
            if (snapshot.is_pushed() || workspace.is_given_up(self.settings().keep_files_days))
                && let Err(error) = workspace.remove().await
            {
                tracing::warn!(%dispatch, %error, "failed to delete a workspace");
            }
            rescued.push((dispatch, snapshot));
        }
        rescued
    }
}
