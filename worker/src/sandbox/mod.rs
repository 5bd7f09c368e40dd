//! The sandbox of an agent and all its child processes (DESIGN 5, 7). It can write only to its workspace, its
//! home and its temporary folder, and read only these, the system and its tools. The worker's secrets, other
//! slots and the user's home are inaccessible, whatever their permissions.
//!
//! It uses Linux' Landlock: no privilege, no daemon, inherited by every child. A child confines itself before
//! its first instruction. Landlock doesn't control permission bits, owners and times of files, sockets with a
//! path before ABI 9, or the owner of a terminal. A mount namespace beneath it closes these gaps if the
//! worker can create one; otherwise bubblewrap is preferred where it works. Calls that reach other processes
//! are filtered. Network access has a policy of its own.
//!
//! | module | content |
//! | --- | --- |
//! | [`policy`](mod@policy) | decides which folders may be read and written |
//! | [`programs`] | paths that a program needs to start: links, packages, interpreters |
//! | [`confinement`] | the kind of sandbox of a session, and starting processes in it |
//! | [`network`] | decides on network access |
//! | [`landlock`], [`filter`] | kernel rules for files and ports; for system calls |
//! | [`calls`], [`compat_calls`] | refused system calls; those of 32-bit programs |
//! | [`root`] | a root of a session's own beneath Landlock: mounts, terminals, IPC |
//! | [`terminals`] | terminals where a session has no such root |
//! | [`pre_exec`] | rights that a child gives up |
//! | [`start`] | a session's command, and its setup before the first instruction |
//! | [`bubblewrap`](mod@bubblewrap) | a root of its own, if Landlock is missing or does not control sockets |
//! | [`process_tag`] | resource limits that identify a session's processes |
//! | [`cgroup`] | control groups that hold a session's processes |
//! | [`resources`] | limits of memory, processes, CPU and disk |

mod bubblewrap;
mod calls;
mod cgroup;
mod compat_calls;
mod confinement;
pub mod effective;
mod filter;
mod landlock;
mod network;
mod policy;
mod pre_exec;
mod process_tag;
mod programs;
mod resources;
mod root;
mod start;
mod terminals;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

pub use crate::sandbox::effective::Effective;
pub use crate::sandbox::process_tag::ProcessTag;
pub use bubblewrap::{in_path, program as bubblewrap};
pub use cgroup::Cgroup;
pub use confinement::{Confinement, effective, means, shared_path};
pub use landlock::{REQUIRED_ABI, Support, support};
pub use network::{Means, Network, Proxy};
pub use policy::{Policy, PolicyRequest, is_for_tools, policy};
pub use resources::Resources;
pub use root::is_possible as own_root;
pub use start::Inside;

/// The worker's sandbox configuration: `[workspace] sandbox` and related settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sandbox {
    pub mode: SandboxMode,
    /// More files and folders that every agent may read, such as toolchains in the user's home.
    pub read: Vec<PathBuf>,
    /// More files and folders that every agent may write, such as shared caches.
    pub write: Vec<PathBuf>,
    /// Variables of the worker that every sandboxed process gets. A path among them may be read.
    pub passed: BTreeMap<String, String>,
    pub network: Network,
    pub resources: Resources,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxMode {
    /// The best that this machine supports.
    #[default]
    Auto,
    /// Landlock with at least [`REQUIRED_ABI`]. If it is missing, agents are refused rather than run without
    /// a sandbox.
    Landlock,
    /// bubblewrap. If it doesn't work, agents are refused rather than run without a sandbox.
    Bubblewrap,
    None,
}

impl FromStr for SandboxMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "landlock" => Ok(Self::Landlock),
            "bubblewrap" => Ok(Self::Bubblewrap),
            "none" => Ok(Self::None),
            _ => Err(format!(
                "`{text}` is no sandbox: expected `auto`, `landlock`, `bubblewrap` or `none`"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_parsed_and_an_error_lists_them() {
        assert_eq!("landlock".parse(), Ok(SandboxMode::Landlock));
        assert_eq!("none".parse(), Ok(SandboxMode::None));
        assert_eq!("bubblewrap".parse(), Ok(SandboxMode::Bubblewrap));
        let error = "open".parse::<SandboxMode>().unwrap_err();
        assert_eq!(
            error,
            "`open` is no sandbox: expected `auto`, `landlock`, `bubblewrap` or `none`"
        );
    }
}
