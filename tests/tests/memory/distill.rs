//! A session merges learnings that say nearly the same. Revoking one of the sources revokes the merged
//! learning too.

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::domain::recall::lifecycle::Distill;
use ralph_coordinator::flow::memory::embedding::Meaning;
use ralph_coordinator::flow::{
    Settings,
    memory::{distill, library},
};
use ralph_coordinator::prompt::{PromptOptions, Templates};
use ralph_shared::ids::{DispatchId, RunId};
use ralph_tests::harness::{FeatureOptions, Spawned, WorkerOptions, World};
use uuid::Uuid;

use super::scene;
use super::trust::settings;
use crate::revoking::revoked::revoke;

pub const ABOVE: Distill = Distill {
    above: 3,
    usd_a_day: 1.0,
};

/// Two tasks about one subject: four learnings, and a fifth that is wrong.
const GRAPH: &str = r#"
- key: good
  title: Boil water
  description: |
    @say <learning category="pitfall" tags="Kettle,a">The kettle boils over when it is full.</learning>
    @say <learning category="pitfall" tags="kettle,b">Never fill the kettle to the brim.</learning>
    @say <learning category="pitfall" tags="kettle,c">A full kettle boils over onto the stove.</learning>
    @say <learning category="pitfall" tags="kettle,d">Fill the kettle to two thirds.</learning>
    @done
- key: wrong
  title: Boil more water
  after: [good]
  description: |
    @say <learning category="pitfall" tags="kettle,e">Close the kettle's spout against boiling over.</learning>
    @done
"#;

/// Settings of a world whose scripted agent runs `script` when it has to merge learnings.
fn merging(folder: &std::path::Path, script: &str) -> Settings {
    let text = format!("=== head\n{script}\n=== learning\nlearned: {{{{ text }}}}\n");
    std::fs::write(folder.join("distill.md"), text).unwrap();
    Settings {
        templates: Templates::load(Some(folder), PromptOptions::default())
            .unwrap()
            .into(),
        ..settings()
    }
}

/// Completes both tasks without merging anything.
async fn learn(world: &mut World) -> Spawned {
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let options = FeatureOptions::default();
    let (_, run, _) = world.submit("kettle", None, GRAPH, &options).await.unwrap();
    scene::completes(world, run).await;
    worker
}

async fn begin(world: &World) -> usize {
    let (begun, signals) = distill::begin(&world.db, ABOVE).await.unwrap();
    world.bus.emit(signals).await;
    begun
}

async fn run_of_session(world: &World) -> RunId {
    let run = sqlx::query_scalar("select run_id from distillations")
        .fetch_one(&world.db)
        .await
        .unwrap();
    RunId(run)
}

/// Texts of all learnings, each with whether it is live.
async fn learnings(world: &World) -> Vec<(String, bool)> {
    sqlx::query_as(
        "select body, pruned_at is null and superseded_by is null from learnings order by origin, id",
    )
    .fetch_all(&world.db)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merged_learning_is_revoked_with_any_of_its_sources() {
    let folder = tempfile::tempdir().unwrap();
    // The second learning names too few sources, and one that the session did not receive.
    let script = r#"@on-kind distill @say <learning category="pitfall" tags="kettle" merges="{{ ids[0] }}, {{ ids[1] }},{{ ids[2] }},{{ ids[4] }}">Full kettles boil over.</learning>
@on-kind distill @say <learning category="pitfall" tags="kettle" merges="{{ ids[0] }},l-000000000000">Not this.</learning>"#;
    let mut world = World::start_with(merging(folder.path(), script)).await.unwrap();
    let worker = learn(&mut world).await;
    assert_eq!(begin(&world).await, 1);
    assert_eq!(begin(&world).await, 0, "one session a repository");
    let run = run_of_session(&world).await;
    scene::completes(&world, run).await;
    let rows = |texts: &[(&str, bool)]| -> Vec<(String, bool)> {
        texts
            .iter()
            .map(|(text, live)| ((*text).to_owned(), *live))
            .collect()
    };
    assert_eq!(
        learnings(&world).await,
        rows(&[
            ("The kettle boils over when it is full.", false),
            ("Never fill the kettle to the brim.", false),
            ("A full kettle boils over onto the stove.", false),
            ("Fill the kettle to two thirds.", true),
            ("Close the kettle's spout against boiling over.", false),
            ("Full kettles boil over.", true),
        ])
    );
    let found = |world: &World| {
        let db = world.db.clone();
        async move {
            let asked = library::QueryLine {
                query_id: "q".to_owned(),
                date: time::OffsetDateTime::now_utc() + time::Duration::minutes(1),
                title: "Fill the kettle so that it never boils over".to_owned(),
                description: String::new(),
            };
            let picked = library::search(&db, Meaning::NONE, "", Kind::Learning, &[asked], 9)
                .await
                .unwrap();
            let mut texts: Vec<String> = picked[0].shown.iter().map(|one| one.entry.body.clone()).collect();
            texts.sort();
            texts
        }
    };
    assert_eq!(
        found(&world).await,
        ["Fill the kettle to two thirds.", "Full kettles boil over."]
    );
    assert_eq!(begin(&world).await, 0, "the remaining learnings have not grown");
    let (made, merged): (i32, i32) = sqlx::query_as("select made, merged from distillations")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!((made, merged), (1, 4));

    let wrong: DispatchId = sqlx::query_scalar("select dispatch_id from learnings where body like 'Close%'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(revoke(&world, wrong).await, Some(2));
    assert_eq!(
        learnings(&world).await,
        rows(&[
            ("The kettle boils over when it is full.", true),
            ("Never fill the kettle to the brim.", true),
            ("A full kettle boils over onto the stove.", true),
            ("Fill the kettle to two thirds.", true),
            ("Close the kettle's spout against boiling over.", false),
            ("Full kettles boil over.", false),
        ])
    );
    let again = found(&world).await;
    assert!(
        !again.is_empty() && !again.iter().any(|text| text.contains("spout")),
        "{again:?}"
    );
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_is_ignored_when_a_source_was_revoked_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start_with(settings()).await.unwrap();
    let script = format!(
        r#"@on-kind distill @effect merging
@on-kind distill @wait-for {}
@on-kind distill @say <learning category="pitfall" tags="kettle">Close the spout, and all is well.</learning>"#,
        world.gate("merge").display()
    );
    world.settings = merging(folder.path(), &script);
    let worker = learn(&mut world).await;
    assert_eq!(begin(&world).await, 1);
    world.effects_of("merging", 1).await.unwrap();
    let wrong: DispatchId = sqlx::query_scalar("select dispatch_id from learnings where body like 'Close%'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(revoke(&world, wrong).await, Some(1));
    std::fs::write(world.gate("merge"), "").unwrap();
    let run = run_of_session(&world).await;
    scene::completes(&world, run).await;
    let live: Vec<String> = learnings(&world)
        .await
        .into_iter()
        .filter(|(_, live)| *live)
        .map(|(text, _)| text)
        .collect();
    assert_eq!(live.len(), 4, "{live:?}");
    assert!(!live.iter().any(|text| text.contains("spout")), "{live:?}");
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_is_ignored_when_a_source_was_edited_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start_with(settings()).await.unwrap();
    let script = format!(
        r#"@on-kind distill @effect merging
@on-kind distill @wait-for {}
@on-kind distill @say <learning category="pitfall" tags="kettle" merges="{{{{ ids[0] }}}},{{{{ ids[1] }}}},{{{{ ids[2] }}}}">Full kettles boil over.</learning>"#,
        world.gate("merge").display()
    );
    world.settings = merging(folder.path(), &script);
    let worker = learn(&mut world).await;
    assert_eq!(begin(&world).await, 1);
    world.effects_of("merging", 1).await.unwrap();
    let corrected: Uuid = sqlx::query_scalar("select id from learnings where body like 'A full kettle%'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    let edit = library::EditMemory {
        body: Some("A full kettle whistles.".to_owned()),
        ..library::EditMemory::default()
    };
    let edited = library::edit(&world.db, corrected, &edit).await.unwrap();
    assert_eq!(edited, library::Edited::Changed);
    std::fs::write(world.gate("merge"), "").unwrap();
    let run = run_of_session(&world).await;
    scene::completes(&world, run).await;
    let all = learnings(&world).await;
    assert!(all.len() == 5 && all.iter().all(|(_, live)| *live), "{all:?}");
    assert!(
        all.contains(&("A full kettle whistles.".to_owned(), true)),
        "{all:?}"
    );
    drop(worker);
}
