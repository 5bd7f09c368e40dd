//! Outcomes of attempts, for strategies that learn from them.

use std::collections::HashMap;

use ralph_shared::sigil::Difficulty;
use sqlx::PgConnection;

use crate::domain::failure::Failure;
use crate::domain::routing::adaptive::{MOST_FAILURES, Outcomes};

/// Reads this many of a repository's newest features.
const FEATURES: i64 = 20;
/// Reads this many of each feature's newest attempts.
const ATTEMPTS: i64 = 200;

/// Outcomes of the newest work attempts in these repositories, except those that say nothing about the model.
pub async fn of_repositories(
    conn: &mut PgConnection,
    repositories: &[String],
) -> sqlx::Result<HashMap<String, Vec<Outcomes>>> {
    if repositories.is_empty() {
        return Ok(HashMap::new());
    }
    let model_failures: Vec<Failure> = Failure::ALL
        .iter()
        .copied()
        .filter(|failure| failure.policy().raises_model)
        .collect();
    let rows = sqlx::query!(
        r#"select q.repo_id as "repo_id!", d.model as "model!", d.difficulty, least(before.n, $3)::int as "failures!",
                  count(*)::float8 as "attempts!", (count(*) filter (where d.is_done))::float8 as "done!",
                  coalesce(sum(d.cost_usd), 0) as "cost_usd!", coalesce(sum(d.duration_ms), 0)::float8 / 1000 as "seconds!"
           from unnest($1::text[]) as q(repo_id)
           cross join lateral (select id from features where repo_id = q.repo_id order by id desc limit $4) f
           cross join lateral (
             select d.task_id, d.claimed_at, d.model, d.difficulty, d.cost_usd, d.duration_ms, d.outcome, d.failure,
                    -- What its verifier or its gate refused was not done.
                    d.outcome = 'done' and (
                      select true from dispatches v
                      where v.task_id = d.task_id and v.attempt = d.attempt and v.kind in ('verify', 'integrate') and v.outcome = 'failed'
                      limit 1
                    ) is null as is_done
             from dispatches d
             where d.feature_id = f.id and d.journal is not null and d.kind = 'work'
             order by d.settled_at desc, d.id desc
             limit $5
           ) d
           cross join lateral (
             select count(*) as n
             from dispatches e
             where e.task_id = d.task_id and e.claimed_at < d.claimed_at and e.failure = any($2)
           ) before
           where d.model is not null and (d.outcome in ('done', 'split') or d.failure = any($2))
           group by 1, 2, 3, 4"#,
        repositories,
        model_failures as Vec<Failure>,
        i64::try_from(MOST_FAILURES).unwrap_or(i64::MAX),
        FEATURES,
        ATTEMPTS,
    )
    .fetch_all(conn)
    .await?;
    let mut outcomes: HashMap<String, Vec<Outcomes>> = HashMap::new();
    for row in rows {
        outcomes.entry(row.repo_id).or_default().push(Outcomes {
            model: row.model,
            difficulty: row.difficulty.as_deref().and_then(Difficulty::from_word),
            failures: usize::try_from(row.failures).unwrap_or(0),
            attempts: row.attempts,
            done: row.done,
            cost_usd: row.cost_usd,
            seconds: row.seconds,
        });
    }
    Ok(outcomes)
}
