//! Processes that outlive their session. Every process of a session inherits [`MARK`]. Processes that left
//! the agent's process group, session and tree are found by this mark in `/proc`. Processes that removed the
//! mark are found by their control group, where this machine allows one, and by the [`ProcessTag`], which no
//! sandboxed process can remove. A restarted worker ends the processes of its earlier instance in the same
//! way (DESIGN 2).

use std::collections::HashSet;
use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::Child;

use crate::sandbox::{Cgroup, ProcessTag};

/// The variable that marks the processes of a session with its dispatch's id.
pub const MARK: &str = "RALPH_DISPATCH";

/// Longest wait for killed processes to exit.
pub(in crate::session) const GONE_LIMIT: Duration = Duration::from_secs(5);

const GONE_POLL: Duration = Duration::from_millis(2);

/// A process group of a session. After its last member exits, another process may reuse its number. Once the
/// leader is gone, only processes started before count as members.
#[derive(Debug, Clone)]
pub struct Group {
    /// The leader's process id.
    pub id: i32,
    /// When the leader was seen to be gone. Clock ticks since boot.
    ended: Arc<OnceLock<u64>>,
}

impl Group {
    /// The group of a process that was just started as its leader. `None` if the process exited already.
    pub fn led_by(child: &Child) -> Option<Self> {
        let id = i32::try_from(child.id()?).ok()?;
        Some(Self {
            id,
            ended: Arc::default(),
        })
    }

    /// Records that the leader was waited for.
    pub fn leader_is_gone(&self) {
        self.ended.get_or_init(ticks);
    }

    /// Sends a signal to the group's members. Does nothing after the leader was waited for, because the
    /// number may be reused.
    ///
    /// The sandbox's wrapper program gets only KILL. Another signal would end it at once, and the processes
    /// inside would get no grace.
    pub fn signal(&self, signal: Signal, wrapped: bool) {
        if self.ended.get().is_some() {
            return;
        }
        if !wrapped || signal == Signal::SIGKILL {
            let _ = killpg(Pid::from_raw(self.id), signal);
            return;
        }
        for process in processes() {
            if process.group == self.id && process.pid != self.id && !process.dead {
                let _ = kill(Pid::from_raw(process.pid), signal);
            }
        }
    }

    fn holds(&self, process: &Process) -> bool {
        process.group == self.id && self.ended.get().is_none_or(|ended| process.started <= *ended)
    }
}

/// Clock ticks since boot, as the process table counts them.
fn ticks() -> u64 {
    in_ticks(&fs::read_to_string("/proc/uptime").unwrap_or_default())
}

/// The first number of `/proc/uptime`: seconds with two decimals. Linux reports 100 ticks a second on every
/// architecture.
fn in_ticks(uptime: &str) -> u64 {
    let seconds: f64 = uptime
        .split_whitespace()
        .next()
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or_default();
    // Truncation would make some values one tick too early.
    (seconds * 100.0).round() as u64
}

/// Kills every process of a dispatch on this machine and waits for a bounded time until they are gone.
/// Returns their number. Blocks for a few milliseconds.
pub fn kill_leftovers(dispatch_mark: &str) -> usize {
    kill_marked(dispatch_mark, &[])
}

/// Like [`kill_leftovers`], and kills the members of the given process groups.
pub(in crate::session) fn kill_marked(dispatch_mark: &str, groups: &[Group]) -> usize {
    let mark = format!("{MARK}={dispatch_mark}");
    let spared = own_ancestry();
    let (tag, cgroup) = (ProcessTag::of(dispatch_mark), Cgroup::of(dispatch_mark));
    let until = Instant::now() + GONE_LIMIT;
    let mut seen = HashSet::new();
    loop {
        let members = cgroup.members();
        let is_its_own = |process: &Process| {
            members.contains(&process.pid)
                || groups.iter().any(|group| group.holds(process))
                || process.is_marked(mark.as_bytes())
                || tag.is_set_on(process.pid)
        };
        let found = find(is_its_own, &spared);
        // Counted before the control group is killed.
        cgroup.kill();
        for process in &found {
            process.kill();
            seen.insert((process.pid, process.started));
        }
        // A member that disappeared may have started another process first.
        let is_over = found.is_empty() && cgroup.members().is_subset(&members);
        if is_over || Instant::now() >= until {
            return seen.len();
        }
        std::thread::sleep(GONE_POLL);
    }
}

/// A line of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    /// Start time in clock ticks since boot. Together with the pid it identifies a process forever.
    started: u64,
    dead: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn kill(&self) {
        let same = Self::read(self.pid).is_some_and(|now| now.started == self.started);
        if same {
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
    }

    fn is_marked(&self, mark: &[u8]) -> bool {
        fs::read(format!("/proc/{}/environ", self.pid))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|variable| variable == mark))
    }
}

/// Parses `/proc/PID/stat`. The command's name is in parentheses and may contain anything.
fn parse_stat(pid: i32, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Process {
        pid,
        dead: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Process::read)
        .collect()
}

/// This process and its ancestors. They are never killed, whatever marks they carry.
fn own_ancestry() -> HashSet<i32> {
    let mut line = HashSet::new();
    let mut pid = i32::try_from(std::process::id()).unwrap_or(0);
    while pid > 0 && line.insert(pid) {
        pid = Process::read(pid).map_or(0, |process| process.parent);
    }
    line
}

/// Processes of the session and all their descendants.
fn find(is_its_own: impl Fn(&Process) -> bool, spared: &HashSet<i32>) -> Vec<Process> {
    let all: Vec<Process> = processes()
        .into_iter()
        .filter(|process| !process.dead && !spared.contains(&process.pid))
        .collect();
    let own = all.iter().filter(|process| is_its_own(process));
    let mut found: HashSet<i32> = own.map(|process| process.pid).collect();
    loop {
        let before = found.len();
        let below: Vec<i32> = all
            .iter()
            .filter(|process| found.contains(&process.parent))
            .map(|process| process.pid)
            .collect();
        found.extend(below);
        if found.len() == before {
            break;
        }
    }
    all.into_iter()
        .filter(|process| found.contains(&process.pid))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn command_names_with_parentheses_are_parsed() {
        let stat = "7 (a) S 1 (b)) S 3 4 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0";
        assert_eq!(
            parse_stat(7, stat),
            Some(Process {
                pid: 7,
                parent: 3,
                group: 4,
                started: 12345,
                dead: false
            })
        );
        assert_eq!(parse_stat(7, "7 (a"), None);
    }

    #[test]
    fn a_process_started_after_the_leaders_end_is_no_member() {
        let mut process = Process {
            pid: 12,
            parent: 1,
            group: 7,
            started: 500,
            dead: false,
        };
        let group = Group {
            id: 7,
            ended: Arc::default(),
        };
        assert!(group.holds(&process));
        group.ended.set(499).unwrap();
        assert!(!group.holds(&process));
        process.started = 499;
        assert!(group.holds(&process));
        process.group = 8;
        assert!(!group.holds(&process));
    }

    #[test]
    fn uptime_is_converted_to_ticks_without_loss() {
        for ticks in (8_092_900..8_093_000).chain([0, 1, 99, 100]) {
            let uptime = format!("{}.{:02} 12.00\n", ticks / 100, ticks % 100);
            assert_eq!(in_ticks(&uptime), ticks, "{uptime}");
        }
        assert_eq!(in_ticks(""), 0);
    }

    #[test]
    fn ticks_match_start_times_in_the_process_table() {
        let before = ticks();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process::read(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(
            (before..=ticks()).contains(&process.started),
            "{before} {process:?}"
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_detached_orphan_is_found_by_its_mark() {
        let mark = format!("test-{}", std::process::id());
        let mut parent = Command::new("sh")
            .args(["-c", "setsid sh -c 'echo $$; exec sleep 600' & wait"])
            .env(MARK, &mark)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = parent.stdout.take().unwrap();
        let mut pid = String::new();
        while !pid.ends_with('\n') {
            let mut byte = [0];
            stdout.read_exact(&mut byte).unwrap();
            pid.push(char::from(byte[0]));
        }
        parent.kill().unwrap();
        parent.wait().unwrap();
        assert_eq!(kill_leftovers("another-mark"), 0);
        assert_eq!(kill_leftovers(&mark), 1);
        let orphan = Process::read(pid.trim().parse().unwrap());
        assert!(orphan.is_none_or(|process| process.dead));
        assert_eq!(kill_leftovers(&mark), 0);
    }
}
