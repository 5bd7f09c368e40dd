//! Many sessions of one worker: its resources after some of them and after all.

use std::collections::HashSet;
use std::path::Path;

use ralph_shared::ids::DispatchId;

use crate::figures::Figures;
use crate::load;
use crate::process::{children, descriptors, resident_bytes, threads, with_environment};
use crate::servers::Servers;
use crate::system::System;

/// Each session opens things that could leak: a terminal, a file, a detached process.
const SCRIPT: &str = "@term echo hi\n@fs-write a x\n@orphan 600\n@done";
const SLOTS: u32 = 2;
/// One fifth of the sessions is enough to fill caches.
const FIRST_OF: usize = 5;
/// Allowed memory growth without a leak, from fragmentation. KiB a session.
const FLAT_KIB: f64 = 4.0;

pub async fn sessions(servers: &Servers, n: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let mut system = System::fresh(servers, "sessions").await?;
    system.start_coordinator()?;
    let worker = system.start_worker("sessions", SLOTS)?;
    let bus = system.bus().await?;
    let db = system.pool(1).await?;
    let data = system.worker_data("sessions");
    let mut held = Vec::new();
    for (part, count) in [("some", n / FIRST_OF), ("all", n - n / FIRST_OF)] {
        let scripts = std::iter::repeat_n(SCRIPT, count);
        load::submit(&db, &bus, part, &load::scripted(scripts)).await?;
        system.until_done().await?;
        system.until_waiting(&bus, SLOTS).await?;
        // The next heartbeat settles the last reports.
        let settled = async || {
            let mut spool = std::fs::read_dir(data.join("spool"))?.flatten();
            Ok(!spool.any(|entry| entry.path().is_file()))
        };
        system.until("every report is settled", settled).await?;
        let dispatches: Vec<uuid::Uuid> = sqlx::query_scalar("select id from dispatches")
            .fetch_all(&db)
            .await?;
        anyhow::ensure!(
            dispatches.len() >= count,
            "{} of {count} sessions",
            dispatches.len()
        );
        held.push(WorkerResources::measure(
            worker.pid(),
            &data,
            dispatches.into_iter().map(DispatchId).collect(),
        )?);
    }
    worker.stop().await;
    db.close().await;
    system.stop_coordinator().await;
    if let [some, all] = &held[..] {
        growth(some, all, (n - n / FIRST_OF) as f64, figures);
    }
    Ok(())
}

fn growth(some: &WorkerResources, all: &WorkerResources, sessions: f64, figures: &mut Figures) {
    let kib = |bytes: f64| bytes / 1024.0 / sessions;
    let memory_kib = kib(all.resident) - kib(some.resident);
    for (what, unit, grown, most) in [
        (
            "growth in descriptors",
            "",
            all.descriptors - some.descriptors,
            0.0,
        ),
        ("growth in threads", "", all.threads - some.threads, 4.0),
        ("growth in files and folders", "", all.entries - some.entries, 0.0),
        ("processes that stay", "", all.processes, 0.0),
        ("control groups that stay", "", all.groups, 0.0),
        ("growth in memory a session", "KiB", memory_kib, FLAT_KIB),
    ] {
        figures.at_most(&format!("sessions, {what}"), unit, grown, most);
    }
}

struct WorkerResources {
    descriptors: f64,
    threads: f64,
    /// Entries of its data folder.
    entries: f64,
    /// Its children, and all processes with its data folder in their environment.
    processes: f64,
    groups: f64,
    /// Bytes.
    resident: f64,
}

impl WorkerResources {
    fn measure(worker: u32, data: &Path, dispatches: HashSet<DispatchId>) -> anyhow::Result<Self> {
        let mark = data.display().to_string();
        let remaining = children(worker)?.into_iter().chain(with_environment(&mark)?);
        let processes: HashSet<u32> = remaining.filter(|pid| *pid != worker).collect();
        let groups: HashSet<String> = dispatches
            .iter()
            .map(|dispatch| format!("ralph-{}", dispatch.0))
            .collect();
        Ok(Self {
            descriptors: descriptors(worker)? as f64,
            threads: threads(worker)? as f64,
            entries: entries(data)? as f64,
            processes: processes.len() as f64,
            groups: named(Path::new("/sys/fs/cgroup"), &groups) as f64,
            resident: resident_bytes(worker)? as f64,
        })
    }
}

/// Number of files and folders below a folder.
fn entries(folder: &Path) -> std::io::Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        count += 1;
        if entry.file_type()?.is_dir() {
            count += entries(&entry.path())?;
        }
    }
    Ok(count)
}

/// Number of readable folders with these names below a folder.
fn named(folder: &Path, names: &HashSet<String>) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders
        .map(|entry| {
            let found = entry
                .file_name()
                .to_str()
                .is_some_and(|name| names.contains(name));
            usize::from(found) + named(&entry.path(), names)
        })
        .sum()
}
