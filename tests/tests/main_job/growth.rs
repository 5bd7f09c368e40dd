//! Resources of a worker after many sessions.

use std::fmt::Write as _;
use std::path::Path;

use ralph_coordinator::domain::states::RunOutcome;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, until};

/// Sessions after which a worker has opened everything that it keeps open.
const WARM_UP: usize = 6;
const MANY: usize = 40;
/// Memory that the allocator may keep after many sessions, beyond the warm-up. Bytes.
const DISORDER_BYTES: u64 = 8 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Resources {
    descriptors: usize,
    /// Files and folders in its data folder.
    entries: Vec<String>,
    /// Ids of its children, dead ones included.
    children: Vec<String>,
    /// Ids of other processes with its data folder in their environment: leftovers of sessions.
    leftovers: Vec<String>,
}

impl Resources {
    fn of(worker: u32, data: &Path) -> Self {
        let worker = worker.to_string();
        let pids = names(Path::new("/proc"))
            .into_iter()
            .filter(|name| name.parse::<u32>().is_ok());
        let (children, others): (Vec<_>, Vec<_>) = pids.partition(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat
                .rsplit_once(')')
                .and_then(|(_, rest)| rest.split_whitespace().nth(1).map(str::to_owned));
            parent.as_deref() == Some(worker.as_str())
        });
        let mark = data.display().to_string();
        let leftovers = others.into_iter().filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&mark)
        });
        Self {
            descriptors: names(&Path::new("/proc").join(&worker).join("fd")).len(),
            entries: below(data),
            children,
            leftovers: leftovers.collect(),
        }
    }

    /// A snapshot may come at a moment when something is open.
    fn is_no_more_than(&self, before: &Self) -> bool {
        let descriptors = self.descriptors.min(before.descriptors);
        let bound = Self {
            descriptors,
            ..before.clone()
        };
        *self == bound
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn below(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for name in names(folder) {
        let path = folder.join(name);
        if path.is_dir() && !path.is_symlink() {
            all.extend(below(&path));
        }
        all.push(path.display().to_string());
    }
    all.sort();
    all
}

fn resident_bytes(worker: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn sessions(count: usize) -> String {
    let mut graph = String::new();
    for number in 0..count {
        let script = "@term echo hi\n    @fs-write a x\n    @orphan 600\n    @done";
        let _ = write!(
            graph,
            "- key: t{number}\n  title: Task {number}\n  description: |\n    {script}\n"
        );
    }
    graph
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_grows_in_a_worker_over_many_sessions() {
    let mut world = World::calm().await.unwrap();
    // By default, the files of sessions stay for days.
    let config = "[workspace]\nkeep_files_days = 0\n";
    std::fs::write(world.dir().join(".ralph.toml"), config).unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1").slots(2)).unwrap();
    let data = world.dir().join("w1");
    let run = async |name: &str, count| {
        let options = FeatureOptions::default();
        let (_, run, _) = world
            .submit(name, None, &sessions(count), &options)
            .await
            .unwrap();
        let outcome = world.ended(run).await.unwrap();
        assert_eq!(outcome, RunOutcome::Complete, "{}", world.tell().await);
    };
    run("warm-up", WARM_UP).await;
    // Workspaces are removed and reports are settled after the run's end.
    let settled = |resources: &Resources| {
        // By name: a listed file may be gone before anybody can read it.
        let work = |entry: &String| {
            let report = entry.contains("/spool/") && entry.ends_with(".json");
            let folders = ["/live/", "/workspaces/", "/records/", "/transcripts/"];
            report || folders.iter().any(|folder| entry.contains(folder))
        };
        resources.children.is_empty() && resources.leftovers.is_empty() && !resources.entries.iter().any(work)
    };
    let before = until("the removal of the run's files", async || {
        let resources = Resources::of(worker.pid(), &data);
        match settled(&resources) {
            true => Ok(resources),
            false => Err(format!("{resources:?}")),
        }
    })
    .await;
    let resident_before = resident_bytes(worker.pid());

    run("many", MANY).await;
    until("no more than after a few tasks", async || {
        let after = Resources::of(worker.pid(), &data);
        match after.is_no_more_than(&before) {
            true => Ok(()),
            false => Err(format!("{after:?}\n{before:?}")),
        }
    })
    .await;
    let grown = resident_bytes(worker.pid()).saturating_sub(resident_before);
    assert!(grown < DISORDER_BYTES, "{grown} bytes more");
    drop(worker);
}
