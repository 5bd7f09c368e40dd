//! Description of a child, which can be started any number of times.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::embedded::runas::RunAs;

/// One step of an orderly stop: this signal to the child, then up to `grace` for it to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopStep {
    /// Goes to the child alone, not to its group, since the child can end its own children.
    pub signal: Signal,
    /// How long to wait before the next step; after the last one the group gets SIGKILL.
    pub grace: Duration,
}

/// A program with its arguments, environment and stop steps.
#[derive(Clone)]
pub struct ChildSpec {
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) clear_env: bool,
    pub(super) folder: Option<PathBuf>,
    pub(super) run_as: Option<RunAs>,
    pub(super) death_signal: Signal,
    pub(super) log: PathBuf,
    pub(super) stop: Vec<StopStep>,
    pub(super) finished: Option<i32>,
}

impl ChildSpec {
    /// `program` is an absolute path; `log` receives what the child writes to both of its outputs.
    ///
    /// Without further settings the child inherits our environment and working folder, gets SIGKILL when we die, and is
    /// stopped with SIGTERM and ten seconds of grace.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            clear_env: false,
            folder: None,
            run_as: None,
            death_signal: Signal::SIGKILL,
            log: log.into(),
            stop: vec![StopStep {
                signal: Signal::SIGTERM,
                grace: Duration::from_secs(10),
            }],
            finished: None,
        }
    }

    /// Adds arguments. They are visible to every user of the machine: no secrets here (DESIGN 7).
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts from an empty environment instead of ours.
    pub fn clear_env(mut self) -> Self {
        self.clear_env = true;
        self
    }

    /// The working folder. The child enters it through a handle, so its user needs access to the folder
    /// itself but not to the folders above.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Runs the child as another user; only root can.
    pub fn run_as(mut self, user: Option<RunAs>) -> Self {
        self.run_as = user;
        self
    }

    /// The signal that the kernel sends when this process dies.
    pub fn death_signal(mut self, signal: Signal) -> Self {
        self.death_signal = signal;
        self
    }

    pub fn stop_steps(mut self, steps: impl IntoIterator<Item = StopStep>) -> Self {
        self.stop = steps.into_iter().collect();
        self
    }

    /// Exit status after which the child isn't started again.
    pub fn may_finish(mut self, status: i32) -> Self {
        self.finished = Some(status);
        self
    }

    /// Name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn log(&self) -> &Path {
        &self.log
    }
}

/// Omits the values of the environment, which include passwords.
impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("name", &self.name)
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
