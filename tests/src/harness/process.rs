//! Processes of a test: their output goes to files, and they are killed on drop.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A command that dies with this process, however that ends.
pub fn bound(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Like [`bound`], with a separate disk of `size_mib` MiB at `folder`, which is removed with it. Needs root.
pub fn bound_with_disk(program: &Path, folder: &Path, size_mib: u32) -> anyhow::Result<Command> {
    std::fs::create_dir_all(folder)?;
    let mut command = bound(Path::new("unshare"));
    command
        .args(["--mount", "sh", "-c"])
        .arg(r#"mount -t tmpfs -o "$1" none "$2" && shift 2 && exec "$@""#)
        .args(["sh", &format!("size={size_mib}m")])
        .args([folder, program]);
    Ok(command)
}

/// A process that is killed on drop.
#[derive(Debug)]
pub struct Spawned {
    child: Child,
    log: PathBuf,
}

impl Spawned {
    /// Starts `command`; appends its output to `log`.
    pub fn start(command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let open = || File::options().create(true).append(true).open(log);
        let child = command
            .stdin(Stdio::null())
            .stdout(open()?)
            .stderr(open()?)
            .spawn()
            .with_context(|| format!("failed to start {command:?}"))?;
        Ok(Self {
            child,
            log: log.to_owned(),
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Kills the process and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }

    /// The exit status, if it has ended.
    pub fn try_wait(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    pub async fn wait(&mut self) -> std::process::ExitStatus {
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// Waits until a fault has killed it with SIGKILL.
    ///
    /// # Errors
    /// When it ended in another way.
    pub async fn killed_by_fault(&mut self) -> anyhow::Result<()> {
        let status = self.wait().await;
        let by = status.signal();
        anyhow::ensure!(
            by == Some(Signal::SIGKILL as i32),
            "it ended without the fault, {status}:\n{}",
            self.output()
        );
        Ok(())
    }

    /// Waits until a fault has stopped it with SIGSTOP.
    ///
    /// # Errors
    /// When it ended instead.
    pub async fn stopped_by_fault(&mut self) -> anyhow::Result<()> {
        loop {
            if let Some(status) = self.try_wait() {
                anyhow::bail!("it ended instead, {status}:\n{}", self.output());
            }
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()))?;
            if stat
                .rsplit_once(')')
                .is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
            {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        self.signal(Signal::SIGCONT);
        self.kill();
    }
}
