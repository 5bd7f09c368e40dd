//! The one thread that starts children.
//!
//! Linux ties the death signal to the *thread* that forked, not to the process: a child started from a runtime's worker
//! thread would die when that thread is retired. So every child is started by a thread that lives as long as the process.

// A hook between fork and exec is the only place where the death signal can be set; std marks such hooks unsafe.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;

use nix::unistd::Pid;

use super::spec::ChildSpec;

/// A started child with the reading end of both of its outputs.
pub(super) type Spawned = (Child, PipeReader);

struct Request {
    spec: ChildSpec,
    reply: mpsc::SyncSender<io::Result<Spawned>>,
}

static SPAWNER: OnceLock<mpsc::Sender<Request>> = OnceLock::new();

/// Starts a child from the spawning thread. Blocks for the few hundred microseconds of fork and exec.
pub(super) fn spawn(spec: &ChildSpec) -> io::Result<Spawned> {
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<Request>();
        // If the thread can't be created, `requests` is dropped and the send below fails.
        let _ = thread::Builder::new().name("spawner".into()).spawn(move || {
            for request in requests {
                let _ = request.reply.send(start(&request.spec));
            }
        });
        sender
    });
    let gone = |_| io::Error::other("the thread that starts processes is not running");
    let (reply, answer) = mpsc::sync_channel(1);
    spawner
        .send(Request {
            spec: spec.clone(),
            reply,
        })
        .map_err(|_| gone(mpsc::RecvError))?;
    answer.recv().map_err(gone)?
}

fn start(spec: &ChildSpec) -> io::Result<Spawned> {
    let (output, input) = io::pipe()?;
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.args)
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input)
        .process_group(0);
    if spec.clear_env {
        command.env_clear();
    }
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    if let Some(user) = &spec.run_as {
        command.uid(user.uid).gid(user.gid);
    }
    let folder = spec.folder.as_deref().map(File::open).transpose()?;
    let folder_fd = folder.as_ref().map(File::as_raw_fd);
    let death_signal = spec.death_signal as libc::c_int;
    let parent = libc::pid_t::try_from(std::process::id()).map_err(io::Error::other)?;
    // SAFETY: between fork and exec the hook makes only async-signal-safe system calls, touches no lock and allocates
    // nothing; the descriptor stays open in `folder` until the child was started.
    unsafe {
        command.pre_exec(move || {
            if let Some(fd) = folder_fd
                && libc::fchdir(fd) != 0
            {
                return Err(io::Error::last_os_error());
            }
            die_with(parent, death_signal)
        });
    }
    Ok((command.spawn()?, output))
}

/// Asks for the death signal, after std changed the user, which would clear it. Exits if the parent is
/// already gone.
#[cfg(target_os = "linux")]
fn die_with(parent: libc::pid_t, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: plain system calls with integer arguments.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, signal) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::getppid() != parent {
            libc::_exit(1);
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: libc::pid_t, _signal: libc::c_int) -> io::Result<()> {
    Ok(())
}

/// Waits until the child has ended but leaves it a zombie, so that its number isn't reused yet.
pub(super) fn wait_without_reaping(pid: Pid) {
    loop {
        // SAFETY: `siginfo_t` is plain data for which zeros are valid, and the call writes only into it.
        let result = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(
                libc::P_PID,
                pid.as_raw().cast_unsigned(),
                &raw mut info,
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        if result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}
