//! Landings with a slow gate: time from the last attempt's pass to the last landing, as a multiple of the
//! gate's duration. And landings without a gate: time of each.

use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::train::Landing;

use super::workspace::Origin;
use crate::figures::{Figures, Target};
use crate::load;
use crate::servers::Servers;
use crate::system::System;

const TASKS: usize = 16;
/// Tasks without a gate.
const MANY: usize = 200;
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

/// Measures all cases, with a gate of `gate_s` seconds; with 0, only landings without a gate.
///
/// # Errors
/// When a server refuses, or an attempt doesn't land.
pub async fn landing(servers: &Servers, gate_s: u32, figures: &mut Figures) -> anyhow::Result<()> {
    let cases = if gate_s == 0 { &[][..] } else { &CASES[..] };
    for (number, case) in cases.iter().enumerate() {
        let scripts = (0..TASKS).map(|n| match case.has_bad && n == BAD {
            true => "@write bad.txt bad\n@done".to_owned(),
            false => write_file(n),
        });
        let run = RunSettings {
            gate: vec![format!("sleep {gate_s}; test ! -f bad.txt")],
            gate_may_fail: true,
            landing: case.landing,
            ..RunSettings::default()
        };
        let good = TASKS - usize::from(case.has_bad);
        let name = format!("landing-{number}");
        let times = land(servers, &name, case.slots, scripts.collect(), run, good).await?;
        figures.add(case.name, "gates", times.tail_s / f64::from(gate_s));
        figures.target(case.name, Target::AtMost(case.most));
    }
    let scripts = (0..MANY).map(write_file).collect();
    let times = land(servers, "landing-many", 1, scripts, RunSettings::default(), MANY).await?;
    figures.at_most("200 landings without a gate, each", "ms", times.median_ms, 60.0);
    figures.add(
        "200 landings without a gate, the worker's part of each",
        "ms",
        times.own_ms,
    );
    Ok(())
}

fn write_file(n: usize) -> String {
    format!("@write {n}.txt {n}\n@done")
}

struct Times {
    /// From the last attempt's pass to the last landing. Seconds.
    tail_s: f64,
    /// From the claim of a landing to its settled report, in the median.
    median_ms: f64,
    /// The worker's part of it.
    own_ms: f64,
}

/// Runs one task a script until `good` of them have landed.
async fn land(
    servers: &Servers,
    name: &str,
    slots: u32,
    scripts: Vec<String>,
    run: RunSettings,
    good: usize,
) -> anyhow::Result<Times> {
    let dir = tempfile::Builder::new()
        .prefix("ralph-bench-landing-")
        .tempdir()?;
    let origin = Origin::with_files(&dir.path().join("small"), 20)?;
    let mut system = System::fresh(servers, &name.replace('-', "_")).await?;
    system.start_coordinator()?;
    let _ = std::fs::remove_dir_all(system.worker_data(name));
    let worker = system.start_worker(name, slots)?;
    let bus = system.bus().await?;
    let db = system.pool(1).await?;
    system.until_waiting(&bus, slots).await?;
    let graph = load::scripted(scripts.iter().map(String::as_str));
    let address = origin.path.display().to_string();
    let repo = Some((address.as_str(), origin.base.as_str()));
    load::submit_as(&db, &bus, "landing", &graph, repo, run, 0).await?;
    let good = i64::try_from(good)?;
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
    let (tail_s, median_ms, own_ms): (f64, f64, f64) = sqlx::query_as(
        "select extract(epoch from max(settled_at) filter (where kind = 'integrate' and outcome = 'merged')
                             - max(settled_at) filter (where kind = 'work'))::float8,
                percentile_cont(0.5) within group (order by extract(epoch from settled_at - claimed_at)::float8 * 1000)
                  filter (where kind = 'integrate' and outcome = 'merged'),
                percentile_cont(0.5) within group (order by duration_ms::float8)
                  filter (where kind = 'integrate' and outcome = 'merged')
         from dispatches",
    )
    .fetch_one(&db)
    .await?;
    worker.stop().await;
    db.close().await;
    system.stop_coordinator().await;
    Ok(Times {
        tail_s,
        median_ms,
        own_ms,
    })
}
