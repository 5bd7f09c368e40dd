//! Cost of git for a worker: a workspace of a large repository compared with a plain checkout, and
//! integrations of small tasks.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use ralph_shared::ids::TaskId;
use ralph_shared::wire::{
    Decided, GitOrder, IntegrateOrder, IntegrationEnd, Landed, Repository, WorkspaceOrder,
};
use ralph_worker::workspace::{CommitMessage, Decision, TASK_TRAILER, Workspaces};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::figures::{Figures, Target, median};

/// Files of the large repository.
const FILES: usize = 50_000;
/// Attempts that finish together, and their workers.
const TOGETHER: usize = 32;
const WORKERS: usize = 8;
/// Small tasks, integrated one by one.
const SMALL: usize = 10;

/// Measures both.
///
/// # Errors
/// When git fails, or an integration doesn't land.
pub async fn workspace(figures: &mut Figures) -> anyhow::Result<()> {
    let dir = tempfile::Builder::new().prefix("ralph-bench-git-").tempdir()?;
    large(&dir.path().join("large"), figures).await?;
    small(&dir.path().join("small"), figures).await
}

async fn large(dir: &Path, figures: &mut Figures) -> anyhow::Result<()> {
    let repository = Origin::with_files(dir, FILES)?;
    let workspaces = Workspaces::open(&dir.join("data")).await?;
    let order = |dispatch: &str| WorkspaceOrder::Git(repository.order("t", dispatch));
    workspaces.prepare("warm", &order("warm")).await?.remove().await?;

    let plain = dir.join("plain");
    git(
        dir,
        &["clone", "-q", "--no-checkout", "--shared", "origin.git", "plain"],
    )?;
    let began = Instant::now();
    git(&plain, &["checkout", "-q", "main"])?;
    figures.add("checkout of 50,000 files, plain", "ms", ms(began));

    let began = Instant::now();
    let workspace = workspaces.prepare("measured", &order("measured")).await?;
    figures.add("workspace of 50,000 files", "ms", ms(began));
    figures.ratio(
        "workspace of 50,000 files",
        "checkout of 50,000 files, plain",
        Target::AtMost(1.3),
    );
    let objects = size_bytes(&workspace.path().join(".git/objects"))
        + size_bytes(&dir.join("data/records/measured/git/objects"));
    let of_clone = size_bytes(&repository.path.join("objects"));
    let name = "workspace of 50,000 files, objects of a clone's";
    figures.at_most(name, "%", objects as f64 / of_clone as f64 * 100.0, 10.0);
    workspace.remove().await?;
    Ok(())
}

async fn small(dir: &Path, figures: &mut Figures) -> anyhow::Result<()> {
    let repository = Origin::with_files(dir, 20)?;
    let one = Workspaces::open(&dir.join("one")).await?;
    let mut alone = Vec::new();
    for number in 0..SMALL {
        let commit = repository.attempt(&one, &format!("s-{number}")).await?;
        let began = Instant::now();
        repository
            .integrate(&one, &format!("s-{number}"), &commit)
            .await?;
        alone.push(ms(began));
    }
    let name = "integration of a small task";
    figures.at_most(name, "ms", median(&alone), 300.0);

    // Each round has its own repository: a landing costs more on a branch with more landings.
    let (after, together) = (
        "32 integrations, one after the other",
        "32 integrations that became ready together",
    );
    let (mut one_by_one, mut at_once) = (Vec::new(), Vec::new());
    for (number, side_by_side) in [false, true, true, false].into_iter().enumerate() {
        let took = all_of_them(&dir.join(format!("round-{number}")), side_by_side).await?;
        match side_by_side {
            true => at_once.push(took),
            false => one_by_one.push(took),
        }
    }
    figures.add(after, "ms", median(&one_by_one));
    figures.add(together, "ms", median(&at_once));
    figures.ratio(together, after, Target::AtMost(1.2));
    Ok(())
}

/// Time until all attempts landed, with a waiting task for each or one after the other. Milliseconds.
async fn all_of_them(dir: &Path, side_by_side: bool) -> anyhow::Result<f64> {
    let repository = Arc::new(Origin::with_files(dir, 20)?);
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        workers.push(Workspaces::open(&dir.join(format!("worker-{number}"))).await?);
    }
    let mut ready = Vec::new();
    for number in 0..TOGETHER {
        let task = format!("t-{number}");
        ready.push((repository.attempt(&workers[number % WORKERS], &task).await?, task));
    }
    // As in the coordinator: one turn at a time.
    let turn = Arc::new(Mutex::new(()));
    let mut landing = JoinSet::new();
    let began = Instant::now();
    for (number, (commit, task)) in ready.into_iter().enumerate() {
        let workspaces = workers[number % WORKERS].clone();
        if !side_by_side {
            repository.integrate(&workspaces, &task, &commit).await?;
            continue;
        }
        let (turn, repository) = (turn.clone(), repository.clone());
        landing.spawn(async move {
            let _turn = turn.lock().await;
            repository.integrate(&workspaces, &task, &commit).await
        });
    }
    for landed in landing.join_all().await {
        landed?;
    }
    let took = ms(began);
    let landed = git(&repository.path, &["rev-list", "--count", "main..ralph/bench"])?;
    ensure!(landed.trim() == TOGETHER.to_string(), "{landed} landed");
    Ok(took)
}

/// A bare repository, as on a user's server.
pub(super) struct Origin {
    pub(super) path: PathBuf,
    pub(super) base: String,
}

impl Origin {
    pub(super) fn with_files(dir: &Path, count: usize) -> anyhow::Result<Self> {
        fs::create_dir_all(dir)?;
        git(dir, &["init", "-q", "--bare", "-b", "main", "origin.git"])?;
        let path = dir.join("origin.git");
        let mut import = Command::new("git")
            .args(["fast-import", "--quiet"])
            .current_dir(&path)
            .stdin(Stdio::piped())
            .spawn()
            .context("git can't be started")?;
        let mut stream = import.stdin.take().context("git takes no input")?;
        writeln!(
            stream,
            "commit refs/heads/main\ncommitter B <b@localhost> 1700000000 +0000\ndata 5\nbegin"
        )?;
        for number in 0..count {
            let text = format!(
                "file {number}: {}\n",
                "some text of a source file; ".repeat(number % 80)
            );
            let place = format!("src/{}/{}/{number}.txt", number / 5_000, number / 100);
            writeln!(stream, "M 100644 inline {place}\ndata {}\n{text}", text.len())?;
        }
        drop(stream);
        ensure!(import.wait()?.success(), "git fast-import failed");
        let base = git(&path, &["rev-parse", "main"])?.trim().to_owned();
        Ok(Self { path, base })
    }

    /// The coordinator's knowledge of the feature's branch.
    fn landed(&self) -> Option<Box<Landed>> {
        let head = fs::read_to_string(self.path.join("refs/heads/ralph/bench")).ok()?;
        let task = TaskId(uuid::Uuid::nil());
        let commit = head.trim().to_owned();
        Some(Box::new(Landed { commit, task }))
    }

    fn order(&self, task: &str, dispatch: &str) -> GitOrder {
        GitOrder {
            repository: Repository {
                address: self.path.display().to_string(),
            },
            feature_branch: "ralph/bench".to_owned(),
            base: self.base.clone(),
            landed: self.landed(),
            start: None,
            start_ref: None,
            cold: false,
            onto_head: false,
            gate: Vec::new(),
            attempt_ref: format!("refs/ralph/attempts/bench/{task}/1-{dispatch}"),
            trailers: [(TASK_TRAILER.to_owned(), task.to_owned())].into(),
        }
    }

    /// Makes an attempt with one new file, and pushes it; returns the commit.
    async fn attempt(&self, workspaces: &Workspaces, task: &str) -> anyhow::Result<String> {
        let order = WorkspaceOrder::Git(self.order(task, task));
        let workspace = workspaces.prepare(task, &order).await?;
        fs::write(workspace.path().join(format!("{task}.txt")), task)?;
        let snapshot = workspace.finish(&CommitMessage::default()).await;
        workspace.remove().await?;
        snapshot
            .pushed_ref
            .and(snapshot.commit)
            .with_context(|| format!("{:?}", snapshot.push_error))
    }

    async fn integrate(&self, workspaces: &Workspaces, task: &str, commit: &str) -> anyhow::Result<()> {
        let order = IntegrateOrder {
            protect: Vec::new(),
            commit: commit.to_owned(),
            subject: task.to_owned(),
            body: String::new(),
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
        };
        let dispatch = format!("{task}-i");
        let git = GitOrder {
            start_ref: Some(self.order(task, task).attempt_ref),
            ..self.order(task, &dispatch)
        };
        let decide = |_: Decided| async { Decision::Push };
        let (_sender, end) = watch::channel(None);
        match workspaces
            .integrate(&dispatch, &git, &order, decide, end)
            .await
            .end
        {
            IntegrationEnd::Merged { .. } => Ok(()),
            other => bail!("{task} did not land: {other:?}"),
        }
    }
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1_000.0
}

/// Size of a folder on disk.
fn size_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |path: PathBuf| match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_dir() => size_bytes(&path),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(|entry| of(entry.path())).sum()
}

fn git(dir: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(arguments).current_dir(dir).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {arguments:?}: {stderr}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
