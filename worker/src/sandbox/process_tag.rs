//! What the kernel keeps of whose a process is. A mark in the environment goes with `env -i`, a process group with `setsid`,
//! and control groups are not to be had everywhere; but the limits of a process are inherited by all that it starts, can be read
//! of every process, and are never raised again.
//!
//! Two of them bound nothing: the number of file locks, which the kernel doesn't count since Linux 2.6, and the time of programs
//! under real-time scheduling, far beyond what one takes. Together they name a dispatch. Where one is higher than another
//! dispatch's, the other one is lower; so who lowers them is never taken for another's. That it is taken for nobody's,
//! [`super::filter`] prevents: inside, these two are not changed at all.

use std::fs;

use nix::sys::resource::{Resource, setrlimit};
use ralph_shared::wire::sha256_hex;

/// The kernel's numbers of the two limits, `RLIMIT_LOCKS` and `RLIMIT_RTTIME`, for programs of 64 bits as for those of 32.
pub(super) const LIMITS: [u32; 2] = [10, 15];

/// Above all that anybody sets them to, and below what stands for "unlimited".
const LOWEST: u64 = 1 << 62;

/// A number of fifteen hexadecimal digits tells dispatches apart: 15 × 4 bits.
const MOST: u64 = (1 << 60) - 1;
const DIGITS: usize = 15;

/// The tag of one dispatch's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessTag {
    realtime: u64,
    locks: u64,
}

impl ProcessTag {
    /// The one that a dispatch's processes have, in every instance of the worker.
    pub fn of(dispatch: &str) -> Self {
        let hash = sha256_hex(dispatch.as_bytes());
        let number = u64::from_str_radix(&hash[..DIGITS], 16).unwrap_or_default();
        Self {
            realtime: LOWEST + number,
            locks: LOWEST + (MOST - number),
        }
    }

    /// Has this process bear it, and what it starts from now on. Only makes system calls. A worker that is itself kept below it,
    /// in a session of another one say, goes by other means.
    pub(super) fn put_on(self) {
        let _ = setrlimit(Resource::RLIMIT_RTTIME, self.realtime, self.realtime);
        let _ = setrlimit(Resource::RLIMIT_LOCKS, self.locks, self.locks);
    }

    /// Whether a process bears it.
    pub fn is_on(self, pid: i32) -> bool {
        fs::read_to_string(format!("/proc/{pid}/limits")).is_ok_and(|limits| self.is_among(&limits))
    }

    fn is_among(self, limits: &str) -> bool {
        hard(limits, "Max realtime timeout") == Some(self.realtime)
            || hard(limits, "Max file locks") == Some(self.locks)
    }
}

/// A hard limit of `/proc/PID/limits`; `None` when it is unlimited.
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

    /// A shell in which this script runs as a session's program does, with what it prints.
    async fn printed(tag: ProcessTag, script: &str) -> String {
        let own = std::env::vars_os().collect();
        let mut command = Inside::plain("sh".as_ref(), &own);
        command.args(["-c", script]).stderr(Stdio::null());
        let shared = Shared {
            processes: true,
            ipc: true,
        };
        let beginning = ChildSetup {
            tag: Some(tag),
            give_up: PreExecLimits {
                calls: Some(filter::program(None, shared).unwrap()),
                ..PreExecLimits::default()
            },
            ..ChildSetup::default()
        };
        beginning.give(command.as_std_mut(), None);
        let output = command.output().await.unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[tokio::test]
    async fn who_sheds_mark_group_and_parents_is_found_by_it() {
        let dispatch = format!("shed-{}", std::process::id());
        let other = format!("{dispatch}-other");
        let shed = "setsid env -i PATH=\"$PATH\" sh -c 'sleep 600 </dev/null >/dev/null 2>&1 & echo $!'";
        let pid: i32 = printed(ProcessTag::of(&dispatch), shed).await.parse().unwrap();
        assert!(ProcessTag::of(&dispatch).is_on(pid));
        assert_eq!(kill_leftovers(&other), 0);
        assert_ne!(kill_leftovers(&dispatch), 0);
        assert_eq!(kill_leftovers(&dispatch), 0);
    }

    #[tokio::test]
    async fn nobody_inside_takes_it_off() {
        let tag = ProcessTag::of("nobody");
        let tried =
            "ulimit -w 1 || ulimit -x 1 || echo held; ulimit -n 64 && echo lowered; cat /proc/self/limits";
        let printed = printed(tag, tried).await;
        assert!(printed.starts_with("held\nlowered\n"), "{printed}");
        assert!(tag.is_among(&printed), "{printed}");
    }

    #[test]
    fn one_that_is_lowered_is_nobody_elses() {
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
