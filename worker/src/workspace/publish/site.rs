//! The working area for changing branches: a git directory beside the mirror, for one dispatch.

use std::mem::take;
use std::path::PathBuf;

use parking_lot::{Mutex, MutexGuard};
use ralph_shared::wire::{GateStep, GitOrder, IntegrationEnd, StepTime};

use crate::workspace::cache::{Origin, Shelf, warm};
use crate::workspace::clone::gitdir::{self, Head, ObjectFormat};
use crate::workspace::clone::mirror::{FetchRequest, Fetched, Mirror};
use crate::workspace::clone::{self, AgentClone};
use crate::workspace::error::WorkspaceError;
use crate::workspace::git::Git;
use crate::workspace::record::Folders;
use crate::workspace::{
    cache,
    clone::{filters, lfs, submodules},
    commands, folder,
    snapshot::commit,
};
use crate::workspace::{
    settings::Settings,
    workspaces::{self, Workspaces},
};

/// Resources of an integration or another change of a branch.
pub(in crate::workspace) struct Site<'a> {
    pub(in crate::workspace) git: Git,
    pub(in crate::workspace) mirror: Mirror,
    /// The feature branch's whole name.
    pub(in crate::workspace) feature_ref: String,
    pub(in crate::workspace) git_order: &'a GitOrder,
    workspaces: &'a Workspaces,
    pub(in crate::workspace) folders: &'a Folders,
    pub(in crate::workspace) settings: &'a Settings,
    /// Times of the last run of the gate's commands.
    times: Mutex<Vec<StepTime>>,
}

impl<'a> Site<'a> {
    pub(in crate::workspace) fn new(
        workspaces: &'a Workspaces,
        folders: &'a Folders,
        order: &'a GitOrder,
    ) -> Self {
        Self {
            git: workspaces.git(folders, order),
            mirror: workspaces.mirror(order),
            feature_ref: workspaces::feature_ref(order),
            git_order: order,
            workspaces,
            folders,
            settings: workspaces.settings(),
            times: Mutex::default(),
        }
    }

    fn times(&self) -> MutexGuard<'_, Vec<StepTime>> {
        self.times.lock()
    }

    /// Takes the times of the last run of the gate's commands.
    pub(in crate::workspace) fn take_times(&self) -> Vec<StepTime> {
        take(&mut *self.times())
    }

    /// Creates the git directory, which borrows the mirror's objects.
    pub(in crate::workspace) fn make(&self) -> Result<(), WorkspaceError> {
        let format = ObjectFormat::of(&self.git_order.base);
        let borrowed = self.mirror.objects();
        let head = Head::Ref("refs/ralph/none");
        gitdir::make(self.git.dir(), format, head, Some(&borrowed), false, "")
            .and_then(|()| lfs::share(&self.git))
            .map_err(WorkspaceError::io("make the git directory", self.git.dir()))
    }

    /// Fetches with the history that merging and searching need.
    pub(in crate::workspace) async fn fetch(
        &self,
        wanted: &FetchRequest<'_>,
    ) -> Result<Fetched, WorkspaceError> {
        self.mirror.fetch_whole(wanted, self.git.dir()).await
    }

    /// Checks `new` out into an empty folder, with a separate `.git`.
    pub(in crate::workspace) async fn check_out(&self, new: &str) -> Result<(), WorkspaceError> {
        let tree = self.folders.tree();
        let git = self.git.clone().with_tree(tree.clone());
        // Files of earlier commands must not be run, and their links must not be followed.
        self.folders.empty_tree()?;
        lfs::settle(&git, &self.git_order.base).await?;
        clone::read_tree(&git, new).await?;
        filters::must_be_known(&git).await?;
        let clone = AgentClone {
            branch: &self.git_order.feature_branch,
            start: new,
            head: None,
            address: &self.git_order.repository.address,
            author: &commit::author(&git),
        };
        clone.write(&git, &tree, &self.git.dir().join("objects"))?;
        submodules::check_out(self.workspaces, &git, self.git_order, new, self.folders).await
    }

    /// Prepares a checkout of an agent's work and runs the gate in it.
    async fn run(
        &self,
        gate: &[String],
        steps: &[GateStep],
        new: &str,
    ) -> Result<Option<commands::CommandFailure>, WorkspaceError> {
        let objects = self.git.dir().join("objects");
        let modules = submodules::of(self.folders)?.into_iter().map(|module| module.dir);
        let borrowers = [self.git.dir().to_owned()].into_iter().chain(modules);
        let lenders = borrowers.filter_map(|dir| gitdir::lender(&dir));
        let objects: Vec<PathBuf> = lenders.chain([objects]).collect();
        let ports = folder::ports();
        let context = commands::CommandContext {
            tree: &self.folders.tree(),
            objects: &objects,
            folders: self.folders,
            by_shared_paths: true,
            ports: ports.as_ref(),
            purpose: commands::SETUP,
            settings: self.settings,
        };
        let shelf = Shelf::new(self.folders.data(), self.git_order);
        let git = self.git.clone().with_tree(self.folders.tree());
        warm::restore(&git, &shelf, (self.git_order, new), self.settings).await;
        if let Some(failure) = cache::set_up(context, &shelf, Origin::Attempt).await? {
            return Ok(Some(failure));
        }
        let purpose = commands::GATE;
        let commands::CommandsOutcome { failure, times } =
            commands::run_steps(gate, steps, commands::CommandContext { purpose, ..context }).await?;
        *self.times() = times;
        if failure.is_none() {
            let origin = Origin::of(&git, self.git_order, new).await?;
            warm::keep(&git, &shelf, (origin, new), self.settings).await;
        }
        Ok(failure)
    }

    /// Runs the gate's commands on a checkout of `new`. `None` when it may become a head.
    pub(in crate::workspace) async fn gate(
        &self,
        gate: &[String],
        steps: &[GateStep],
        new: &str,
    ) -> Result<Option<IntegrationEnd>, WorkspaceError> {
        if gate.is_empty() {
            return Ok(None);
        }
        self.check_out(new).await?;
        let failure = self.run(gate, steps, new).await?;
        Ok(failure.map(|failure| IntegrationEnd::GateFailed {
            command: failure.command,
            output: failure.output,
        }))
    }
}
