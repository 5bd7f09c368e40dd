//! A git repository for a feature, and queries on it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// A bare repository with one commit on `main`.
#[derive(Debug, Clone)]
pub struct Repository {
    path: PathBuf,
    address: String,
}

impl Repository {
    /// Creates a repository in `dir` with these files.
    pub fn create(dir: &Path, files: &[(&str, &str)]) -> anyhow::Result<Self> {
        let work = dir.join("seed");
        std::fs::create_dir_all(&work)?;
        git(&work, &["init", "-q", "-b", "main"])?;
        for (name, text) in files {
            let path = work.join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, text)?;
        }
        git(&work, &["add", "-A"])?;
        git(&work, &["commit", "-q", "--allow-empty", "-m", "begin"])?;
        let path = dir.join("origin.git");
        git(dir, &["clone", "-q", "--bare", "seed", "origin.git"])?;
        Ok(Self {
            address: path.display().to_string(),
            path,
        })
    }

    /// Sets the address by which workers reach it.
    #[must_use]
    pub fn served_at(self, address: String) -> Self {
        Self { address, ..self }
    }

    /// The address for workers.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs git in the repository.
    ///
    /// # Errors
    /// When git fails; the error is git's message.
    pub fn git(&self, args: &[&str]) -> anyhow::Result<String> {
        git(&self.path, args)
    }

    pub fn head(&self, branch: &str) -> anyhow::Result<String> {
        Ok(self
            .git(&["rev-parse", &format!("refs/heads/{branch}")])?
            .trim()
            .to_owned())
    }

    /// The tasks in the trailers of a branch, oldest first, including repeats.
    pub fn landed(&self, branch: &str) -> anyhow::Result<Vec<String>> {
        let format = "--format=%(trailers:key=Ralph-Task,valueonly,separator=%x2C)";
        let out = self.git(&["log", "--reverse", format, branch])?;
        Ok(out
            .split([',', '\n'])
            .map(str::trim)
            .filter(|t| !t.is_empty())
            .map(str::to_owned)
            .collect())
    }

    pub fn file(&self, branch: &str, path: &str) -> anyhow::Result<String> {
        self.git(&["show", &format!("{branch}:{path}")])
    }

    /// Commits a file to a branch as another person; returns the commit.
    pub fn commit(&self, branch: &str, path: &str, text: &str) -> anyhow::Result<String> {
        let parent = self.head(branch)?;
        let work = tempfile::tempdir()?;
        let at = work.path().join("clone");
        let (from, to) = (self.path.display().to_string(), at.display().to_string());
        git(work.path(), &["clone", "-q", "-b", branch, &from, &to])?;
        std::fs::write(at.join(path), text)?;
        git(&at, &["add", "-A"])?;
        git(&at, &["commit", "-q", "-m", "Somebody else's"])?;
        git(&at, &["push", "-q", "origin", branch])?;
        let head = self.head(branch)?;
        ensure!(head != parent, "{branch} did not move");
        Ok(head)
    }

    pub fn refs(&self) -> anyhow::Result<Vec<String>> {
        Ok(self
            .git(&["for-each-ref", "--format=%(refname)"])?
            .lines()
            .map(str::to_owned)
            .collect())
    }
}

fn git(dir: &Path, args: &[&str]) -> anyhow::Result<String> {
    let out = Command::new("git")
        .args(args)
        .current_dir(dir)
        .env("GIT_AUTHOR_NAME", "Test")
        .env("GIT_AUTHOR_EMAIL", "test@localhost")
        .env("GIT_COMMITTER_NAME", "Test")
        .env("GIT_COMMITTER_EMAIL", "test@localhost")
        .output()
        .context("git can't be started")?;
    ensure!(
        out.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
