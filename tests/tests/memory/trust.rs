//! Entries are shown to other tasks only once their task is done, and a repeated entry replaces the earlier
//! one.

use std::time::Duration;

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::Settings;
use ralph_coordinator::flow::memory::embedding::Meaning;
use ralph_coordinator::flow::memory::library::{self, QueryLine};
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World};
use time::OffsetDateTime;

pub fn settings() -> Settings {
    Settings {
        heartbeat: Duration::from_millis(200),
        lease: Duration::from_millis(2_000),
        grace: Duration::from_millis(300),
        hold_out: 0.0,
        ..Settings::default()
    }
}

fn asked(title: &str) -> QueryLine {
    QueryLine {
        query_id: "q".to_owned(),
        date: OffsetDateTime::now_utc() + time::Duration::minutes(1),
        title: title.to_owned(),
        description: String::new(),
    }
}

/// Titles of the entries shown for a question.
pub async fn shown(world: &World, kind: Kind, title: &str) -> Vec<String> {
    let picked = library::search(&world.db, Meaning::NONE, "", kind, &[asked(title)], 5)
        .await
        .unwrap();
    picked[0]
        .shown
        .iter()
        .map(|one| one.entry.title.clone())
        .collect()
}

async fn titles(world: &World, title: &str) -> Vec<(String, Vec<String>)> {
    let picked = library::search(&world.db, Meaning::NONE, "", Kind::Knowledge, &[asked(title)], 5)
        .await
        .unwrap();
    picked[0]
        .shown
        .iter()
        .map(|one| (one.entry.title.clone(), one.entry.tags.clone()))
        .collect()
}

const GRAPH: &str = r#"
- key: failing
  title: Leave something wrong
  description: |
    @say <knowledge tags="kettle" title="The kettle boils at 50 degrees">It does not.</knowledge>
    @fail it is wrong
- key: one
  title: Boil water
  description: |
    @say <knowledge tags="kettle,water" title="The kettle boils">At 100 degrees.</knowledge>
    @done
- key: two
  title: Boil it higher up
  after: [one]
  description: |
    @say <knowledge tags="kettle,height" title="the KETTLE boils">At 90 degrees on a mountain.</knowledge>
    @done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_tasks_entry_stays_quarantined_and_a_repeat_is_merged() {
    let mut world = World::start_with(settings()).await.unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let options = FeatureOptions {
        max_retries: 0,
        ..FeatureOptions::default()
    };
    let (_, run, _) = world.submit("kettle", None, GRAPH, &options).await.unwrap();
    assert_eq!(
        world.ended(run).await.unwrap(),
        RunOutcome::Blocked,
        "{}",
        world.tell().await
    );
    let tags = ["kettle", "water", "height"].map(str::to_owned).to_vec();
    assert_eq!(
        titles(&world, "How hot the kettle boils").await,
        [("the KETTLE boils".to_owned(), tags)]
    );
    let replaced: Vec<(String, Option<String>)> = sqlx::query_as(
        "select o.title, n.title from knowledge o left join knowledge n on n.id = o.superseded_by
         where o.released_at is not null order by o.id",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    assert_eq!(
        replaced,
        [
            ("The kettle boils".to_owned(), Some("the KETTLE boils".to_owned())),
            ("the KETTLE boils".to_owned(), None)
        ]
    );
    drop(worker);
}
