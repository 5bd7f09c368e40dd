//! The sandbox with bubblewrap: a root with only the paths of the policy, and namespaces for processes, IPC
//! and the host name. It needs a program, and namespaces, which some machines and containers refuse.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;

use rustix::fs::{MemfdFlags, memfd_create};
use tokio::process::Command;

use super::calls::Shared;
use super::filter::{self, Sockets};
use super::landlock;
use super::network::Network;
use super::policy::Policy;
use super::programs::is_executable;
use super::start::{ChildSetup, Inside, path};
use crate::sandbox::pre_exec::PreExecLimits;
use crate::session::MARK;

/// Folders that bubblewrap creates itself.
const MADE: &[&str] = &["/proc", "/dev"];

/// Parts of `/proc` that belong to the whole machine and that root may write.
const KERNELS: &[&str] = &[
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/acpi",
    "/proc/fs",
];

/// Root's capabilities over plain files. An agent that runs as root needs them; all others are dropped.
const CAPABILITIES: &[&str] = &[
    "CAP_CHOWN",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_SETUID",
    "CAP_SETGID",
];

/// The program, if it exists and works on this machine. Checked once.
pub fn program() -> Option<&'static Path> {
    static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(find);
    PROGRAM.as_deref()
}

fn find() -> Option<PathBuf> {
    let program = in_path(OsStr::new("bwrap"), &std::env::var_os("PATH")?, Path::new("/"))?;
    works(&program, &["--unshare-pid"], PreExecLimits::default()).then_some(program)
}

/// Whether it can also isolate a session's network, started like a session's commands. Checked once.
pub fn isolates() -> bool {
    static ISOLATES: LazyLock<bool> = LazyLock::new(|| {
        program().is_some_and(|program| {
            pre_exec_limits(&Network::None)
                .is_ok_and(|pre_exec| works(program, &["--unshare-pid", ALONE], pre_exec))
        })
    });
    *ISOLATES
}

/// Namespaces that a session shares.
const APART: Shared = Shared {
    processes: false,
    ipc: false,
};

const ALONE: &str = "--unshare-net";

fn works(program: &Path, namespaces: &[&str], pre_exec: PreExecLimits) -> bool {
    let mut command = std::process::Command::new(program);
    command
        .args(namespaces)
        .args(["--ro-bind", "/", "/", "--proc", "/proc", "--", "/bin/true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let setup = ChildSetup {
        pre_exec,
        ..ChildSetup::default()
    };
    setup.apply_to(&mut command, None);
    command.status().is_ok_and(|status| status.success())
}

/// Whether it also starts under `no_new_privs`, which dropping rights requires. A setuid bubblewrap does not.
/// Checked once.
/// root's rights doesn't.
fn works_without_new_privileges() -> bool {
    static WORKS: LazyLock<bool> = LazyLock::new(|| {
        program().is_some_and(|program| {
            limits_of(&Network::Open).is_ok_and(|pre_exec| works(program, &["--unshare-pid"], pre_exec))
        })
    });
    *WORKS
}

/// Limits for what namespaces don't restrict, as far as this machine's bubblewrap runs with them.
pub(super) fn pre_exec_limits(network: &Network) -> io::Result<PreExecLimits> {
    if *network == Network::Open && !works_without_new_privileges() {
        return Ok(PreExecLimits::default());
    }
    limits_of(network)
}

fn limits_of(network: &Network) -> io::Result<PreExecLimits> {
    let sockets = match network {
        Network::Open => None,
        Network::None => Some(Sockets::Own),
        Network::Proxy(_) => Some(Sockets::Tcp),
    };
    let rules = match network {
        Network::Open | Network::Proxy(_) => Some(landlock::port_rules(network).map_err(io::Error::other)?),
        Network::None => None,
    };
    let filters = sockets.is_some() || filter::works();
    Ok(PreExecLimits {
        rules,
        calls: filters.then(|| filter::program(sockets, APART)).transpose()?,
        capabilities: false,
    })
}

/// Finds a program like a shell that runs in `folder`.
pub fn in_path(program: &OsStr, path: &OsStr, folder: &Path) -> Option<PathBuf> {
    let executable = |file: &PathBuf| is_executable(file);
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(folder.join(program)).filter(executable);
    }
    std::env::split_paths(path)
        .map(|folder| folder.join(program))
        .find(executable)
}

pub struct Wrap {
    program: PathBuf,
    arguments: Vec<OsString>,
    pre_exec: PreExecLimits,
}

impl Wrap {
    pub fn new(program: &Path, policy: &Policy, network: &Network) -> io::Result<Self> {
        let mut arguments = arguments(policy);
        if *network == Network::None {
            arguments.insert(0, ALONE.into());
        }
        Ok(Self {
            program: program.to_owned(),
            arguments,
            pre_exec: pre_exec_limits(network)?,
        })
    }

    /// A command inside the sandbox. Its program is looked up there.
    ///
    /// bubblewrap itself runs outside the sandbox, so it must never get the agent's environment (a library to
    /// preload, for example). It starts with an empty environment and reads the inner one from a file that
    /// only it can read.
    pub fn command(&self, program: &OsStr, environment: &BTreeMap<OsString, OsString>) -> io::Result<Inside> {
        let file = memfd_create("ralph-environment", MemfdFlags::CLOEXEC)?;
        let mut file = File::from(file);
        file.write_all(&variables(environment)?)?;
        file.rewind()?;
        let mut command = Command::new(&self.program);
        command.env_clear();
        // Leftover processes are found by this mark.
        command.envs(environment.get_key_value(OsStr::new(MARK)));
        command
            .args(&self.arguments)
            .arg("--args")
            .arg(file.as_raw_fd().to_string())
            .arg("--")
            .arg(program);
        Ok(Inside {
            command,
            path: path(environment),
            program: program.to_owned(),
            arguments: Some(file.into()),
        })
    }

    /// The additional limits for one more child.
    pub(super) fn pre_exec_limits(&self) -> io::Result<PreExecLimits> {
        self.pre_exec.again()
    }

    /// Looks for the program inside: bubblewrap itself would only report a missing one by its exit code.
    pub fn find(&self, inside: &Inside) -> io::Result<()> {
        let folder = inside.command.as_std().get_current_dir();
        let folder = folder.unwrap_or(Path::new("/"));
        match in_path(&inside.program, &inside.path, folder) {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Variables as NUL-terminated arguments of bubblewrap.
fn variables(environment: &BTreeMap<OsString, OsString>) -> io::Result<Vec<u8>> {
    let mut arguments = Vec::new();
    for (name, value) in environment {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        if name.is_empty() || name.contains(&b'=') || name.contains(&0) || value.contains(&0) {
            let words = "a variable's name is empty or holds `=`, or it holds a NUL";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        for argument in [b"--setenv", name, value] {
            arguments.extend_from_slice(argument);
            arguments.push(0);
        }
    }
    Ok(arguments)
}

fn arguments(policy: &Policy) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--cap-drop",
        "ALL",
    ]
    .map(OsString::from)
    .to_vec();
    for capability in CAPABILITIES {
        arguments.extend(["--cap-add", capability].map(OsString::from));
    }
    arguments.extend(["--proc", "/proc", "--dev", "/dev"].map(OsString::from));
    // Root may write the kernel's files there, whatever its capabilities.
    let kernels = KERNELS.iter().filter(|path| Path::new(path).exists());
    arguments.extend(kernels.flat_map(|path| ["--ro-bind", path, path].map(OsString::from)));
    // Each path is bound at its real location. A path inside another folder comes after it.
    let made = |path: &Path| MADE.iter().any(|made| path.starts_with(made));
    let mut bound: BTreeMap<PathBuf, bool> = BTreeMap::new();
    let mut named: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let read = policy.read.iter().map(|path| (path, false));
    let write = policy.write.iter().map(|path| (path, true));
    for (path, writable) in read.chain(write).filter(|(path, _)| !made(path)) {
        let Ok(real) = path.canonicalize() else {
            continue;
        };
        if real != *path {
            named.insert(path.clone(), real.clone());
        }
        if !made(&real) {
            *bound.entry(real).or_default() |= writable;
        }
    }
    // A path with another name becomes a symlink, so that programs find its neighbours, unless the link is
    // already visible.
    let listed: BTreeSet<PathBuf> = bound.keys().chain(named.keys()).cloned().collect();
    named.retain(|path, _| !path.ancestors().skip(1).any(|above| listed.contains(above)));
    let seconds = bound
        .iter()
        .filter_map(|(path, writable)| Some((policy.second_path(path)?, (path, *writable))));
    let places = bound
        .iter()
        .map(|(path, writable)| (path.clone(), (path, *writable)));
    let binds: BTreeMap<PathBuf, (&PathBuf, bool)> = places.chain(seconds).collect();
    for folder in hidden(binds.keys().chain(named.keys())) {
        arguments.extend(["--perms", "0111", "--dir"].map(OsString::from));
        arguments.push(folder.into());
    }
    for (at, (from, writable)) in &binds {
        let bind = if *writable { "--bind-try" } else { "--ro-bind-try" };
        arguments.extend([OsStr::new(bind), from.as_os_str(), at.as_os_str()].map(OsString::from));
    }
    for (path, real) in &named {
        arguments.extend([OsStr::new("--symlink"), real.as_os_str(), path.as_os_str()].map(OsString::from));
    }
    arguments.extend(["--remount-ro", "/"].map(OsString::from));
    arguments
}

/// Folders that exist only as parents of bound paths. They can be traversed but not listed.
fn hidden<'a>(bound: impl Iterator<Item = &'a PathBuf> + Clone) -> BTreeSet<PathBuf> {
    let roots: BTreeSet<&Path> = bound.clone().map(PathBuf::as_path).collect();
    let above = bound.flat_map(|path| path.ancestors().skip(1));
    above
        .filter(|folder| folder.parent().is_some())
        .filter(|folder| !folder.ancestors().any(|above| roots.contains(above)))
        .map(Path::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeper_paths_are_bound_later_and_parent_folders_are_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in ["a/b/c", "w"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("w"), at("link")).unwrap();
        let policy = Policy {
            read: vec![at("a/b"), "/dev/null".into(), at("link")],
            write: vec![at("a/b/c"), at("w")],
            session_folder: Some(at("a")),
        };
        let arguments = arguments(&policy);
        let words: Vec<String> = arguments
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let binds: Vec<[&str; 3]> = words
            .windows(3)
            .filter(|bind| bind[0].ends_with("-try"))
            .map(|bind| [0, 1, 2].map(|place| bind[place].as_str()))
            .collect();
        let path = |name: &str| at(name).display().to_string();
        assert_eq!(
            binds,
            [
                ["--ro-bind-try", &path("a/b"), "/.ralph-session/b"],
                ["--bind-try", &path("a/b/c"), "/.ralph-session/b/c"],
                ["--ro-bind-try", &path("a/b"), &path("a/b")],
                ["--bind-try", &path("a/b/c"), &path("a/b/c")],
                ["--bind-try", &path("w"), &path("w")],
            ]
        );
        let link = ["--symlink".to_owned(), path("w"), path("link")];
        assert!(words.windows(3).any(|words| words == link), "{words:?}");
        let above = folder.path().canonicalize().unwrap().display().to_string();
        assert!(words.contains(&above) && words.contains(&path("a")), "{words:?}");
        assert_eq!(words.iter().filter(|word| **word == path("a/b")).count(), 3);
    }

    #[test]
    fn a_variable_cannot_inject_an_argument() {
        let environment = |name: &str, value: &str| BTreeMap::from([(name.into(), value.into())]);
        assert_eq!(
            variables(&environment("A", "b c")).unwrap(),
            b"--setenv\0A\0b c\0"
        );
        for (name, value) in [("A", "b\0--bind\0/\0/"), ("A\0B", "c"), ("A=B", "c"), ("", "c")] {
            assert!(
                variables(&environment(name, value)).is_err(),
                "{name:?} {value:?}"
            );
        }
    }

    #[test]
    fn programs_are_found_like_in_a_shell() {
        let path = OsStr::new("/nowhere:/usr/bin:/bin");
        let found = |program: &str| in_path(OsStr::new(program), path, Path::new("/usr")).is_some();
        assert!(found("sh") && found("/bin/sh") && found("./bin/env"));
        assert!(!found("no-such-program") && !found("/etc/passwd") && !found("./sh"));
    }
}
