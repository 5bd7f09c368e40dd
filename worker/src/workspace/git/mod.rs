//! Runs the git command line with a fixed directory, fixed settings and time limits.
//!
//! The user's credentials, protocols, ssh settings and identity still work: git reads the global
//! configuration and the variables that choose programs and keys. Everything that could run an agent's code
//! is off. Git always gets its directory, index and work tree. Configuration in the environment switches off
//! hooks and file-system monitors; git itself keeps that configuration from a remote on a local path, so a
//! server's own hooks run. Prompts are refused.

pub(crate) mod address;
pub(crate) mod environment;
pub(crate) mod process;
pub(crate) mod raw_diff;
pub(crate) mod trouble;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::process::Command;

use super::error::GitError;
use crate::sandbox::in_path;
use crate::workspace::git::environment::Environment;
use crate::workspace::git::process::{Bounds, RunError};
use crate::workspace::git::trouble::Trouble;

/// Bytes kept of standard output; the longest is a list of changed paths.
const STDOUT_BYTES: usize = 64 << 20;
/// Bytes kept of standard error.
const STDERR_BYTES: usize = 16 << 10;
/// Longest part of git's words in a message. Characters.
const WORDS_CHARS: usize = 2_000;

/// Settings that override the user's configuration.
const SETTINGS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("core.sparseCheckout", "false"),
    ("core.safecrlf", "false"),
    ("core.logAllRefUpdates", "false"),
    ("checkout.workers", "0"),
    // A mirror that borrows from a broken one must not offer the broken one's refs.
    ("core.alternateRefsCommand", "true"),
    ("merge.conflictStyle", "diff3"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("push.recurseSubmodules", "no"),
    ("push.followTags", "false"),
    ("push.default", "nothing"),
    ("log.showSignature", "false"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
    // Git writes and reads commits as UTF-8.
    ("i18n.commitEncoding", "UTF-8"),
    ("i18n.logOutputEncoding", "UTF-8"),
    // A person's global ignore rules are no part of the repository, and an agent could not know them.
    ("core.excludesFile", "/dev/null"),
];

/// Git's program. With a path, a child starts without a copy of this process; a bare name would be searched
/// in the child's own variables, after a fork.
fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let name = OsStr::new("git");
        let found = std::env::var_os("PATH").and_then(|path| in_path(name, &path, Path::new("/")));
        found.unwrap_or_else(|| name.into())
    });
    &PROGRAM
}

/// Runs a git command that needs no repository, and returns its output.
///
/// # Errors
/// When git can't be started or fails.
pub(super) async fn query(
    arguments: &[&str],
    variables: &[(OsString, OsString)],
    time: Duration,
) -> Result<String, GitError> {
    let mut command = Command::new(program());
    let variables = variables.iter().map(|(key, value)| (key, value));
    command
        .args(arguments)
        .env_clear()
        .envs(variables)
        .current_dir("/");
    let run = process::run(command, b"", bounds(time)).await;
    finished(&arguments.join(" "), run, &[0], "").map(|output| output.text())
}

fn bounds(time: Duration) -> Bounds {
    Bounds {
        time,
        stdout_bytes: STDOUT_BYTES,
        stderr_bytes: STDERR_BYTES,
        gentle: false,
    }
}

/// The remote's name. Its address is given to git only in the environment, because it can hold a login.
pub(super) const REMOTE: &str = "origin";

/// A git directory of the worker, and its work tree if it has one.
#[derive(Debug, Clone)]
pub(super) struct Git {
    environment: Arc<Environment>,
    dir: PathBuf,
    tree: Option<PathBuf>,
    address: String,
    /// Folder of Git LFS objects, shared by all workspaces of a repository.
    lfs_storage: Option<PathBuf>,
    /// Folder of the refs of the task's attempts.
    attempts: Option<String>,
    /// Whether a person named the address, rather than a repository.
    from_user: bool,
}

impl Git {
    pub(super) fn new(environment: Arc<Environment>, dir: PathBuf, address: &str) -> Self {
        Self {
            environment,
            dir,
            tree: None,
            address: address.to_owned(),
            lfs_storage: None,
            attempts: None,
            from_user: true,
        }
    }

    /// Marks the address as named by a repository: git then applies its rules for such addresses, as for
    /// submodules (`GIT_PROTOCOL_FROM_USER`).
    pub(super) fn named_by_a_repository(mut self) -> Self {
        self.from_user = false;
        self
    }

    pub(super) fn with_lfs_storage(mut self, storage: PathBuf) -> Self {
        self.lfs_storage = Some(storage);
        self
    }

    /// Names the folder of the task's attempts by one of its refs.
    pub(super) fn with_attempt(mut self, name: &str) -> Self {
        self.attempts = name.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        self
    }

    pub(super) fn attempts(&self) -> Option<&str> {
        self.attempts.as_deref()
    }

    pub(super) fn lfs_storage(&self) -> Option<&Path> {
        self.lfs_storage.as_deref()
    }

    pub(super) fn with_tree(mut self, tree: PathBuf) -> Self {
        self.tree = Some(tree);
        self
    }

    pub(super) fn tree(&self) -> Option<&Path> {
        self.tree.as_deref()
    }

    /// The same repository, seen from another git directory.
    pub(super) fn at(&self, dir: PathBuf) -> Self {
        Self {
            dir,
            tree: None,
            ..self.clone()
        }
    }

    /// Another repository, seen from a git directory of its own.
    pub(super) fn elsewhere(&self, dir: PathBuf, address: &str) -> Self {
        Self::new(self.environment.clone(), dir, address)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(super) fn run<'a>(&'a self, subcommand: &'a str) -> Run<'a> {
        Run {
            git: self,
            arguments: vec![subcommand.into()],
            input: Vec::new(),
            accepted: &[0],
            stdout_bytes: STDOUT_BYTES,
            variables: Vec::new(),
            configured: Vec::new(),
            remote: false,
            within: None,
            gentle: false,
        }
    }

    fn command(&self, run: &Run<'_>) -> Command {
        let mut command = Command::new(program());
        command.args(&run.arguments).env_clear();
        command.envs(self.environment.variables.iter().map(|(key, value)| (key, value)));
        command
            .env("GIT_DIR", &self.dir)
            .env("GIT_INDEX_FILE", self.dir.join("index"));
        match &self.tree {
            Some(tree) => command.env("GIT_WORK_TREE", tree).current_dir(tree),
            None => command.current_dir(&self.dir),
        };
        if !self.from_user {
            command.env("GIT_PROTOCOL_FROM_USER", "0");
        }
        let remote_url = format!("remote.{REMOTE}.url");
        let login = address::login_setting(&self.address);
        let url = match login {
            Some(_) => address::public(&self.address),
            None => self.address.clone(),
        };
        let address = (remote_url.as_str(), url.as_str());
        let login = login.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let lfs = self.environment.lfs.iter().copied();
        let filters = &self.environment.filters;
        let filters = filters.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let own = run
            .configured
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        let settings = SETTINGS
            .iter()
            .copied()
            .chain([address])
            .chain(login)
            .chain(lfs)
            .chain(filters)
            .chain(own);
        let mut count = 0;
        for (key, value) in settings {
            command
                .env(format!("GIT_CONFIG_KEY_{count}"), key)
                .env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
        command.envs(run.variables.iter().map(|(key, value)| (key, value)));
        command
    }
}

/// Builder of one git command.
pub(super) struct Run<'a> {
    git: &'a Git,
    arguments: Vec<OsString>,
    input: Vec<u8>,
    accepted: &'a [i32],
    stdout_bytes: usize,
    variables: Vec<(&'a str, OsString)>,
    /// Settings of this run alone.
    configured: Vec<(String, String)>,
    remote: bool,
    within: Option<Duration>,
    gentle: bool,
}

impl<'a> Run<'a> {
    pub(super) fn args<I: IntoIterator<Item: Into<OsString>>>(mut self, arguments: I) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub(super) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Exit codes that count as success.
    pub(super) fn accept(mut self, codes: &'a [i32]) -> Self {
        self.accepted = codes;
        self
    }

    /// Adds settings that override all others.
    pub(super) fn configured(mut self, settings: Vec<(String, String)>) -> Self {
        self.configured = settings;
        self
    }

    /// Keeps only the beginning of the output.
    pub(super) fn first_bytes(mut self, limit: usize) -> Self {
        self.stdout_bytes = limit;
        self
    }

    pub(super) fn variable(mut self, name: &'a str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Marks a run that talks to the remote: it may take longer.
    pub(super) fn remote(mut self) -> Self {
        self.remote = true;
        self
    }

    /// Runs with the lowest priority, for at most `time`.
    pub(super) fn gently_within(mut self, time: Duration) -> Self {
        self.gentle = true;
        self.within(time)
    }

    /// Runs for at most `time`.
    pub(super) fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// # Errors
    /// When git can't be started, takes too long, or ends with a code that is not accepted.
    pub(super) async fn output(self) -> Result<Output, GitError> {
        let time = self.git.environment.time;
        let usual = if self.remote { time.remote } else { time.local };
        let bounds = Bounds {
            stdout_bytes: self.stdout_bytes,
            gentle: self.gentle,
            ..bounds(self.within.unwrap_or(usual))
        };
        let name = self.arguments[0].to_string_lossy().into_owned();
        let name = if self.remote {
            format!("{name} {}", address::public(&self.git.address))
        } else {
            name
        };
        let run = process::run(self.git.command(&self), &self.input, bounds).await;
        finished(&name, run, self.accepted, &self.git.address)
    }
}

#[derive(Debug)]
pub(super) struct Output {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    is_cut: bool,
}

impl Output {
    /// An error if the output was cut: the searched part may be missing.
    pub(super) fn must_be_whole(&self, command: &str) -> Result<(), GitError> {
        if !self.is_cut {
            return Ok(());
        }
        Err(GitError {
            command: command.to_owned(),
            trouble: Trouble::Other,
            words: format!(
                "its output is larger than the {} MiB that are read",
                self.stdout.len() >> 20
            ),
            code: Some(self.code),
        })
    }

    /// An error if git reported a lack of space, although its exit code was accepted.
    pub(super) fn must_have_had_space(&self, command: &str) -> Result<(), GitError> {
        let words = String::from_utf8_lossy(&self.stderr);
        match Trouble::of(&words) {
            trouble @ Trouble::NoSpace => Err(GitError {
                command: command.to_owned(),
                trouble,
                words: last_chars(words.trim(), WORDS_CHARS),
                code: Some(self.code),
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The NUL-terminated parts of the output, lossily as UTF-8.
    pub(super) fn parts(&self) -> Vec<String> {
        let parts = self
            .stdout
            .split(|byte| *byte == 0)
            .filter(|part| !part.is_empty());
        parts
            .map(|part| String::from_utf8_lossy(part).into_owned())
            .collect()
    }

    /// The output as one word: an object id, say.
    pub(super) fn word(&self) -> String {
        self.text().trim().to_owned()
    }
}

fn finished(
    command: &str,
    run: Result<process::Finished, RunError>,
    accepted: &[i32],
    address: &str,
) -> Result<Output, GitError> {
    let failed = |trouble, words: &str, code| GitError {
        command: command.to_owned(),
        trouble,
        words: last_chars(&address::redacted(words.trim(), address), WORDS_CHARS),
        code,
    };
    let finished = match run {
        Ok(finished) => finished,
        Err(error @ RunError::TimedOut(_)) => {
            return Err(failed(Trouble::TimedOut, &error.to_string(), None));
        }
        Err(RunError::Io(error)) => return Err(failed(Trouble::Other, &error.to_string(), None)),
    };
    match finished.status.code() {
        Some(code) if accepted.contains(&code) => Ok(Output {
            code,
            stdout: finished.stdout,
            stderr: finished.stderr,
            is_cut: finished.is_cut,
        }),
        code => {
            let mut words = String::from_utf8_lossy(&finished.stderr).into_owned();
            if command.starts_with("push") {
                words.push_str(&String::from_utf8_lossy(&finished.stdout));
            }
            if words.trim().is_empty() {
                words = finished.status.to_string();
            }
            let trouble = Trouble::of(&words);
            if trouble == Trouble::Locked {
                return Err(locked(failed(trouble, &words, code)));
            }
            Err(failed(trouble, &words, code))
        }
    }
}

/// A lock older than this is taken for a leftover of a dead git: no git holds a lock for so long.
const STALE: Duration = Duration::from_secs(10 * 60);

/// Adds the age of the lock file that git met, if it is on this machine, and decides whether to wait for it.
fn locked(mut error: GitError) -> GitError {
    let path = error.words.split('\'').find(|part| part.ends_with(".lock"));
    let made = path.and_then(|path| std::fs::metadata(path).ok()?.modified().ok());
    let age = made.and_then(|made| made.elapsed().ok());
    if let Some(age) = age {
        if age > STALE {
            error.trouble = Trouble::StaleLock;
        }
        error
            .words
            .push_str(&format!(" (that file is {} min old)", age.as_secs() / 60));
    }
    error
}

fn last_chars(text: &str, limit: usize) -> String {
    let excess = text.chars().count().saturating_sub(limit);
    text.chars().skip(excess).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_output_is_an_error() {
        let output = |is_cut| Output {
            code: 0,
            stdout: vec![b'x'; 3 << 20],
            stderr: Vec::new(),
            is_cut,
        };
        assert!(output(false).must_be_whole("ls-remote").is_ok());
        let error = output(true).must_be_whole("ls-remote").unwrap_err();
        assert!(error.to_string().contains("larger than the 3 MiB"), "{error}");
        assert!(!error.trouble.is_remote() && !error.suspects_objects());
    }
}
