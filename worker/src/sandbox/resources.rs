//! Resource limits of a session. Its control group limits the memory and number of all its processes
//! together. Inherited limits bound each process's CPU time and file size.

use nix::sys::resource::{Resource, getrlimit};

const PROCESSES: u32 = 4096;

const FILE_BYTES: u64 = 16 * 1024 * 1024 * 1024;

const DISK_RESERVE_BYTES: u64 = 256 * 1024 * 1024;

/// Time from SIGXCPU, when a process has used its CPU time, to SIGKILL. Seconds.
const CPU_GRACE_SECONDS: u64 = 5;

/// Limits of one session, set in `[workspace]` of the worker's configuration (SPEC 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Memory of all its processes together. Bytes; `None` means three quarters of the machine's.
    pub memory_bytes: Option<u64>,
    /// Number of processes and threads together.
    pub processes: u32,
    /// CPU time of each process. `None` means no limit but the session's wall time. Seconds.
    pub cpu_seconds: Option<u64>,
    /// Size of each file that it writes. Bytes.
    pub file_bytes: u64,
    /// Space that must stay free on its disk. If less is free, a session that holds at least this much itself
    /// is ended. Bytes.
    pub disk_reserve_bytes: u64,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            processes: PROCESSES,
            cpu_seconds: None,
            file_bytes: FILE_BYTES,
            disk_reserve_bytes: DISK_RESERVE_BYTES,
        }
    }
}

impl Resources {
    /// Memory limit of all processes together. Bytes; `None` if the machine doesn't report its memory.
    pub fn memory(&self) -> Option<u64> {
        self.memory_bytes.or_else(|| {
            let info = std::fs::read_to_string("/proc/meminfo").ok()?;
            Some(total(&info)? / 4 * 3)
        })
    }

    /// Soft and hard limits of each process. With `memory`, each may allocate that many bytes. Lower limits
    /// of this process itself are preserved.
    pub(super) fn limits(&self, memory: Option<u64>) -> Vec<(Resource, u64, u64)> {
        let cpu = self.cpu_seconds.map(|soft| (soft, soft + CPU_GRACE_SECONDS));
        let wanted = [
            (Resource::RLIMIT_CORE, Some((0, 0))),
            (Resource::RLIMIT_FSIZE, Some((self.file_bytes, self.file_bytes))),
            (Resource::RLIMIT_CPU, cpu),
            (Resource::RLIMIT_DATA, memory.map(|bytes| (bytes, bytes))),
        ];
        let limited = wanted.into_iter().filter_map(|(resource, limits)| {
            let (soft, hard) = limits?;
            let (_, most) = getrlimit(resource).ok()?;
            Some((resource, soft.min(most), hard.min(most)))
        });
        limited.collect()
    }
}

/// The machine's memory according to `/proc/meminfo`. Bytes.
fn total(info: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::super::start::{ChildSetup, Inside};
    use super::*;

    #[test]
    fn the_default_follows_the_machines_memory() {
        assert_eq!(
            total("MemTotal:        4000 kB\nMemFree: 1 kB\n"),
            Some(4000 * 1024)
        );
        assert_eq!(total("MemFree: 1 kB"), None);
        let own = Resources {
            memory_bytes: Some(7),
            ..Resources::default()
        };
        assert_eq!(own.memory(), Some(7));
    }

    #[tokio::test]
    async fn a_child_inherits_its_bounds() {
        let resources = Resources {
            cpu_seconds: Some(77),
            file_bytes: 1024 * 1024,
            ..Resources::default()
        };
        let own = std::env::vars_os().collect();
        let mut command = Inside::plain("sh".as_ref(), &own);
        command.args(["-c", "ulimit -c; ulimit -f; ulimit -St; ulimit -Ht; ulimit -d"]);
        let setup = ChildSetup {
            limits: resources.limits(Some(512 * 1024 * 1024)),
            ..ChildSetup::default()
        };
        setup.apply_to(command.as_std_mut(), None);
        let output = command.output().await.unwrap();
        // Blocks of 512 bytes, seconds, KiB.
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "0\n2048\n77\n82\n524288\n"
        );
    }
}
