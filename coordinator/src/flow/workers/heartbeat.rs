//! Heartbeats renew leases. Their answers list settled dispatches and dispatches to end.

use std::collections::HashMap;

use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{
    DispatchUsage, End, EndReason, Granted, Heartbeat, HeartbeatAnswer, Settled, Settlement,
};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::domain::budget::bounded;
use crate::faults;
use crate::flow::{
    Settings,
    workers::{question, usage},
};
use crate::store;
use crate::store::dispatch::DispatchState;
use crate::store::dispatch::lease::LeaseStatus;

/// Most messages for sessions in one answer; the next answer has the rest.
const WORDS: i64 = 10;

/// Answers a heartbeat after the renewals were committed. The commit notes when the worker was seen, so it
/// waits for the disk and for all earlier commits. So everything that the answer says is durable.
pub async fn heartbeat(db: &PgPool, settings: &Settings, beat: &Heartbeat) -> sqlx::Result<HeartbeatAnswer> {
    let running: Vec<Uuid> = beat.running.iter().map(|d| d.0).collect();
    let mut all = running.clone();
    all.extend(beat.spooled.iter().map(|d| d.0));
    let used: Vec<DispatchUsage> = beat
        .used
        .iter()
        .map(|one| DispatchUsage {
            usage: bounded(one.usage),
            ..one.clone()
        })
        .collect();
    let mut tx = db.begin().await?;
    let Some(drain) = store::worker::seen(&mut tx, beat).await? else {
        return Ok(HeartbeatAnswer::SayHello);
    };
    let archived = note(&mut tx, beat).await?;
    if all.is_empty() {
        tx.commit().await?;
        return Ok(HeartbeatAnswer::Renewed {
            settled: Vec::new(),
            end: Vec::new(),
            drain,
            shares: Vec::new(),
            archived,
            words: Vec::new(),
        });
    }
    let holder = (beat.worker.as_str(), beat.incarnation);
    store::dispatch::lease::renew(&mut tx, holder, &all, settings.lease_ms()).await?;
    if !beat.used.is_empty() {
        store::dispatch::usage::tell(&mut tx, &beat.worker, &used).await?;
    }
    let words = match running[..] {
        [] => Vec::new(),
        _ => store::question::unheard(&mut tx, &running, WORDS).await?,
    };
    let standings = store::dispatch::lease::status(&mut tx, &all).await?;
    faults::point("heartbeat.before_commit");
    tx.commit().await?;
    faults::point("heartbeat.after_commit");
    record_late(db, beat, &used, &standings).await?;
    let shares = shares(db, settings, beat, &used).await?;
    let (settled, end) = reply(beat, &standings);
    Ok(HeartbeatAnswer::Renewed {
        settled,
        end,
        drain,
        shares,
        archived,
        words: words
            .into_iter()
            .map(|words| question::words_for_agent(&settings.templates, words))
            .collect(),
    })
}

/// Records the other parts of a heartbeat. Returns the worker's transcripts that are stored.
async fn note(conn: &mut PgConnection, beat: &Heartbeat) -> sqlx::Result<Vec<DispatchId>> {
    if !beat.answered.is_empty() {
        store::availability::answered(conn, &beat.answered).await?;
    }
    if !beat.heard.is_empty() {
        store::question::heard(conn, &beat.worker, &beat.heard).await?;
    }
    match beat.transcripts[..] {
        [] => Ok(Vec::new()),
        _ => store::dispatch::transcript::cared_for(conn, &beat.transcripts).await,
    }
}

async fn record_late(
    db: &PgPool,
    beat: &Heartbeat,
    used: &[DispatchUsage],
    standings: &[LeaseStatus],
) -> sqlx::Result<()> {
    let over = |one: &&DispatchUsage| {
        standings
            .iter()
            .any(|s| s.id == one.dispatch && s.state != DispatchState::Live)
    };
    let late: Vec<&DispatchUsage> = used.iter().filter(over).collect();
    match late[..] {
        [] => Ok(()),
        _ => usage::record_late(db, &beat.worker, &late).await,
    }
}

/// Larger shares for the sessions that ask for more.
async fn shares(
    db: &PgPool,
    settings: &Settings,
    beat: &Heartbeat,
    used: &[DispatchUsage],
) -> sqlx::Result<Vec<Granted>> {
    let asking = used.iter().filter(|one| one.asks);
    let asking: Vec<Uuid> = asking.map(|one| one.dispatch.0).collect();
    match asking[..] {
        [] => Ok(Vec::new()),
        _ => usage::enlarge(db, settings, &beat.worker, &asking).await,
    }
}

/// The reply for the dispatches that a worker named.
fn reply(beat: &Heartbeat, standings: &[LeaseStatus]) -> (Vec<Settled>, Vec<End>) {
    let known: HashMap<DispatchId, &LeaseStatus> = standings.iter().map(|s| (s.id, s)).collect();
    let settled = beat
        .spooled
        .iter()
        .filter_map(|&dispatch| {
            let settlement = match known.get(&dispatch).map(|s| (s.state, s.reported)) {
                None => Settlement::UnknownDispatch,
                Some((DispatchState::Settled, _)) => Settlement::Applied,
                Some((DispatchState::Superseded, true)) => Settlement::Superseded,
                // A person took its task, but its usage is still to come.
                Some((DispatchState::Superseded, false)) => return None,
                Some((DispatchState::Live | DispatchState::Lost, _)) => return None,
            };
            Some(Settled {
                dispatch,
                settlement,
                pushed: false,
            })
        })
        .collect();
    let end = beat
        .running
        .iter()
        .filter_map(|&dispatch| {
            let reason = match known.get(&dispatch) {
                None => EndReason::Fenced,
                Some(standing) if !standing.is_current => EndReason::Fenced,
                Some(LeaseStatus {
                    state: DispatchState::Superseded | DispatchState::Settled,
                    ..
                }) => EndReason::Fenced,
                Some(standing) => standing.end_reason?,
            };
            Some(End { dispatch, reason })
        })
        .collect();
    (settled, end)
}

#[cfg(test)]
mod tests {
    use ralph_shared::ids::Incarnation;
    use ralph_shared::wire::READS;

    use super::*;

    fn check(
        state: Option<(DispatchState, bool, bool, Option<EndReason>)>,
        settled: Option<Settlement>,
        end: Option<EndReason>,
    ) {
        let id = DispatchId::new();
        let beat = |running: Vec<_>, spooled: Vec<_>| Heartbeat {
            reads: READS.to_vec(),
            worker: "w".into(),
            incarnation: Incarnation::new(),
            running,
            spooled,
            free_slots: 0,
            draining: false,
            doors: Vec::new(),
            answered: Vec::new(),
            used: Vec::new(),
            transcripts: Vec::new(),
            heard: Vec::new(),
            warm_bytes: None,
        };
        let standings: Vec<_> = state
            .map(|(state, reported, is_current, reason)| LeaseStatus {
                id,
                state,
                reported,
                is_current,
                end_reason: reason,
            })
            .into_iter()
            .collect();
        let settlements = reply(&beat(vec![], vec![id]), &standings).0;
        assert_eq!(
            settlements.first().map(|s| s.settlement),
            settled,
            "spooled {state:?}"
        );
        let ends = reply(&beat(vec![id], vec![]), &standings).1;
        assert_eq!(ends.first().map(|e| e.reason), end, "running {state:?}");
    }

    #[test]
    fn table() {
        use DispatchState::*;
        check(None, Some(Settlement::UnknownDispatch), Some(EndReason::Fenced));
        check(Some((Live, false, true, None)), None, None);
        check(
            Some((Live, false, true, Some(EndReason::Interrupted))),
            None,
            Some(EndReason::Interrupted),
        );
        check(
            Some((Live, false, true, Some(EndReason::RunLimit))),
            None,
            Some(EndReason::RunLimit),
        );
        check(Some((Lost, false, true, None)), None, None);
        check(Some((Lost, false, false, None)), None, Some(EndReason::Fenced));
        check(
            Some((Settled, true, true, None)),
            Some(Settlement::Applied),
            Some(EndReason::Fenced),
        );
        check(
            Some((Superseded, true, false, None)),
            Some(Settlement::Superseded),
            Some(EndReason::Fenced),
        );
        check(
            Some((Superseded, false, false, None)),
            None,
            Some(EndReason::Fenced),
        );
    }
}
