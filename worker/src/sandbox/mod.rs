//! What an agent and everything that it starts may reach (DESIGN 5, 7): it writes only to its workspace, its home and its
//! temporary folder, and reads only the system, its tools and these; the worker's secrets, other slots and the
//! user's home are out of reach, whatever their permissions.
//!
//! It is Linux' Landlock: no privilege, no daemon, inherited by every child. A child confines itself before its first instruction.
//! What Landlock doesn't know (permission bits, owners and times of files, sockets with a path before ABI 9, whose a terminal is)
//! is closed by a mount namespace beneath it, where the worker can make one; else bubblewrap goes first, where it works. Calls
//! that reach other processes are filtered. What of the network may be reached is a policy of its own.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`policy`](mod@policy) | which folders may be read and written: a decision |
//! | [`programs`] | what a program needs to be started: links, packages, interpreters |
//! | [`confinement`] | which wall a session gets, and how its processes are started inside |
//! | [`network`] | what of the network may be reached: a decision |
//! | [`landlock`], [`filter`] | telling the kernel: files and ports; system calls |
//! | [`calls`], [`compat_calls`] | which system calls are refused; those of programs of 32 bits |
//! | [`root`] | a root of a session's own beneath Landlock: mounts, terminals, IPC |
//! | [`terminals`] | terminals where a session has no such root |
//! | [`pre_exec`] | what a child gives up of what the worker has |
//! | [`start`] | a command of a session, and what it is given before its first instruction |
//! | [`bubblewrap`](mod@bubblewrap) | a root of its own, where Landlock isn't there or knows no sockets |
//! | [`process_tag`] | by what the kernel keeps: whose a process is |
//! | [`cgroup`] | holding a session's processes together, so that none is left behind |
//! | [`resources`] | what they may use of the machine |

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

/// The worker's configuration: `[workspace] sandbox`, and what agents reach besides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sandbox {
    /// What confines an agent.
    pub mode: SandboxMode,
    /// Further files and folders that every agent may read: toolchains in the user's home, say.
    pub read: Vec<PathBuf>,
    /// Further files and folders that every agent may write: shared caches, say.
    pub write: Vec<PathBuf>,
    /// Variables of the worker's that everything inside gets; a path among them may be read.
    pub passed: BTreeMap<String, String>,
    /// What of the network may be reached.
    pub network: Network,
    /// What a session may use.
    pub resources: Resources,
}

/// What confines an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxMode {
    /// Whatever this machine has, as far as it goes.
    #[default]
    Auto,
    /// Landlock with [`REQUIRED_ABI`] at least; else agents are refused rather than run open.
    Landlock,
    /// bubblewrap; where it doesn't work, agents are refused rather than run open.
    Bubblewrap,
    /// Nothing.
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
    fn modes_are_read_and_others_refused_with_the_choice() {
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
