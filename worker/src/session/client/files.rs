//! `fs/read_text_file` and `fs/write_text_file`, through a handle on the workspace. The kernel resolves paths
//! below that handle. `..`, absolute paths and symlinks therefore cannot leave the workspace, and nothing can
//! be swapped between check and use. Pipes, devices and files with hard links are refused.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{Error as RpcError, ReadTextFileRequest, WriteTextFileRequest};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, MetadataExt, OpenOptions, OpenOptionsExt};
use ralph_shared::wire::Access;

/// Longest result of one read. Bytes.
pub const LONGEST_READ_BYTES: u64 = 8 * 1024 * 1024;

/// How much of a file is read to find a range of lines. Bytes.
const LONGEST_SEARCH_BYTES: u64 = 512 * 1024 * 1024;

pub struct Files {
    dir: Dir,
    roots: Vec<PathBuf>,
    access: Access,
}

impl Files {
    pub fn open(cwd: &Path, access: Access) -> io::Result<Self> {
        let mut roots = vec![cwd.to_owned(), cwd.canonicalize()?];
        roots.dedup();
        Ok(Self {
            dir: Dir::open_ambient_dir(cwd, ambient_authority())?,
            roots,
            access,
        })
    }

    /// Reads a text file, or some of its lines.
    ///
    /// # Errors
    /// Fails with the protocol's "resource not found" for a missing file, because agents treat that error
    /// specially.
    pub fn read(&self, request: &ReadTextFileRequest) -> Result<String, RpcError> {
        let path = self.inside(&request.path)?;
        let fail = |error: io::Error| failed("read", &request.path, &error);
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = self.dir.open_with(&path, &options).map_err(fail)?;
        let size = self.plain(&file, &request.path)?;
        let ranged = request.line.is_some() || request.limit.is_some();
        if !ranged && size > LONGEST_READ_BYTES {
            return Err(too_long(&request.path));
        }
        let first = request.line.unwrap_or(1).max(1);
        let bytes = lines(BufReader::new(file), first, request.limit).map_err(fail)?;
        if bytes.len() as u64 > LONGEST_READ_BYTES {
            return Err(too_long(&request.path));
        }
        String::from_utf8(bytes).map_err(|_| refused(format!("{} is no UTF-8 text", request.path.display())))
    }

    /// Writes a whole text file and creates its parent folders.
    ///
    /// # Errors
    /// Fails if the session may not write or the path is outside the workspace.
    pub fn write(&self, request: &WriteTextFileRequest) -> Result<(), RpcError> {
        if self.access != Access::Workspace {
            return Err(refused("this session may not write files".to_owned()));
        }
        let path = self.inside(&request.path)?;
        let fail = |error: io::Error| failed("write", &request.path, &error);
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.dir.create_dir_all(parent).map_err(fail)?;
        }
        let mut options = OpenOptions::new();
        // Truncate only after the check that it is a plain file.
        options
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let mut file = self.dir.open_with(&path, &options).map_err(fail)?;
        self.plain(&file, &request.path)?;
        file.set_len(0).map_err(fail)?;
        file.write_all(request.content.as_bytes()).map_err(fail)
    }

    /// Resolves a folder of the workspace to a path for a child process.
    pub fn folder(&self, path: &Path) -> Result<PathBuf, RpcError> {
        let inside = self.inside(path)?;
        let fail = |error: io::Error| failed("enter", path, &error);
        let below = self.dir.canonicalize(&inside).map_err(fail)?;
        self.dir.open_dir(&below).map_err(fail)?;
        Ok(self.roots[0].join(below))
    }

    /// Makes a path relative to the workspace's root. Agents send absolute ones.
    fn inside(&self, path: &Path) -> Result<PathBuf, RpcError> {
        let below = if path.is_absolute() {
            self.roots
                .iter()
                .find_map(|root| path.strip_prefix(root).ok())
                .ok_or_else(|| outside(path))?
        } else {
            path
        };
        Ok(if below.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            below.to_owned()
        })
    }

    /// Checks the opened file itself, not its path. Returns its size in bytes.
    fn plain(&self, file: &File, path: &Path) -> Result<u64, RpcError> {
        let metadata = file.metadata().map_err(|error| failed("look at", path, &error))?;
        if !metadata.is_file() {
            return Err(refused(format!("{} is no plain file", path.display())));
        }
        if metadata.nlink() > 1 {
            return Err(refused(format!(
                "{} has another name (hard link), which may be outside the workspace",
                path.display()
            )));
        }
        Ok(metadata.len())
    }
}

/// Reads lines from `first` on (counted from 1), at most `limit`. Stops one byte after the longest read.
fn lines(source: impl BufRead, first: u32, limit: Option<u32>) -> io::Result<Vec<u8>> {
    let mut source = source.take(LONGEST_SEARCH_BYTES);
    for _ in 1..first {
        if source.skip_until(b'\n')? == 0 {
            return Ok(Vec::new());
        }
    }
    source.set_limit(LONGEST_READ_BYTES + 1);
    let mut bytes = Vec::new();
    match limit {
        None => {
            source.read_to_end(&mut bytes)?;
        }
        Some(limit) => {
            for _ in 0..limit {
                if source.read_until(b'\n', &mut bytes)? == 0 {
                    break;
                }
            }
        }
    }
    Ok(bytes)
}

fn failed(what: &str, path: &Path, error: &io::Error) -> RpcError {
    match error.kind() {
        io::ErrorKind::NotFound => RpcError::resource_not_found(Some(path.display().to_string())),
        // The handle refused the path, not the operating system.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => outside(path),
        _ => refused(format!("failed to {what} {}: {error}", path.display())),
    }
}

fn outside(path: &Path) -> RpcError {
    refused(format!(
        "{} is not accessible: only files of the workspace are",
        path.display()
    ))
}

fn too_long(path: &Path) -> RpcError {
    refused(format!(
        "{} is longer than {LONGEST_READ_BYTES} bytes: ask for a range with `line` and `limit`",
        path.display()
    ))
}

/// An error with a plain message. The protocol has no code for a refusal.
pub(in crate::session) fn refused(message: String) -> RpcError {
    RpcError::new(i32::from(RpcError::invalid_params().code), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn read(
        files: &Files,
        path: impl Into<PathBuf>,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Result<String, i32> {
        files
            .read(&ReadTextFileRequest::new("s", path).line(line).limit(limit))
            .map_err(|error| error.code.into())
    }

    fn write(files: &Files, path: impl Into<PathBuf>, content: &str) -> Result<(), i32> {
        files
            .write(&WriteTextFileRequest::new("s", path, content))
            .map_err(|error| error.code.into())
    }

    #[test]
    fn files_of_the_workspace_are_read_and_written() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let files = Files::open(root, Access::Workspace).unwrap();
        write(&files, root.join("a/b/c.txt"), "one\ntwo\nthree").unwrap();
        let check = |line, limit, expected: &str| {
            assert_eq!(
                read(&files, root.join("a/b/c.txt"), line, limit).unwrap(),
                expected
            );
        };
        check(None, None, "one\ntwo\nthree");
        check(Some(2), None, "two\nthree");
        check(Some(2), Some(1), "two\n");
        check(Some(0), Some(1), "one\n");
        check(Some(9), None, "");
        check(None, Some(0), "");
        assert_eq!(read(&files, "a/../a/b/c.txt", Some(3), None).unwrap(), "three");
        write(&files, "a/b/c.txt", "x").unwrap();
        assert_eq!(read(&files, "a/b/c.txt", None, None).unwrap(), "x");
        symlink("b/c.txt", root.join("a/link")).unwrap();
        assert_eq!(read(&files, "a/link", None, None).unwrap(), "x");
        assert_eq!(read(&files, root.join("missing"), None, None), Err(-32002));
        assert_eq!(read(&files, root.join("no/such"), None, None), Err(-32002));
    }

    #[test]
    fn paths_out_of_the_workspace_links_and_fifos_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let outer = folder.path();
        let root = outer.join("work");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(outer.join("secret"), "s").unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink(outer, root.join("up")).unwrap();
        symlink("../new", root.join("dangling")).unwrap();
        symlink("/proc/self", root.join("proc")).unwrap();
        std::fs::hard_link(outer.join("secret"), root.join("hard")).unwrap();
        nix::unistd::mkfifo(&root.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(root.join("binary"), b"\xff\xfe").unwrap();
        let files = Files::open(&root, Access::Workspace).unwrap();
        let hostile = [
            "../secret",
            "sub/../../secret",
            "/etc/passwd",
            "out",
            "up/secret",
            "dangling",
            "proc/environ",
            "hard",
            "fifo",
            "sub",
            ".",
            "",
        ];
        for path in hostile {
            assert!(read(&files, path, None, None).is_err(), "read {path}");
            assert!(write(&files, path, "x").is_err(), "write {path}");
        }
        assert!(read(&files, "binary", None, None).is_err());
        assert!(write(&files, outer.join("new"), "x").is_err());
        assert!(write(&files, "up/new", "x").is_err());
        assert_eq!(std::fs::read_to_string(outer.join("secret")).unwrap(), "s");
        assert!(!outer.join("new").exists());
        assert!(files.folder(Path::new("up")).is_err());
        assert_eq!(files.folder(Path::new("sub")).unwrap(), root.join("sub"));
    }

    #[test]
    fn devices_are_refused() {
        use nix::sys::stat::{Mode, SFlag, makedev, mknod};
        let folder = tempfile::tempdir().unwrap();
        let files = Files::open(folder.path(), Access::Workspace).unwrap();
        let zero = folder.path().join("zero");
        // Only some users may create a device.
        if mknod(&zero, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5)).is_ok() {
            assert!(read(&files, "zero", None, Some(1)).is_err() && write(&files, "zero", "x").is_err());
        }
        for device in ["/dev/zero", "/dev/null", "../../dev/zero"] {
            assert!(read(&files, device, None, Some(1)).is_err() && write(&files, device, "x").is_err());
        }
    }

    #[test]
    fn a_folder_swapped_for_a_link_during_use_cannot_escape() {
        use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
        use std::sync::atomic::{AtomicBool, Ordering};
        const TRIES: usize = 3_000;
        let folder = tempfile::tempdir().unwrap();
        let outer = folder.path();
        let root = outer.join("work");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("sub/secret"), "inner").unwrap();
        std::fs::write(outer.join("secret"), "outer").unwrap();
        let files = Files::open(&root, Access::Workspace).unwrap();
        symlink("..", root.join("up")).unwrap();
        let exchange = RenameFlags::RENAME_EXCHANGE;
        let over = AtomicBool::new(false);
        let (mut read_inside, mut swaps) = (0, 0);
        std::thread::scope(|scope| {
            let swapper = scope.spawn(|| {
                let mut swaps = 0;
                while !over.load(Ordering::Relaxed) {
                    renameat2(AT_FDCWD, &root.join("sub"), AT_FDCWD, &root.join("up"), exchange).unwrap();
                    swaps += 1;
                }
                swaps
            });
            for _ in 0..TRIES {
                match read(&files, "sub/secret", None, None) {
                    Ok(text) => {
                        assert!(text == "inner" || text.is_empty(), "{text}");
                        read_inside += 1;
                    }
                    Err(_) => drop(write(&files, "sub/secret", "inner")),
                }
            }
            over.store(true, Ordering::Relaxed);
            swaps = swapper.join().unwrap();
        });
        assert!(read_inside > 0 && swaps > 0, "{read_inside} reads, {swaps} swaps");
        assert_eq!(std::fs::read_to_string(outer.join("secret")).unwrap(), "outer");
    }

    #[test]
    fn read_only_sessions_write_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for access in [Access::ReadOnly, Access::Commands] {
            let files = Files::open(folder.path(), access).unwrap();
            assert!(write(&files, "a", "x").is_err());
            assert!(!folder.path().join("a").exists());
        }
    }
}
