//! Vectors of memory entries from an embedding model (SPEC 6.5).

use std::collections::HashMap;

use sqlx::PgConnection;
use uuid::Uuid;

/// The next entries without a vector, reserved for this coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The holder; nobody else may store its vectors.
    holder: Uuid,
    model: String,
    /// Oldest first.
    pub entries: Vec<Unembedded>,
}

/// An indexed entry without a vector of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unembedded {
    /// Its number in the index.
    pub doc: i64,
    /// Empty when the entry is gone.
    pub text: String,
}

/// Entries below the mark that one step checks again.
const RECHECKED: i64 = 1_000;

/// Reserves the next entries that were indexed at least `settled_seconds` ago, at most `most`, for `held_ms`.
/// `None` while another coordinator holds a batch. Starts over with another model or other dimensions. When
/// all entries have vectors, checks a few earlier ones again: one may have been committed late.
pub async fn take(
    conn: &mut PgConnection,
    model: &str,
    dimensions: Option<usize>,
    most: i64,
    settled_seconds: f64,
    held_ms: i64,
) -> sqlx::Result<Option<Batch>> {
    let holder = Uuid::now_v7();
    let taken = sqlx::query!(
        "insert into memory_embedding as e (model, dimensions, held_by, held_until)
         values ($1, $2, $3, now() + $4 * interval '1 ms')
         on conflict (only_row) do update
         set model = excluded.model, held_by = excluded.held_by, held_until = excluded.held_until,
             dimensions = case when e.model = excluded.model then coalesce(excluded.dimensions, e.dimensions)
                               else excluded.dimensions end,
             (upto, made, refused) = (
               select e.upto, e.made, e.refused
               where e.model = excluded.model and coalesce(e.dimensions = excluded.dimensions, true)
               union all
               select 0, 0, 0
               limit 1
             )
         where e.held_until is null or e.held_until < now()
         returning upto, looked, dimensions",
        model,
        dimensions.and_then(|n| i32::try_from(n).ok()),
        holder,
        held_ms as f64,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(taken) = taken else {
        return Ok(None);
    };
    let mut wanted = EntryFilter {
        model,
        numbers: taken.dimensions.into_iter().collect(),
        after: taken.upto,
        upto: i64::MAX,
        settled_seconds,
    };
    let mut entries = without_vector(conn, &wanted, most).await?;
    if entries.is_empty() {
        let looked = upto_of_next(conn, taken.looked, taken.upto).await?;
        wanted.after = taken.looked;
        wanted.upto = looked.unwrap_or(taken.looked);
        // A refused entry has an empty vector: it was tried.
        wanted.numbers.push(0);
        entries = without_vector(conn, &wanted, most).await?;
        if entries.is_empty() {
            set_recheck_start(conn, holder, looked.unwrap_or(0)).await?;
        }
    }
    Ok(Some(Batch {
        holder,
        model: model.to_owned(),
        entries,
    }))
}

struct EntryFilter<'a> {
    model: &'a str,
    /// Dimensions of vectors that count as present.
    numbers: Vec<i32>,
    /// Exclusive lower bound of their numbers in the index.
    after: i64,
    /// Inclusive upper bound.
    upto: i64,
    settled_seconds: f64,
}

async fn without_vector(
    conn: &mut PgConnection,
    wanted: &EntryFilter<'_>,
    most: i64,
) -> sqlx::Result<Vec<Unembedded>> {
    sqlx::query_as!(
        Unembedded,
        r#"select d.id as "doc!",
                  coalesce(l.title || E'\n' || l.body, k.title || E'\n' || k.body, x.title || E'\n' || j.journal, '') as "text!"
           from (
             select id, entry
             from memory_entries d
             where id > $2 and id <= $6 and indexed_at <= now() - $4 * interval '1 second'
               and not exists (
                 select from memory_vectors v
                 where v.doc_id = d.id and v.model = $1 and cardinality(v.vector) = any($5)
               )
             order by id
             limit $3
           ) d
           left join learnings l on l.id = d.entry
           left join knowledge k on k.id = d.entry
           left join dispatches j on j.id = d.entry
           left join task_texts x on x.task_id = j.task_id
           order by d.id"#,
        wanted.model,
        wanted.after,
        most,
        wanted.settled_seconds,
        &wanted.numbers,
        wanted.upto,
    )
    .fetch_all(conn)
    .await
}

/// The last of the next entries to check again; `None` when there are no more.
async fn upto_of_next(conn: &mut PgConnection, after: i64, upto: i64) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!(
        "select max(id) from (
           select id from memory_entries where id > $1 and id <= $2 order by id limit $3
         ) next",
        after,
        upto,
        RECHECKED,
    )
    .fetch_one(conn)
    .await
}

/// Sets the start of the next check.
async fn set_recheck_start(conn: &mut PgConnection, holder: Uuid, looked: i64) -> sqlx::Result<()> {
    sqlx::query!(
        "update memory_embedding set looked = $2 where held_by = $1",
        holder,
        looked,
    )
    .execute(conn)
    .await?;
    Ok(())
}

fn dimensions(made: &[(i64, &Vec<f32>)]) -> Option<i32> {
    let (_, vector) = made.first()?;
    i32::try_from(vector.len()).ok()
}

impl Batch {
    /// Stores the vectors of its entries, in their order, and moves the mark. A refused entry stores an empty
    /// vector. `false`, without a change, when another coordinator has taken over meanwhile.
    pub async fn keep(&self, conn: &mut PgConnection, vectors: &[Option<Vec<f32>>]) -> sqlx::Result<bool> {
        let Some(last) = self.entries.last() else {
            return self.release(conn).await;
        };
        let made: Vec<(i64, &Vec<f32>)> = self
            .entries
            .iter()
            .zip(vectors)
            .filter_map(|(entry, vector)| Some((entry.doc, vector.as_ref()?)))
            .collect();
        let refused: Vec<i64> = self
            .entries
            .iter()
            .zip(vectors)
            .filter(|(_, vector)| vector.is_none())
            .map(|(entry, _)| entry.doc)
            .collect();
        let dimensions = dimensions(&made);
        let ours = sqlx::query!(
            "update memory_embedding
             set upto = case when dimensions <> $4 then 0 else greatest(upto, $2) end, made = made + $3,
                 refused = refused + $5, dimensions = coalesce($4, dimensions), held_by = null, held_until = null
             where held_by = $1",
            self.holder,
            last.doc,
            i64::try_from(made.len()).unwrap_or(i64::MAX),
            dimensions,
            i64::try_from(refused.len()).unwrap_or(i64::MAX),
        )
        .execute(&mut *conn)
        .await?;
        if ours.rows_affected() == 0 {
            return Ok(false);
        }
        self.insert(conn, &made, &refused).await?;
        Ok(true)
    }

    async fn insert(
        &self,
        conn: &mut PgConnection,
        made: &[(i64, &Vec<f32>)],
        refused: &[i64],
    ) -> sqlx::Result<()> {
        sqlx::query!(
            "with given as (
               select id, number from unnest($2::bigint[]) with ordinality as g(id, number)
             ), others as (
               -- What left the index meanwhile needs none; what is there stays until this is written.
               select d.id, number from given cross join lateral (select id from memory_docs where id = given.id for share) d
             ), learned as (
               select l.id, number
               from given
               cross join lateral (select doc_id as id from learnings where doc_id = given.id for share) l
             ), docs as (
               select * from others union all select * from learned
             )
             insert into memory_vectors (doc_id, model, vector)
             -- Of those behind the last vector there is nothing.
             select id, $1, ($3::real[])[(number - 1) * $4::int + 1 : number * $4::int] from docs
             on conflict (doc_id) do update set model = excluded.model, vector = excluded.vector",
            self.model,
            &made.iter().map(|(doc, _)| doc).chain(refused).copied().collect::<Vec<_>>(),
            &made
                .iter()
                .flat_map(|(_, vector)| vector.iter().copied())
                .collect::<Vec<_>>(),
            dimensions(made).unwrap_or(0),
        )
        .execute(conn)
        .await?;
        Ok(())
    }

    /// Ends the reservation, so that others can try at once.
    pub async fn release(&self, conn: &mut PgConnection) -> sqlx::Result<bool> {
        let ours = sqlx::query!(
            "update memory_embedding set held_by = null, held_until = null where held_by = $1",
            self.holder,
        )
        .execute(conn)
        .await?;
        Ok(ours.rows_affected() > 0)
    }
}

/// Vectors of these entries from the model with these dimensions.
pub async fn of_entries(
    conn: &mut PgConnection,
    model: &str,
    dimensions: usize,
    entries: &[Uuid],
) -> sqlx::Result<HashMap<Uuid, Vec<f32>>> {
    let rows = sqlx::query!(
        r#"select d.entry as "entry!", v.vector
           from memory_entries d
           join memory_vectors v on v.doc_id = d.id
           where d.entry = any($1) and v.model = $2 and cardinality(v.vector) = $3"#,
        entries,
        model,
        i32::try_from(dimensions).unwrap_or(i32::MAX),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.entry, row.vector)).collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Entries with a vector of this model.
    pub made: i64,
    /// Entries without one, up to 10,000.
    pub waiting: i64,
    /// Entries that the model refused.
    pub refused: i64,
    /// Memories that are calibrated for its vectors.
    pub calibrated: i64,
}

pub async fn progress(conn: &mut PgConnection, model: &str) -> sqlx::Result<Progress> {
    sqlx::query_as!(
        Progress,
        r#"select coalesce(e.made, 0) as "made!", coalesce(e.refused, 0) as "refused!",
                  (select count(*) from (select from memory_entries where id > coalesce(e.upto, 0) limit 10000) d) as "waiting!",
                  (select count(*) from memory_nearness n where n.model = $1 and n.floor is not null) as "calibrated!"
           from (select $1::text as model) asked
           left join memory_embedding e on e.model = asked.model"#,
        model,
    )
    .fetch_one(conn)
    .await
}
