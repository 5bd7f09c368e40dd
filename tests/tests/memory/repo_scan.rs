//! The memory follows the repository: each session start reads the knowledge files at its head. Entries about
//! deleted files are hidden until the files are back.

use std::time::Duration;

use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::Settings;
use ralph_coordinator::store;
use ralph_shared::ids::DispatchId;
use ralph_tests::harness::{FeatureOptions, Repository, Spawned, WorkerOptions, World};

use super::trust::settings;

/// Settings with a long lease. A worker waits a quarter of a lease for an answer, and without one the prompt
/// stays unchanged. On a busy machine a coordinator's first answer may take longer than a quarter of two
/// seconds.
fn patient() -> Settings {
    Settings {
        lease: Duration::from_secs(20),
        ..settings()
    }
}

const FILE: &str = ".ralph/knowledge/kettle.md";

fn knowledge(body: &str) -> String {
    format!("---\ntitle: \"The kettle boils\"\ntags: [kettle, water]\n---\n\n{body}\n")
}

async fn complete(world: &World, name: &str, repository: &Repository, graph: &str) {
    let options = FeatureOptions {
        max_retries: 0,
        ..FeatureOptions::default()
    };
    let (_, run, _) = world
        .submit(name, Some(repository), graph, &options)
        .await
        .unwrap();
    assert_eq!(
        world.ended(run).await.unwrap(),
        RunOutcome::Complete,
        "{name}: {}",
        world.tell().await
    );
}

/// Creates a repository that knows how hot the kettle boils, and another file; runs a first feature with that
/// knowledge in its prompt.
async fn first_feature(world: &mut World, path: &str, text: &str) -> (Repository, Spawned) {
    let known = knowledge("At 100 degrees.");
    let repository = Repository::create(world.dir(), &[(FILE, &known), (path, text)]).unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let first = r"
- key: say
  title: Say how hot the kettle boils
  description: |
    @unless-prompt-has At 100 degrees : @fail the prompt lacks it
    @done
";
    complete(world, "first", &repository, first).await;
    (repository, worker)
}

#[tokio::test(flavor = "multi_thread")]
async fn repository_knowledge_reaches_every_session_and_follows_edits() {
    let mut world = World::start_with(patient()).await.unwrap();
    let (repository, worker) =
        first_feature(&mut world, ".ralph/knowledge/plain.md", "no front matter").await;
    let mut conn = world.db.acquire().await.unwrap();
    let dispatch: DispatchId = sqlx::query_scalar("select id from dispatches where kind = 'work'")
        .fetch_one(&mut *conn)
        .await
        .unwrap();
    let (_, body) = store::dispatch::prompt::read(&mut conn, dispatch)
        .await
        .unwrap()
        .unwrap();
    assert!(
        body.contains("At 100 degrees"),
        "the stored prompt is the one that was sent: {body}"
    );
    let shown: Vec<String> = sqlx::query_scalar(
        "select k.title from memory_uses u join knowledge k on k.id = u.entry where u.left_out is null",
    )
    .fetch_all(&mut *conn)
    .await
    .unwrap();
    assert_eq!(shown, ["The kettle boils"]);
    drop(conn);

    repository
        .commit("main", FILE, &knowledge("At 90 degrees on a mountain."))
        .unwrap();
    let second = r"
- key: say
  title: Say how hot the kettle boils
  description: |
    @unless-prompt-has At 90 degrees on a mountain : @fail the prompt lacks it
    @if-prompt-has At 100 degrees : @fail that is out of date
    @done
";
    complete(&world, "second", &repository, second).await;

    let third = r"
- key: remove
  title: Sort the cupboard
  description: |
    @run rm .ralph/knowledge/kettle.md
    @done
- key: say
  title: Say how hot the kettle boils
  after: [remove]
  description: |
    @if-prompt-has At 90 degrees : @fail that is no longer so
    @done
";
    complete(&world, "third", &repository, third).await;
    let entries: Vec<(String, String, bool, bool)> = sqlx::query_as(
        "select body, origin::text, superseded_by is not null, pruned_at is not null from knowledge order by created_at, id",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    let file = |body: &str, replaced, pruned| (body.to_owned(), "repository".to_owned(), replaced, pruned);
    assert_eq!(
        entries,
        [
            file("At 100 degrees.", true, false),
            file("At 90 degrees on a mountain.", false, true),
        ]
    );
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn knowledge_of_a_deleted_folder_is_not_shown_to_a_new_feature() {
    let mut world = World::start_with(patient()).await.unwrap();
    let (repository, worker) = first_feature(&mut world, "house/README.md", "kitchen\n").await;
    // Remove everything except the contents of `house`.
    let git = |args: &[&str]| repository.git(args).unwrap().trim().to_owned();
    let gone = git(&["commit-tree", "main:house", "-p", "main", "-m", "Move out"]);
    git(&["update-ref", "refs/heads/main", &gone]);
    let second = r"
- key: say
  title: Say how hot the kettle boils
  description: |
    @if-prompt-has At 100 degrees : @fail that is no longer so
    @done
";
    complete(&world, "second", &repository, second).await;
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_about_deleted_files_are_hidden_until_the_files_return() {
    let mut world = World::start_with(patient()).await.unwrap();
    let repository = Repository::create(world.dir(), &[("README.md", "kitchen\n")]).unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let graph = r#"
- key: learn
  title: Boil water
  description: |
    @write src/kettle.rs fn boil() {}
    @say <learning category="pitfall" tags="kettle">A full kettle boils over.</learning>
    @done
- key: there
  title: Fill the kettle once
  after: [learn]
  description: |
    @unless-prompt-has A full kettle boils over : @fail the prompt lacks it
    @done
- key: delete
  title: Throw it away
  after: [there]
  description: |
    @run rm src/kettle.rs
    @done
- key: gone
  title: Fill the kettle twice
  after: [delete]
  description: |
    @if-prompt-has A full kettle boils over : @fail there is none any more
    @done
- key: again
  title: Buy another
  after: [gone]
  description: |
    @write src/kettle.rs fn boil(degrees: u32) {}
    @done
- key: back
  title: Fill the kettle thrice
  after: [again]
  description: |
    @unless-prompt-has A full kettle boils over : @fail the prompt lacks it
    @done
- key: rename
  title: Put it elsewhere
  after: [back]
  description: |
    @run mv src/kettle.rs src/boiler.rs
    @done
- key: elsewhere
  title: Fill the kettle for the last time
  after: [rename]
  description: |
    @unless-prompt-has A full kettle boils over : @fail the prompt lacks it
    @done
"#;
    complete(&world, "kettle", &repository, graph).await;
    let paths: Vec<String> = sqlx::query_scalar("select paths from learnings")
        .fetch_one(&world.db)
        .await
        .unwrap();
    // Another branch may have the file under its old name.
    assert_eq!(paths, ["src/kettle.rs", "src/boiler.rs"]);
    drop(worker);
}
