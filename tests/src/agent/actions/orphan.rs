//! A process that outlives its agent: forked twice, in its own session, with the agent's output pipes open.
//!
//! The agent starts itself as a launcher, which leaves the agent's session, starts itself once more and
//! exits. The remaining process has no parent that Ralph can see.

use std::io;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use agent_client_protocol::Error;

use super::super::turn::Turn;

impl Turn {
    pub(super) async fn orphan(&self, life: Duration) -> Result<(), Error> {
        let pid = self
            .launch_orphan(life)
            .await
            .map_err(Error::into_internal_error)?;
        self.say(format!("orphan {pid}\n"))
    }

    async fn launch_orphan(&self, life: Duration) -> io::Result<String> {
        // The launcher's own output returns the orphan's id, so the pipe to hold open is passed as its
        // input.
        let held = io::stdout().as_fd().try_clone_to_owned()?;
        let mut launcher = tokio::process::Command::new(std::env::current_exe()?);
        launcher
            .arg("--orphan-launch")
            .arg(life.as_secs().to_string())
            .stdin(held)
            .stdout(Stdio::piped());
        let launched = launcher.spawn()?.wait_with_output().await?;
        if !launched.status.success() {
            return Err(io::Error::other(format!(
                "failed to launch an orphan: {}",
                launched.status
            )));
        }
        Ok(String::from_utf8_lossy(&launched.stdout).trim().to_owned())
    }
}

/// The launcher: starts the orphan, prints its process id, and exits.
pub(in crate::agent) fn launch(life_s: u64) -> io::Result<()> {
    nix::unistd::setsid()?;
    let held = io::stdin().as_fd().try_clone_to_owned()?;
    let orphan = Command::new(std::env::current_exe()?)
        .args(["--orphan-live", &life_s.to_string()])
        .stdin(Stdio::null())
        .stdout(held)
        .spawn()?;
    println!("{}", orphan.id());
    Ok(())
}

/// The orphan: does nothing for its lifetime.
pub(in crate::agent) fn live(life: Duration) {
    std::thread::sleep(life);
}
