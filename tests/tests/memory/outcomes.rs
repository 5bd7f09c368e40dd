//! Outcomes of attempts that were shown an entry, journals of earlier runs, and revoked attempts.

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::flow::memory::library::{self, ImportLine};
use ralph_coordinator::flow::memory::upkeep;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World};
use time::OffsetDateTime;

use super::prompts::prompts_with;
use super::scene;
use super::trust::{settings, shown};
use crate::revoking::revoked::revoke;

/// An entry of the kind learning, three days old.
pub fn learned(id: &str, title: &str, body: &str) -> ImportLine {
    ImportLine {
        id: id.to_owned(),
        date: OffsetDateTime::now_utc() - time::Duration::days(3),
        title: title.to_owned(),
        body: body.to_owned(),
        paths: Vec::new(),
        tags: Vec::new(),
        kind: Kind::Learning,
        category: Some("pitfall".to_owned()),
        feature: None,
    }
}

fn options(max_retries: i32) -> FeatureOptions {
    FeatureOptions {
        max_retries,
        ..FeatureOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trials_record_the_ends_of_attempts_and_keep_an_entrys_weight() {
    let mut world = World::start_with(settings()).await.unwrap();
    let lines = [learned("serials", "Serial numbers of zones", "They wrap around.")];
    library::import(&world.db, "", &lines).await.unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let graph = r"
- key: use
  title: Compare the serial numbers of zones
  description: |
    @unless-prompt-has They wrap around : @fail not shown
    @on-attempt 1 @fail still wrong
    @done
";
    let (_, run, _) = world.submit("serials", None, graph, &options(1)).await.unwrap();
    scene::completes(&world, run).await;
    // The coordinator may have done this already.
    upkeep::tick(&world.db).await.unwrap();
    let trials: Vec<(String, bool)> =
        sqlx::query_as("select outcome::text, held_out from memory_trials order by dispatch_id")
            .fetch_all(&world.db)
            .await
            .unwrap();
    assert_eq!(
        trials,
        [("failed".to_owned(), false), ("landed".to_owned(), false)]
    );
    let weight: f32 = sqlx::query_scalar("select weight from learnings")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!(
        (weight - 1.0).abs() < 1e-6,
        "no agent reported that it used the entry: {weight}"
    );
    let entry = sqlx::query_scalar("select id from learnings")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(prompts_with(&world, "wrap around").await, 2);
    assert_eq!(library::purge(&world.db, &[entry]).await.unwrap(), (1, 2));
    assert_eq!(
        prompts_with(&world, "wrap around").await,
        0,
        "no prompt contains the purged entry"
    );
    assert!(
        shown(&world, Kind::Learning, "Serial numbers of zones")
            .await
            .is_empty()
    );
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn later_runs_find_the_journal_of_an_ended_run() {
    let mut world = World::start_with(settings()).await.unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let first = "
- key: one
  title: Tune the garbage collector of the index
  description: |
    @say <journal>The collector of the index must pause writers for compaction.</journal>
    @done
";
    let (_, run, _) = world.submit("first", None, first, &options(0)).await.unwrap();
    scene::completes(&world, run).await;
    upkeep::tick(&world.db).await.unwrap();
    let second = "
- key: two
  title: Make the garbage collector of the index quicker
  description: |
    @unless-prompt-has must pause writers for compaction : @fail the prompt lacks it
    @done
";
    let (_, run, _) = world.submit("second", None, second, &options(0)).await.unwrap();
    scene::completes(&world, run).await;
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_an_attempt_removes_its_entries_and_restores_replaced_ones() {
    let mut world = World::start_with(settings()).await.unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let graph = r#"
- key: one
  title: Boil water
  description: |
    @say <knowledge tags="kettle,water" title="The kettle boils">At 100 degrees.</knowledge>
    @done
- key: two
  title: Boil it wrongly
  after: [one]
  description: |
    @say <knowledge tags="kettle,height" title="the KETTLE boils">At 20 degrees.</knowledge>
    @done
"#;
    let (_, run, _) = world.submit("kettle", None, graph, &options(0)).await.unwrap();
    scene::completes(&world, run).await;
    let asked = "How hot the kettle boils";
    assert_eq!(shown(&world, Kind::Knowledge, asked).await, ["the KETTLE boils"]);
    let wrong = sqlx::query_scalar("select dispatch_id from knowledge where title = 'the KETTLE boils'");
    let wrong = wrong.fetch_one(&world.db).await.unwrap();
    assert_eq!(revoke(&world, wrong).await, Some(1));
    assert_eq!(shown(&world, Kind::Knowledge, asked).await, ["The kettle boils"]);
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_out_attempt_sees_no_entries_of_other_tasks() {
    let mut settings = settings();
    settings.hold_out = 1.0;
    let mut world = World::start_with(settings).await.unwrap();
    let lines = [learned("serials", "Serial numbers of zones", "They wrap around.")];
    library::import(&world.db, "", &lines).await.unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let graph = r"
- key: use
  title: Compare the serial numbers of zones
  description: |
    @unless-prompt-has They wrap around : @fail not shown
    @done
";
    let (_, run, _) = world.submit("serials", None, graph, &options(1)).await.unwrap();
    scene::completes(&world, run).await;
    let left_out: Vec<Option<String>> =
        sqlx::query_scalar("select left_out from memory_uses order by dispatch_id")
            .fetch_all(&world.db)
            .await
            .unwrap();
    assert_eq!(
        left_out,
        [Some("held out to measure what memory is worth".to_owned()), None]
    );
    drop(worker);
}
