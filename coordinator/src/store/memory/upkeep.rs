//! Entries that upkeep hides, and the size of the memory (SPEC 6.7).

pub use ralph_api::view::Fates;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::recall::Kind;
use crate::domain::recall::lifecycle::Because;

/// Takes the lock for hiding entries until the transaction ends. Returns whether it was free.
pub async fn try_lock(conn: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select pg_try_advisory_xact_lock(hashtextextended('memory-bounds', 0)) as "locked!""#
    )
    .fetch_one(conn)
    .await
}

/// Live entries that no attempt was shown for `days` since they became findable or were restored. Omits
/// entries of people, here or in the repository: people hide these themselves.
pub async fn unused(conn: &mut PgConnection, days: f64, most: i64) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"select id as "id!"
           from (
             (select id from learnings
              where released_at is not null and pruned_at is null and superseded_by is null and stale_since is null
                and origin not in ('manual', 'repository')
                and greatest(last_used_at, released_at) < now() - $1 * interval '1 day'
              limit $2)
             union all
             (select id from knowledge
              where released_at is not null and pruned_at is null and superseded_by is null and stale_since is null
                and origin not in ('manual', 'repository')
                and greatest(last_used_at, released_at) < now() - $1 * interval '1 day'
              limit $2)
           ) e
           limit $2"#,
        days,
        most,
    )
    .fetch_all(conn)
    .await
}

/// For each repository with more than `bound` entries, the surplus with the lowest weights, the longest
/// unused first; at most `most` in all.
pub async fn surplus(conn: &mut PgConnection, kind: Kind, bound: i64, most: i64) -> sqlx::Result<Vec<Uuid>> {
    let repositories = sqlx::query!(
        "select repo_id, entries from memory_stats where kind = $1 and entries > $2 order by entries desc",
        kind as Kind,
        bound,
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut surplus = Vec::new();
    for repository in repositories {
        let remaining = most - i64::try_from(surplus.len()).unwrap_or(most);
        if remaining <= 0 {
            break;
        }
        let above = (repository.entries - bound).min(remaining);
        surplus.extend(lightest(conn, kind, &repository.repo_id, above).await?);
    }
    Ok(surplus)
}

/// The `n` entries of agents with the lowest weights in a repository.
async fn lightest(conn: &mut PgConnection, kind: Kind, repo_id: &str, n: i64) -> sqlx::Result<Vec<Uuid>> {
    if kind == Kind::Knowledge {
        sqlx::query_scalar!(
            "select id from knowledge
             where repo_id = $1 and released_at is not null and pruned_at is null and superseded_by is null
               and stale_since is null and origin not in ('manual', 'repository')
             order by weight, coalesce(last_used_at, released_at), id
             limit $2",
            repo_id,
            n,
        )
        .fetch_all(conn)
        .await
    } else {
        sqlx::query_scalar!(
            "select id from learnings
             where repo_id = $1 and released_at is not null and pruned_at is null and superseded_by is null
               and stale_since is null and origin not in ('manual', 'repository')
             order by weight, coalesce(last_used_at, released_at), id
             limit $2",
            repo_id,
            n,
        )
        .fetch_all(conn)
        .await
    }
}

/// Entries whose files have been missing for `days`.
pub async fn long_stale(conn: &mut PgConnection, days: f64, most: i64) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"select id as "id!"
           from (
             (select id from learnings
              where stale_since < now() - $1 * interval '1 day' and pruned_at is null limit $2)
             union all
             (select id from knowledge
              where stale_since < now() - $1 * interval '1 day' and pruned_at is null limit $2)
           ) e
           limit $2"#,
        days,
        most,
    )
    .fetch_all(conn)
    .await
}

/// Hides the `ids` for which the reason still holds: stale, or live and not shown, for `days`. Returns them.
/// The caller holds their memories ([`super::library::lock`]).
pub async fn prune(
    conn: &mut PgConnection,
    ids: &[Uuid],
    because: Because,
    days: f64,
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"with learned as (
             update learnings set pruned_at = now(), pruned_because = $2
             where id = any($1) and pruned_at is null
               and case
                     when $2 = 'stale' then stale_since < now() - $3 * interval '1 day'
                     else released_at is not null and superseded_by is null and stale_since is null
                          and greatest(last_used_at, released_at) < now() - $3 * interval '1 day'
                   end
             returning id
           ), known as (
             update knowledge set pruned_at = now(), pruned_because = $2
             where id = any($1) and pruned_at is null
               and case
                     when $2 = 'stale' then stale_since < now() - $3 * interval '1 day'
                     else released_at is not null and superseded_by is null and stale_since is null
                          and greatest(last_used_at, released_at) < now() - $3 * interval '1 day'
                   end
             returning id
           )
           select id as "id!" from learned union all select id from known"#,
        ids,
        because.into_str(),
        days,
    )
    .fetch_all(conn)
    .await
}

/// Counts entries by fate, of one repository or of all.
pub async fn fates(conn: &mut PgConnection, repo: Option<&str>) -> sqlx::Result<Fates> {
    let rows = sqlx::query!(
        r#"select case
                    when pruned_at is not null then 'pruned' || coalesce('_' || pruned_because, '')
                    when superseded_by is not null then 'superseded'
                    when released_at is null then 'quarantine'
                    when stale_since is not null then 'stale'
                    else 'live'
                  end as "status!", count(*) as "entries!"
           from (
             select pruned_at, pruned_because, superseded_by, released_at, stale_since from learnings
             where $1::text is null or repo_id = $1
             union all
             select pruned_at, pruned_because, superseded_by, released_at, stale_since from knowledge
             where $1::text is null or repo_id = $1
           ) e
           group by 1"#,
        repo,
    )
    .fetch_all(&mut *conn)
    .await?;
    let sessions = sqlx::query!(
        r#"select count(*) as "sessions!", coalesce(sum(merged), 0) as "merged!", coalesce(sum(made), 0) as "made!"
           from distillations
           where $1::text is null or repo_id = $1"#,
        repo,
    )
    .fetch_one(conn)
    .await?;
    Ok(Fates {
        entries: rows.into_iter().map(|row| (row.status, row.entries)).collect(),
        distillations: sessions.sessions,
        merged: sessions.merged,
        made: sessions.made,
    })
}
