//! What memory is worth is measured by what some attempts are not told, and what harms sinks by itself.

use std::time::Duration;

use ralph_coordinator::domain::recall::{Ended, Kind, lift};
use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::memory::library::{self, ImportLine};
use ralph_coordinator::flow::memory::upkeep;
use ralph_coordinator::store::view;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World};
use time::OffsetDateTime;

use super::trust::settings;

fn learned(id: &str, body: &str) -> ImportLine {
    ImportLine {
        id: id.to_owned(),
        date: OffsetDateTime::now_utc() - time::Duration::days(3),
        title: "Serial numbers of zones".to_owned(),
        body: body.to_owned(),
        paths: Vec::new(),
        tags: Vec::new(),
        kind: Kind::Learning,
        category: Some("pitfall".to_owned()),
        feature: None,
    }
}

const TASKS: usize = 30;

#[tokio::test(flavor = "multi_thread")]
async fn the_lift_is_what_the_held_out_attempts_lacked() {
    let mut settings = settings();
    settings.hold_out = 0.5;
    let mut world = World::start_with(settings).await.unwrap();
    library::import(&world.db, "", &[learned("serials", "They wrap around.")])
        .await
        .unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1").slots(4)).unwrap();
    let graph: String = (0..TASKS)
        .map(|n| {
            format!(
                "- key: k{n}\n  title: Compare the serial numbers of zones {n}\n  description: |\n    \
                 @unless-prompt-has They wrap around : @fail not shown\n    @done\n"
            )
        })
        .collect();
    let options = FeatureOptions {
        max_retries: 1,
        ..FeatureOptions::default()
    };
    let (_, run, _) = world.submit("serials", None, &graph, &options).await.unwrap();
    assert_eq!(
        world.ended(run).await.unwrap(),
        RunOutcome::Complete,
        "{}",
        world.tell().await
    );
    upkeep::tick(&world.db).await.unwrap();
    let mut conn = world.db.acquire().await.unwrap();
    let [with, without] = view::trials(&mut conn, Some("")).await.unwrap();
    let ended = |(landed, ended)| Ended { landed, ended };
    let first: (i64, i64) = sqlx::query_as(
        "select count(*) filter (where t.held_out), count(*) filter (where not t.held_out)
         from memory_trials t join dispatches d on d.id = t.dispatch_id where d.attempt = 1",
    )
    .fetch_one(&mut *conn)
    .await
    .unwrap();
    assert_eq!(first.0 + first.1, i64::try_from(TASKS).unwrap());
    // What was held out failed and had memory when it was tried again.
    assert_eq!(without, (0, first.0));
    assert_eq!(with, (first.1, first.1), "further attempts are no part of it");
    let lift = lift(ended(with), ended(without)).unwrap();
    assert!(
        lift.difference == 1.0 && lift.low > 0.5 && lift.high <= 1.0,
        "{lift:?}"
    );
    drop(conn);
    drop(worker);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_harms_sinks_until_it_is_not_shown() {
    let mut world = World::start_with(settings()).await.unwrap();
    library::import(&world.db, "", &[learned("wrong", "They never wrap around.")])
        .await
        .unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let graph = r"
- key: use
  title: Compare the serial numbers of zones
  description: |
    @if-prompt-has They never wrap around : @fail misled
    @done
";
    let usual = FeatureOptions::default();
    let options = FeatureOptions {
        max_retries: 100,
        run: RunSettings {
            backoff_ms: 1,
            ..usual.run.clone()
        },
        ..usual
    };
    let (_, run, _) = world.submit("serials", None, graph, &options).await.unwrap();
    let ended = {
        let weighed = async {
            loop {
                upkeep::tick(&world.db).await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            ended = world.ended(run) => ended.unwrap(),
            () = weighed => unreachable!("it never ends"),
        }
    };
    assert_eq!(ended, RunOutcome::Complete, "{}", world.tell().await);
    let weight: f32 = sqlx::query_scalar("select weight from learnings")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!((0.2..0.3).contains(&weight), "{weight}");
    drop(worker);
    world.stop().await;
}
