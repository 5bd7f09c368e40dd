//! The meaning of distances between vectors in each memory (SPEC 6.5).

use std::collections::HashMap;

use sqlx::PgConnection;

use crate::domain::recall::{Kind, Nearness};

/// Calibrations of these repositories' memories for the model and this number of dimensions.
pub async fn of_memories(
    conn: &mut PgConnection,
    model: &str,
    dimensions: usize,
    repos: &[String],
) -> sqlx::Result<HashMap<(String, Kind), Nearness>> {
    let rows = sqlx::query!(
        r#"select repo_id, kind as "kind: Kind", centre, usual as "usual!", weight as "weight!", floor as "floor!"
           from memory_nearness
           where repo_id = any($1) and model = $2 and cardinality(centre) = $3 and floor is not null"#,
        repos,
        model,
        i32::try_from(dimensions).unwrap_or(i32::MAX),
    )
    .fetch_all(conn)
    .await?;
    let found = rows.into_iter().map(|row| {
        let nearness = Nearness {
            centre: row.centre,
            usual: row.usual,
            weight: row.weight,
            floor: row.floor,
        };
        ((row.repo_id, row.kind), nearness)
    });
    Ok(found.collect())
}

/// Memories to calibrate for the model: they have at least `least` entries, and were never calibrated or grew
/// by a quarter since. Their floor by words is known, and a vector was tried for all but a twentieth of their
/// entries.
pub async fn unknown(
    conn: &mut PgConnection,
    model: &str,
    dimensions: usize,
    least: i64,
) -> sqlx::Result<Vec<(String, Kind)>> {
    let rows = sqlx::query!(
        r#"select s.repo_id, s.kind as "kind: Kind"
           from memory_stats s
           left join memory_nearness n
             on n.repo_id = s.repo_id and n.kind = s.kind and n.model = $1
               and (n.floor is null or cardinality(n.centre) = $2)
           where s.floor is not null and s.entries >= $3 and s.entries >= coalesce(n.found_at_entries, 0) * 5 / 4
             and not exists (
               select from memory_entries d
               where d.id > coalesce((select upto from memory_embedding where model = $1), 0)
               offset s.entries / 20
             )
           order by s.entries
           limit 10"#,
        model,
        i32::try_from(dimensions).unwrap_or(i32::MAX),
        least,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.repo_id, row.kind)).collect())
}

/// Stores the calibration, or that a memory's entries give none.
pub async fn keep(
    conn: &mut PgConnection,
    repo_id: &str,
    kind: Kind,
    model: &str,
    found: Option<&Nearness>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into memory_nearness (repo_id, kind, model, centre, usual, weight, floor, found_at_entries)
         select repo_id, kind, $3, $4, $5, $6, $7, entries
         from memory_stats
         where repo_id = $1 and kind = $2
         on conflict (repo_id, kind) do update
         set model = excluded.model, centre = excluded.centre, usual = excluded.usual, weight = excluded.weight,
             floor = excluded.floor, found_at_entries = excluded.found_at_entries",
        repo_id,
        kind as Kind,
        model,
        found.map_or(&[][..], |found| &found.centre),
        found.map(|found| found.usual),
        found.map(|found| found.weight),
        found.map(|found| found.floor),
    )
    .execute(conn)
    .await?;
    Ok(())
}
