//! Delivers notices that a run ended or a person is needed: to an address, a command, or both (SPEC 9.3).
//!
//! The transactions that make a notice true fill the outbox. A failed delivery is retried with growing pauses
//! and does not block the other receiver. A delivery whose success was not recorded comes twice, with the
//! same id.

mod deliver;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Deps;
use crate::store;
use crate::store::notice::Notice;

/// Pause between two rounds.
const ROUND: Duration = Duration::from_secs(2);
/// Notices of one round.
const MOST: i64 = 4;
/// Longest round, after which another coordinator may take its notices. Seconds.
const LEASE_S: f64 = 240.0;
/// Older notices are of no use. Seconds.
const MAX_AGE_S: f64 = 86_400.0;
/// First pause after a failed delivery, doubled by each. Seconds.
const FIRST_PAUSE_S: f64 = 5.0;
/// Longest pause. Seconds.
const LONGEST_PAUSE_S: f64 = 3_600.0;
/// Most tries, over about six hours.
const MOST_TRIES: i32 = 15;

pub async fn run(deps: &Deps, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let Some(notify) = &deps.settings.notify else {
        shutdown.cancelled().await;
        return Ok(());
    };
    let deliverer = deliver::Deliverer::new(notify.clone())?;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(ROUND) => {}
        }
        let mut conn = deps.db.acquire().await?;
        let taken = store::notice::take(&mut conn, MOST, MAX_AGE_S, LEASE_S).await?;
        drop(conn);
        for notice in taken {
            if notify.wants(notice.event) {
                deliver_one(deps, &deliverer, &notice).await?;
            } else {
                store::notice::close(&mut *deps.db.acquire().await?, notice.id, None).await?;
            }
        }
    }
}

async fn deliver_one(deps: &Deps, deliverer: &deliver::Deliverer, notice: &Notice) -> anyhow::Result<()> {
    let body = serde_json::to_vec(&deliver::message(notice))?;
    let (mut posted, mut commanded) = (Ok(()), Ok(()));
    if !notice.posted {
        posted = deliverer.post(notice, &body).await;
        if posted.is_ok() && deliverer.has_command() {
            store::notice::posted(&mut *deps.db.acquire().await?, notice.id).await?;
        }
    }
    if !notice.commanded {
        commanded = deliverer.command(notice, &body).await;
        if commanded.is_ok() && posted.is_err() && deliverer.has_command() {
            store::notice::commanded(&mut *deps.db.acquire().await?, notice.id).await?;
        }
    }
    let result = match (posted, commanded) {
        (Err(one), Err(other)) => Err(anyhow::anyhow!("{one:#}; {other:#}")),
        (posted, commanded) => posted.and(commanded),
    };
    let mut conn = deps.db.acquire().await?;
    match result {
        Ok(()) => store::notice::close(&mut conn, notice.id, None).await?,
        Err(error) if notice.tries + 1 >= MOST_TRIES => {
            tracing::error!(error = format!("{error:#}"), notice = %notice.id, "notice is given up");
            store::notice::close(&mut conn, notice.id, Some(&format!("{error:#}"))).await?;
        }
        Err(error) => {
            let pause_s = pause_s(notice.tries);
            tracing::warn!(error = format!("{error:#}"), notice = %notice.id, pause_s, "notice could not be delivered");
            store::notice::again(&mut conn, notice.id, pause_s, &format!("{error:#}")).await?;
        }
    }
    Ok(())
}

/// The pause after this number of failures. Seconds.
fn pause_s(tries: i32) -> f64 {
    (FIRST_PAUSE_S * 2_f64.powi(tries.max(0))).min(LONGEST_PAUSE_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_add_up_to_hours() {
        assert_eq!([0, 1, 2].map(pause_s), [5.0, 10.0, 20.0]);
        assert_eq!(pause_s(100), LONGEST_PAUSE_S);
        let hours = (0..MOST_TRIES - 1).map(pause_s).sum::<f64>() / 3_600.0;
        assert!((4.0..8.0).contains(&hours), "{hours}");
    }
}
