//! The original of a feature's copy.

use std::collections::HashMap;

use ralph_shared::ids::FeatureId;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::MergeHow;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::graph::{Located, TaskEntry};
use crate::domain::scheduling::concurrency::Concurrency;
use crate::domain::states::FailurePolicy;
use crate::store::feature::NewFeature;
use crate::store::feature::priority::Precedence;

/// A feature as the template of a copy, with the original's name and branch and the tasks that it was given.
/// Times are not copied.
pub async fn read(
    conn: &mut PgConnection,
    feature: FeatureId,
) -> sqlx::Result<Option<(NewFeature, Vec<TaskEntry>)>> {
    let row = sqlx::query!(
        r#"select f.name, f.repo_id, f.repo_address, f.base_ref, f.base_commit, f.branch, f.max_parallel,
                  f.failure_policy as "failure_policy: FailurePolicy", f.approve as "approve: Vec<SessionKind>",
                  f.review_rounds, f.merge, f.avoid_conflicts, f.dir, f.weight, f.stop_at_deadline,
                  k.name as "key?", k.most as "most?", x.description, x.spec, x.plan
           from features f
           join feature_texts x on x.feature_id = f.id
           left join concurrency_keys k on k.name = f.concurrency
           where f.id = $1"#,
        feature.0,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let copy = NewFeature {
        id: FeatureId::new(),
        name: row.name,
        repo_id: row.repo_id,
        repo_address: row.repo_address,
        base_ref: row.base_ref,
        base_commit: row.base_commit,
        branch: row.branch,
        max_parallel: row.max_parallel,
        failure_policy: row.failure_policy,
        description: row.description,
        spec: row.spec,
        plan: row.plan,
        approve: row.approve,
        review_rounds: row.review_rounds,
        merge: row.merge.as_deref().and_then(|how| how.parse::<MergeHow>().ok()),
        avoid_conflicts: row.avoid_conflicts,
        dir: row.dir,
        precedence: Precedence {
            weight: Some(row.weight),
            stop_at_deadline: Some(row.stop_at_deadline),
            concurrency: row
                .key
                .zip(row.most)
                .map(|(key, limit)| Concurrency { key, limit }),
            ..Precedence::default()
        },
    };
    Ok(Some((copy, tasks(conn, feature).await?)))
}

async fn tasks(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Vec<TaskEntry>> {
    let edges = sqlx::query!(
        "select d.task_id, x.key
         from tasks t
         join dependencies d on d.task_id = t.id
         join tasks b on b.id = d.blocker_id and b.role = 'work'
         join task_texts x on x.task_id = b.id
         where t.feature_id = $1 and t.role = 'work'
         order by d.task_id, b.id",
        feature.0,
    )
    .fetch_all(&mut *conn)
    .await?;
    let located = |value| Located { value, line: 0 };
    let mut after: HashMap<Uuid, Vec<Located<String>>> = HashMap::new();
    for edge in edges {
        after.entry(edge.task_id).or_default().push(located(edge.key));
    }
    let rows = sqlx::query!(
        r#"select t.id, x.key, x.title, x.description, p.key as "parent?", t.priority, x.pool, x.agent, x.model,
                  t.max_retries, t.verify, x.paths, k.name as "concurrency?", k.most as "most?"
           from tasks t
           join task_texts x on x.task_id = t.id
           left join task_texts p on p.task_id = t.parent_id
           left join concurrency_keys k on k.name = x.concurrency
           where t.feature_id = $1 and t.role = 'work'
           order by t.id"#,
        feature.0,
    )
    .fetch_all(conn)
    .await?;
    let entries = rows.into_iter().map(|row| TaskEntry {
        key: located(row.key),
        title: row.title,
        description: Some(row.description),
        after: after.remove(&row.id).unwrap_or_default(),
        parent: row.parent.map(located),
        priority: Some(row.priority),
        pool: Some(row.pool),
        agent: row.agent,
        model: row.model,
        max_retries: u32::try_from(row.max_retries).ok(),
        verify: Some(row.verify),
        paths: row.paths,
        concurrency: row
            .concurrency
            .zip(row.most)
            .map(|(key, limit)| Concurrency { key, limit }),
        not_before: None,
    });
    Ok(entries.collect())
}
