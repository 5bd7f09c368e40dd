//! The wait-for relation, through blockers and parents together (SPEC 2.5). The database's function `awaited`
//! makes a single step.

use sqlx::PgConnection;
use uuid::Uuid;

/// A moment of a task: its end, or its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    pub task: Uuid,
    pub is_end: bool,
}

/// Whether the end of one of `blockers` waits for one of `moments`, directly or not; then an edge would close
/// a cycle.
pub async fn any_waits_for(
    conn: &mut PgConnection,
    blockers: &[Uuid],
    moments: &[Moment],
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"with recursive waits as (
             select id, true as is_end from unnest($1::uuid[]) as b(id)
             union
             select n.id, n.is_end from waits w cross join lateral awaited(w.id, w.is_end) n
           )
           select exists (
             select 1 from waits w join unnest($2::uuid[], $3::bool[]) as m(id, is_end) on (m.id, m.is_end) = (w.id, w.is_end)
           ) as "any!""#,
        blockers,
        &moments.iter().map(|moment| moment.task).collect::<Vec<_>>(),
        &moments.iter().map(|moment| moment.is_end).collect::<Vec<_>>(),
    )
    .fetch_one(conn)
    .await
}

/// The direct wait-for edges of these moments: (waiting, awaited).
pub async fn awaited(conn: &mut PgConnection, moments: &[Moment]) -> sqlx::Result<Vec<(Moment, Moment)>> {
    let rows = sqlx::query!(
        r#"select w.id as "from!", w.is_end as "from_end!", n.id as "to!", n.is_end as "to_end!"
           from unnest($1::uuid[], $2::bool[]) as w(id, is_end)
           cross join lateral awaited(w.id, w.is_end) n"#,
        &moments.iter().map(|moment| moment.task).collect::<Vec<_>>(),
        &moments.iter().map(|moment| moment.is_end).collect::<Vec<_>>(),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let moment = |task, is_end| Moment { task, is_end };
            (moment(row.from, row.from_end), moment(row.to, row.to_end))
        })
        .collect())
}
