//! The folders of a workspace while this process has locked them.

use std::fs::File;

use super::error::WorkspaceError;
use super::record::Folders;

/// A workspace's folders with their lock. Dropping releases the lock and, unless `stay` was called, deletes
/// the folders, so an interrupted preparation leaves nothing.
#[derive(Debug)]
pub(super) struct LockedWorkspace {
    folders: Folders,
    /// `None` when the folders are gone.
    lock: Option<File>,
    stays: bool,
}

impl LockedWorkspace {
    /// Locks the folders; `None` when another process, or another part of this one, has them.
    pub(super) fn take(folders: Folders) -> Result<Option<Self>, WorkspaceError> {
        let lock = folders.lock()?;
        Ok(lock.map(|lock| Self {
            folders,
            lock: Some(lock),
            stays: false,
        }))
    }

    pub(super) fn folders(&self) -> &Folders {
        &self.folders
    }

    /// Keeps the folders when this value is dropped.
    pub(super) fn stay(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Deletes the folders and waits for the deletion.
    ///
    /// # Errors
    /// When part of them can't be deleted.
    pub(super) async fn remove(mut self) -> Result<(), WorkspaceError> {
        let (folders, lock) = (self.folders.clone(), self.lock.take());
        let removed = tokio::task::spawn_blocking(move || {
            let removed = folders.remove();
            lock.iter().for_each(unlock);
            removed
        });
        let agent = &self.folders.agent;
        removed
            .await
            .unwrap_or_else(|stopped| Err(WorkspaceError::io("remove", agent)(stopped.into())))
    }
}

impl Drop for LockedWorkspace {
    fn drop(&mut self) {
        let Some(lock) = self.lock.take() else {
            return;
        };
        if self.stays {
            return unlock(&lock);
        }
        let folders = self.folders.clone();
        // A tree can be large, and this thread may serve other tasks.
        std::thread::spawn(move || {
            if let Err(error) = folders.remove() {
                tracing::warn!(%error, "failed to delete a workspace");
            }
            unlock(&lock);
        });
    }
}

/// Closing the file is not enough: a child that another thread is starting holds it open until it executes.
fn unlock(lock: &File) {
    if let Err(error) = lock.unlock() {
        tracing::warn!(%error, "failed to release the lock of a workspace");
    }
}
