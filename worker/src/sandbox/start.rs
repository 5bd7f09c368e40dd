//! A session's command, and the child's setup before its first instruction.
#![allow(unsafe_code)] // Only `pre_exec` reaches a child before its first instruction.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;

use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::setsid;
use tokio::process::{Child, Command};

use super::root::Root;
use super::terminals::CallSender;
use crate::sandbox::pre_exec::PreExecLimits;
use crate::sandbox::process_tag::ProcessTag;

/// A command that [`super::Confinement::spawn`] starts inside. Its environment is complete from the
/// beginning: a wrapper program starts with none of it.
pub struct Inside {
    pub(super) command: Command,
    /// `PATH` for the program inside.
    pub(super) path: OsString,
    pub(super) program: OsString,
    /// File with further arguments for the wrapper program.
    pub(super) arguments: Option<OwnedFd>,
}

impl Inside {
    /// A command without a wrapper program.
    pub(super) fn plain(program: &OsStr, environment: &BTreeMap<OsString, OsString>) -> Self {
        let mut command = Command::new(program);
        command.env_clear().envs(environment);
        Self {
            command,
            path: path(environment),
            program: program.to_owned(),
            arguments: None,
        }
    }

    /// Starts the command with this setup.
    pub(super) fn start(&mut self, setup: ChildSetup) -> io::Result<Child> {
        let inherited = self.arguments.as_ref().map(|file| file.as_raw_fd());
        setup.apply_to(self.command.as_std_mut(), inherited);
        self.command.spawn()
    }
}

impl Deref for Inside {
    type Target = Command;

    fn deref(&self) -> &Command {
        &self.command
    }
}

impl DerefMut for Inside {
    fn deref_mut(&mut self) -> &mut Command {
        &mut self.command
    }
}

pub(super) fn path(environment: &BTreeMap<OsString, OsString>) -> OsString {
    environment.get(OsStr::new("PATH")).cloned().unwrap_or_default()
}

/// A child's setup before its first instruction.
#[derive(Default)]
pub(super) struct ChildSetup {
    /// Files of control groups. A process that writes `0` to one joins it.
    pub entrances: Vec<File>,
    pub limits: Vec<(Resource, u64, u64)>,
    /// Tag to find it and its children by.
    pub tag: Option<ProcessTag>,
    pub root: Option<Root>,
    /// Limits applied last, after all steps that need the rights.
    pub pre_exec: PreExecLimits,
    pub terminals: Option<CallSender>,
}

impl ChildSetup {
    /// Applies the setup to a command, in a session of its own. The command leads a process group and has no
    /// terminal of the worker's user. It inherits the file `inherited`.
    pub fn apply_to(mut self, command: &mut std::process::Command, inherited: Option<RawFd>) {
        let folder = command.get_current_dir();
        let folder = folder.and_then(|folder| CString::new(folder.as_os_str().as_bytes()).ok());
        let begin = move || -> io::Result<()> {
            for mut entrance in &self.entrances {
                // A group that refuses us limits nothing: a session is worth more than its limits.
                let _ = entrance.write(b"0");
            }
            for (resource, soft, hard) in &self.limits {
                setrlimit(*resource, *soft, *hard).map_err(io::Error::from)?;
            }
            if let Some(tag) = self.tag {
                tag.set_on_self();
            }
            if let Some(file) = inherited {
                // SAFETY: the command holds the descriptor open until it is started.
                let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(file) };
                rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?;
            }
            setsid().map_err(io::Error::from)?;
            let devices = self.root.as_ref().map(Root::enter).transpose()?;
            if let (Some(_), Some(folder)) = (&devices, &folder) {
                // The old working folder belongs to the root that it left.
                rustix::process::chdir(folder)?;
            }
            self.pre_exec.apply(devices)?;
            self.terminals.as_ref().map_or(Ok(()), CallSender::begin)
        };
        // SAFETY: between fork and exec the closure only makes system calls: it allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(begin);
        }
    }
}
