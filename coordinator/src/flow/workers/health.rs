//! Drains workers on which everything fails, while others can do the work.

use sqlx::PgPool;

use crate::domain::failure::worker_health;
use crate::store;

/// Checks all workers that take work. Returns the workers to drain now.
pub async fn tick(db: &PgPool, lease_ms: i64) -> sqlx::Result<Vec<String>> {
    let mut conn = db.acquire().await?;
    let mut drained = Vec::new();
    for (worker, ended) in store::worker::ended(&mut conn).await? {
        let Some(tasks) = worker_health::fails(&ended.sessions) else {
            continue;
        };
        let why = worker_health::why(&tasks, &ended.last);
        if store::worker::drain_failing(&mut conn, &worker, &why, lease_ms).await? {
            tracing::warn!(worker, why, "everything fails on a worker; it is drained");
            drained.push(worker);
        }
    }
    Ok(drained)
}
