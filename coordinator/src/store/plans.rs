//! Plans are kept, see [`super::connect`]. One that was made while a table held next to nothing may look a row up by reading all of them,
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
    /// Analyses the tables that grew over a step since the last look; returns how many.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn follow(&mut self, conn: &mut PgConnection) -> sqlx::Result<usize> {
        let pages: Vec<(String, i64)> = sqlx::query_as(
            "select oid::regclass::text, coalesce(pg_relation_size(oid), 0) / current_setting('block_size')::bigint
             from pg_class
             where relkind = 'r' and relnamespace = current_schema()::regnamespace",
        )
        .fetch_all(&mut *conn)
        .await?;
        let grown = self.note(&pages);
        if !grown.is_empty() {
            // Names as the server itself writes them. Whoever holds one analyses it too, or will be followed by autovacuum.
            let statement = format!("analyze (skip_locked) {}", grown.join(", "));
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(conn).await?;
        }
        Ok(grown.len())
    }

    /// Compares the tables' sizes with those of the last look. Of a table that is seen for the first time nobody knows what its plans
    /// were made for.
    fn note<'a>(&mut self, pages: &'a [(String, i64)]) -> Vec<&'a str> {
        let mut grown = Vec::new();
        for (table, pages) in pages {
            let reached = STEPS.iter().filter(|&&step| *pages >= step).count();
            let before = self.reached.insert(table.clone(), reached);
            if reached > before.unwrap_or(0) {
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
        let mut check = |pages: &[(&str, i64)], expected: &[&str]| {
            let pages: Vec<_> = pages.iter().map(|(table, n)| ((*table).to_owned(), *n)).collect();
            assert_eq!(sizes.note(&pages), expected, "{pages:?}");
        };
        check(&[("a", 0), ("b", 500)], &["b"]);
        check(&[("a", 7), ("b", 5_000)], &[]);
        check(&[("a", 8), ("b", 5_000)], &["a"]);
        check(&[("a", 63), ("b", 0)], &[]);
        check(&[("a", 64), ("b", 9), ("c", 9)], &["a", "b", "c"]);
    }
}
