//! A worker's incarnation takes its name, and the leases of its earlier ones end.

use ralph_shared::subjects::is_label;
use ralph_shared::wire::{Hello, HelloAnswer, common_version};
use sqlx::PgPool;
use uuid::Uuid;

use crate::faults;
use crate::flow::Settings;
use crate::store;

/// Most pools of a worker: each needs a consumer at the broker, and a place in the worker's row.
const MOST_POOLS: usize = 100;

/// Answers a hello. Refuses a name to another data folder while its holder renews.
pub async fn hello(db: &PgPool, settings: &Settings, hello: &Hello) -> sqlx::Result<HelloAnswer> {
    let refused = |reason, retry_after_ms| {
        Ok(HelloAnswer::Refused {
            reason,
            retry_after_ms,
        })
    };
    if let Some(reason) = unusable(hello) {
        return refused(reason, None);
    }
    let Some(v) = common_version(&hello.reads) else {
        let reason = format!(
            "this coordinator speaks none of the message versions {:?}",
            hello.reads
        );
        return refused(reason, None);
    };
    let lease_ms = settings.lease_ms();
    let mut tx = db.begin().await?;
    if let Some(holder) = store::worker::holder(&mut tx, &hello.worker, lease_ms).await?
        && holder.incarnation != hello.incarnation
        && holder.data_id != hello.data_id
        && holder.alive
    {
        let reason = format!(
            "another worker named `{}` is at work from another data folder; give this one its own --name",
            hello.worker
        );
        return refused(reason, Some(settings.lease.as_millis() as u64));
    }
    store::worker::take_name(&mut tx, hello).await?;
    let spooled: Vec<Uuid> = hello.spooled.iter().map(|d| d.0).collect();
    let ended = store::dispatch::lease::end_leases_of_earlier_incarnations(
        &mut tx,
        &hello.worker,
        hello.incarnation,
        &spooled,
    )
    .await?;
    let owner = (hello.worker.as_str(), hello.incarnation);
    store::dispatch::lease::renew(&mut tx, owner, &spooled, lease_ms).await?;
    faults::point("hello.before_commit");
    tx.commit().await?;
    faults::point("hello.after_commit");
    tracing::info!(
        worker = hello.worker,
        ended,
        spooled = spooled.len(),
        "worker said hello"
    );
    Ok(HelloAnswer::Welcome {
        v,
        heartbeat_ms: settings.heartbeat.as_millis() as u64,
        lease_ms: settings.lease.as_millis() as u64,
        dark_limit_ms: settings.dark_limit.as_millis() as u64,
    })
}

fn unusable(hello: &Hello) -> Option<String> {
    if !is_label(&hello.worker) {
        return Some(format!(
            "`{}` can't name a worker: use 1 to 40 of a-z, 0-9 and `-`",
            hello.worker
        ));
    }
    if let Some(pool) = hello.pools.iter().find(|pool| !is_label(pool)) {
        return Some(format!(
            "`{pool}` can't name a pool: use 1 to 40 of a-z, 0-9 and `-`"
        ));
    }
    if hello.pools.len() > MOST_POOLS {
        return Some(format!(
            "a worker serves at most {MOST_POOLS} pools, not {}: start several workers, each with its own --pool",
            hello.pools.len()
        ));
    }
    if hello.pools.is_empty() || hello.slots == 0 {
        return Some("a worker needs at least one pool and one slot".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use ralph_shared::ids::Incarnation;
    use ralph_shared::wire::READS;

    use super::*;

    #[test]
    fn an_unusable_hello_is_refused() {
        let check = |pools: usize, name: &str, slots: u32, expected: Option<&str>| {
            let hello = Hello {
                reads: READS.to_vec(),
                worker: name.to_owned(),
                incarnation: Incarnation::new(),
                data_id: "d".to_owned(),
                pools: (0..pools).map(|n| format!("pool-{n}")).collect(),
                slots,
                agents: Vec::new(),
                accounts: Vec::new(),
                rules: Vec::new(),
                spooled: Vec::new(),
                version: String::new(),
                host: String::new(),
                pid: 0,
            };
            let refused = unusable(&hello);
            assert_eq!(refused.is_some(), expected.is_some(), "{refused:?}");
            assert!(refused.unwrap_or_default().contains(expected.unwrap_or_default()));
        };
        check(1, "w", 1, None);
        check(MOST_POOLS, "w", 1, None);
        check(MOST_POOLS + 1, "w", 1, Some("at most 100 pools, not 101"));
        check(0, "w", 1, Some("at least one pool"));
        check(1, "w", 0, Some("one slot"));
        check(1, "W", 1, Some("can't name a worker"));
    }
}
