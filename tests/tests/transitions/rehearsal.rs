//! A new connection goes through the way of a task once, and nobody sees it.

use ralph_coordinator::flow::rehearsal;
use ralph_tests::harness::{FeatureOptions, World};

use super::pool::Pool;

/// Rows of every table, as they stand.
async fn rows(world: &World) -> Vec<(String, String)> {
    let tables: Vec<String> = sqlx::query_scalar(
        "select relname::text from pg_class
         where relkind = 'r' and relnamespace = current_schema()::regnamespace order by relname",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    let mut rows = Vec::new();
    for table in tables {
        let all = format!("select coalesce(string_agg(t::text, E'\n' order by t::text), '') from {table} t");
        let text = sqlx::query_scalar(sqlx::AssertSqlSafe(all))
            .fetch_one(&world.db)
            .await
            .unwrap();
        rows.push((table, text));
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_plans_the_whole_way_and_leaves_nothing() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let graph = "- {key: a, title: A}\n- {key: b, title: B, after: [a]}";
    world
        .submit("f", None, graph, &FeatureOptions::default())
        .await
        .unwrap();
    let before = rows(&world).await;
    let mut conn = world.db.acquire().await.unwrap();
    rehearsal::rehearse(&mut conn, &world.settings).await.unwrap();
    let planned: Vec<String> =
        sqlx::query_scalar("select statement from pg_prepared_statements where generic_plans > 0")
            .fetch_all(&mut *conn)
            .await
            .unwrap();
    drop(conn);
    // One statement of each part of the way: what claims take, read and keep, what a report changes, leaves and frees.
    for part in [
        "insert into dispatches",
        "with recursive lineage",
        "from memory_unmerged",
        "from memory_postings",
        "insert into prompts",
        "update dispatches d",
        "insert into learnings",
        "insert into memory_unmerged",
        "insert into ready_tasks",
        "update runs set outcome",
    ] {
        assert!(
            planned.iter().any(|statement| statement.contains(part)),
            "not planned: {part}"
        );
    }
    assert_eq!(rows(&world).await, before);
    // What was ready is ready.
    assert_eq!(pool.claim(2).await.len(), 1);
    world.stop().await;
}
