//! Usage of running sessions: late reports of it, and requests for a larger share.

use std::collections::BTreeMap;

use ralph_shared::ids::RunId;
use ralph_shared::wire::{DispatchUsage, Granted, Share};
use sqlx::PgPool;
use uuid::Uuid;

use crate::domain::budget::levels::SessionScope;
use crate::domain::run::Spent;
use crate::flow::Settings;
use crate::store;
use crate::store::budget::Tasks;

/// Adds the part of the usage of ended dispatches that their runs do not count yet.
pub(in crate::flow) async fn record_late(
    db: &PgPool,
    worker: &str,
    late: &[&DispatchUsage],
) -> sqlx::Result<()> {
    let mut tx = db.begin().await?;
    let ids: Vec<Uuid> = late.iter().map(|one| one.dispatch.0).collect();
    let over = store::dispatch::usage::lock_over(&mut tx, worker, &ids).await?;
    let mut spent: BTreeMap<RunId, Spent> = BTreeMap::new();
    for dispatch in store::dispatch::read(&mut tx, &over).await? {
        let reports = late.iter().filter(|one| one.dispatch == dispatch.id);
        let used = reports
            .fold(dispatch.used, |used, one| used.max(one.usage))
            .settled();
        if used != dispatch.used {
            spent.entry(dispatch.run).or_default().more(&dispatch.used, &used);
            store::dispatch::usage::set(&mut tx, dispatch.id, &used).await?;
        }
    }
    store::run::spend(&mut tx, spent.iter()).await?;
    tx.commit().await
}

/// Enlarges the shares of live sessions that ask for it, as far as their runs' limits allow. Claims grant
/// shares under the same lock, so nothing is granted twice. Repeats earlier grants, whose answer may have
/// been lost.
pub(in crate::flow) async fn enlarge(
    db: &PgPool,
    settings: &Settings,
    worker: &str,
    asking: &[Uuid],
) -> sqlx::Result<Vec<Granted>> {
    let mut tx = store::begin_claims(db).await?;
    let (sharing, mut purses) = store::dispatch::usage::sharing(&mut tx, worker, asking).await?;
    let mut levels = store::budget::read(&mut tx, &settings.levels, Tasks::Begun, false).await?;
    let mut granted = Vec::with_capacity(sharing.len());
    for one in sharing {
        let Some(purse) = purses.get_mut(&one.run) else {
            continue;
        };
        let place = SessionScope {
            task: one.task,
            feature: one.feature,
            account: one.account.as_deref(),
        };
        let left = levels.shared(*purse, &place).least(levels.own(&place, one.share));
        let share = left.enlarged(one.share, one.used, settings.first_share);
        if share != one.share {
            let more = |now: Option<u64>, before: Option<u64>, used: u64| {
                Some(now?.saturating_sub(before?.max(used)))
            };
            let more = Share {
                microusd: more(share.microusd, one.share.microusd, one.used.0),
                tokens: more(share.tokens, one.share.tokens, one.used.1),
            };
            purse.give(more);
            levels.give(more, &place);
            store::dispatch::usage::give(&mut tx, one.id, share).await?;
        }
        granted.push(Granted {
            dispatch: one.id,
            share,
        });
    }
    tx.commit().await?;
    Ok(granted)
}
