//! A repository on disk as the remote, and orders for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ralph_shared::ids::TaskId;
use ralph_shared::wire::{
    Decided, GitOrder, IntegrateOrder, IntegrationEnd, IntegrationReport, Landed, Repository, Snapshot,
    WorkspaceOrder,
};
use ralph_worker::workspace::{CommitMessage, Decision, Settings, TASK_TRAILER, Workspace, Workspaces};
use tempfile::TempDir;
use tokio::sync::watch;

pub const BRANCH: &str = "ralph/demo";
pub const FEATURE: &str = "refs/heads/ralph/demo";
/// The folder of the remote, in a process that [`Remote::kill_at`] runs.
const FOLDER: &str = "RALPH_TEST_REMOTE";

/// A bare repository with one commit, and a data folder for a worker.
pub struct Remote {
    pub dir: Dir,
    pub base: String,
    /// The address of a server that serves it; `None` means its path.
    pub address: Option<String>,
}

/// A temporary folder of this process, or a folder of the process that started it.
pub enum Dir {
    Own(TempDir),
    Others(PathBuf),
}

impl Dir {
    pub fn path(&self) -> &Path {
        match self {
            Self::Own(dir) => dir.path(),
            Self::Others(path) => path,
        }
    }
}

impl Remote {
    /// The remote that another process made in `dir`.
    pub fn at(dir: &Path) -> Self {
        let base = git(&dir.join("repo.git"), &["rev-parse", "main"]);
        Self {
            dir: Dir::Others(dir.to_owned()),
            base,
            address: None,
        }
    }

    /// The remote of the process that runs this one with [`Self::kill_at`]; `None` in any other process.
    pub fn of_killer() -> Option<Self> {
        std::env::var_os(FOLDER).map(|dir| Self::at(Path::new(&dir)))
    }

    /// Runs `test` with these variables in its own process, which must kill itself at `point`.
    pub async fn kill_at(&self, test: &str, point: &str, variables: &[(&str, &str)]) {
        let output = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(FOLDER, self.dir.path())
            .env("RALPH_FAULT", format!("{point}:kill"))
            .env("RALPH_FAULT_ONCE", self.data("killed"))
            .envs(variables.iter().copied())
            .output()
            .await
            .unwrap();
        let status = output.status;
        assert_eq!(status.signal(), Some(9), "{test} {point} {variables:?}: {status}");
    }

    /// A remote with the files `shared.txt` (ten lines), `a.txt` and `.gitignore` (`*.log`).
    pub fn new() -> Self {
        let dir = Dir::Own(tempfile::tempdir().unwrap());
        let remote = Self {
            dir,
            base: String::new(),
            address: None,
        };
        git(
            remote.dir.path(),
            &["init", "-q", "--bare", "-b", "main", "repo.git"],
        );
        let seed = remote.dir.path().join("seed");
        git(remote.dir.path(), &["clone", "-q", "repo.git", "seed"]);
        let lines: String = (0..10).map(|n| format!("line {n}\n")).collect();
        fs::write(seed.join("shared.txt"), lines).unwrap();
        fs::write(seed.join("a.txt"), "a\n").unwrap();
        fs::write(seed.join(".gitignore"), "*.log\n").unwrap();
        git(&seed, &["add", "-A"]);
        remote.with_base("Begin")
    }

    /// Commits the index of the folder `seed` and pushes it to `main`; the commit becomes the base.
    pub fn with_base(self, message: &str) -> Self {
        let seed = self.data("seed");
        git(&seed, &["commit", "-q", "-m", message]);
        git(&seed, &["push", "-q", "origin", "HEAD:main"]);
        let base = git(&seed, &["rev-parse", "HEAD"]);
        Self { base, ..self }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("repo.git")
    }

    pub fn data(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub async fn workspaces(&self) -> Workspaces {
        let settings = Settings {
            author: Some("Ann <ann@example.org>".to_owned()),
            ..Settings::default()
        };
        Workspaces::open_with(&self.data("data"), settings).await.unwrap()
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        git(&self.path(), arguments)
    }

    pub fn head(&self, name: &str) -> Option<String> {
        let found = self.git(&["for-each-ref", "--format=%(objectname)", name]);
        (!found.is_empty()).then_some(found)
    }

    /// Commits a file onto a branch, as another person would.
    pub fn commit(&self, branch: &str, from: &str, file: &str, text: &str) -> String {
        let seed = self.dir.path().join("seed");
        git(&seed, &["fetch", "-q", "origin"]);
        git(&seed, &["checkout", "-q", "--detach", from]);
        fs::write(seed.join(file), text).unwrap();
        git(&seed, &["add", "-A"]);
        git(&seed, &["commit", "-q", "-m", "Something else"]);
        git(
            &seed,
            &["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")],
        );
        git(&seed, &["rev-parse", "HEAD"])
    }

    pub fn hook(&self, name: &str, script: &str) {
        let path = self.path().join("hooks").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Number of the task's trailers on the feature branch.
    pub fn landings(&self, task: &str) -> usize {
        let format = format!("--format=%(trailers:key={TASK_TRAILER},valueonly)");
        let found = self.git(&["log", &format, FEATURE]);
        found.lines().filter(|line| *line == task).count()
    }

    pub fn order(&self, task: &str, dispatch: &str) -> GitOrder {
        let trailers = [(TASK_TRAILER, task), ("Ralph-Attempt", "1")];
        GitOrder {
            repository: Repository {
                address: match &self.address {
                    Some(address) => address.clone(),
                    None => self.path().to_str().unwrap().to_owned(),
                },
            },
            feature_branch: BRANCH.to_owned(),
            base: self.base.clone(),
            // The coordinator knows the branch's head, whatever it is.
            landed: self.head(FEATURE).map(landed),
            start: None,
            start_ref: None,
            cold: false,
            onto_head: false,
            gate: Vec::new(),
            attempt_ref: format!("refs/ralph/attempts/demo/{task}/1-{dispatch}"),
            trailers: trailers
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        }
    }

    /// A workspace for a task; the dispatch has the task's name.
    pub async fn prepare(&self, workspaces: &Workspaces, task: &str) -> Workspace {
        workspaces
            .prepare(&self.dispatch(task), &WorkspaceOrder::Git(self.order(task, task)))
            .await
            .unwrap()
    }

    /// Makes an attempt at a task: one file, pushed. Returns the commit.
    pub async fn attempt(&self, workspaces: &Workspaces, task: &str, file: &str, text: &str) -> String {
        let workspace = self.prepare(workspaces, task).await;
        fs::write(workspace.path().join(file), text).unwrap();
        let snapshot = finish(&workspace).await;
        workspace.remove().await.unwrap();
        snapshot.commit.unwrap()
    }

    /// Integrates the attempt of a task under a new dispatch.
    pub async fn integrate(
        &self,
        workspaces: &Workspaces,
        task: &str,
        dispatch: &str,
        order: &IntegrateOrder,
    ) -> IntegrationEnd {
        let git = self.integration_order(task, dispatch);
        self.integrate_as(workspaces, dispatch, &git, order).await
    }

    /// Integrates with these orders.
    pub async fn integrate_as(
        &self,
        workspaces: &Workspaces,
        dispatch: &str,
        git: &GitOrder,
        order: &IntegrateOrder,
    ) -> IntegrationEnd {
        let decide = |_: Decided| async { Decision::Push };
        let (_sender, end) = watch::channel(None);
        let dispatch = self.dispatch(dispatch);
        let report = workspaces.integrate(&dispatch, git, order, decide, end).await;
        report.end
    }

    /// Runs the gate on an attempt ahead of its turn.
    pub async fn check_ahead(
        &self,
        workspaces: &Workspaces,
        task: &str,
        dispatch: &str,
        order: &IntegrateOrder,
    ) -> IntegrationReport {
        let git = self.integration_order(task, dispatch);
        let decide = |_: Decided| async { panic!("a check lands nothing") };
        let (_sender, end) = watch::channel(None);
        let dispatch = self.dispatch(dispatch);
        workspaces.integrate(&dispatch, &git, order, decide, end).await
    }

    /// A dispatch's id, unique to this test: running commands ends every process on the machine with the
    /// dispatch's mark.
    pub fn dispatch(&self, name: &str) -> String {
        let dir = self.dir.path().file_name().unwrap().to_str().unwrap();
        format!("{name}-{}", dir.trim_start_matches('.'))
    }

    /// The coordinator's order to integrate a task's attempt.
    pub fn integration_order(&self, task: &str, dispatch: &str) -> GitOrder {
        GitOrder {
            start_ref: Some(self.order(task, task).attempt_ref),
            ..self.order(task, dispatch)
        }
    }
}

/// The last landed commit, of some task.
pub fn landed(commit: String) -> Box<Landed> {
    let task = TaskId(uuid::Uuid::nil());
    Box::new(Landed { commit, task })
}

/// An order to integrate `commit`, without a gate.
pub fn integrate_order(task: &str, commit: &str) -> IntegrateOrder {
    IntegrateOrder {
        protect: Vec::new(),
        commit: commit.to_owned(),
        subject: format!("Do {task}"),
        body: "Because.".to_owned(),
        after_conflict: false,
        brings: None,
        brings_ref: None,
        gate: Vec::new(),
        steps: Vec::new(),
        judged: false,
        ahead: None,
        passed: Vec::new(),
        failed: None,
        retries: 0,
        resume: None,
    }
}

pub async fn finish(workspace: &Workspace) -> Snapshot {
    let message = CommitMessage {
        subject: "Work".to_owned(),
        body: String::new(),
    };
    let snapshot = workspace.finish(&message).await;
    assert_eq!(snapshot.push_error, None);
    snapshot
}

/// Runs git as some user would; returns its output.
pub fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs([("GIT_AUTHOR_NAME", "T"), ("GIT_AUTHOR_EMAIL", "t@t")])
        .envs([("GIT_COMMITTER_NAME", "T"), ("GIT_COMMITTER_EMAIL", "t@t")])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
