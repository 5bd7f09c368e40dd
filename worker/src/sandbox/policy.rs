//! Decides which files and folders an agent may read and write. Only listed paths are accessible, so the
//! lists name the needs of tools, not secrets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::programs::{ProgramSearch, is_executable};
use crate::tools::Tools;

/// System folders that tools need. `/etc` is listed by its entries.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix",
    "/snap",
    "/home/linuxbrew/.linuxbrew",
    "/proc",
    "/sys",
    "/run/systemd/resolve",
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
    "/var/lib/ca-certificates",
];

/// Devices that may be read and written. None of them stores data, and none is a terminal, which may belong
/// to a person. A session's own terminals come with its root ([`super::root`]) or from the worker
/// ([`super::terminals`]).
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Entries of `/etc` with secrets: a worker that runs as root could read them.
const ETC_SECRETS: &[&str] = &[
    "shadow",
    "shadow-",
    "gshadow",
    "gshadow-",
    "sudoers",
    "sudoers.d",
    "security",
    "ssh",
    "krb5.keytab",
    "letsencrypt",
    "wireguard",
    "openvpn",
    "ppp",
    "NetworkManager",
    "docker",
    "kubernetes",
    "rancher",
    "ralph",
];

#[derive(Debug, Clone, Copy)]
pub struct PolicyRequest<'a> {
    pub cwd: &'a Path,
    /// Whether the session may write to the workspace.
    pub cwd_writable: bool,
    /// A folder with only this session's files, including the workspace, if there is one.
    pub session_folder: Option<&'a Path>,
    /// The agent's home, private to the slot.
    pub home: &'a Path,
    /// Its temporary folder, private to the slot.
    pub tmp: &'a Path,
    pub argv: &'a [String],
    pub environment: &'a BTreeMap<OsString, OsString>,
    /// Values from this agent's configuration. It may write to folders among them (a login's, a cache's) and
    /// read files.
    pub given: &'a [String],
    /// Names of variables that the worker passes on. Paths among them may be read.
    pub passed: &'a [String],
    /// The home of the worker's user. Only tools in it are accessible.
    pub user_home: Option<&'a Path>,
    pub tools: &'a Tools,
    /// More files and folders to read.
    pub read: &'a [PathBuf],
    /// More files and folders to write.
    pub write: &'a [PathBuf],
}

/// Accessible paths with everything below them. Missing paths are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    pub read: Vec<PathBuf>,
    /// Paths to read, execute and write.
    pub write: Vec<PathBuf>,
    /// A folder in which the worker moves a session's tree out of its reach while the session may still run.
    /// It grants no access. No mount begins below it, because a path that leaves the root of a mount keeps
    /// the rights that Landlock gives that root.
    pub session_folder: Option<PathBuf>,
}

/// Second mount point of the session's folder, equal in all sessions, in a sandbox with a root of its own.
/// Cargo rebuilds a dependency when its source path changes, and rustc rebuilds a crate when its working
/// folder changes. Builds can therefore be shared only below an equal path. It lies directly below `/`: a
/// parent folder (such as `/run`) may be listed, and then contains the machine's files.
pub(super) const SESSION_MOUNT: &str = "/.ralph-session";

impl Policy {
    /// The second path of a path without links, if it lies in the session's folder.
    pub(super) fn second_path(&self, path: &Path) -> Option<PathBuf> {
        let folder = self.session_folder.as_ref()?.canonicalize().ok()?;
        let below = path.strip_prefix(folder).ok()?;
        Some(Path::new(SESSION_MOUNT).join(below))
    }
}

pub fn policy(wanted: &PolicyRequest<'_>) -> Policy {
    let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    read.extend(entries(Path::new("/etc"), ETC_SECRETS));
    read.extend(entries(Path::new("/etc/ssl"), &["private"]));
    read.retain(|path| path != Path::new("/etc/ssl"));

    let path = wanted.environment.get(OsStr::new("PATH"));
    let path: Vec<PathBuf> = path.iter().flat_map(std::env::split_paths).collect();
    let around = ProgramSearch::new(&path, wanted.user_home);
    for folder in &path {
        read.extend(tools(folder, wanted.user_home));
        if let Some(program) = wanted.argv.first() {
            read.extend(around.needs(&folder.join(program)));
        }
        if !is_for_tools(folder) {
            let programs = entries(folder, &[]);
            let programs = programs.iter().filter(|program| is_executable(program));
            read.extend(programs.flat_map(|program| around.needs(program)));
        }
    }
    read.extend(wanted.argv.iter().flat_map(|word| around.needs(Path::new(word))));
    read.extend(wanted.tools.opened());
    let passed = wanted
        .passed
        .iter()
        .filter_map(|name| wanted.environment.get(OsStr::new(name)));
    read.extend(passed.map(PathBuf::from).filter(|path| path.is_absolute()));
    let given = wanted
        .given
        .iter()
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let (own, shared): (Vec<_>, Vec<_>) = given.partition(|path| path.is_dir() && !is_system(path));
    read.extend(shared);
    read.extend(wanted.read.iter().cloned());

    let mut write: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    write.extend([wanted.home.to_owned(), wanted.tmp.to_owned()]);
    write.extend(own);
    write.extend(wanted.write.iter().cloned());
    if wanted.cwd_writable {
        write.push(wanted.cwd.to_owned());
    } else {
        read.push(wanted.cwd.to_owned());
    }
    let write = usable_paths(write, wanted.user_home);
    let mut read = usable_paths(read, wanted.user_home);
    // Write access to a folder includes its files; a read-only mount would take it back.
    read.retain(|(_, real)| !write.iter().any(|(_, folder)| real.starts_with(folder)));
    let paths = |usable: Vec<(PathBuf, PathBuf)>| usable.into_iter().map(|(path, _)| path).collect();
    Policy {
        read: paths(read),
        write: paths(write),
        session_folder: wanted.session_folder.map(Path::to_owned),
    }
}

/// Whether a path lies in a system folder of tools, which every agent may read.
pub fn is_for_tools(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

fn is_system(path: &Path) -> bool {
    let system = SYSTEM.iter().chain(&["/etc", "/dev"]);
    system.into_iter().any(|system| path.starts_with(system))
}

/// Existing paths with their real paths, without duplicates and without paths inside a listed folder. Never
/// includes the whole file system, the user's whole home, or a folder above it.
fn usable_paths(mut paths: Vec<PathBuf>, user_home: Option<&Path>) -> Vec<(PathBuf, PathBuf)> {
    paths.sort();
    paths.dedup();
    let mut usable: Vec<(PathBuf, PathBuf)> = Vec::new();
    // Index of the folder that may contain the next paths.
    let mut outer: Option<usize> = None;
    for path in paths {
        let Ok(real) = path.canonicalize() else { continue };
        if real.parent().is_none() || user_home.is_some_and(|home| home.starts_with(&real)) {
            continue;
        }
        let within = outer
            .and_then(|outer| usable.get(outer))
            .filter(|(folder, _)| path.starts_with(folder));
        if within.is_some_and(|(_, folder)| real.starts_with(folder)) {
            continue;
        }
        if within.is_none() {
            outer = Some(usable.len());
        }
        usable.push((path, real));
    }
    usable
}

fn entries(folder: &Path, but: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| !but.iter().any(|name| entry.file_name() == *name))
        .map(|entry| entry.path())
        .collect()
}

/// A folder of the `PATH`, and folders beside it that its programs need. In the user's home, `share` often
/// contains logins.
fn tools(folder: &Path, user_home: Option<&Path>) -> Vec<PathBuf> {
    let mut read = vec![folder.to_owned()];
    let bin = folder
        .file_name()
        .is_some_and(|name| name == "bin" || name == "sbin");
    let Some(prefix) = folder.parent().filter(|_| bin) else {
        return read;
    };
    for beside in ["lib", "lib64", "libexec", "include", "pyvenv.cfg"] {
        read.push(prefix.join(beside));
    }
    if !user_home.is_some_and(|home| folder.starts_with(home)) {
        read.push(prefix.join("share"));
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_tools_in_the_users_home_are_accessible() {
        let user = tempfile::tempdir().unwrap();
        let home = user.path().canonicalize().unwrap();
        for folder in [
            "node/bin",
            "node/lib/node_modules/agent/dist",
            "node/share",
            ".ssh",
            "w/cwd",
            "w/home",
            "w/tmp",
            "data",
            "login",
        ] {
            std::fs::create_dir_all(home.join(folder)).unwrap();
        }
        let script = home.join("node/lib/node_modules/agent/dist/index.js");
        std::fs::write(&script, "").unwrap();
        std::fs::write(home.join("login.json"), "").unwrap();
        symlink(&script, home.join("node/bin/agent")).unwrap();
        let environment = BTreeMap::from([
            (
                "PATH".into(),
                std::env::join_paths([home.join("node/bin"), home.clone()]).unwrap(),
            ),
            ("DATA".into(), home.join("data").into()),
            ("OTHER".into(), home.join(".ssh").into()),
        ]);
        let (cwd, own, tmp) = (home.join("w/cwd"), home.join("w/home"), home.join("w/tmp"));
        let mut wanted = PolicyRequest {
            cwd: &cwd,
            cwd_writable: true,
            session_folder: None,
            home: &own,
            tmp: &tmp,
            argv: &["agent".to_owned()],
            environment: &environment,
            given: &[
                home.join("login").display().to_string(),
                home.join("login.json").display().to_string(),
            ],
            passed: &["DATA".to_owned()],
            user_home: Some(&home),
            tools: &Tools::default(),
            read: &[home.join("missing"), "/".into(), "/etc/../".into()],
            write: &[],
        };
        let below = |paths: &[PathBuf]| -> Vec<String> {
            let below = paths.iter().filter_map(|path| path.strip_prefix(&home).ok());
            below.map(|path| path.display().to_string()).collect()
        };
        let decided = policy(&wanted);
        assert_eq!(
            below(&decided.read),
            [
                "data",
                "login.json",
                "node/bin",
                "node/bin/agent",
                // Contains the target of the link.
                "node/lib",
            ]
        );
        assert_eq!(below(&decided.write), ["login", "w/cwd", "w/home", "w/tmp"]);
        let within = [home.join("w/tmp/log")];
        std::fs::create_dir_all(home.join("w/tmp")).unwrap();
        std::fs::write(&within[0], "").unwrap();
        let both = policy(&PolicyRequest {
            read: &within,
            ..wanted
        });
        assert!(
            !below(&both.read).contains(&"w/tmp/log".to_owned()),
            "it may be written"
        );
        assert!(decided.read.contains(&"/usr".into()) && !decided.read.contains(&"/".into()));
        assert!(!decided.read.contains(&"/etc/shadow".into()) && !decided.read.contains(&"/etc".into()));
        let devices = decided.read.iter().chain(&decided.write);
        assert!(
            devices
                .filter(|path| path.starts_with("/dev"))
                .all(|path| DEVICES.iter().any(|device| path == Path::new(device)))
        );

        wanted.cwd_writable = false;
        let decided = policy(&wanted);
        assert!(below(&decided.read).contains(&"w/cwd".to_owned()));
        assert_eq!(below(&decided.write), ["login", "w/home", "w/tmp"]);
    }
}
