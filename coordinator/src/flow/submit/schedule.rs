//! Fires due schedules. Each fires in the transaction that makes the run or the copy, so exactly once, even
//! if a coordinator dies.

use ralph_shared::ids::{FeatureId, RunId};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::copy;
use crate::domain::scheduling::schedule::{self, Timetable};
use crate::flow::guard::{guarded, is_away};
use crate::flow::{Signals, submit};
use crate::store;
use crate::store::feature::schedule::Due;

/// Most schedules per round.
const MOST: i64 = 100;

/// Fires due schedules. A failing schedule does not block the others. Returns the number of firings.
pub async fn tick(db: &PgPool) -> sqlx::Result<(usize, Signals)> {
    let mut signals = Signals::default();
    let mut fired = 0;
    let due = store::feature::schedule::due(&mut *db.acquire().await?, MOST).await?;
    for id in due {
        match guarded(store::retry_serialization(|| fire(db, id))).await {
            Ok(Some(more)) => {
                fired += 1;
                signals.merge(more);
            }
            Ok(None) => {}
            // Earlier firings are still announced.
            Err(error) if is_away(&error) && fired > 0 => break,
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => {
                tracing::error!(%error, schedule = %id, "a schedule can't fire; the others continue")
            }
        }
    }
    Ok((fired, signals))
}

async fn fire(db: &PgPool, id: Uuid) -> sqlx::Result<Option<Signals>> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let Some(due) = store::feature::schedule::lock_due(&mut tx, id).await? else {
        return Ok(None);
    };
    let timetable = due.cron.as_deref().map(|cron| Timetable::parse(cron, &due.zone));
    let timetable = match timetable.transpose() {
        Ok(timetable) => timetable,
        Err(why) => {
            // Another release accepted the expression.
            store::feature::schedule::fired(&mut tx, id, None, &Err(why)).await?;
            tx.commit().await?;
            return Ok(None);
        }
    };
    let decided = schedule::decide(due.now, due.due, timetable.as_ref(), due.missed);
    let made = match decided.fires {
        true => make(&mut tx, &due, &mut signals).await?,
        false => Err(format!("no coordinator was running at {}", due.due)),
    };
    if let Ok(feature) = made {
        let verb = if due.cron.is_some() { "submit" } else { "run" };
        let object = store::changes::object(&mut tx, feature.0)
            .await?
            .unwrap_or_default();
        store::changes::note(&mut tx, "schedule", verb, &object, None).await?;
    }
    if let Err(why) = &made {
        tracing::warn!(schedule = %id, feature = %due.feature, why, "a schedule made nothing");
    }
    store::feature::schedule::fired(&mut tx, id, decided.next, &made).await?;
    tx.commit().await?;
    Ok(made.is_ok().then_some(signals))
}

/// Makes the copy, or starts the run of a one-time schedule. The inner error says why it cannot.
async fn make(
    conn: &mut PgConnection,
    due: &Due,
    signals: &mut Signals,
) -> sqlx::Result<Result<FeatureId, String>> {
    if due.cron.is_some() {
        let zone = match schedule::zone_of(&due.zone) {
            Ok(zone) => zone,
            Err(why) => return Ok(Err(why)),
        };
        return copy::copy(conn, due.feature, due.now, &zone, signals).await;
    }
    let settings = copy::settings(conn, due.feature).await?;
    let started = submit::start(conn, due.feature, RunId::new(), &settings, signals).await?;
    Ok(match started {
        Some(_) => Ok(due.feature),
        None => Err("the feature can't begin a run in its present state".to_owned()),
    })
}
