//! Credits memory entries: agents name the entries that helped or misled them, and the end of their attempt
//! changes the weights of these entries alone (SPEC 6.7).

use std::collections::BTreeSet;

use ralph_shared::ids::DispatchId;
use ralph_shared::sigil::UsedEntries;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::domain::recall::{Circumstances, Ended, expected, factor};
use crate::store;

/// Attempts that one round settles.
const ATTEMPTS: i64 = 500;

/// Marks entries that an agent named by the short ids in its prompt. An entry that misled counts as such,
/// even if it also helped. Ignores ids of entries that the session was not shown, and marks after the attempt
/// was settled. Returns the number of marked entries.
pub async fn mark(conn: &mut PgConnection, dispatch: DispatchId, used: &UsedEntries) -> sqlx::Result<u64> {
    let digits = |ids: &[String]| -> Vec<String> {
        let digits = ids.iter().filter_map(|id| Some(id.split_once('-')?.1.to_owned()));
        digits.collect()
    };
    let mut marked = 0;
    for (ids, helped) in [(&used.helped, true), (&used.misled, false)] {
        if !ids.is_empty() {
            marked += store::memory::exposures::mark(conn, dispatch, &digits(ids), helped).await?;
        }
    }
    Ok(marked)
}

/// Settles ended attempts, and changes the weights of the entries that they used. Returns the number of
/// settled attempts.
pub async fn weigh(db: &PgPool) -> sqlx::Result<usize> {
    let mut tx = db.begin().await?;
    let (attempts, used) = store::memory::exposures::settle(&mut tx, ATTEMPTS).await?;
    if !used.is_empty() {
        let repos: BTreeSet<&str> = used.iter().map(|one| one.repo_id.as_str()).collect();
        let repos: Vec<String> = repos.into_iter().map(str::to_owned).collect();
        let history = store::memory::exposures::history(&mut tx, &repos).await?;
        // Several of these attempts may have used one entry: each changes its weight.
        for one in &used {
            let of_repo: Vec<(Circumstances, Ended)> = history
                .iter()
                .filter(|(repo, ..)| *repo == one.repo_id)
                .map(|(_, circumstances, ended)| (circumstances.clone(), *ended))
                .collect();
            let factor = factor(one.helped, one.landed, expected(&of_repo, &one.circumstances));
            let moved: [(Uuid, f64); 1] = [(one.entry, factor)];
            store::memory::exposures::multiply(&mut tx, &moved).await?;
        }
    }
    tx.commit().await?;
    Ok(attempts)
}
