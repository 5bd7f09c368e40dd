//! Identifies a session's processes by their resource limits. `env -i` removes a mark in the environment,
//! `setsid` leaves a process group, and control groups aren't available everywhere. Limits, however, are
//! inherited by all children, can be read for every process, and are never raised again.
//!
//! Two limits restrict nothing: the number of file locks, which the kernel hasn't counted since Linux 2.6,
//! and the time of real-time programs, far beyond actual use. Together they identify a dispatch. If one limit
//! is higher than another dispatch's, the other one is lower. Lowering them therefore never imitates another
//! dispatch. Inside the sandbox, [`super::filter`] prevents any change, so that a process can't become
//! nobody's either.

use std::fs;

use nix::sys::resource::{Resource, setrlimit};
use ralph_shared::wire::sha256_hex;

/// The kernel's numbers of `RLIMIT_LOCKS` and `RLIMIT_RTTIME`, for 64-bit and 32-bit programs.
pub(super) const LIMITS: [u32; 2] = [10, 15];

/// Above any usual value, and below the value for "unlimited".
const LOWEST: u64 = 1 << 62;

/// Fifteen hexadecimal digits distinguish dispatches: 15 × 4 bits.
const MOST: u64 = (1 << 60) - 1;
const DIGITS: usize = 15;

/// The tag of a dispatch's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessTag {
    realtime: u64,
    locks: u64,
}

impl ProcessTag {
    /// The tag of a dispatch, equal in every instance of the worker.
    pub fn of(dispatch: &str) -> Self {
        let hash = sha256_hex(dispatch.as_bytes());
        let number = u64::from_str_radix(&hash[..DIGITS], 16).unwrap_or_default();
        Self {
            realtime: LOWEST + number,
            locks: LOWEST + (MOST - number),
        }
    }

    /// Tags this process and its later children. Only makes system calls. Fails silently in a worker with
    /// lower limits, for example inside another session; other means of identification remain.
    pub(super) fn set_on_self(self) {
        let _ = setrlimit(Resource::RLIMIT_RTTIME, self.realtime, self.realtime);
        let _ = setrlimit(Resource::RLIMIT_LOCKS, self.locks, self.locks);
    }

    /// Whether a process has this tag.
    pub fn is_set_on(self, pid: i32) -> bool {
        fs::read_to_string(format!("/proc/{pid}/limits")).is_ok_and(|limits| self.is_among(&limits))
    }

    fn is_among(self, limits: &str) -> bool {
        hard(limits, "Max realtime timeout") == Some(self.realtime)
            || hard(limits, "Max file locks") == Some(self.locks)
    }
}

/// A hard limit in `/proc/PID/limits`. `None` if unlimited.
fn hard(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::super::calls::Shared;
    use super::super::filter;
    use super::super::start::{ChildSetup, Inside};
    use super::*;
    use crate::sandbox::pre_exec::PreExecLimits;
    use crate::session::kill_leftovers;

    /// Runs a script in a shell like a session's program and returns its output.
    async fn printed(tag: ProcessTag, script: &str) -> String {
        let own = std::env::vars_os().collect();
        let mut command = Inside::plain("sh".as_ref(), &own);
        command.args(["-c", script]).stderr(Stdio::null());
        let shared = Shared {
            processes: true,
            ipc: true,
        };
        let setup = ChildSetup {
            tag: Some(tag),
            pre_exec: PreExecLimits {
                calls: Some(filter::program(None, shared).unwrap()),
                ..PreExecLimits::default()
            },
            ..ChildSetup::default()
        };
        setup.apply_to(command.as_std_mut(), None);
        let output = command.output().await.unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[tokio::test]
    async fn a_process_without_mark_group_and_parents_is_found_by_its_tag() {
        let dispatch = format!("shed-{}", std::process::id());
        let other = format!("{dispatch}-other");
        let shed = "setsid env -i PATH=\"$PATH\" sh -c 'sleep 600 </dev/null >/dev/null 2>&1 & echo $!'";
        let pid: i32 = printed(ProcessTag::of(&dispatch), shed).await.parse().unwrap();
        assert!(ProcessTag::of(&dispatch).is_set_on(pid));
        assert_eq!(kill_leftovers(&other), 0);
        assert_ne!(kill_leftovers(&dispatch), 0);
        assert_eq!(kill_leftovers(&dispatch), 0);
    }

    #[tokio::test]
    async fn a_sandboxed_process_cannot_remove_its_tag() {
        let tag = ProcessTag::of("nobody");
        let tried =
            "ulimit -w 1 || ulimit -x 1 || echo held; ulimit -n 64 && echo lowered; cat /proc/self/limits";
        let printed = printed(tag, tried).await;
        assert!(printed.starts_with("held\nlowered\n"), "{printed}");
        assert!(tag.is_among(&printed), "{printed}");
    }

    #[test]
    fn a_lowered_tag_is_not_another_dispatchs() {
        let tags: Vec<ProcessTag> = ["a", "b", "c"].map(ProcessTag::of).to_vec();
        for (at, one) in tags.iter().enumerate() {
            for other in tags.iter().skip(at + 1) {
                assert_ne!(one.realtime < other.realtime, one.locks < other.locks);
            }
        }
        let limits = |realtime: &str, locks: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max file locks            unlimited            {locks}            locks     \n\
                 Max realtime timeout      unlimited            {realtime}            us        \n"
            )
        };
        let (one, other) = (tags[0], tags[1]);
        assert!(one.is_among(&limits(&one.realtime.to_string(), &one.locks.to_string())));
        assert!(one.is_among(&limits("1", &one.locks.to_string())));
        assert!(!other.is_among(&limits(&one.realtime.to_string(), &one.locks.to_string())));
        assert!(!one.is_among(&limits("unlimited", "unlimited")) && !one.is_among(""));
    }
}
