//! A control group a session, where this machine lets us make one: nothing that a session starts can leave it, however
//! it detaches itself and cleans its environment, and its number of processes is bounded. Without one,
//! [`crate::session::kill_leftovers`] goes by process groups, ancestry and the mark in the environment alone.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Most processes and threads of a session, where the machine can count them.
pub const MOST_TASKS: u32 = 4096;

/// Hierarchies of the older kind that serve: one that counts, else any that only gathers.
const OLDER: &[&str] = &["pids", "freezer", "cpu"];

/// The control groups of one session: one, or none.
#[derive(Debug, Default)]
pub struct Cgroup(Option<PathBuf>);

impl Cgroup {
    /// Makes one for a dispatch, if this process may.
    pub fn make(dispatch: &str) -> Self {
        let Some(folder) = place().and_then(|place| Some(place.join(name(dispatch)?))) else {
            return Self(None);
        };
        if fs::create_dir(&folder).is_err() && !folder.is_dir() {
            return Self(None);
        }
        // Refused where the counting controller isn't delegated.
        let _ = fs::write(folder.join("pids.max"), MOST_TASKS.to_string());
        Self(Some(folder))
    }

    /// The one that an earlier life of this worker made, if it is still there.
    pub fn of(dispatch: &str) -> Self {
        Self(
            place()
                .and_then(|place| Some(place.join(name(dispatch)?)))
                .filter(|folder| folder.is_dir()),
        )
    }

    /// Whether there is one.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Takes in a process that was just started; what it starts from then on is in as well.
    pub fn add(&self, pid: u32) {
        if let Some(folder) = &self.0
            && let Err(error) = fs::write(folder.join("cgroup.procs"), pid.to_string())
        {
            tracing::debug!(%error, pid, "a process can't be put into its control group");
        }
    }

    /// The ids of its processes.
    pub fn members(&self) -> HashSet<i32> {
        let procs = self
            .0
            .as_ref()
            .map(|folder| fs::read_to_string(folder.join("cgroup.procs")));
        match procs {
            Some(Ok(procs)) => procs.lines().filter_map(|line| line.parse().ok()).collect(),
            _ => HashSet::new(),
        }
    }
}

/// Goes once it is empty; while it isn't, the last one to look at it removes it.
impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Some(folder) = &self.0
            && let Err(error) = fs::remove_dir(folder)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!(%error, folder = %folder.display(), "a control group is not empty yet");
        }
    }
}

fn name(dispatch: &str) -> Option<String> {
    let plain = !dispatch.is_empty() && dispatch.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    plain.then(|| format!("ralph-{dispatch}"))
}

/// The group of this process, below which new ones are made.
fn place() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let places = candidates(&mounts, &own);
    places
        .into_iter()
        .find(|place| place.join("cgroup.procs").is_file())
}

/// Where this process' groups lie, the one to prefer first.
fn candidates(mounts: &str, own: &str) -> Vec<PathBuf> {
    let mut places = Vec::new();
    for wanted in std::iter::once("").chain(OLDER.iter().copied()) {
        let Some((root, point)) = mounts.lines().find_map(|line| mount_of(line, wanted)) else {
            continue;
        };
        let path = own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers
                .split(',')
                .any(|controller| controller == wanted)
                .then_some(path)
        });
        let below = path.and_then(|path| Path::new(path).strip_prefix(root).ok());
        places.extend(below.map(|below| Path::new(point).join(below)));
        // In a container the path may be the host's, and the mount what is ours.
        places.push(PathBuf::from(point));
    }
    places
}

/// Root and mount point of a line of `mountinfo`, if it mounts the hierarchy of this controller; the unified one is `""`.
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
    fn groups_are_found_in_every_arrangement() {
        let check = |mounts: &str, own: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(candidates(mounts, own), expected, "{mounts}");
        };
        check(
            "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate",
            "0::/user.slice/app.service",
            &["/sys/fs/cgroup/user.slice/app.service", "/sys/fs/cgroup"],
        );
        check(
            "39 31 0:36 /docker/ab /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
             32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct",
            "9:pids:/docker/ab/x\n2:cpu,cpuacct:/y",
            &[
                "/sys/fs/cgroup/pids/x",
                "/sys/fs/cgroup/pids",
                "/sys/fs/cgroup/cpu/y",
                "/sys/fs/cgroup/cpu",
            ],
        );
        check("1 2 0:3 / / rw - ext4 /dev/sda rw", "0::/", &[]);
        check("", "", &[]);
    }

    #[test]
    fn only_plain_names_become_folders() {
        assert_eq!(name("0193-ab").as_deref(), Some("ralph-0193-ab"));
        assert_eq!(name("../x"), None);
        assert_eq!(name(""), None);
    }
}
