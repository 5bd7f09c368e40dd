//! What confines the processes of one session, and how they are started inside.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;

use seccompiler::BpfProgram;
use tokio::process::Child;

use super::brand::Brand;
use super::bubblewrap::{self, Wrap};
use super::cgroup::Cgroup;
use super::filter::{self, Sockets};
use super::landlock::{REQUIRED_ABI, SOCKET_ABI, rules, support};
use super::network::{Means, Network};
use super::policy::Policy;
use super::resources::Resources;
use super::restraint::Restraint;
use super::start::{Beginning, Inside};
use super::{Sandbox, SandboxMode};

/// What confines the processes of one session, and holds them together.
pub struct Confinement {
    wall: Wall,
    cgroup: Arc<Cgroup>,
    /// By which its processes are found.
    brand: Option<Brand>,
    resources: Resources,
}

/// What keeps files out of reach.
enum Wall {
    Open,
    Landlock(Restraint),
    Bubblewrap(Wrap),
}

impl Wall {
    /// System calls that what is started inside gives up.
    fn calls(&self) -> Option<&BpfProgram> {
        match self {
            Self::Open => None,
            Self::Landlock(restraint) => restraint.calls.as_ref(),
            Self::Bubblewrap(wrap) => wrap.calls(),
        }
    }
}

/// What a mode comes to on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effective {
    /// Nothing confines agents.
    Open,
    /// Landlock does.
    Landlock,
    /// bubblewrap does.
    Bubblewrap,
}

/// Decides what confines agents: with `auto`, a Landlock that knows sockets with a path before bubblewrap, where whatever
/// listens on one (a message bus, docker) isn't to be seen; that before an older Landlock, and that before nothing.
///
/// # Errors
/// In a mode that insists: what is missing, and what to do.
pub fn effective(
    mode: SandboxMode,
    network: &Network,
    means: Means,
    bubblewrap: bool,
) -> Result<Effective, String> {
    let landlock_abi = means.abi;
    // One that can't give a session a network of its own is no choice where there is to be none.
    let fits = bubblewrap && (*network != Network::None || means.namespace);
    match mode {
        SandboxMode::None => Ok(Effective::Open),
        SandboxMode::Auto if landlock_abi >= SOCKET_ABI || landlock_abi > 0 && !fits => {
            Ok(Effective::Landlock)
        }
        SandboxMode::Auto if bubblewrap => Ok(Effective::Bubblewrap),
        SandboxMode::Auto => Ok(Effective::Open),
        SandboxMode::Landlock if landlock_abi >= REQUIRED_ABI => Ok(Effective::Landlock),
        SandboxMode::Landlock => Err(format!(
            "`sandbox = \"landlock\"` needs Landlock ABI {REQUIRED_ABI} (Linux 6.10), this kernel has {landlock_abi}; use \
             a newer kernel, or `sandbox = \"auto\"` to run with less"
        )),
        SandboxMode::Bubblewrap if bubblewrap => Ok(Effective::Bubblewrap),
        SandboxMode::Bubblewrap => Err(
            "`sandbox = \"bubblewrap\"` needs a `bwrap` on the PATH that can make namespaces here; install bubblewrap, \
             and allow user namespaces (`sysctl kernel.unprivileged_userns_clone=1`), or use `sandbox = \"auto\"`"
                .to_owned(),
        ),
    }
}

/// What this machine has to enforce a network's policy with.
pub fn means() -> Means {
    Means {
        abi: support().abi,
        filter: filter::works(),
        namespace: bubblewrap::isolates(),
    }
}

/// What is given up where Landlock is the wall.
fn restraint(policy: &Policy, network: &Network) -> io::Result<Restraint> {
    let sockets = match network {
        Network::Open => None,
        Network::None => Some(Sockets::Local),
        Network::Proxy(_) => Some(Sockets::Tcp),
    };
    // A policy for the network is enforced or refused before; without one, a kernel that filters nothing will do.
    let filters = sockets.is_some() || filter::works();
    Ok(Restraint {
        rules: Some(rules(policy, network).map_err(io::Error::other)?),
        calls: filters.then(|| filter::program(sockets)).transpose()?,
        capabilities: true,
    })
}

impl Confinement {
    /// Nothing.
    pub fn none() -> Self {
        Self {
            wall: Wall::Open,
            cgroup: Arc::default(),
            brand: None,
            resources: Resources::default(),
        }
    }

    /// Makes the wall of a session, and its control groups where that is possible.
    ///
    /// # Errors
    /// In a mode that insists: what is missing, and what to do.
    pub fn new(sandbox: &Sandbox, policy: &Policy, dispatch: &str) -> Result<Self, String> {
        let bubblewrap = bubblewrap::program();
        let network = &sandbox.network;
        let effective = effective(sandbox.mode, network, means(), bubblewrap.is_some())
            .map_err(|error| format!("failed to confine the agent: {error}"))?;
        network
            .enforceable(effective, means())
            .map_err(|error| format!("failed to confine the agent: {error}"))?;
        let refused = |error: io::Error| format!("failed to make the sandbox's rules: {error}");
        let wall = match (effective, bubblewrap) {
            (Effective::Landlock, _) => Wall::Landlock(restraint(policy, network).map_err(refused)?),
            (Effective::Bubblewrap, Some(program)) => {
                Wall::Bubblewrap(Wrap::new(program, policy, network).map_err(refused)?)
            }
            _ => Wall::Open,
        };
        let resources = sandbox.resources;
        let cgroup = Arc::new(Cgroup::make(dispatch, &resources));
        Ok(Self {
            wall,
            cgroup,
            brand: Some(Brand::of(dispatch)),
            resources,
        })
    }

    /// Whether anything is out of reach.
    pub fn is_confined(&self) -> bool {
        !matches!(self.wall, Wall::Open)
    }

    /// The control groups of the session, which are gone with the last one who holds them.
    pub fn cgroup(&self) -> Arc<Cgroup> {
        self.cgroup.clone()
    }

    /// A command that [`Self::spawn`] starts inside, with this environment and no other.
    ///
    /// # Errors
    /// When a variable can't be given to a process.
    pub fn command(
        &self,
        program: impl AsRef<OsStr>,
        environment: &BTreeMap<OsString, OsString>,
    ) -> io::Result<Inside> {
        match &self.wall {
            Wall::Open | Wall::Landlock(_) => Ok(Inside::plain(program.as_ref(), environment)),
            Wall::Bubblewrap(wrap) => wrap.command(program.as_ref(), environment),
        }
    }

    /// Whether a process of its own stands between the worker and what it starts.
    pub fn is_wrapped(&self) -> bool {
        matches!(self.wall, Wall::Bubblewrap(_))
    }

    /// Starts a command of [`Self::command`] inside. It leads a session and a process group of its own.
    ///
    /// # Errors
    /// When the command can't be started, or not be confined.
    pub fn spawn(&self, command: &mut Inside) -> io::Result<Child> {
        // Where the whole session can't be bounded, a bound that somebody asked for holds for each process.
        let memory = self
            .resources
            .memory_bytes
            .filter(|_| !self.cgroup.bounds_memory());
        let beginning = Beginning {
            entrances: self.cgroup.entrances(),
            limits: self.resources.limits(memory),
            brand: self.brand,
            calls: self.wall.calls().cloned(),
        };
        beginning.give(command);
        match &self.wall {
            Wall::Landlock(restraint) => restraint.spawn(command),
            Wall::Bubblewrap(wrap) => wrap.spawn(command),
            Wall::Open => command.spawn(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_that_insists_is_never_open() {
        use Effective as E;
        use SandboxMode as M;
        let means = |abi| Means {
            abi,
            filter: true,
            namespace: true,
        };
        let check = |mode, abi, bubblewrap, expected: Option<E>| {
            let got = effective(mode, &Network::Open, means(abi), bubblewrap).ok();
            assert_eq!(got, expected, "{mode:?} {abi} {bubblewrap}");
        };
        check(M::None, 9, true, Some(E::Open));
        check(M::Auto, 9, true, Some(E::Landlock));
        check(M::Auto, 8, true, Some(E::Bubblewrap));
        check(M::Auto, 8, false, Some(E::Landlock));
        check(M::Auto, 0, true, Some(E::Bubblewrap));
        check(M::Auto, 0, false, Some(E::Open));
        check(M::Landlock, 5, false, Some(E::Landlock));
        check(M::Landlock, 4, true, None);
        check(M::Bubblewrap, 9, true, Some(E::Bubblewrap));
        check(M::Bubblewrap, 9, false, None);
        let alone = |namespace| {
            let means = Means {
                namespace,
                ..means(7)
            };
            effective(M::Auto, &Network::None, means, true)
        };
        assert_eq!(alone(true), Ok(E::Bubblewrap));
        assert_eq!(alone(false), Ok(E::Landlock));
    }
}
