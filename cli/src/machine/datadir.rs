//! Data folder of one machine's Ralph: `--data DIR`, default `.ralph/`.
//!
//! Only its owner can read it. One process at a time holds it through a lock on `DIR/lock`, which the kernel
//! releases however that process ends. `DIR/layout.json` has the version of the data. In a repository, the
//! folder's `.gitignore` excludes passwords and data from commits.
//!
//! ```text
//! lock  layout.json  .gitignore  secrets/  postgres/  nats/  logs/  run/  api.json (address and token of a running `up`)
//! ```

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ralph_shared::config::{UntrustedFile, ours};
use serde::{Deserialize, Serialize};

/// Default name of the folder, without `--data`.
pub const DEFAULT_NAME: &str = ".ralph";
/// The layout version of this release.
const LAYOUT: u32 = 1;
/// 192 bits, written as 48 hexadecimal digits.
const SECRET_BYTES: usize = 24;
const PUBLISHED: &str = "api.json";
/// Git ignore rules for a data folder in a repository: everything except knowledge and features, which are
/// shared.
pub const IGNORED: &str = "/*\n!/knowledge/\n!/features/\n";
/// Folders whose content this release uses and runs.
const USED: [&str; 6] = ["secrets", "logs", "run", "postgres", "nats", "workers"];

/// Why a data folder is unusable.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process holds the folder.
    #[error(
        "the data folder {} is in use by {holder}; stop that one, or choose another folder with --data",
        path.display()
    )]
    InUse {
        path: PathBuf,
        /// "process N", as far as known.
        holder: String,
    },
    /// The folder has another release's layout.
    #[error(
        "the data folder {} has layout {found}, but this release reads layout {LAYOUT}; \
         use the release that made it, or choose another folder with --data",
        path.display()
    )]
    Layout { path: PathBuf, found: u32 },
    /// The folder holds other files, which should stay accessible to other users.
    #[error(
        "{} is not empty and not a data folder of Ralph; name a new or an empty folder with --data",
        path.display()
    )]
    NotOurs { path: PathBuf },
    /// Another user owns the folder.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// Other users may enter a folder in it, so another program made it.
    #[error(
        "other users may enter {}, so no `up` made it; it may have come with the repository, and its content would be used and run: \
         check it and remove it, or close it with `chmod 700` if it is yours",
        path.display()
    )]
    CameAlong { path: PathBuf },
    /// Files of the folder are tracked in a repository.
    #[error(
        "git tracks {} as a file of the repository, so no `up` made it, and its content would be used and run: check it and remove \
         it out of the repository, or choose another folder with --data",
        path.display()
    )]
    Tracked { path: PathBuf },
    /// Other users can read a file that a running `up` keeps private.
    #[error(
        "{} can be read by other users, so no `up` wrote it; it may have come with the repository: remove it, or name the \
         coordinator with --url and RALPH_TOKEN",
        path.display()
    )]
    Open { path: PathBuf },
    /// A system call failed.
    #[error("failed to {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct Layout {
    layout: u32,
}

/// A data folder that this process holds until the value is dropped.
#[derive(Debug)]
pub struct DataDir {
    root: PathBuf,
    lock: File,
}

impl DataDir {
    /// Creates the folder if needed, makes it private, takes its lock, checks its layout, and adds git
    /// ignore rules.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        if !may_be_ours(path) {
            return Err(DataDirError::NotOurs {
                path: path.to_owned(),
            });
        }
        make_private(path)?;
        let root = path.canonicalize().map_err(io_error("resolve", path))?;
        refuse_tracked(&root)?;
        let lock = take_lock(&root)?;
        let data = Self { root, lock };
        data.check_layout()?;
        data.write_gitignore()?;
        for folder in ["secrets", "logs", "run"] {
            data.folder(folder)?;
        }
        Ok(data)
    }

    /// The folder, absolute and without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// Log file of the child `name`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(format!("{name}.log"))
    }

    /// A folder inside, created private if missing. If other users can enter an existing one, it came from
    /// elsewhere: a repository could include git directories and passwords that Ralph would then use.
    pub fn folder(&self, name: impl AsRef<Path>) -> Result<PathBuf, DataDirError> {
        let path = self.path(name);
        if fs::metadata(&path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0) {
            return Err(DataDirError::CameAlong { path });
        }
        make_private(&path)?;
        Ok(path)
    }

    /// The secret of that name, generated on first use and then constant.
    pub fn secret(&self, name: &str) -> Result<String, DataDirError> {
        let path = self.root.join("secrets").join(name);
        match fs::read_to_string(&path) {
            Ok(secret) if !secret.is_empty() => Ok(secret),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("read", &path)(error)),
            _ => {
                let random: [u8; SECRET_BYTES] = rand::random();
                let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
                write_private(&path, secret.as_bytes())?;
                Ok(secret)
            }
        }
    }

    /// Publishes the API's address, so that commands find this running `up` (SPEC 9.1).
    pub fn publish(&self, published: &Published) -> Result<(), DataDirError> {
        let path = self.path(PUBLISHED);
        let json = serde_json::to_vec_pretty(published).map_err(|e| io_error("write", &path)(e.into()))?;
        write_private(&path, &json)
    }

    /// Removes the published address, if any.
    pub fn unpublish(&self) {
        let _ = fs::remove_file(self.path(PUBLISHED));
    }

    /// Excludes secret and large files from commits; existing rules are somebody's choice.
    fn write_gitignore(&self) -> Result<(), DataDirError> {
        let path = self.path(".gitignore");
        if path.exists() {
            return Ok(());
        }
        write_private(&path, IGNORED.as_bytes())
    }

    fn check_layout(&self) -> Result<(), DataDirError> {
        let path = self.path("layout.json");
        match fs::read(&path) {
            Ok(json) => {
                let layout: Layout =
                    serde_json::from_slice(&json).map_err(|error| io_error("read", &path)(error.into()))?;
                if layout.layout == LAYOUT {
                    return Ok(());
                }
                Err(DataDirError::Layout {
                    path: self.root.clone(),
                    found: layout.layout,
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let json = serde_json::json!({ "layout": LAYOUT }).to_string();
                write_private(&path, json.as_bytes())
            }
            Err(error) => Err(io_error("read", &path)(error)),
        }
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a child between fork and exec.
        let _ = self.lock.unlock();
    }
}

/// Address and token of a running `up`, as published in its data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Base URL of the HTTP API.
    pub url: String,
    /// A bearer token with all roles.
    pub token: String,
    /// Agent command of its workers, if `up` was started with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

impl Published {
    /// Reads the address that the `up` of this data folder published; `None` when the folder is missing or
    /// nothing runs in it.
    pub fn read(data: &Path) -> Result<Option<Self>, DataDirError> {
        let path = data.join(PUBLISHED);
        match fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json)
                .map(Some)
                .map_err(|error| io_error("read", &path)(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &path)(error)),
        }
    }

    /// Reads the address from the nearest `.ralph/` at or above `start` that an `up` holds. Commands send
    /// their input to that address, so this user's `up` must have published it, not another user or a file
    /// in a repository.
    pub fn find(start: &Path) -> Result<Option<Self>, DataDirError> {
        for folder in start.ancestors() {
            let data = folder.join(DEFAULT_NAME);
            let path = data.join(PUBLISHED);
            let mode = match fs::metadata(&path) {
                Ok(metadata) => metadata.permissions().mode(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(io_error("read", &path)(error)),
            };
            ours(&data)?;
            ours(&path)?;
            if mode & 0o077 != 0 {
                return Err(DataDirError::Open { path });
            }
            if is_locked(&data)
                && let Some(found) = Self::read(&data)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// The default data folder of a command: the nearest `.ralph/` at or above `start` that an `up` of this user
/// has locked.
pub fn find_running(start: &Path) -> Option<PathBuf> {
    let mut folders = start.ancestors().map(|folder| folder.join(DEFAULT_NAME));
    folders.find(|data| is_locked(data) && ours(data).is_ok())
}

/// The process that holds a data folder, if any.
pub fn holder(data: &Path) -> Option<i32> {
    let pid = is_locked(data).then(|| fs::read_to_string(data.join("lock")).ok())?;
    pid?.trim().parse().ok()
}

/// Whether an `up` runs there. The lock ends with its process, and no commit or archive can copy a lock.
fn is_locked(data: &Path) -> bool {
    File::open(data.join("lock"))
        .is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Atomically writes a file that only its owner can read.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), DataDirError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // A temporary file is created with mode 0600.
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(io_error("write", path))
}

/// Whether the folder is new, empty, of the default name, or made by this module.
fn may_be_ours(path: &Path) -> bool {
    path.ends_with(DEFAULT_NAME)
        || path.join("lock").exists()
        || fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none())
}

/// Refuses folders that came with a repository. Modes alone don't show that: those of a clone follow its
/// user's umask.
fn refuse_tracked(root: &Path) -> Result<(), DataDirError> {
    let Some(tree) = root.ancestors().find(|folder| folder.join(".git").exists()) else {
        return Ok(());
    };
    let inside = root.strip_prefix(tree).unwrap_or(root);
    let listed = Command::new("git")
        .args(["--git-dir=.git", "--work-tree=.", "-c", "core.fsmonitor=false"])
        .args(["--noglob-pathspecs", "--icase-pathspecs", "ls-files", "-z", "--"])
        .args(USED.map(|name| inside.join(name)))
        .env_remove("GIT_INDEX_FILE")
        .current_dir(tree)
        .stdin(Stdio::null())
        .output();
    // Without git, only modes can be checked.
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    match listed.split(|byte| *byte == 0).find(|name| !name.is_empty()) {
        Some(name) => Err(DataDirError::Tracked {
            path: tree.join(OsStr::from_bytes(name)),
        }),
        None => Ok(()),
    }
}

fn take_lock(root: &Path) -> Result<File, DataDirError> {
    let path = root.join("lock");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(io_error("open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let holder = match file.read_to_string(&mut text) {
                Ok(_) if !text.trim().is_empty() => format!("process {}", text.trim()),
                _ => "another process".to_owned(),
            };
            return Err(DataDirError::InUse {
                path: root.to_owned(),
                holder,
            });
        }
        Err(TryLockError::Error(error)) => return Err(io_error("lock", &path)(error)),
    }
    let mut write = || {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write().map_err(io_error("write", &path))?;
    Ok(file)
}

fn make_private(path: &Path) -> Result<(), DataDirError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(io_error("create", path))?;
    fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(io_error("close to other users", path))
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    move |source| DataDirError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
