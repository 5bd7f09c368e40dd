//! Entries that attempts were shown, and the effect of the attempts' ends on them (SPEC 6.7).

use std::collections::HashSet;

use ralph_shared::ids::DispatchId;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::recall::{Circumstances, Ended, Kind};

/// Prevents others from storing prompts with entries until the transaction ends, so that a purge finds all of
/// them.
pub async fn hold_back_prompts(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!("select pg_advisory_xact_lock(hashtextextended('memory-purge', 0))")
        .fetch_all(conn)
        .await?;
    Ok(())
}

/// Prevents purges until the transaction ends.
pub async fn hold_back_purges(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!("select pg_advisory_xact_lock_shared(hashtextextended('memory-purge', 0))")
        .fetch_all(conn)
        .await?;
    Ok(())
}

/// The learnings and knowledge among `entries` that still exist.
pub async fn not_purged(conn: &mut PgConnection, entries: &[Uuid]) -> sqlx::Result<HashSet<Uuid>> {
    let existing = sqlx::query_scalar!(
        r#"select id as "id!" from learnings where id = any($1)
           union all
           select id from knowledge where id = any($1)"#,
        entries,
    )
    .fetch_all(conn)
    .await?;
    Ok(existing.into_iter().collect())
}

/// An entry that an attempt was shown, or that was left out.
#[derive(Debug, Clone)]
pub struct Use {
    pub dispatch: Uuid,
    pub kind: Kind,
    pub entry: Uuid,
    pub place: i16,
    pub score: f32,
    pub left_out: Option<String>,
}

/// Stores the entries that attempts were shown. Each trial is an attempt, its repository, and whether the
/// attempt was held out.
pub async fn insert_uses(
    conn: &mut PgConnection,
    uses: &[Use],
    trials: &[(Uuid, String, bool)],
) -> sqlx::Result<()> {
    if !trials.is_empty() {
        sqlx::query!(
            "insert into memory_trials (dispatch_id, repo_id, held_out)
             select * from unnest($1::uuid[], $2::text[], $3::bool[])
             on conflict do nothing",
            &trials.iter().map(|(dispatch, ..)| *dispatch).collect::<Vec<_>>(),
            &trials.iter().map(|(_, repo, _)| repo.clone()).collect::<Vec<_>>(),
            &trials.iter().map(|(.., held_out)| *held_out).collect::<Vec<_>>(),
        )
        .execute(&mut *conn)
        .await?;
    }
    if !uses.is_empty() {
        sqlx::query!(
            "insert into memory_uses (dispatch_id, kind, entry, place, score, left_out)
             select * from unnest($1::uuid[], $2::memory_kind[], $3::uuid[], $4::smallint[], $5::real[], $6::text[])
             on conflict do nothing",
            &uses.iter().map(|u| u.dispatch).collect::<Vec<_>>(),
            &uses.iter().map(|u| u.kind).collect::<Vec<_>>() as &[Kind],
            &uses.iter().map(|u| u.entry).collect::<Vec<_>>(),
            &uses.iter().map(|u| u.place).collect::<Vec<_>>(),
            &uses.iter().map(|u| u.score).collect::<Vec<_>>(),
            &uses.iter().map(|u| u.left_out.clone()).collect::<Vec<_>>() as &[Option<String>],
        )
        .execute(conn)
        .await?;
    }
    Ok(())
}

/// An entry that an ended attempt used, as its agent reported.
#[derive(Debug, Clone)]
pub struct UsedEntry {
    pub kind: Kind,
    pub entry: Uuid,
    pub helped: bool,
    /// Whether the attempt landed; otherwise it failed.
    pub landed: bool,
    pub repo_id: String,
    pub circumstances: Circumstances,
}

/// Marks entries that a dispatch was shown as helpful or misleading. `ids` are the last 12 digits of the
/// entries' ids. Returns the number of marked entries.
pub async fn mark(
    conn: &mut PgConnection,
    dispatch: DispatchId,
    ids: &[String],
    helped: bool,
) -> sqlx::Result<u64> {
    let marked = sqlx::query!(
        "update memory_uses set helped = $3
         where dispatch_id = $1 and left_out is null and outcome is null and right(replace(entry::text, '-', ''), 12) = any($2)",
        dispatch.0,
        ids,
        helped,
    )
    .execute(conn)
    .await?;
    Ok(marked.rows_affected())
}

/// Results of all earlier attempts in repositories with memory, by their circumstances.
pub async fn history(
    conn: &mut PgConnection,
    repos: &[String],
) -> sqlx::Result<Vec<(String, Circumstances, Ended)>> {
    let rows = sqlx::query!(
        r#"select m.repo_id, d.difficulty, d.model, d.attempt = 1 as "is_first!",
                  count(*) filter (where m.outcome = 'landed') as "landed!", count(*) as "ended!"
           from memory_trials m
           cross join lateral (select difficulty, model, attempt from dispatches where id = m.dispatch_id limit 1) d
           where m.repo_id = any($1) and m.outcome in ('landed', 'failed')
           group by 1, 2, 3, 4"#,
        repos,
    )
    .fetch_all(conn)
    .await?;
    let of = rows.into_iter().map(|row| {
        let circumstances = Circumstances {
            difficulty: row.difficulty,
            model: row.model,
            is_first: row.is_first,
        };
        let ended = Ended {
            landed: row.landed,
            ended: row.ended,
        };
        (row.repo_id, circumstances, ended)
    });
    Ok(of.collect())
}

/// Multiplies weights, which stay between 0.2 and 3 (SPEC 6.7).
pub async fn multiply(conn: &mut PgConnection, factors: &[(Uuid, f64)]) -> sqlx::Result<()> {
    let (entries, factors): (Vec<Uuid>, Vec<f64>) = factors.iter().copied().unzip();
    sqlx::query!(
        "with factors as (
           select * from unnest($1::uuid[], $2::float8[]) as f(entry, factor)
         ), learned as (
           update learnings l set weight = greatest(0.2, least(3, l.weight * f.factor))
           from factors f
           where l.id = f.entry
         )
         update knowledge k set weight = greatest(0.2, least(3, k.weight * f.factor))
         from factors f
         where k.id = f.entry",
        &entries,
        &factors,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Settles the uses and trials of at most `most` ended attempts. Returns the number of attempts, and the
/// entries that landed or failed attempts used.
///
/// SPEC 3.3 defines a failure: a conflict is none, nor is an attempt that left changes at its token limit. An
/// attempt that a person, a limit of the run or a lost worker ended has no effect.
pub async fn settle(conn: &mut PgConnection, most: i64) -> sqlx::Result<(usize, Vec<UsedEntry>)> {
    let rows = sqlx::query!(
        r#"with open as (
             select m.dispatch_id, d.task_id, d.attempt, d.state, d.outcome, t.state as task_state,
                    t.attempt as task_attempt, coalesce(cardinality(d.files_changed), 0) > 0 as changed,
                    judged.refused, judged.conflicted
             from memory_trials m
             join dispatches d on d.id = m.dispatch_id
             join tasks t on t.id = d.task_id
             join features f on f.id = t.feature_id
             cross join lateral (
               select coalesce(bool_or(v.outcome = 'failed'), false) as refused,
                      coalesce(bool_or(v.outcome = 'conflict'), false) as conflicted
               from dispatches v
               where v.task_id = d.task_id and v.attempt = d.attempt and v.kind in ('verify', 'integrate')
             ) judged
             -- What isn't decided yet must not take the place of what is. A cancelled feature decides nothing any more.
             where m.outcome is null and d.state <> 'live'
               and not (d.outcome = 'done' and t.state in ('pending', 'in_progress') and t.attempt = d.attempt
                        and f.state not in ('done', 'cancelled') and not judged.refused and not judged.conflicted)
             order by m.dispatch_id
             limit $1
             for update of m skip locked
           ), ended as (
             select dispatch_id,
                    (case
                       when refused or outcome in ('failed', 'error') or outcome = 'no_sigil' and not changed then 'failed'
                       when conflicted then 'neutral'
                       when outcome = 'done' and task_state = 'done' and task_attempt = attempt then 'landed'
                       else 'neutral'
                     end)::memory_outcome as outcome
             from open
           ), trials as (
             update memory_trials m set outcome = e.outcome
             from ended e
             where m.dispatch_id = e.dispatch_id
             returning m.dispatch_id, m.outcome, m.repo_id
           ), uses as (
             update memory_uses u set outcome = t.outcome
             from trials t
             where u.dispatch_id = t.dispatch_id and u.left_out is null
             returning u.dispatch_id, u.kind, u.entry, u.helped, u.used_at
           ), newest as (
             select kind, entry, max(used_at) as used_at from uses group by kind, entry
           ), learned as (
             update learnings l set last_used_at = greatest(l.last_used_at, n.used_at)
             from newest n
             where n.kind = 'learning' and l.id = n.entry
           ), known as (
             update knowledge k set last_used_at = greatest(k.last_used_at, n.used_at)
             from newest n
             where n.kind = 'knowledge' and k.id = n.entry
           )
           select t.dispatch_id as "dispatch!", t.repo_id as "repo_id!", t.outcome = 'landed' as "landed!", d.difficulty, d.model, d.attempt = 1 as "is_first!",
                  u.kind as "kind?: Kind", u.entry as "entry?", u.helped as "helped?"
           from trials t
           cross join lateral (select difficulty, model, attempt from dispatches where id = t.dispatch_id limit 1) d
           left join uses u on u.dispatch_id = t.dispatch_id and u.helped is not null and t.outcome in ('landed', 'failed')"#,
        most,
    )
    .fetch_all(conn)
    .await?;
    let attempts: HashSet<Uuid> = rows.iter().map(|row| row.dispatch).collect();
    let mut used = Vec::new();
    for row in rows {
        if let (Some(kind), Some(entry), Some(helped)) = (row.kind, row.entry, row.helped) {
            used.push(UsedEntry {
                kind,
                entry,
                helped,
                landed: row.landed,
                repo_id: row.repo_id,
                circumstances: Circumstances {
                    difficulty: row.difficulty,
                    model: row.model,
                    is_first: row.is_first,
                },
            });
        }
    }
    Ok((attempts.len(), used))
}
