//! W2: time until work starts on an idle system, after its submission and after the report that frees it.

use std::time::Duration;

use anyhow::bail;

use crate::figures::{Figures, percentile};
use crate::load;
use crate::servers::Servers;
use crate::stub::{Event, Mark, now, read_log};
use crate::system::{Stub, System, kill};

/// Pause between submissions, so that each finds an idle system.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause after a start.
const SETTLED: Duration = Duration::from_secs(2);
/// Times of the best comparable system on the machine of the targets. Milliseconds.
const BEST: (f64, f64) = (4.0, 11.3);

/// Measures `n` samples of each. "Starts" is the assignment's arrival at the worker.
pub async fn latency(servers: &Servers, n: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let mut system = System::fresh(servers, "w2").await?;
    let log = servers.dir().join("w2.events");
    let _ = std::fs::remove_file(&log);
    system.start_coordinator()?;
    let stub = Stub {
        log: Some(log.clone()),
        ..Stub::default()
    };
    let stub = system.start_stub("w2", &stub)?;
    let bus = system.bus().await?;
    let db = system.pool(1).await?;
    system.until_idle(&bus).await?;
    // By then the work after a start is over; harnesses for several systems wait too.
    tokio::time::sleep(SETTLED).await;
    for number in 0..n {
        let at = now();
        load::submit(&db, &bus, &format!("single-{number}"), &load::single(number, at)).await?;
        tokio::time::sleep(PAUSE).await;
    }
    system.until_done().await?;
    let submitted: Vec<f64> = read_log(&log)
        .iter()
        .filter(|event| event.mark == Mark::Started)
        .filter_map(|event| Some((event.at - event.submitted?) * 1e3))
        .collect();
    system.until_idle(&bus).await?;
    let _ = std::fs::remove_file(&log);
    kill(stub).await;

    let chained = Stub {
        log: Some(log.clone()),
        work_ms: PAUSE.as_millis() as u64,
    };
    let stub = system.start_stub("w2", &chained)?;
    system.until_idle(&bus).await?;
    load::submit(&db, &bus, "chain", &load::chain(n + 1)).await?;
    system.until_done().await?;
    kill(stub).await;
    db.close().await;
    system.stop_coordinator().await;
    for (name, values) in [("submit", submitted), ("report", freed(&read_log(&log)))] {
        if values.len() != n {
            bail!("{} of {n} tasks started after their {name}", values.len());
        }
        let names = [50, 99].map(|percent| format!("W2 {name} to assignment, p{percent}"));
        figures.at_most(&names[0], "ms", percentile(&values, 50), BEST.0);
        figures.at_most(&names[1], "ms", percentile(&values, 99), BEST.1);
    }
    Ok(())
}

/// Time from the end of each task of a chain to the start of the next one. Milliseconds.
fn freed(events: &[Event]) -> Vec<f64> {
    let started = events.iter().filter(|event| event.mark == Mark::Started);
    let since = started.filter_map(|started| {
        let ended = |event: &&Event| event.mark == Mark::Ended && event.task + 1 == started.task;
        Some((started.at - events.iter().find(ended)?.at) * 1e3)
    });
    since.collect()
}
