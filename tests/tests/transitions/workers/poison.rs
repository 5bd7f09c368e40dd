//! One row that causes errors stops nothing but itself.

use ralph_coordinator::flow::apply::ReportFate;
use ralph_coordinator::flow::{finish, workers::rescue};
use ralph_shared::ids::FeatureId;
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;
use crate::scene::turn;

/// Two features with one task each; the older one will cause errors.
async fn two(world: &World) -> [FeatureId; 2] {
    let options = FeatureOptions::default();
    let graph = ["- {key: a, title: poison}", "- {key: a, title: fine}"];
    let (bad, ..) = world.submit("bad", None, graph[0], &options).await.unwrap();
    let (good, ..) = world.submit("good", None, graph[1], &options).await.unwrap();
    [bad, good]
}

/// Makes every update of `table` for this feature fail with this code.
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
async fn a_rescue_that_fails_for_one_feature_rescues_the_others() {
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
async fn a_run_ends_although_the_check_of_another_fails() {
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
async fn a_prompt_that_cannot_be_built_ends_only_its_own_dispatch() {
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
        "the other feature is served"
    );
    let ended =
        "select outcome = 'error' and reason like '%division by zero%' from dispatches where feature_id = $1";
    world.until(ended, bad.0).await.unwrap();
}

/// A cancelled statement is the report's own failure, not the server's.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_the_database_cancels_does_not_stop_the_others() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let [bad, _] = two(&world).await;
    let assigned = pool.claim_once(&[&["default"]; 2]).await;
    refuses(&world, "tasks", bad, "57014").await;
    let reports = assigned
        .iter()
        .map(|of| pool.session(of, turn(), &format!("<task-done>{}</task-done>", of.task), 1))
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
