//! Plans are kept, see `store/connect.rs`. One that was made while a table held next to nothing may look a row up by reading all of them,
//! since that cost the same then. Postgres makes plans anew when a table was analysed, which it does by itself within a minute
//! or so: too late for one that fills within seconds. So what has grown is analysed at once, for all coordinators.

use std::collections::HashMap;

use sqlx::{AssertSqlSafe, PgConnection};

/// Sizes at which other plans pay. Pages: below the first one anything is fast, above the last one every plan looks rows up.
const STEPS: [i64; 2] = [8, 64];

/// How large the tables were when they were looked at last.
#[derive(Debug, Default)]
pub struct Sizes {
    /// How many of the steps each table has reached.
    reached: HashMap<String, usize>,
}

impl Sizes {
    /// Analyses the tables that grew over a step since the last look, at the first one those that Postgres takes for empty; returns
    /// how many.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn follow(&mut self, conn: &mut PgConnection) -> sqlx::Result<usize> {
        let tables: Vec<(String, i64, bool)> = sqlx::query_as(
            "select oid::regclass::text, coalesce(pg_relation_size(oid), 0) / current_setting('block_size')::bigint,
                    reltuples > 0
             from pg_class
             where relkind = 'r' and relnamespace = current_schema()::regnamespace",
        )
        .fetch_all(&mut *conn)
        .await?;
        let grown = self.note(&tables);
        if !grown.is_empty() {
            // Names as the server itself writes them. Whoever holds one analyses it too, or will be followed by autovacuum.
            let statement = format!("analyze (skip_locked) {}", grown.join(", "));
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(conn).await?;
        }
        Ok(grown.len())
    }

    /// Compares the tables' sizes, in pages, with those of the last look. Of a table that is seen for the first time counts whether
    /// Postgres knows that it has rows: connections of other coordinators may have planned for it before.
    fn note<'a>(&mut self, tables: &'a [(String, i64, bool)]) -> Vec<&'a str> {
        let mut grown = Vec::new();
        for (table, pages, has_rows) in tables {
            let reached = STEPS.iter().filter(|&&step| *pages >= step).count();
            let grew = match self.reached.insert(table.clone(), reached) {
                Some(before) => reached > before,
                None => reached > 0 && !has_rows,
            };
            if grew {
                grown.push(table.as_str());
            }
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growth_over_a_step_counts() {
        let mut sizes = Sizes::default();
        let mut check = |tables: &[(&str, i64, bool)], expected: &[&str]| {
            let tables: Vec<_> = tables
                .iter()
                .map(|(table, pages, has_rows)| ((*table).to_owned(), *pages, *has_rows))
                .collect();
            assert_eq!(sizes.note(&tables), expected, "{tables:?}");
        };
        check(
            &[
                ("a", 0, false),
                ("b", 500, false),
                ("c", 500, true),
                ("d", 7, false),
            ],
            &["b"],
        );
        check(&[("a", 7, false), ("b", 5_000, true)], &[]);
        check(&[("a", 8, false), ("b", 5_000, true)], &["a"]);
        check(&[("a", 63, true), ("b", 0, false)], &[]);
        check(&[("a", 64, true), ("b", 9, false), ("e", 9, true)], &["a", "b"]);
    }
}
