//! Switches off memories that make results worse (SPEC 6.7). The inbox tells a person, who can switch them on
//! again.

use sqlx::PgPool;

use crate::domain::recall::{is_harmful, pooled_lift};
use crate::store;

/// Checks every memory. Returns the number of memories that it switched off.
pub async fn switch(db: &PgPool) -> sqlx::Result<usize> {
    let mut conn = db.acquire().await?;
    let strata = store::memory::worth::strata(&mut conn, None).await?;
    let mut switched = 0;
    for (repo, strata) in strata {
        let Some(lift) = pooled_lift(&strata).filter(|_| is_harmful(&strata)) else {
            continue;
        };
        let points = |share: f64| format!("{:+.0}", share * 100.0);
        let reason = format!(
            "attempts with memory land less often than those without: {} points, 95% between {} and {}",
            points(lift.difference),
            points(lift.low),
            points(lift.high)
        );
        if store::memory::worth::switch_off(&mut conn, &repo, &reason).await? {
            tracing::warn!(%repo, %reason, "a memory is switched off; prompts show only facts of the system");
            switched += 1;
        }
    }
    Ok(switched)
}
