//! One row that can't be worked with stops nothing but itself.

use ralph_coordinator::flow::apply::ReportFate;
use ralph_coordinator::flow::{finish, workers::rescue};
use ralph_shared::ids::FeatureId;
use ralph_shared::wire::Ended;
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;

/// Two features with a task each; the older one will be the one that can't be worked with.
async fn two(world: &World) -> [FeatureId; 2] {
    let options = FeatureOptions::default();
    let graph = ["- {key: a, title: poison}", "- {key: a, title: fine}"];
    let (bad, ..) = world.submit("bad", None, graph[0], &options).await.unwrap();
    let (good, ..) = world.submit("good", None, graph[1], &options).await.unwrap();
    [bad, good]
}

/// Every update of `table` fails for this feature, with this code.
async fn refuses(world: &World, table: &str, feature: FeatureId, code: &str) {
    let refusal = format!(
        "create function refuse() returns trigger language plpgsql as $$
         begin raise exception 'it is refused' using errcode = '{code}'; end $$;
         create trigger refuses before update on {table} for each row when (new.feature_id = '{}') execute function refuse()",
        feature.0
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(refusal))
        .execute(&world.db)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_a_feature_are_taken_back_though_those_of_another_cannot_be() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let [bad, good] = two(&world).await;
    assert_eq!(pool.claim_once(&[&["default"]; 2]).await.len(), 2);
    sqlx::query("update dispatches set lease_until = '-infinity'")
        .execute(&world.db)
        .await
        .unwrap();
    refuses(&world, "tasks", bad, "P0001").await;
    let (lost, _) = rescue::rescue(&world.db, world.settings.lease_ms(), true)
        .await
        .unwrap();
    assert_eq!(lost, 1);
    let lost = "select state = 'lost' from dispatches where feature_id = $1";
    world.until(lost, good.0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_though_another_cannot_be_looked_at() {
    let world = World::calm().await.unwrap();
    let [bad, good] = two(&world).await;
    sqlx::query("update runs set max_iterations = 1, iterations = 1")
        .execute(&world.db)
        .await
        .unwrap();
    refuses(&world, "runs", bad, "P0001").await;
    finish::tick(&world.db).await.unwrap();
    let ended = "select outcome is not null from runs where feature_id = $1";
    world.until(ended, good.0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_cannot_be_built_ends_its_own_dispatch_alone() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let [bad, good] = two(&world).await;
    // Reading the description divides by zero.
    sqlx::raw_sql(
        "alter table task_texts rename to texts_of_tasks;
         do $$ begin execute (
           select format('create view task_texts as select %s from texts_of_tasks', string_agg(
                    case column_name
                      when 'description' then
                        'case when title = ''poison'' then (1 / (length(title) - 6))::text else description end as description'
                      else quote_ident(column_name)
                    end, ', ' order by ordinal_position))
           from information_schema.columns
           where table_name = 'texts_of_tasks'); end $$",
    )
    .execute(&world.db)
    .await
    .unwrap();
    let assigned = pool.claim_once(&[&["default"]; 2]).await;
    assert_eq!(
        assigned.iter().map(|one| one.feature).collect::<Vec<_>>(),
        [good],
        "the other one is served"
    );
    let ended =
        "select outcome = 'error' and reason like '%division by zero%' from dispatches where feature_id = $1";
    world.until(ended, bad.0).await.unwrap();
}

/// A statement that took too long is the report's own trouble, not the server's end.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_is_cancelled_by_the_database_stops_no_other() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let [bad, _] = two(&world).await;
    let assigned = pool.claim_once(&[&["default"]; 2]).await;
    refuses(&world, "tasks", bad, "57014").await;
    let ended = || Ended::Turn {
        stop_reason: "end_turn".into(),
    };
    let reports = assigned
        .iter()
        .map(|of| pool.session(of, ended(), &format!("<task-done>{}</task-done>", of.task), 1))
        .collect();
    let fates = pool.report(reports).await;
    let expected: Vec<ReportFate> = assigned
        .iter()
        .map(|of| {
            if of.feature == bad {
                ReportFate::Stuck
            } else {
                ReportFate::Applied
            }
        })
        .collect();
    assert_eq!(fates, expected);
}
