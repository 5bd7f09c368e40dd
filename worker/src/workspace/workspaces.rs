//! All workspaces of one data folder, and what they share.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_shared::at_length::at_length;
use ralph_shared::wire::{GitOrder, WorkspaceOrder};

use super::error::WorkspaceError;
use super::git::Git;
use super::locked::LockedWorkspace;
use super::record::{self, Folders, Purpose, Record, State};
use crate::workspace::cache::warm;
use crate::workspace::clone::gitdir::{self, Head, ObjectFormat};
use crate::workspace::clone::mirror::Mirror;
use crate::workspace::git::address;
use crate::workspace::git::environment::Environment;
use crate::workspace::in_place::lock;
use crate::workspace::settings::Settings;
use crate::workspace::snapshot::commit;

/// The workspaces of one data folder. Cheap to clone; several processes may share a data folder.
#[derive(Debug, Clone)]
pub struct Workspaces {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    data: PathBuf,
    environment: Arc<Environment>,
    settings: Settings,
    /// Measured sizes of warm build output.
    warm: warm::Sizes,
}

impl Workspaces {
    /// Opens or creates the workspaces below `data`, with default settings.
    ///
    /// # Errors
    /// When git is missing or older than 2.38, or the folder can't be created.
    pub async fn open(data: &Path) -> Result<Self, WorkspaceError> {
        Self::open_with(data, Settings::default()).await
    }

    /// Opens or creates the workspaces below `data`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_with(data: &Path, settings: Settings) -> Result<Self, WorkspaceError> {
        record::make_private(data)?;
        let data = fs::canonicalize(data).map_err(WorkspaceError::io("find", data))?;
        for folder in [
            record::workspaces(&data),
            record::records(&data),
            record::mirrors(&data),
        ] {
            record::make_private(&folder)?;
        }
        let environment = Environment::probe(&settings).await?;
        Ok(Self {
            shared: Arc::new(Shared {
                data,
                environment,
                settings,
                warm: warm::Sizes::default(),
            }),
        })
    }

    /// Signs a commit as landed commits are signed; `false` where the worker's user signs none.
    ///
    /// # Errors
    /// When signing fails or needs a person.
    pub async fn try_to_sign(&self) -> Result<bool, WorkspaceError> {
        let dir = self.shared.data.join("signing");
        let format = ObjectFormat::of("");
        let head = Head::Ref("refs/ralph/none");
        gitdir::make(&dir, format, head, None, true, "").map_err(WorkspaceError::io("make", &dir))?;
        Ok(commit::try_to_sign(&self.git_in(dir)).await?)
    }

    /// Releases the folders in which sessions of an earlier instance worked. Their processes must have ended.
    pub fn confirm_dirs_ended(&self) {
        lock::free_own(&self.shared.data);
    }

    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Size of the build output that is kept for later checkouts. Bytes.
    pub fn warm_bytes(&self) -> u64 {
        at_length(|| self.shared.warm.measure(&self.shared.data))
    }

    /// Locks the dispatch's folders for this process, empty, with a first record. They are deleted with the
    /// returned value unless [`LockedWorkspace::stay`] is called.
    pub(super) fn take(
        &self,
        dispatch: &str,
        order: &WorkspaceOrder,
        purpose: Purpose,
    ) -> Result<(LockedWorkspace, Record), WorkspaceError> {
        let busy = || WorkspaceError::Busy {
            dispatch: dispatch.to_owned(),
        };
        let locked = LockedWorkspace::take(self.folders(dispatch)?)?.ok_or_else(busy)?;
        let folders = locked.folders();
        if folders
            .read()?
            .is_some_and(|record| record.holds_work().is_some())
        {
            locked.stay();
            return Err(busy());
        }
        folders.clear()?;
        folders.make()?;
        let record = Record {
            dispatch: dispatch.to_owned(),
            order: order.clone(),
            purpose,
            state: State::Preparing,
        };
        folders.write(&record)?;
        Ok((locked, record))
    }

    pub(super) fn folders(&self, dispatch: &str) -> Result<Folders, WorkspaceError> {
        Folders::new(&self.shared.data, dispatch)
    }

    pub(super) fn data(&self) -> &Path {
        &self.shared.data
    }

    /// The worker's own git directory for a workspace.
    pub(super) fn git(&self, folders: &Folders, order: &GitOrder) -> Git {
        let address = &order.repository.address;
        let storage = self.mirror_dir(address).join("lfs");
        Git::new(self.shared.environment.clone(), folders.git(), address)
            .with_lfs_storage(storage)
            .with_attempt(&order.attempt_ref)
    }

    pub(super) fn mirror(&self, order: &GitOrder) -> Mirror {
        self.mirror_of(&order.repository.address, ObjectFormat::of(&order.base))
    }

    pub(super) fn mirror_of(&self, address: &str, format: ObjectFormat) -> Mirror {
        let dir = self.mirror_dir(address);
        let git = Git::new(self.shared.environment.clone(), dir.clone(), address);
        let git = git.with_lfs_storage(dir.join("lfs"));
        Mirror::new(git, format, address, &self.shared.settings.history)
    }

    /// Git in the mirror of any repository, without a remote.
    pub(super) fn git_in(&self, mirror: PathBuf) -> Git {
        Git::new(self.shared.environment.clone(), mirror, "")
    }

    fn mirror_dir(&self, address: &str) -> PathBuf {
        record::mirrors(&self.shared.data).join(address::mirror_name(address))
    }
}

pub(super) fn feature_ref(order: &GitOrder) -> String {
    format!("refs/heads/{}", order.feature_branch)
}

/// Refuses values that git would take for something else, such as an option.
pub(super) fn check(order: &GitOrder) -> Result<(), WorkspaceError> {
    let wrong = |what: &str, value: &str| Err(WorkspaceError::Order(format!("{what} `{value}` is invalid")));
    let address = &order.repository.address;
    if address.is_empty() || address.starts_with('-') || address.contains(['\n', '\0']) {
        return wrong("the repository's address", &address::public(address));
    }
    let feature_ref = feature_ref(order);
    let refs = [
        Some(&feature_ref),
        Some(&order.attempt_ref),
        order.start_ref.as_ref(),
    ];
    if let Some(name) = refs.into_iter().flatten().find(|name| !address::is_ref(name)) {
        return wrong("the ref", name);
    }
    let landed = order.landed.as_ref().map(|landed| &landed.commit);
    let ids = [Some(&order.base), order.start.as_ref(), landed];
    match ids.into_iter().flatten().find(|id| !address::is_object_id(id)) {
        Some(id) => wrong("the commit", id),
        None => Ok(()),
    }
}
