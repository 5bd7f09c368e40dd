//! The sandbox of one session's processes, and how to start processes in it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::process::Child;

use super::bubblewrap::{self, Wrap};
use super::calls::Shared;
use super::cgroup::Cgroup;
use super::filter::{self, Sockets};
use super::landlock::{REQUIRED_ABI, SCOPE_ABI, rules, support};
use super::network::{Means, Network};
use super::policy::{Policy, SESSION_MOUNT};
use super::resources::Resources;
use super::root::{self, Kind, Root};
use super::start::{ChildSetup, Inside};
use super::terminals::{self, TERMINALS};
use super::{Sandbox, SandboxMode};
use crate::sandbox::effective::Effective;
use crate::sandbox::pre_exec::PreExecLimits;
use crate::sandbox::process_tag::ProcessTag;

/// A session's sandbox, which also groups its processes.
pub struct Confinement {
    mechanism: Mechanism,
    cgroup: Arc<Cgroup>,
    /// Tag to find its processes by.
    tag: Option<ProcessTag>,
    resources: Resources,
}

enum Mechanism {
    Open,
    Landlock {
        /// `None` if a session can't have a root of its own.
        root: Option<Root>,
        pre_exec: PreExecLimits,
    },
    Bubblewrap(Wrap),
}

/// Decides on an agent's sandbox. `auto` prefers, in this order: a Landlock that scopes signals, with a root
/// of the session's own; bubblewrap; Landlock alone, which may leave sockets with a path reachable (a message
/// bus, docker); nothing.
///
/// # Errors
/// Fails if a required mode isn't available: the message says what is missing and what to do.
pub fn effective(
    mode: SandboxMode,
    network: &Network,
    means: Means,
    bubblewrap: bool,
) -> Result<Effective, String> {
    let landlock_abi = means.abi;
    // Without network isolation, bubblewrap is no choice for a session without a network.
    let fits = bubblewrap && (*network != Network::None || means.namespace);
    match mode {
        SandboxMode::None => Ok(Effective::Open),
        SandboxMode::Auto if landlock_abi >= SCOPE_ABI && means.own_root => Ok(Effective::Landlock),
        SandboxMode::Auto if landlock_abi > 0 && !fits => Ok(Effective::Landlock),
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

/// This machine's means to enforce a network policy.
pub fn means() -> Means {
    Means {
        abi: support().abi,
        filter: filter::works(),
        namespace: bubblewrap::isolates(),
        own_root: root::is_possible(),
    }
}

/// Landlock, with a root of the session's own if possible.
fn landlocked(policy: &Policy, network: &Network, kind: Option<Kind>) -> io::Result<Mechanism> {
    let sockets = match network {
        Network::Open => None,
        Network::None => Some(Sockets::Local),
        Network::Proxy(_) => Some(Sockets::Tcp),
    };
    let root = kind.map(|kind| Root::new(kind, policy)).transpose()?;
    let mut policy = policy.clone();
    if root.is_none() {
        policy.write.extend(TERMINALS.map(PathBuf::from));
    }
    let shared = Shared {
        processes: true,
        ipc: root.is_none(),
    };
    // A network policy is enforced or refused earlier. Without one, the kernel need not support filters.
    let filters = sockets.is_some() || filter::works();
    let pre_exec = PreExecLimits {
        rules: Some(rules(&policy, network).map_err(io::Error::other)?),
        calls: filters.then(|| filter::program(sockets, shared)).transpose()?,
        capabilities: true,
    };
    Ok(Mechanism::Landlock { root, pre_exec })
}

/// Path of a file in a session's own folder that is equal in all sessions ([`SESSION_MOUNT`]). `None` in a
/// sandbox without a root of its own.
pub fn shared_path(sandbox: &Sandbox, session_folder: &Path, path: &Path) -> Option<PathBuf> {
    let effective = effective(
        sandbox.mode,
        &sandbox.network,
        means(),
        bubblewrap::program().is_some(),
    );
    let has_own_root = match effective {
        Ok(Effective::Bubblewrap) => true,
        Ok(Effective::Landlock) => root::is_possible(),
        Ok(Effective::Open) | Err(_) => false,
    };
    let below = path.strip_prefix(session_folder).ok()?;
    has_own_root.then(|| Path::new(SESSION_MOUNT).join(below))
}

impl Confinement {
    pub fn none() -> Self {
        Self {
            mechanism: Mechanism::Open,
            cgroup: Arc::default(),
            tag: None,
            resources: Resources::default(),
        }
    }

    /// Creates the sandbox of a session, with control groups if possible.
    ///
    /// # Errors
    /// Fails if a required mode isn't available: the message says what is missing and what to do.
    pub fn new(sandbox: &Sandbox, policy: &Policy, dispatch: &str) -> Result<Self, String> {
        let bubblewrap = bubblewrap::program();
        let network = &sandbox.network;
        let effective = effective(sandbox.mode, network, means(), bubblewrap.is_some())
            .map_err(|error| format!("failed to confine the agent: {error}"))?;
        network
            .enforceable(effective, means())
            .map_err(|error| format!("failed to confine the agent: {error}"))?;
        let refused = |error: io::Error| format!("failed to make the sandbox's rules: {error}");
        let mechanism = match (effective, bubblewrap) {
            (Effective::Landlock, _) => landlocked(policy, network, root::kind()).map_err(refused)?,
            (Effective::Bubblewrap, Some(program)) => {
                Mechanism::Bubblewrap(Wrap::new(program, policy, network).map_err(refused)?)
            }
            _ => Mechanism::Open,
        };
        let resources = sandbox.resources;
        let cgroup = Arc::new(Cgroup::make(dispatch, &resources));
        Ok(Self {
            mechanism,
            cgroup,
            tag: Some(ProcessTag::of(dispatch)),
            resources,
        })
    }

    /// Whether any files are protected.
    pub fn is_confined(&self) -> bool {
        !matches!(self.mechanism, Mechanism::Open)
    }

    /// The session's control groups. They are removed when the last holder drops them.
    pub fn cgroup(&self) -> Arc<Cgroup> {
        self.cgroup.clone()
    }

    /// A command that [`Self::spawn`] starts inside, with only this environment.
    pub fn command(
        &self,
        program: impl AsRef<OsStr>,
        environment: &BTreeMap<OsString, OsString>,
    ) -> io::Result<Inside> {
        match &self.mechanism {
            Mechanism::Open | Mechanism::Landlock { .. } => Ok(Inside::plain(program.as_ref(), environment)),
            Mechanism::Bubblewrap(wrap) => wrap.command(program.as_ref(), environment),
        }
    }

    /// Whether a wrapper process runs between the worker and the command.
    pub fn is_wrapped(&self) -> bool {
        matches!(self.mechanism, Mechanism::Bubblewrap(_))
    }

    /// Starts a command of [`Self::command`] inside, as the leader of its own session and process group.
    pub fn spawn(&self, command: &mut Inside) -> io::Result<Child> {
        // If the whole session's memory can't be limited, a configured limit applies to each process.
        let memory = self
            .resources
            .memory_bytes
            .filter(|_| !self.cgroup.bounds_memory());
        let (root, pre_exec) = match &self.mechanism {
            Mechanism::Open => (None, PreExecLimits::default()),
            Mechanism::Landlock { root, pre_exec } => (root.clone(), pre_exec.again()?),
            Mechanism::Bubblewrap(wrap) => {
                wrap.find(command)?;
                (None, wrap.pre_exec_limits()?)
            }
        };
        // If nothing separates terminals, the worker opens a session's terminals for it.
        let handed_over = matches!(self.mechanism, Mechanism::Landlock { root: None, .. }) && filter::works();
        let (handing, handed) = handed_over.then(terminals::pair).transpose()?.unzip();
        let child = command.start(ChildSetup {
            entrances: self.cgroup.entrances(),
            limits: self.resources.limits(memory),
            tag: self.tag,
            root,
            pre_exec,
            terminals: handing,
        })?;
        if let Some(handed) = handed {
            handed.serve()?;
        }
        Ok(child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of a program confined by Landlock alone, with or without a root of its own.
    async fn printed(kind: Option<Kind>, script: &str) -> String {
        let work = tempfile::tempdir().unwrap();
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc"].map(PathBuf::from);
        let policy = Policy {
            read: system.into_iter().filter(|path| path.exists()).collect(),
            write: vec![work.path().to_owned(), "/dev/null".into()],
            ..Policy::default()
        };
        let confinement = Confinement {
            mechanism: landlocked(&policy, &Network::Open, kind).unwrap(),
            ..Confinement::none()
        };
        let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
        let mut command = confinement.command("python3", &environment).unwrap();
        command
            .args(["-c", script])
            .current_dir(work.path())
            .stdout(std::process::Stdio::piped())
            .kill_on_drop(true);
        let child = confinement.spawn(&mut command).unwrap();
        let output = child.wait_with_output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Opens a terminal like glibc, uses it, and tries a person's terminal, whose other end only its first
    /// end may request.
    const TERMINALS_APART: &str = "import os, pty, fcntl
master, slave = os.openpty()
os.write(slave, b'used')
print(os.read(master, 4).decode())
pid, master = pty.fork()
if pid == 0:
    os.execvp('sh', ['sh', '-c', ': < /dev/tty && echo in-a-shell'])
print(os.read(master, 10).decode())
for attempt in (
    lambda: os.open('PERSONS', os.O_RDWR | os.O_NOCTTY),
    lambda: fcntl.ioctl(os.open('/etc/passwd', os.O_RDONLY), 0x5441, os.O_RDWR),
):
    try:
        attempt()
        print('escaped')
    except OSError:
        print('held')
";

    #[tokio::test]
    async fn a_session_gets_its_own_terminals_and_not_a_persons() {
        let persons = nix::pty::openpty(None, None).unwrap();
        let name = nix::unistd::ttyname(&persons.slave).unwrap();
        // Numbers in a separate instance begin with 0, which is also this terminal's number.
        let script = TERMINALS_APART.replace("PERSONS", &name.display().to_string());
        let expected = "used\nin-a-shell\nheld\nheld\n";
        assert_eq!(printed(None, &script).await, expected);
        if let Some(kind) = root::kind() {
            let elsewhere = TERMINALS_APART.replace("PERSONS", "/dev/pts/99");
            assert_eq!(printed(Some(kind), &elsewhere).await, expected);
        }
    }

    #[test]
    fn a_required_mode_never_runs_open() {
        use Effective as E;
        use SandboxMode as M;
        let means = |abi, own_root| Means {
            abi,
            filter: true,
            namespace: true,
            own_root,
        };
        let check = |mode, abi, bubblewrap, expected: Option<E>| {
            let got = effective(mode, &Network::Open, means(abi, false), bubblewrap).ok();
            assert_eq!(got, expected, "{mode:?} {abi} {bubblewrap}");
        };
        let with_root = |abi, bubblewrap| effective(M::Auto, &Network::Open, means(abi, true), bubblewrap);
        assert_eq!(with_root(6, true), Ok(E::Landlock));
        assert_eq!(with_root(5, true), Ok(E::Bubblewrap));
        assert_eq!(with_root(5, false), Ok(E::Landlock));
        check(M::None, 9, true, Some(E::Open));
        check(M::Auto, 9, true, Some(E::Bubblewrap));
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
                ..means(7, false)
            };
            effective(M::Auto, &Network::None, means, true)
        };
        assert_eq!(alone(true), Ok(E::Bubblewrap));
        assert_eq!(alone(false), Ok(E::Landlock));
    }
}
