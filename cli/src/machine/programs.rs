//! Finds our own programs.

use std::path::PathBuf;

use anyhow::{Context as _, bail};

#[derive(Debug, Clone)]
pub struct Programs {
    /// This program.
    pub coordinator: PathBuf,
    /// `ralph-worker`: beside this program, else on the PATH.
    pub worker: PathBuf,
}

impl Programs {
    pub fn find() -> anyhow::Result<Self> {
        let coordinator = std::env::current_exe().context("failed to find this program's own file")?;
        let beside = coordinator.parent().map(|folder| folder.join("ralph-worker"));
        let on_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
        let mut candidates = beside.clone().into_iter().chain(
            on_path
                .into_iter()
                .flatten()
                .filter(|folder| folder.is_absolute())
                .map(|folder| folder.join("ralph-worker")),
        );
        let Some(worker) = candidates.find(|path| path.is_file()) else {
            bail!(
                "found no ralph-worker beside {} nor on the PATH; `make build` builds it",
                coordinator.display()
            );
        };
        Ok(Self { coordinator, worker })
    }
}
