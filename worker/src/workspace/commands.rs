//! Runs commands of the user's in a checkout: those that prepare it for an agent or a gate, and the gate's, which a rebased
//! commit has to pass in a throw-away checkout of exactly that commit.
//!
//! What they run was written by agents: they get the sandbox of a session, a minimal environment, a home of their own and
//! bounds, and everything that they started ends with them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::iter::repeat_with;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use futures::future::join_all;
use ralph_shared::at_length::at_length;
use ralph_shared::wire::{GateStep, StepTime};
use tokio::sync::watch;

use super::error::WorkspaceError;
use super::ports::Ports;
use super::record::Folders;
use crate::sandbox::{Confinement, PolicyRequest, policy, shared_path};
use crate::session::{MARK, RedactedTail, disk, kill_leftovers};
use crate::tools::{self, Surroundings, Tools};
use crate::workspace::git::process::{self, RunError};
use crate::workspace::settings::Settings;

/// How much of a command's output is kept, its end, redacted.
const OUTPUT_BYTES: usize = 16 << 10;

/// Runs the second argument in the first: a folder that is there only inside the sandbox.
const IN_FOLDER: &str = "cd -- \"$1\" && exec sh -c \"$2\"";

/// A command that didn't succeed.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandFailure {
    pub command: String,
    /// The end of its output, redacted, and how it ended.
    pub output: String,
}

/// Where commands run.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandContext<'a> {
    /// The checkout.
    pub tree: &'a Path,
    /// What holds the objects of its repository, to read.
    pub objects: &'a [PathBuf],
    /// The dispatch's folders.
    pub folders: &'a Folders,
    /// Whether they see its folders by the paths that all sessions share, where the sandbox has those: what they build serves the next
    /// checkout. Not where an agent works in the checkout afterwards, by its own path.
    pub by_shared_paths: bool,
    /// Ports that they may listen on.
    pub ports: Option<&'a Ports>,
    /// A variable that tells them what they are run for.
    pub purpose: &'static str,
    pub settings: &'a Settings,
}

/// Set for commands that prepare a checkout.
pub(super) const SETUP: &str = "RALPH_SETUP";
/// Set for commands of a gate.
pub(super) const GATE: &str = "RALPH_GATE";

/// What came of commands.
#[derive(Debug, Default)]
pub(super) struct Ran {
    /// The first that failed.
    pub failure: Option<CommandFailure>,
    /// Those that ran.
    pub times: Vec<StepTime>,
}

/// Runs the commands one after the other, each by `sh -c` in the checkout; the first that fails is the answer.
pub(super) async fn run(
    commands: &[String],
    room: CommandContext<'_>,
) -> Result<Option<CommandFailure>, WorkspaceError> {
    Ok(run_steps(commands, &[], room).await?.failure)
}

/// The same as `steps` say by their places: some beside those before them, within times of their own. Nothing is begun
/// behind a failure.
pub(super) async fn run_steps(
    commands: &[String],
    steps: &[GateStep],
    room: CommandContext<'_>,
) -> Result<Ran, WorkspaceError> {
    let mut ran = Ran::default();
    if commands.is_empty() {
        return Ok(ran);
    }
    let tools = Tools::of_user();
    room.make_home(&tools)?;
    let environment = room.environment(&tools).await?;
    let sweep = Sweep(room.mark());
    let folders = [room.tree.to_owned(), room.folders.home(), room.folders.tmp()];
    let watcher = disk::watch(folders, room.settings.sandbox.resources.disk_reserve_bytes);
    let steps = steps.iter().cloned().chain(repeat_with(GateStep::default));
    let steps: Vec<(&String, GateStep)> = commands.iter().zip(steps).collect();
    let (environment, tools) = (&environment, &tools);
    let began = Instant::now();
    for together in steps.chunk_by(|_, (_, next)| next.parallel) {
        let since = began.elapsed();
        let running = together.iter().map(|(script, step)| {
            let filled = watcher.filled();
            async move {
                let ended = room.step(script, step, (environment, tools), filled).await;
                (ended, began.elapsed() - since)
            }
        });
        let ended = join_all(running).await;
        sweep.now().await;
        for ((script, step), (failure, took)) in together.iter().zip(ended) {
            let failure = failure?;
            ran.times.push(StepTime {
                name: step.name.as_ref().unwrap_or(script).clone(),
                began_ms: millis(since),
                duration_ms: millis(took),
                passed: failure.is_none(),
            });
            ran.failure = ran.failure.or(failure);
        }
        if ran.failure.is_some() {
            break;
        }
    }
    sweep.done();
    Ok(ran)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl CommandContext<'_> {
    /// Runs one command, with walls of its own: the sweep behind it removes its control groups.
    async fn step(
        &self,
        script: &str,
        step: &GateStep,
        (environment, tools): (&BTreeMap<OsString, OsString>, &Tools),
        mut filled: watch::Receiver<bool>,
    ) -> Result<Option<CommandFailure>, WorkspaceError> {
        let confinement = self.confine(environment, tools)?;
        let mut command = confinement
            .command("sh", environment)
            .map_err(|error| WorkspaceError::Sandbox(error.to_string()))?;
        let tree = self.seen(self.tree.to_owned());
        command
            .args(["-c", IN_FOLDER, "sh"])
            .args([tree.as_os_str(), script.as_ref()]);
        command.current_dir(self.tree);
        let bound = step
            .timeout_ms
            .map_or(self.settings.command_bound, Duration::from_millis);
        let mut output = RedactedTail::new(&self.settings.redactor, OUTPUT_BYTES);
        let failure = tokio::select! {
            status = process::run_merged(command, &confinement, bound, &mut output) => failure(status),
            () = disk::until_filled(&mut filled) => Some("was ended, since it filled the worker's disk".to_owned()),
        };
        Ok(failure.map(|how| CommandFailure {
            command: script.to_owned(),
            output: format!("{}\n[{how}]\n", output.text()),
        }))
    }

    /// A home and a temporary folder, with what the user's tools need there.
    fn make_home(&self, tools: &Tools) -> Result<(), WorkspaceError> {
        let (home, tmp) = (self.folders.home(), self.folders.tmp());
        for folder in [&home, &tmp] {
            std::fs::create_dir_all(folder).map_err(WorkspaceError::io("make", folder))?;
        }
        at_length(|| tools.furnish(&home, self.tree)).map_err(WorkspaceError::io("furnish", &home))
    }

    /// That of a session, with what these commands are run for.
    async fn environment(&self, tools: &Tools) -> Result<BTreeMap<OsString, OsString>, WorkspaceError> {
        let around = Surroundings {
            session_folder: Some(&self.folders.agent),
            home: &self.seen(self.folders.home()),
            tmp: &self.seen(self.folders.tmp()),
            sandbox: &self.settings.sandbox,
            tools,
        };
        let environment = tools::environment(around).await;
        let mut environment = environment.map_err(|error| WorkspaceError::Sandbox(error.to_string()))?;
        let ports = self.ports.into_iter().flat_map(Ports::variables);
        environment.extend(ports.map(|(name, value)| (name.into(), value.into())));
        environment.insert(self.purpose.into(), "1".into());
        environment.insert(MARK.into(), self.mark().into());
        Ok(environment)
    }

    /// The path by which the commands see this path.
    fn seen(&self, path: PathBuf) -> PathBuf {
        let shared = self
            .by_shared_paths
            .then(|| shared_path(&self.settings.sandbox, &self.folders.agent, &path));
        shared.flatten().unwrap_or(path)
    }

    /// The dispatch's id, by which what a command leaves behind is found.
    fn mark(&self) -> String {
        let name = self.folders.agent.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The same walls as an agent's session: the checkout, a home and a temporary folder to write, tools to read.
    fn confine(
        &self,
        environment: &BTreeMap<OsString, OsString>,
        tools: &Tools,
    ) -> Result<Confinement, WorkspaceError> {
        let (home, tmp) = (self.folders.home(), self.folders.tmp());
        let sandbox = &self.settings.sandbox;
        let read: Vec<PathBuf> = self.objects.iter().chain(&sandbox.read).cloned().collect();
        let passed: Vec<String> = sandbox.passed.keys().cloned().collect();
        let user_home = std::env::home_dir();
        let wanted = PolicyRequest {
            cwd: self.tree,
            cwd_writable: true,
            session_folder: Some(&self.folders.agent),
            home: &home,
            tmp: &tmp,
            argv: &["sh".to_owned()],
            environment,
            given: &[],
            passed: &passed,
            user_home: user_home.as_deref(),
            tools,
            read: &read,
            write: &sandbox.write,
        };
        Confinement::new(sandbox, &policy(&wanted), &self.mark()).map_err(WorkspaceError::Sandbox)
    }
}

/// Ends what commands leave running, in whatever process group: after each, and when nobody waits for them any more.
struct Sweep(String);

impl Sweep {
    async fn now(&self) {
        let mark = self.0.clone();
        let _ = tokio::task::spawn_blocking(move || kill_leftovers(&mark)).await;
    }

    /// Nothing runs any more: what is started next under the same mark must live.
    fn done(mut self) {
        self.0.clear();
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        let mark = std::mem::take(&mut self.0);
        if !mark.is_empty() {
            std::thread::spawn(move || kill_leftovers(&mark));
        }
    }
}

fn failure(status: Result<ExitStatus, RunError>) -> Option<String> {
    match status {
        Ok(status) if status.success() => None,
        Ok(status) => Some(status.to_string()),
        Err(RunError::Io(error)) => Some(format!("could not be run: {error}")),
        Err(error @ RunError::TimedOut(_)) => Some(error.to_string()),
    }
}
