//! Runs the user's commands in a checkout: setup commands that prepare it for an agent or a gate, and gate
//! commands, which a rebased commit must pass in a throw-away checkout of exactly that commit.
//!
//! These commands run code that agents wrote. So they get a session's sandbox, a minimal environment, a
//! separate home and limits, and all their processes end with them.

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

/// Bytes kept from the end of a command's output, after redaction.
const OUTPUT_BYTES: usize = 16 << 10;

/// Shell script that runs `$2` in the folder `$1`, which exists only inside the sandbox.
const IN_FOLDER: &str = "cd -- \"$1\" && exec sh -c \"$2\"";

#[derive(Debug, PartialEq, Eq)]
pub struct CommandFailure {
    pub command: String,
    /// The end of its redacted output, and its exit status.
    pub output: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CommandContext<'a> {
    pub tree: &'a Path,
    /// Object folders of its repository, for reading.
    pub objects: &'a [PathBuf],
    pub folders: &'a Folders,
    /// Whether commands see the checkout by the paths that all sessions share, where the sandbox has such
    /// paths: then the next checkout can reuse their build output. False where an agent later works in the
    /// checkout by its own path.
    pub by_shared_paths: bool,
    /// Ports that the commands may listen on.
    pub ports: Option<&'a Ports>,
    /// A variable that tells the commands their purpose.
    pub purpose: &'static str,
    pub settings: &'a Settings,
}

/// Set for setup commands.
pub(super) const SETUP: &str = "RALPH_SETUP";
/// Set for gate commands.
pub(super) const GATE: &str = "RALPH_GATE";

#[derive(Debug, Default)]
pub(super) struct CommandsOutcome {
    /// The first failed command.
    pub failure: Option<CommandFailure>,
    pub times: Vec<StepTime>,
}

/// Runs the commands in order, each by `sh -c` in the checkout. Returns the first failure.
pub(super) async fn run(
    commands: &[String],
    context: CommandContext<'_>,
) -> Result<Option<CommandFailure>, WorkspaceError> {
    Ok(run_steps(commands, &[], context).await?.failure)
}

/// Runs the commands as `steps` says by index: a step can run in parallel with the commands before it, and
/// can have a time limit of its own. No command starts after a failure.
pub(super) async fn run_steps(
    commands: &[String],
    steps: &[GateStep],
    context: CommandContext<'_>,
) -> Result<CommandsOutcome, WorkspaceError> {
    let mut outcome = CommandsOutcome::default();
    if commands.is_empty() {
        return Ok(outcome);
    }
    let tools = Tools::of_user();
    context.make_home(&tools)?;
    let environment = context.environment(&tools).await?;
    let sweep = Sweep(context.mark());
    let folders = [
        context.tree.to_owned(),
        context.folders.home(),
        context.folders.tmp(),
    ];
    let watcher = disk::watch(folders, context.settings.sandbox.resources.disk_reserve_bytes);
    let steps = steps.iter().cloned().chain(repeat_with(GateStep::default));
    let steps: Vec<(&String, GateStep)> = commands.iter().zip(steps).collect();
    let (environment, tools) = (&environment, &tools);
    let began = Instant::now();
    for together in steps.chunk_by(|_, (_, next)| next.parallel) {
        let since = began.elapsed();
        let running = together.iter().map(|(script, step)| {
            let filled = watcher.filled();
            async move {
                let ended = context.step(script, step, (environment, tools), filled).await;
                (ended, began.elapsed() - since)
            }
        });
        let ended = join_all(running).await;
        sweep.now().await;
        for ((script, step), (failure, took)) in together.iter().zip(ended) {
            let failure = failure?;
            outcome.times.push(StepTime {
                name: step.name.as_ref().unwrap_or(script).clone(),
                began_ms: millis(since),
                duration_ms: millis(took),
                passed: failure.is_none(),
            });
            outcome.failure = outcome.failure.or(failure);
        }
        if outcome.failure.is_some() {
            break;
        }
    }
    sweep.done();
    Ok(outcome)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl CommandContext<'_> {
    /// Runs one command in a sandbox of its own, because the sweep after it removes the sandbox's control
    /// groups.
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
        let tree = self.visible_path(self.tree.to_owned());
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
            () = disk::until_filled(&mut filled) => Some("was killed because it filled the worker's disk".to_owned()),
        };
        Ok(failure.map(|how| CommandFailure {
            command: script.to_owned(),
            output: format!("{}\n[{how}]\n", output.text()),
        }))
    }

    /// Makes a home and a temporary folder with the files that the user's tools need there.
    fn make_home(&self, tools: &Tools) -> Result<(), WorkspaceError> {
        let (home, tmp) = (self.folders.home(), self.folders.tmp());
        for folder in [&home, &tmp] {
            std::fs::create_dir_all(folder).map_err(WorkspaceError::io("make", folder))?;
        }
        at_length(|| tools.furnish(&home, self.tree)).map_err(WorkspaceError::io("furnish", &home))
    }

    /// A session's environment, plus the purpose of these commands.
    async fn environment(&self, tools: &Tools) -> Result<BTreeMap<OsString, OsString>, WorkspaceError> {
        let around = Surroundings {
            session_folder: Some(&self.folders.agent),
            home: &self.visible_path(self.folders.home()),
            tmp: &self.visible_path(self.folders.tmp()),
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

    /// The path that the commands see for `path`.
    fn visible_path(&self, path: PathBuf) -> PathBuf {
        let shared = self
            .by_shared_paths
            .then(|| shared_path(&self.settings.sandbox, &self.folders.agent, &path));
        shared.flatten().unwrap_or(path)
    }

    /// The dispatch's id, which marks leftover processes of a command.
    fn mark(&self) -> String {
        let name = self.folders.agent.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The sandbox of an agent's session: it may write the checkout, a home and a temporary folder, and read
    /// tools.
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

/// Kills leftover processes of commands, in whatever process group: after each command, and when nobody waits
/// for the commands any more.
struct Sweep(String);

impl Sweep {
    async fn now(&self) {
        let mark = self.0.clone();
        let _ = tokio::task::spawn_blocking(move || kill_leftovers(&mark)).await;
    }

    /// Disarms the sweep: no process is left, and a later process under the same mark must live.
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
