//! Landings with a slow gate: time from the last attempt's pass to the last landing, as a multiple of the
//! gate's duration.

use anyhow::ensure;
use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::train::Landing;

use super::workspace::Origin;
use crate::figures::{Figures, Target};
use crate::load;
use crate::servers::Servers;
use crate::system::System;

const TASKS: usize = 16;
/// Index of the task whose change the gate refuses.
const BAD: usize = 5;

struct Case {
    name: &'static str,
    landing: Landing,
    slots: u32,
    has_bad: bool,
    /// Target: the most gate durations.
    most: f64,
}

const CASES: [Case; 4] = [
    Case {
        name: "16 landings, 8 slots",
        landing: Landing::Each,
        slots: 8,
        has_bad: false,
        most: 3.0,
    },
    Case {
        name: "16 landings, 8 slots, one bad",
        landing: Landing::Each,
        slots: 8,
        has_bad: true,
        most: 5.0,
    },
    Case {
        name: "16 landings in batches, 1 slot",
        landing: Landing::Batch,
        slots: 1,
        has_bad: false,
        most: 3.0,
    },
    Case {
        name: "16 landings in batches, 1 slot, one bad",
        landing: Landing::Batch,
        slots: 1,
        has_bad: true,
        most: 6.0,
    },
];

/// Measures all cases, with a gate of `gate_s` seconds.
///
/// # Errors
/// When a server refuses, or an attempt doesn't land.
pub async fn landing(servers: &Servers, gate_s: u32, figures: &mut Figures) -> anyhow::Result<()> {
    for (number, case) in CASES.iter().enumerate() {
        let gates = measure(servers, number, case, gate_s).await?;
        figures.add(case.name, "gates", gates);
        figures.target(case.name, Target::AtMost(case.most));
    }
    super::turns::without_gate(servers, figures).await
}

async fn measure(servers: &Servers, number: usize, case: &Case, gate_s: u32) -> anyhow::Result<f64> {
    let dir = tempfile::Builder::new()
        .prefix("ralph-bench-landing-")
        .tempdir()?;
    let origin = Origin::with_files(&dir.path().join("small"), 20)?;
    let name = format!("landing_{number}");
    let mut system = System::fresh(servers, &name).await?;
    system.start_coordinator()?;
    let worker_name = format!("landing-{number}");
    let _ = std::fs::remove_dir_all(system.worker_data(&worker_name));
    let worker = system.start_worker(&worker_name, case.slots)?;
    let bus = system.bus().await?;
    let db = system.pool(1).await?;
    system.until_waiting(&bus, case.slots).await?;
    let scripts: Vec<String> = (0..TASKS)
        .map(|n| match case.has_bad && n == BAD {
            true => "@write bad.txt bad\n@done".to_owned(),
            false => format!("@write {n}.txt {n}\n@done"),
        })
        .collect();
    let graph = load::scripted(scripts.iter().map(String::as_str));
    let run = RunSettings {
        gate: vec![format!("sleep {gate_s}; test ! -f bad.txt")],
        gate_may_fail: true,
        landing: case.landing,
        ..RunSettings::default()
    };
    let address = origin.path.display().to_string();
    let repo = Some((address.as_str(), origin.base.as_str()));
    load::submit_as(&db, &bus, "landing", &graph, repo, run, 0).await?;
    let good = i64::try_from(TASKS - usize::from(case.has_bad))?;
    let all_landed = async || {
        let (landed, open): (i64, i64) = sqlx::query_as(
            "select count(*) filter (where state = 'merged'), count(*) filter (where state in ('waiting', 'turn', 'decided'))
             from integrations",
        )
        .fetch_one(&db)
        .await?;
        Ok(landed == good && open == 0)
    };
    system.until("all good attempts have landed", all_landed).await?;
    let (seconds, landed): (f64, i64) = sqlx::query_as(
        "select extract(epoch from max(i.ended_at) - (select max(settled_at) from dispatches where kind = 'work'))::float8, count(*)
         from integrations i
         where i.state = 'merged'",
    )
    .fetch_one(&db)
    .await?;
    worker.stop().await;
    db.close().await;
    system.stop_coordinator().await;
    ensure!(landed == good, "{landed} of {good} landed");
    Ok(seconds / f64::from(gate_s))
}
