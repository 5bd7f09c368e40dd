//! A root of a session's own, beneath Landlock: a mount namespace with only the policy's paths, and its own
//! terminals, shared memory and IPC. Landlock controls neither sockets with a path (before ABI 9) nor
//! permission bits, owners and times of files, and can't distinguish terminals. A path that is missing or
//! mounted read-only needs no rule.
//!
//! It equals bubblewrap's root, but needs neither its program nor an extra process. If the worker may not
//! mount, not even in a user namespace, there is none ([`kind`]).
#![allow(unsafe_code)] // No available library makes these calls without allocating.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;

use rustix::process::{getegid, geteuid};

use super::policy::Policy;
use super::start::ChildSetup;

/// Mount point of the machine's own root while a session's root is created.
const HOST: &str = "/.host";

/// Shared devices. They store nothing and belong to nobody; `tty` is a process's own terminal.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Links below `/dev` that programs expect.
const LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// Longest chain of links, as in the kernel.
const MOST_LINKS: usize = 40;

/// By what right a worker mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By its own privileges.
    Privileged,
    /// Only in a user namespace.
    User,
}

/// By what right this worker can create roots. Checked once.
pub fn kind() -> Option<Kind> {
    static KIND: LazyLock<Option<Kind>> = LazyLock::new(|| {
        [Kind::Privileged, Kind::User]
            .into_iter()
            .find(|kind| works(*kind))
    });
    *KIND
}

/// Whether sessions can have roots of their own here.
pub fn is_possible() -> bool {
    kind().is_some()
}

/// Whether a shell starts in such a root and can open a terminal.
pub(super) fn works(kind: Kind) -> bool {
    let system = ["/usr", "/bin", "/lib", "/lib64", "/nix"].map(PathBuf::from);
    let policy = Policy {
        read: system.into_iter().filter(|path| path.exists()).collect(),
        ..Policy::default()
    };
    let Ok(root) = Root::new(kind, &policy) else {
        return false;
    };
    let mut command = std::process::Command::new("/bin/sh");
    command
        .args(["-c", ": < /dev/ptmx"])
        .current_dir("/")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let setup = ChildSetup {
        root: Some(root),
        ..ChildSetup::default()
    };
    setup.apply_to(&mut command, None);
    command.status().is_ok_and(|status| status.success())
}

/// Steps to create a root, prepared for a child that may not allocate.
#[derive(Debug, Clone)]
pub(super) struct Root {
    kind: Kind,
    /// The user and group ids that stay the same in a user namespace.
    ids: [CString; 2],
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
enum Step {
    Folder(CString),
    File(CString),
    Link {
        target: CString,
        at: CString,
    },
    Bind {
        from: CString,
        at: CString,
        writable: bool,
    },
    Memory {
        at: CString,
        options: &'static CStr,
    },
    Terminals(CString),
    ReadOnly(CString),
}

impl Root {
    /// A root with the paths of a policy.
    pub fn new(kind: Kind, policy: &Policy) -> io::Result<Self> {
        let ids = [geteuid().as_raw(), getegid().as_raw()];
        let [user, group] = ids.map(|id| format!("{id} {id} 1"));
        let mut steps = devices()?;
        let RootContents { binds, links } = contents(policy);
        let made = |path: &Path| binds.keys().any(|bound| path.starts_with(bound));
        let mut folders = BTreeSet::new();
        let mut above = |path: &Path, steps: &mut Vec<Step>| -> io::Result<()> {
            let mut missing: Vec<&Path> = path.ancestors().skip(1).collect();
            missing.pop();
            for folder in missing.into_iter().rev().filter(|folder| !made(folder)) {
                if folder != Path::new("/dev") && folders.insert(folder.to_owned()) {
                    steps.push(Step::Folder(name(folder)?));
                }
            }
            Ok(())
        };
        for (path, writable) in &binds {
            above(path, &mut steps)?;
            // It exists already if its parent is bound.
            if !path.parent().is_some_and(made) {
                let at = name(path)?;
                steps.push(if path.is_dir() {
                    Step::Folder(at)
                } else {
                    Step::File(at)
                });
            }
            steps.push(bind(path, path, *writable)?);
            if let Some(second) = policy.second_path(path) {
                if second.parent() == Some(Path::new("/")) {
                    steps.push(Step::Folder(name(&second)?));
                }
                steps.push(bind(path, &second, *writable)?);
            }
        }
        for (path, target) in &links {
            above(path, &mut steps)?;
            steps.push(Step::Link {
                target: name(target)?,
                at: name(path)?,
            });
        }
        steps.push(Step::ReadOnly(c"/dev".to_owned()));
        Ok(Self {
            kind,
            ids: [CString::new(user)?, CString::new(group)?],
            steps,
        })
    }

    /// Moves the calling single-threaded process, and its later children, into the root. Returns the devices
    /// folder, which the process may read and write. Only makes system calls.
    pub fn enter(&self) -> io::Result<OwnedFd> {
        let namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
        if self.kind == Kind::User {
            // SAFETY: affects only this process, which shares nothing with others after a fork.
            done(unsafe { libc::unshare(namespaces | libc::CLONE_NEWUSER) })?;
            write(c"/proc/self/setgroups", c"deny")?;
            write(c"/proc/self/uid_map", &self.ids[0])?;
            write(c"/proc/self/gid_map", &self.ids[1])?;
        } else {
            // SAFETY: as above.
            done(unsafe { libc::unshare(namespaces) })?;
        }
        mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE, None)?;
        memory(c"/tmp", c"mode=0755")?;
        make_folder(c"/tmp/.host")?;
        // SAFETY: both are strings.
        done_long(unsafe { libc::syscall(libc::SYS_pivot_root, c"/tmp".as_ptr(), c"/tmp/.host".as_ptr()) })?;
        // SAFETY: a string.
        done(unsafe { libc::chdir(c"/".as_ptr()) })?;
        for step in &self.steps {
            step.take()?;
        }
        // SAFETY: strings.
        unsafe {
            done(libc::umount2(c"/.host".as_ptr(), libc::MNT_DETACH))?;
            done(libc::rmdir(c"/.host".as_ptr()))?;
            read_only(c"/", 0)?;
            let devices = libc::open(c"/dev".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            done(devices)?;
            Ok(OwnedFd::from_raw_fd(devices))
        }
    }
}

impl Step {
    fn take(&self) -> io::Result<()> {
        match self {
            Self::Folder(at) => make_folder(at),
            Self::File(at) => {
                // SAFETY: a string.
                let file = unsafe {
                    libc::open(
                        at.as_ptr(),
                        libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC,
                        0o600,
                    )
                };
                done(file)?;
                // SAFETY: just opened here, and owned by nobody else.
                drop(unsafe { OwnedFd::from_raw_fd(file) });
                Ok(())
            }
            // SAFETY: strings.
            Self::Link { target, at } => done(unsafe { libc::symlink(target.as_ptr(), at.as_ptr()) }),
            Self::Bind { from, at, writable } => {
                match mount(Some(from), at, None, libc::MS_BIND | libc::MS_REC, None) {
                    // The path was removed since it was listed.
                    Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
                    bound => bound?,
                }
                if *writable {
                    return Ok(());
                }
                read_only(at, libc::AT_RECURSIVE)
            }
            Self::Memory { at, options } => memory(at, options),
            Self::Terminals(at) => {
                let options = c"newinstance,ptmxmode=0666,mode=0620";
                let flags = libc::MS_NOSUID | libc::MS_NOEXEC;
                mount(Some(c"devpts"), at, Some(c"devpts"), flags, Some(options))
            }
            Self::ReadOnly(at) => read_only(at, 0),
        }
    }
}

fn devices() -> io::Result<Vec<Step>> {
    let dev = c"/dev";
    let mut steps = vec![
        Step::Folder(dev.to_owned()),
        Step::Memory {
            at: dev.to_owned(),
            options: c"mode=0755",
        },
    ];
    for device in DEVICES {
        let path = Path::new("/dev").join(device);
        if path.exists() {
            steps.push(Step::File(name(&path)?));
            steps.push(bind(&path, &path, true)?);
        }
    }
    for (at, target) in LINKS {
        steps.push(Step::Link {
            target: CString::new(target)?,
            at: CString::new(at)?,
        });
    }
    for folder in [c"/dev/pts", c"/dev/shm"] {
        steps.push(Step::Folder(folder.to_owned()));
    }
    steps.push(Step::Terminals(c"/dev/pts".to_owned()));
    steps.push(Step::Memory {
        at: c"/dev/shm".to_owned(),
        options: c"mode=1777",
    });
    Ok(steps)
}

/// Binds the machine's `path` at `at`.
fn bind(path: &Path, at: &Path, writable: bool) -> io::Result<Step> {
    let mut from = HOST.to_owned().into_bytes();
    from.extend_from_slice(path.as_os_str().as_bytes());
    Ok(Step::Bind {
        from: CString::new(from)?,
        at: name(at)?,
        writable,
    })
}

fn name(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct RootContents {
    /// Paths without links in them, and whether they are writable.
    binds: BTreeMap<PathBuf, bool>,
    /// Links to bound paths and their targets, if no bound path contains the link.
    links: BTreeMap<PathBuf, PathBuf>,
}

/// The real paths of a policy's entries, and the symbolic links on the way. `/etc` is bound as a whole:
/// Landlock protects the secrets there.
fn contents(policy: &Policy) -> RootContents {
    let mut all: BTreeMap<PathBuf, bool> = BTreeMap::new();
    let mut links: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let own = |path: &Path| {
        path == Path::new("/dev")
            || path
                .strip_prefix("/dev")
                .is_ok_and(|device| DEVICES.iter().any(|own| device == Path::new(own)))
    };
    let read = policy.read.iter().map(|path| (path, false));
    let write = policy
        .write
        .iter()
        .chain(&policy.session_folder)
        .map(|path| (path, true));
    for (path, writable) in read.chain(write).filter(|(path, _)| !own(path)) {
        let Some(real) = follow(path, &mut links) else {
            continue;
        };
        if real.starts_with("/etc") && !writable {
            all.entry("/etc".into()).or_default();
        } else {
            *all.entry(real).or_default() |= writable;
        }
    }
    let mut binds: BTreeMap<PathBuf, bool> = BTreeMap::new();
    for (path, writable) in all {
        // A path with the same access as its nearest bound parent needs no mount of its own.
        let above = path.ancestors().skip(1).find_map(|above| binds.get(above));
        if above != Some(&writable) {
            binds.insert(path, writable);
        }
    }
    links.retain(|link, _| !link.ancestors().any(|above| binds.contains_key(above)));
    RootContents { binds, links }
}

/// Resolves a path and records the links on the way. `None` if it leads nowhere.
fn follow(path: &Path, links: &mut BTreeMap<PathBuf, PathBuf>) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let mut walked = PathBuf::new();
        let mut parts = path.components();
        let target = loop {
            match parts.next() {
                None => return walked.symlink_metadata().is_ok().then_some(walked),
                Some(Component::ParentDir) => {
                    walked.pop();
                }
                Some(part) => walked.push(part),
            }
            if let Ok(target) = walked.read_link() {
                break target;
            }
        };
        let folder = walked.parent().unwrap_or(Path::new("/"));
        let next = folder.join(&target).join(parts.as_path());
        links.insert(walked, target);
        path = next;
    }
    None
}

fn mount(
    from: Option<&CStr>,
    at: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: all are strings or null, which the kernel takes for none.
    done(unsafe {
        libc::mount(
            pointer(from),
            at.as_ptr(),
            pointer(kind),
            flags,
            pointer(options).cast(),
        )
    })
}

fn memory(at: &CStr, options: &CStr) -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    mount(Some(c"tmpfs"), at, Some(c"tmpfs"), flags, Some(options))
}

fn read_only(at: &CStr, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: numbers, for which all zero is a value.
    let mut attributes: libc::mount_attr = unsafe { std::mem::zeroed() };
    attributes.attr_set = libc::MOUNT_ATTR_RDONLY;
    // SAFETY: a string, and a structure of the given size.
    done_long(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            at.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })
}

fn make_folder(at: &CStr) -> io::Result<()> {
    // SAFETY: a string.
    done(unsafe { libc::mkdir(at.as_ptr(), 0o755) })
}

fn write(at: &CStr, text: &CStr) -> io::Result<()> {
    // SAFETY: a string.
    let file = unsafe { libc::open(at.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    done(file)?;
    // SAFETY: just opened here, and owned by nobody else.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    rustix::io::write(&file, text.to_bytes())?;
    Ok(())
}

fn done(answer: libc::c_int) -> io::Result<()> {
    done_long(answer.into())
}

fn done_long(answer: libc::c_long) -> io::Result<()> {
    match answer {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn listed_paths_are_bound_at_their_real_path_and_links_recreated() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in ["tools/bin", "tools/lib", "session/home", "session/tree", "other"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::fs::write(at("tools/lib/agent.js"), "").unwrap();
        symlink("../lib/agent.js", at("tools/bin/agent")).unwrap();
        symlink(at("tools"), at("current")).unwrap();
        symlink("nowhere", at("broken")).unwrap();
        let held = contents(&Policy {
            read: vec![
                at("current/bin/agent"),
                at("session/tree"),
                at("broken"),
                "/dev/null".into(),
            ],
            write: vec![at("session/home"), at("other/../other")],
            session_folder: Some(at("session")),
        });
        let expected = RootContents {
            binds: BTreeMap::from([
                (at("other"), true),
                (at("tools/lib/agent.js"), false),
                (at("session"), true),
                (at("session/tree"), false),
            ]),
            links: BTreeMap::from([
                (at("broken"), "nowhere".into()),
                (at("current"), at("tools")),
                (at("tools/bin/agent"), "../lib/agent.js".into()),
            ]),
        };
        assert_eq!(held, expected);
    }

    /// A shell's output in a root. The script starts in a writable folder.
    fn printed(kind: Kind, script: &str) -> String {
        let work = tempfile::tempdir().unwrap();
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc"].map(PathBuf::from);
        let policy = Policy {
            read: system.into_iter().filter(|path| path.exists()).collect(),
            write: vec![work.path().to_owned()],
            ..Policy::default()
        };
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).current_dir(work.path());
        let setup = ChildSetup {
            root: Some(Root::new(kind, &policy).unwrap()),
            ..ChildSetup::default()
        };
        setup.apply_to(&mut command, None);
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_root_contains_only_listed_paths_and_protects_read_only_ones() {
        let host = nix::unistd::ttyname(nix::pty::openpty(None, None).unwrap().slave).unwrap();
        let script = format!(
            "echo x > mine && echo writes; touch /etc/passwd 2>/dev/null || echo held; chmod a+r /usr 2>/dev/null || echo held
             ls -a /; ls /dev/pts; [ -e {} ] || echo apart; echo x > /dev/shm/a && echo shares; pwd | grep -q ^/tmp && echo there
             id -u",
            host.display()
        );
        for kind in [Kind::Privileged, Kind::User]
            .into_iter()
            .filter(|kind| works(*kind))
        {
            let printed = printed(kind, &script);
            assert!(printed.starts_with("writes\nheld\nheld\n"), "{kind:?}: {printed}");
            let end = format!("ptmx\napart\nshares\nthere\n{}\n", geteuid().as_raw());
            assert!(printed.ends_with(&end), "{kind:?}: {printed}");
            for absent in [".host", "root", "home", "run", "var", "sys"] {
                assert!(
                    !printed.lines().any(|line| line == absent),
                    "{kind:?} {absent}: {printed}"
                );
            }
        }
    }
}
