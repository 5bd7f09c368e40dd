//! Control groups of a session, where this machine allows them. No process of a session can leave them,
//! however it detaches itself and cleans its environment. They also limit the number of processes and their
//! memory. Without them, [`crate::session::kill_leftovers`] uses process groups, ancestry, the mark in the
//! environment and the [`super::ProcessTag`].

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::resources::Resources;

/// Hierarchies that count processes and memory: the unified one, if its controllers are delegated to us, and
/// the older ones.
const COUNTING: &[&str] = &["", "pids", "memory"];

/// Older hierarchies that only group processes.
const GATHERING: &[&str] = &["freezer", "cpu"];

/// Files for a hierarchy's memory limit.
const MEMORY_FILES: &[&str] = &["memory.max", "memory.limit_in_bytes"];

/// Files with a hierarchy's number of out-of-memory kills.
const KILLS_FILES: &[&str] = &["memory.events", "memory.oom_control"];

/// The control groups of one session: one in each usable hierarchy, or none.
#[derive(Debug, Default)]
pub struct Cgroup {
    folders: Vec<PathBuf>,
    bounds_memory: bool,
    bounds_processes: bool,
}

impl Cgroup {
    /// Creates the groups of a dispatch, as far as this process may.
    pub fn make(dispatch: &str, resources: &Resources) -> Self {
        let mut made = Self::default();
        for folder in folders(dispatch) {
            if fs::create_dir(&folder).is_err() && !folder.is_dir() {
                continue;
            }
            // Refused if the controller belongs to another hierarchy or isn't delegated.
            let processes = fs::write(folder.join("pids.max"), resources.processes.to_string());
            made.bounds_processes |= processes.is_ok();
            if let Some(bytes) = resources.memory() {
                made.bounds_memory |= MEMORY_FILES
                    .iter()
                    .map(|file| folder.join(file))
                    .any(|file| file.exists() && fs::write(file, bytes.to_string()).is_ok());
            }
            made.folders.push(folder);
        }
        made
    }

    /// The existing groups of a dispatch, created by an earlier instance of this worker.
    pub fn of(dispatch: &str) -> Self {
        Self {
            folders: folders(dispatch)
                .into_iter()
                .filter(|folder| folder.is_dir())
                .collect(),
            ..Self::default()
        }
    }

    pub fn is_some(&self) -> bool {
        !self.folders.is_empty()
    }

    /// Whether the memory of all processes together is limited.
    pub fn bounds_memory(&self) -> bool {
        self.bounds_memory
    }

    /// Whether the number of processes is limited.
    pub fn bounds_processes(&self) -> bool {
        self.bounds_processes
    }

    /// How many processes were killed because memory ran out.
    pub fn killed_for_memory(&self) -> u64 {
        let files = self
            .folders
            .iter()
            .flat_map(|folder| KILLS_FILES.iter().map(|file| folder.join(file)));
        let kills = files.filter_map(|file| {
            let text = fs::read_to_string(file).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
            line.trim().parse::<u64>().ok()
        });
        kills.sum()
    }

    /// Files to join the groups: a process that writes `0` to each joins them, together with its later
    /// children.
    pub(super) fn entrances(&self) -> Vec<fs::File> {
        let open = |folder: &PathBuf| {
            fs::OpenOptions::new()
                .write(true)
                .open(folder.join("cgroup.procs"))
        };
        self.folders
            .iter()
            .filter_map(|folder| open(folder).ok())
            .collect()
    }

    /// Kills all its processes at once if the hierarchy supports that. Otherwise it stops them from starting
    /// others.
    pub fn kill(&self) {
        for folder in &self.folders {
            // Each write fails if the file doesn't exist.
            if fs::write(folder.join("cgroup.kill"), "1").is_err() {
                let _ = fs::write(folder.join("pids.max"), "0");
            }
        }
    }

    pub fn members(&self) -> HashSet<i32> {
        let lists = self
            .folders
            .iter()
            .filter_map(|folder| fs::read_to_string(folder.join("cgroup.procs")).ok());
        lists
            .flat_map(|procs| {
                procs
                    .lines()
                    .filter_map(|line| line.parse().ok())
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

/// Removes empty groups. A group that is still in use is removed by a later drop.
impl Drop for Cgroup {
    fn drop(&mut self) {
        for folder in &self.folders {
            if let Err(error) = fs::remove_dir(folder)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::debug!(%error, folder = %folder.display(), "a control group is not empty yet");
            }
        }
    }
}

fn name(dispatch: &str) -> Option<String> {
    let plain = !dispatch.is_empty() && dispatch.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    plain.then(|| format!("ralph-{dispatch}"))
}

/// Folders of a dispatch's groups, existing or not: below the groups of this process.
fn folders(dispatch: &str) -> Vec<PathBuf> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
    let place = |hierarchy: &&str| {
        candidates(&mounts, &own, hierarchy)
            .into_iter()
            .find(|place| place.join("cgroup.procs").is_file())
    };
    let Some(name) = name(dispatch) else {
        return Vec::new();
    };
    let mut places: Vec<PathBuf> = COUNTING.iter().filter_map(place).collect();
    if places.is_empty() {
        places.extend(GATHERING.iter().find_map(place));
    }
    places.dedup();
    places.into_iter().map(|place| place.join(&name)).collect()
}

/// Candidates for this process's group in a hierarchy, best first.
fn candidates(mounts: &str, own: &str, hierarchy: &str) -> Vec<PathBuf> {
    let Some((root, point)) = mounts.lines().find_map(|line| mount_of(line, hierarchy)) else {
        return Vec::new();
    };
    let path = own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers
            .split(',')
            .any(|controller| controller == hierarchy)
            .then_some(path)
    });
    let below = path.and_then(|path| Path::new(path).strip_prefix(root).ok());
    let mut places: Vec<PathBuf> = below
        .map(|below| Path::new(point).join(below))
        .into_iter()
        .collect();
    // In a container the path may be the host's, and the mount point this process's group.
    places.push(PathBuf::from(point));
    places
}

/// Root and mount point in a line of `mountinfo`, if it mounts the hierarchy of this controller. The unified
/// one is `""`.
fn mount_of<'a>(line: &'a str, wanted: &str) -> Option<(&'a str, &'a str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    let fits = match kind {
        "cgroup2" => wanted.is_empty(),
        "cgroup" => options.split(',').any(|option| option == wanted),
        _ => false,
    };
    fits.then_some((root, point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_in_unified_and_older_hierarchies() {
        let check = |mounts: &str, own: &str, hierarchy: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(
                candidates(mounts, own, hierarchy),
                expected,
                "{mounts} {hierarchy}"
            );
        };
        let unified = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let own = "0::/user.slice/app.service";
        check(
            unified,
            own,
            "",
            &["/sys/fs/cgroup/user.slice/app.service", "/sys/fs/cgroup"],
        );
        check(unified, own, "pids", &[]);
        let older = "39 31 0:36 /docker/ab /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                     32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct";
        let own = "9:pids:/docker/ab/x\n2:cpu,cpuacct:/y";
        check(
            older,
            own,
            "pids",
            &["/sys/fs/cgroup/pids/x", "/sys/fs/cgroup/pids"],
        );
        check(older, own, "cpu", &["/sys/fs/cgroup/cpu/y", "/sys/fs/cgroup/cpu"]);
        check(older, own, "", &[]);
        check("1 2 0:3 / / rw - ext4 /dev/sda rw", "0::/", "", &[]);
        check("", "", "pids", &[]);
    }

    #[test]
    fn only_plain_names_become_folders() {
        assert_eq!(name("0193-ab").as_deref(), Some("ralph-0193-ab"));
        assert_eq!(name("../x"), None);
        assert_eq!(name(""), None);
    }
}
