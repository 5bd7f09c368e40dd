//! Ports of a session's own: programs that listen on the loopback would meet those of other slots and workers.

use std::fs::File;

use super::error::WorkspaceError;
use super::record;

/// Names the first port.
const BASE: &str = "RALPH_PORT_BASE";
/// Names how many there are.
const COUNT: &str = "RALPH_PORT_COUNT";

/// Ports of one session.
const PORTS: u16 = 20;
/// The first port that is given out. 20,000 + 600 × 20 = 32,000 stays below the ports that kernels give to clients.
const FIRST: u16 = 20_000;
/// How many sessions of a machine's user can have ports.
const SESSIONS: u16 = 600;

/// A range that no other session of this machine's user has while this value lives.
#[derive(Debug)]
pub(super) struct Ports {
    first: u16,
    _lock: File,
}

impl Ports {
    /// Takes a free range; `None` when all are taken.
    ///
    /// # Errors
    /// When the folder of locks can't be used.
    pub(super) fn take() -> Result<Option<Self>, WorkspaceError> {
        let folder = std::env::temp_dir().join(format!("ralph-ports-{}", nix::unistd::getuid()));
        record::make_private(&folder)?;
        for number in 0..SESSIONS {
            let path = folder.join(number.to_string());
            let lock = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path);
            let lock = lock.map_err(WorkspaceError::io("open the lock", &path))?;
            if lock.try_lock().is_ok() {
                let first = FIRST + number * PORTS;
                return Ok(Some(Self { first, _lock: lock }));
            }
        }
        Ok(None)
    }

    /// What programs are told.
    pub(super) fn variables(&self) -> [(&'static str, String); 2] {
        [(BASE, self.first.to_string()), (COUNT, PORTS.to_string())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
