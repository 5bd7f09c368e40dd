//! Faults of the servers of a world.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ralph_coordinator::embedded::{Nats, Phase};
use tokio::sync::watch;

use super::world::World;

/// Time limit for a killed server to come back.
const BACK: Duration = Duration::from_secs(30);

impl World {
    /// Kills the broker with SIGKILL and waits for its restart; with `wiped`, the broker loses all its data.
    pub async fn kill_nats(&self, wiped: bool) -> anyhow::Result<()> {
        let nats = self.nats.as_ref().context("NATS is stopped")?;
        let phases = nats.phases();
        let store = Nats::store(self.data());
        let gone = store.with_extension("gone");
        // Moved before the kill, so that the restarted broker can't find it. There is no store before the
        // first write.
        let had_any = wiped && store.exists();
        if had_any {
            std::fs::rename(&store, &gone)?;
        }
        kill_and_wait(phases).await?;
        if had_any {
            std::fs::remove_dir_all(&gone)?;
        }
        Ok(())
    }

    /// Kills the first process of the database with SIGKILL and waits until it responds again.
    pub async fn kill_postgres(&self) -> anyhow::Result<()> {
        let postgres = self.postgres.as_ref().context("Postgres is stopped")?;
        kill_and_wait(postgres.phases()).await?;
        let until = tokio::time::Instant::now() + BACK;
        while let Err(error) = sqlx::query("select 1").execute(&self.db).await {
            ensure!(
                tokio::time::Instant::now() < until,
                "Postgres did not come back: {error}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

async fn kill_and_wait(mut phases: watch::Receiver<Phase>) -> anyhow::Result<()> {
    let running = |phase: &Phase| match *phase {
        Phase::Running { pid, starts } => Some((pid, starts)),
        _ => None,
    };
    let (pid, starts) = running(&phases.borrow_and_update()).context("the server doesn't run")?;
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL)?;
    let again = phases.wait_for(|phase| running(phase).is_some_and(|(_, n)| n > starts));
    tokio::time::timeout(BACK, again)
        .await
        .context("the server was not started again")??;
    Ok(())
}
