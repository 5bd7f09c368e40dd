//! Renews cached query plans (`store/database/connect.rs`) of tables that grew.
//!
//! A plan made while a table was nearly empty may scan the whole table, which cost the same then. Postgres
//! makes new plans after it analyses the table. Autovacuum does so within a minute or so: too late for a
//! table that fills within seconds. So a coordinator analyses grown tables at once, for all coordinators.

use std::collections::HashMap;

use sqlx::{AssertSqlSafe, PgConnection};

/// Table size at which other plans pay, in pages. Below it every plan is fast; above it every plan uses an
/// index. There is only one step, since all connections plan again after it, and callers wait for that.
const STEP: i64 = 64;

/// Sizes of the tables at the last check.
#[derive(Debug, Default)]
pub struct Sizes {
    /// Whether each table has reached the step.
    reached: HashMap<String, bool>,
}

impl Sizes {
    /// Analyses tables that grew over the step since the last check. The first check analyses tables that
    /// Postgres considers empty. Returns their number.
    ///
    /// A table without committed rows waits for a later check: it would count as an empty table of this size
    /// until autovacuum comes, which costs more than the old plan.
    pub async fn follow(&mut self, conn: &mut PgConnection) -> sqlx::Result<usize> {
        let tables: Vec<(String, i64, bool)> = sqlx::query_as(
            "select oid::regclass::text, coalesce(pg_relation_size(oid), 0) / current_setting('block_size')::bigint,
                    reltuples > 0
             from pg_class
             where relkind = 'r' and relnamespace = current_schema()::regnamespace",
        )
        .fetch_all(&mut *conn)
        .await?;
        let mut grown = Vec::new();
        for table in self.note(&tables) {
            let statement = format!("select exists (select from {table})");
            if sqlx::query_scalar(AssertSqlSafe(statement))
                .fetch_one(&mut *conn)
                .await?
            {
                grown.push(table);
            } else {
                self.reached.insert(table.to_owned(), false);
            }
        }
        if !grown.is_empty() {
            // The names are as the server writes them. A table that another session has locked is analysed by
            // that session, or by autovacuum later.
            let statement = format!("analyze (skip_locked) {}", grown.join(", "));
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(conn).await?;
        }
        Ok(grown.len())
    }

    /// Compares the tables' sizes, in pages, with the last check. A new table counts as grown unless Postgres
    /// knows that it has rows: connections of other coordinators may have planned for it before.
    fn note<'a>(&mut self, tables: &'a [(String, i64, bool)]) -> Vec<&'a str> {
        let mut grown = Vec::new();
        for (table, pages, has_rows) in tables {
            let reached = *pages >= STEP;
            let before = self.reached.insert(table.clone(), reached);
            if reached && !before.unwrap_or(*has_rows) {
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
    fn only_growth_over_the_step_counts() {
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
                ("d", 63, false),
            ],
            &["b"],
        );
        check(&[("a", 63, false), ("b", 5_000, true)], &[]);
        check(&[("a", 64, false), ("b", 5_000, true)], &["a"]);
        check(&[("a", 9_000, true), ("b", 0, false)], &[]);
        check(&[("a", 63, true), ("b", 64, false), ("e", 99, true)], &["b"]);
    }
}
