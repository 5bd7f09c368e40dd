//! Ports reserved for one session: programs that listen on loopback must not collide with those of other
//! slots and workers.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::error::WorkspaceError;
use crate::workspace::in_place::lock::own_folder;

/// Variable with the first port.
const BASE: &str = "RALPH_PORT_BASE";
/// Variable with the number of ports.
const COUNT: &str = "RALPH_PORT_COUNT";

/// Number of ports of one session.
const PORTS: u16 = 20;
/// The first assigned port. 20,000 + 600 × 20 = 32,000 stays below the ports that kernels give to clients.
const FIRST: u16 = 20_000;
/// Largest number of sessions of one user that can have ports.
const SESSIONS: u16 = 600;

/// A range that no other session of this machine's user has while this value exists.
#[derive(Debug)]
pub(super) struct Ports {
    first: u16,
    _lock: File,
}

impl Ports {
    /// Reserves a free range; `None` when all are in use.
    ///
    /// # Errors
    /// When the folder of locks can't be used.
    pub(super) fn take() -> Result<Option<Self>, WorkspaceError> {
        Self::take_in(std::env::temp_dir().join(format!("ralph-ports-{}", nix::unistd::getuid())))
    }

    fn take_in(folder: PathBuf) -> Result<Option<Self>, WorkspaceError> {
        let folder = own_folder(folder.clone()).map_err(WorkspaceError::io("use the folder", &folder))?;
        for number in 0..SESSIONS {
            let path = folder.join(number.to_string());
            let lock = match open(&path) {
                Ok(lock) => lock,
                // Something that is no plain file occupies the path: skip only this range.
                Err(error) if is_no_file(&error) => continue,
                Err(error) => return Err(WorkspaceError::io("open the lock", &path)(error)),
            };
            if lock.try_lock().is_ok() {
                let first = FIRST + number * PORTS;
                return Ok(Some(Self { first, _lock: lock }));
            }
        }
        Ok(None)
    }

    pub(super) fn variables(&self) -> [(&'static str, String); 2] {
        [(BASE, self.first.to_string()), (COUNT, PORTS.to_string())]
    }
}

/// Opens or creates a plain file without blocking.
fn open(path: &Path) -> io::Result<File> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

fn is_no_file(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
        || matches!(
            error.raw_os_error(),
            Some(libc::ELOOP | libc::ENXIO | libc::EISDIR)
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_skipped_when_its_lock_is_no_plain_file() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("ports");
        std::fs::create_dir(&folder).unwrap();
        nix::unistd::mkfifo(&folder.join("0"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(home.path().join("made"), folder.join("1")).unwrap();
        std::fs::create_dir(folder.join("2")).unwrap();
        let ports = Ports::take_in(folder.clone()).unwrap().unwrap();
        assert_eq!(ports.first, FIRST + 3 * PORTS);
        assert!(!home.path().join("made").exists());
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let refused = Ports::take_in(link).unwrap_err();
        assert!(format!("{refused:?}").contains("somebody else"), "{refused:?}");
    }

    #[test]
    fn ranges_do_not_overlap_while_they_are_held() {
        let held: Vec<_> = (0..3).filter_map(|_| Ports::take().unwrap()).collect();
        let mut firsts: Vec<_> = held.iter().map(|ports| ports.first).collect();
        firsts.sort_unstable();
        assert_eq!(firsts.len(), 3);
        assert!(
            firsts.windows(2).all(|pair| pair[0] + PORTS <= pair[1]),
            "{firsts:?}"
        );
        assert!(firsts.iter().all(|first| first + PORTS <= 32_000));
    }
}
