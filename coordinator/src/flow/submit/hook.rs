//! A webhook makes a copy of a feature: exactly once for each delivery, even if a coordinator dies.

use jiff::tz::TimeZone;
use ralph_shared::ids::FeatureId;
use sqlx::PgPool;

use super::copy;
use crate::flow::Signals;
use crate::store;
use crate::store::feature::hook::Delivery;

/// Result of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fired {
    Made(FeatureId),
    /// The delivery came before, and made this feature.
    Again(Option<FeatureId>),
    /// It cannot make a copy at present; the delivery may come again.
    Refused(String),
    NoHook,
}

/// Makes the copy for a delivery, unless it came before.
///
/// # Errors
/// When the database fails; then nothing was made.
pub async fn fire(db: &PgPool, hook: &str, delivery: &str) -> sqlx::Result<(Fired, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let (original, now) = match store::feature::hook::deliver(&mut tx, hook, delivery).await? {
        Delivery::First(original, now) => (original, now),
        Delivery::Again(made) => return Ok((Fired::Again(made), signals)),
        Delivery::NoHook => return Ok((Fired::NoHook, signals)),
    };
    let made = copy::copy(&mut tx, original, now, &TimeZone::UTC, &mut signals).await?;
    store::feature::hook::fired(&mut tx, hook, delivery, &made).await?;
    if let Ok(feature) = made {
        let object = store::changes::object(&mut tx, feature.0)
            .await?
            .unwrap_or_default();
        store::changes::note(&mut tx, &format!("hook {hook}"), "submit", &object, None).await?;
    }
    if let Err(why) = &made {
        tracing::warn!(hook, why, "a hook made nothing");
    }
    tx.commit().await?;
    let fired = match made {
        Ok(made) => Fired::Made(made),
        Err(why) => Fired::Refused(why),
    };
    Ok((fired, signals))
}
