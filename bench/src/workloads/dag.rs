//! W3: a layered graph, from its submission until all of it is done in the database.

use anyhow::ensure;

use crate::figures::Figures;
use crate::load;
use crate::servers::Servers;
use crate::stub::now;
use crate::system::{Stub, System, kill};

const LAYERS: usize = 10;
const WIDTH: usize = 200;

/// Runs the graph once.
///
/// # Errors
/// When a server refuses, the graph is not done in time, or a task ran before its blockers were done.
pub async fn dag(servers: &Servers, figures: &mut Figures) -> anyhow::Result<()> {
    let mut system = System::fresh(servers, "w3").await?;
    system.start_coordinator()?;
    let stub = system.start_stub("w3", &Stub::default())?;
    let bus = system.bus().await?;
    let db = system.pool(1).await?;
    system.until_idle(&bus).await?;
    let text = load::layered(LAYERS, WIDTH);
    let began = now();
    load::submit(&db, &bus, "layered", &text).await?;
    let submitted = now();
    system.until_done().await?;
    let done = now();
    kill(stub).await;
    db.close().await;
    system.stop_coordinator().await;
    let too_early = load::ran_too_early(system.database()).await?;
    ensure!(
        too_early == 0,
        "{too_early} tasks ran before their blockers were done"
    );
    figures.add(
        "W3 layered graph of 2,000 tasks",
        "tasks/s",
        (LAYERS * WIDTH) as f64 / (done - began),
    );
    figures.add("W3 of it the submission", "ms", (submitted - began) * 1e3);
    Ok(())
}
