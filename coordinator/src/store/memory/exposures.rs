//! Entries that attempts were shown, and the effect of the attempts' ends on them (SPEC 6.7).

use std::collections::HashSet;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::recall::Kind;

/// Until the transaction ends, nobody stores a prompt with entries, so that a purge finds all of them.
pub async fn hold_back_prompts(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!("select pg_advisory_xact_lock(hashtextextended('memory-purge', 0))")
        .fetch_all(conn)
        .await?;
    Ok(())
}

/// Until the transaction ends nobody purges.
pub async fn hold_back_purges(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!("select pg_advisory_xact_lock_shared(hashtextextended('memory-purge', 0))")
        .fetch_all(conn)
        .await?;
    Ok(())
}

/// Those of these learnings and knowledge entries that still exist.
pub async fn not_purged(conn: &mut PgConnection, entries: &[Uuid]) -> sqlx::Result<HashSet<Uuid>> {
    let there = sqlx::query_scalar!(
        r#"select id as "id!" from learnings where id = any($1)
           union all
           select id from knowledge where id = any($1)"#,
        entries,
    )
    .fetch_all(conn)
    .await?;
    Ok(there.into_iter().collect())
}

/// An entry that an attempt was shown, or why not.
#[derive(Debug, Clone)]
pub struct Use {
    pub dispatch: Uuid,
    pub kind: Kind,
    pub entry: Uuid,
    pub place: i16,
    pub score: f32,
    pub left_out: Option<String>,
}

/// Stores the entries that attempts were shown, and which attempts had memory at all or were held out.
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

/// Effects of ended attempts on the weights of entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weighed {
    pub attempts: i64,
    pub entries: i64,
}

/// Settles the uses and trials of ended attempts, at most `most`. A shown entry gains by an attempt that
/// landed (× 1.1) and loses by one that failed (× 0.8), between 0.2 and 3 (SPEC 6.7). SPEC 3.3 defines a
/// failure: a conflict is none, nor is an attempt that left changes at its token limit. An attempt that a
/// person, a limit of the run or a lost worker ended has no effect.
pub async fn weigh(conn: &mut PgConnection, most: i64) -> sqlx::Result<Weighed> {
    sqlx::query_as!(
        Weighed,
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
             returning m.dispatch_id, m.outcome
           ), uses as (
             update memory_uses u set outcome = t.outcome
             from trials t
             where u.dispatch_id = t.dispatch_id and u.left_out is null
             returning u.kind, u.entry, u.outcome, u.used_at
           ), factors as (
             select kind, entry, max(used_at) as used_at,
                    power(1.1, count(*) filter (where outcome = 'landed'))
                      * power(0.8, count(*) filter (where outcome = 'failed')) as factor
             from uses
             group by kind, entry
           ), learned as (
             update learnings l
             set weight = greatest(0.2, least(3, l.weight * f.factor)), last_used_at = greatest(l.last_used_at, f.used_at)
             from factors f
             where f.kind = 'learning' and l.id = f.entry
             returning l.id
           ), known as (
             update knowledge k
             set weight = greatest(0.2, least(3, k.weight * f.factor)), last_used_at = greatest(k.last_used_at, f.used_at)
             from factors f
             where f.kind = 'knowledge' and k.id = f.entry
             returning k.id
           )
           select (select count(*) from trials) as "attempts!",
                  (select count(*) from learned) + (select count(*) from known) as "entries!""#,
        most,
    )
    .fetch_one(conn)
    .await
}
