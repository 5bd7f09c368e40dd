//! Query plans of the coordinator's statements. A connection keeps its plans, so one that scans a whole table
//! for each row, or to answer a question about one row, would do so for the connection's life, however large
//! the table gets.

use std::path::Path;

use ralph_coordinator::store::database::plans::Sizes;
use ralph_tests::harness::World;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

/// Tables that stay small however much work there is.
const SMALL: [&str; 3] = ["account_doors", "memory_embedding", "workers"];

/// Finds full scans in a plan that are repeated, or that gather rows for a question about a few of them.
fn repeated_scans(node: &Value, repeated: bool, limited: bool, found: &mut Vec<String>) {
    let text = |key: &str| node[key].as_str().unwrap_or_default();
    if text("Node Type") == "Seq Scan" && repeated && !limited && !SMALL.contains(&text("Relation Name")) {
        found.push(format!("{} ({})", text("Relation Name"), text("Filter")));
    }
    let is_loop = text("Node Type") == "Nested Loop";
    let limits = text("Node Type") == "Limit";
    for child in node["Plans"].as_array().into_iter().flatten() {
        let repeated = match child["Parent Relationship"].as_str().unwrap_or_default() {
            "InitPlan" => false,
            "SubPlan" => true,
            "Inner" => repeated || is_loop,
            _ => repeated,
        };
        repeated_scans(child, repeated, limits, found);
    }
}

/// Whether a plan reads a whole table, or a whole one of its `indexes`. Each index comes with its first
/// column: a condition on the other columns alone doesn't narrow the search.
fn reads_whole(node: &Value, table: &str, indexes: &[(String, String)]) -> bool {
    let text = |key: &str| node[key].as_str().unwrap_or_default();
    let mut indexes_gone_through = indexes
        .iter()
        .filter(|(index, first)| index == text("Index Name") && !text("Index Cond").contains(first));
    (text("Relation Name") == table && text("Node Type") == "Seq Scan")
        || indexes_gone_through.next().is_some()
        || node["Plans"].as_array().is_some_and(|children| {
            let mut children = children.iter();
            children.any(|child| reads_whole(child, table, indexes))
        })
}

/// Queries in the sqlx cache.
fn cached() -> Vec<String> {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.sqlx");
    let query = |path: &Path| {
        let cached: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        cached["query"].as_str().unwrap().to_owned()
    };
    std::fs::read_dir(cache)
        .unwrap()
        .map(|entry| query(&entry.unwrap().path()))
        .collect()
}

/// The generic plan for any parameters, as connections keep it.
async fn plan(conn: &mut PgConnection, query: &str) -> sqlx::Result<Value> {
    let parameters = (1..).take_while(|n| query.contains(&format!("${n}"))).count();
    let given = vec!["null"; parameters].join(", ");
    let given = if given.is_empty() {
        String::new()
    } else {
        format!("({given})")
    };
    let explain = format!(
        "set plan_cache_mode = force_generic_plan;
         prepare asked as {query};
         explain (format json) execute asked{given};
         deallocate asked"
    );
    let row = sqlx::Executor::fetch_one(conn, sqlx::raw_sql(AssertSqlSafe(explain))).await?;
    row.try_get(0)
}

/// Number of queries on a table, and those among them that read all of it, when it holds `rows`.
async fn read_whole(world: &World, table: &str, rows: &str) -> (usize, Vec<String>) {
    let mut conn = world.db.acquire().await.unwrap();
    let fill = format!("{rows}; analyze {table}");
    sqlx::raw_sql(AssertSqlSafe(fill))
        .execute(&mut *conn)
        .await
        .unwrap();
    // Skip partial indexes: they hold few rows.
    let indexes: Vec<(String, String)> = sqlx::query_as(
        "select i.indexrelid::regclass::text, a.attname::text
         from pg_index i
         join pg_attribute a on a.attrelid = i.indexrelid and a.attnum = 1
         where i.indrelid = $1::text::regclass and i.indpred is null",
    )
    .bind(table)
    .fetch_all(&mut *conn)
    .await
    .unwrap();
    let (mut planned, mut bad) = (0, Vec::new());
    for query in cached() {
        if !query.contains(table) {
            continue;
        }
        planned += 1;
        if reads_whole(
            &plan(&mut conn, &query).await.unwrap()[0]["Plan"],
            table,
            &indexes,
        ) {
            bad.push(query);
        }
    }
    (planned, bad)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_query_gathers_rows_from_a_whole_table() {
    let world = World::start().await.unwrap();
    let mut conn = world.db.acquire().await.unwrap();
    // The worst case: every table is known to be empty.
    sqlx::raw_sql("vacuum analyze").execute(&mut *conn).await.unwrap();
    let (mut planned, mut bad) = (0, Vec::new());
    for query in cached() {
        let plans = plan(&mut conn, &query).await.unwrap();
        let mut found = Vec::new();
        repeated_scans(&plans[0]["Plan"], false, false, &mut found);
        planned += 1;
        if !found.is_empty() {
            bad.push(format!("{}\n{query}", found.join(", ")));
        }
    }
    assert!(planned > 300, "{planned} queries");
    assert!(bad.is_empty(), "{}", bad.join("\n\n"));
    drop(conn);
}

/// There are as many integrations as tasks, of all features ever.
#[tokio::test(flavor = "multi_thread")]
async fn no_query_reads_all_integrations() {
    let world = World::start().await.unwrap();
    let rows = "insert into integrations
                  (id, feature_id, task_id, attempt, source_commit, source_ref, state, landed_commit, ended_at)
                select gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, 'c', 'refs/heads/c', 'merged', 'c', now()
                from generate_series(1, 20000)";
    let (planned, bad) = read_whole(&world, "integrations", rows).await;
    assert!(planned > 20, "{planned} queries");
    assert!(bad.is_empty(), "{}", bad.join("\n\n"));
}

/// One feature may have a million queued tasks, and another one task.
#[tokio::test(flavor = "multi_thread")]
async fn no_query_reads_the_whole_queue() {
    let world = World::start().await.unwrap();
    let rows = "insert into ready_tasks (task_id, feature_id, pool, kind, agent, priority)
                select gen_random_uuid(), f, 'default', 'work', 'default', 0
                from (values (gen_random_uuid()), (gen_random_uuid())) v(f)
                cross join generate_series(1, 20000)";
    let (planned, bad) = read_whole(&world, "ready_tasks", rows).await;
    assert!(planned > 20, "{planned} queries");
    assert!(bad.is_empty(), "{}", bad.join("\n\n"));
}

/// For each deleted row the server looks up the rows that refer to it.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_keys_to_deletable_rows_have_an_index() {
    let world = World::start().await.unwrap();
    let bare: Vec<String> = sqlx::query_scalar(
        "select c.conname::text
         from pg_constraint c
         join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
         where c.contype = 'f'
           and (c.conrelid in ('learnings'::regclass, 'knowledge'::regclass)
                or c.confrelid in ('tasks'::regclass, 'dispatches'::regclass))
           and not exists (
             select from pg_index i
             where i.indrelid = c.conrelid and i.indkey[0] = a.attnum
               and coalesce(pg_get_expr(i.indpred, i.indrelid), '') in ('', format('(%s IS NOT NULL)', a.attname))
           )",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    assert!(bare.is_empty(), "no index follows {bare:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_has_grown_is_planned_anew() {
    let world = World::start().await.unwrap();
    let mut conn = world.db.acquire().await.unwrap();
    let (mut sizes, mut of_another) = (Sizes::default(), Sizes::default());
    sqlx::raw_sql("vacuum analyze").execute(&mut *conn).await.unwrap();
    assert_eq!(sizes.follow(&mut conn).await.unwrap(), 0);
    assert_eq!(of_another.follow(&mut conn).await.unwrap(), 0);
    let lookup = "select d.id from memory_removed r join memory_docs d on d.id = r.doc_id";
    let scans = async |conn: &mut PgConnection| {
        let plan = plan(conn, lookup).await.unwrap().to_string();
        plan.matches("Index Cond").count()
    };
    assert_eq!(
        scans(&mut conn).await,
        0,
        "the plan of an empty table uses no index"
    );
    let mut filling = world.db.begin().await.unwrap();
    sqlx::raw_sql(
        "insert into memory_docs (entry, created_at, repo_id, kind, words)
         select gen_random_uuid(), now(), 'r', 'knowledge', ''
         from generate_series(1, 20000);
         insert into memory_removed (doc_id, posting, keys) select id, id, '{}' from memory_docs",
    )
    .execute(&mut *filling)
    .await
    .unwrap();
    assert_eq!(
        sizes.follow(&mut conn).await.unwrap(),
        0,
        "uncommitted rows change no statistics"
    );
    filling.commit().await.unwrap();
    assert_eq!(sizes.follow(&mut conn).await.unwrap(), 2);
    assert_eq!(
        scans(&mut conn).await,
        1,
        "entries are found by the index of their numbers"
    );
    assert_eq!(sizes.follow(&mut conn).await.unwrap(), 0);
    // A locked table is left to other coordinators.
    let mut other = world.db.begin().await.unwrap();
    sqlx::raw_sql("lock table memory_docs in share update exclusive mode")
        .execute(&mut *other)
        .await
        .unwrap();
    assert_eq!(of_another.follow(&mut conn).await.unwrap(), 2);
    assert_eq!(Sizes::default().follow(&mut conn).await.unwrap(), 0);
    drop(other);
    drop(conn);
}
