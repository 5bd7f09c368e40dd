//! The folders of a workspace while this process has them.

use std::fs::File;

use super::error::WorkspaceError;
use super::record::Folders;

/// A workspace's folders with their lock. Dropping gives the lock back, and deletes the folders unless they are to
/// stay: so whatever is cut short in the middle leaves nothing.
#[derive(Debug)]
pub(super) struct LockedWorkspace {
    folders: Folders,
    /// `None` when the folders are gone.
    lock: Option<File>,
    stays: bool,
}

impl LockedWorkspace {
    /// Takes the folders; `None` when another process, or another part of this one, has them.
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

    /// Keeps the folders beyond this value.
    pub(super) fn stay(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Deletes the folders and waits for it.
    ///
    /// # Errors
    /// When something in them can't be deleted.
    pub(super) async fn remove(mut self) -> Result<(), WorkspaceError> {
        let (folders, lock) = (self.folders.clone(), self.lock.take());
        let removed = tokio::task::spawn_blocking(move || {
            let removed = folders.remove();
            lock.iter().for_each(give_back);
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
            return give_back(&lock);
        }
        let folders = self.folders.clone();
        // Not on this thread, which may serve others: a tree can be large.
        std::thread::spawn(move || {
            if let Err(error) = folders.remove() {
                tracing::warn!(%error, "failed to delete a workspace");
            }
            give_back(&lock);
        });
    }
}

/// Closing the file is not enough: a child that another thread is just starting has it open too, until it executes.
fn give_back(lock: &File) {
    if let Err(error) = lock.unlock() {
        tracing::warn!(%error, "failed to give back the lock of a workspace");
    }
}
