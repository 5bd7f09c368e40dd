//! A worker's incarnation takes its name, and the leases of its earlier lives end (DESIGN 2, workers).

use ralph_shared::subjects::is_label;
use ralph_shared::wire::{Hello, HelloAnswer, common_version};
use sqlx::PgPool;
use uuid::Uuid;

use super::Settings;
use crate::faults;
use crate::store;

/// Answers a hello. A name is refused to another data folder while its holder is heard.
pub async fn hello(db: &PgPool, settings: &Settings, hello: &Hello) -> sqlx::Result<HelloAnswer> {
    if let Some(reason) = unusable(hello) {
        return Ok(HelloAnswer::Refused {
            reason,
            retry_after_ms: None,
        });
    }
    let Some(v) = common_version(&hello.reads) else {
        let reason = format!(
            "this coordinator speaks none of the message versions {:?}",
            hello.reads
        );
        return Ok(HelloAnswer::Refused {
            reason,
            retry_after_ms: None,
        });
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
        return Ok(HelloAnswer::Refused {
            reason,
            retry_after_ms: Some(settings.lease.as_millis() as u64),
        });
    }
    store::worker::take_name(&mut tx, hello).await?;
    let spooled: Vec<Uuid> = hello.spooled.iter().map(|d| d.0).collect();
    let ended =
        store::lease::end_leases_of_earlier_lives(&mut tx, &hello.worker, hello.incarnation, &spooled)
            .await?;
    let life = (hello.worker.as_str(), hello.incarnation);
    store::lease::renew(&mut tx, life, &spooled, lease_ms).await?;
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
    if hello.pools.is_empty() || hello.slots == 0 {
        return Some("a worker needs at least one pool and one slot".to_owned());
    }
    None
}
