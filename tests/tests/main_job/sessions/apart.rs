//! Tasks that change the same paths, in features that avoid conflicts and in others.

use ralph_coordinator::flow::control::{self, TaskCommand};
use ralph_coordinator::store::view;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World};

use crate::scene::Scene;

/// `first` and `second` change one file; `other` another one. `first` works until the gate opens.
fn same_file(gate: &std::path::Path) -> String {
    format!(
        r"
- key: first
  title: Write it first
  paths: [src/a.txt]
  description: |
    @effect first
    @wait-for {0}
    @run mkdir -p src
    @append src/a.txt first
    @done
- key: second
  title: Write it as well
  paths: [src/**]
  description: |
    @effect second
    @run mkdir -p src
    @append src/a.txt second
    @done
- key: other
  title: Write another one
  paths: docs/b.txt
  description: |
    @effect other
    @run mkdir -p docs
    @write docs/b.txt other
    @done
",
        gate.display()
    )
}

fn avoiding() -> FeatureOptions {
    FeatureOptions {
        avoid_conflicts: true,
        ..FeatureOptions::default()
    }
}

fn is_held(path: &str) -> &'static str {
    match path {
        "src/a.txt" => {
            "select exists (select 1 from path_holds where feature_id = $1 and path = 'src/a.txt' and released_at is null)"
        }
        _ => "select exists (select 1 from path_holds where feature_id = $1 and released_at is null)",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_with_common_paths_run_in_turn_when_asked_to() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let gate = world.gate("apart");
    let _worker = world
        .worker(&WorkerOptions::named("w1").slots(3).pool("apart"))
        .unwrap();
    let scene = Scene::submit_with(&world, "apart", &same_file(&gate), avoiding()).await;
    world.effects_of("other", 1).await.unwrap();
    world.effects_of("first", 1).await.unwrap();
    scene.until(is_held("src/a.txt")).await;

    let mut conn = world.db.acquire().await.unwrap();
    let second = view::tasks(&mut conn, &[scene.tasks[1].0], 20_000)
        .await
        .unwrap()
        .remove(0);
    assert_eq!((second.status.into_str(), second.attempt), ("pending", 0));
    let hold = second.held_by.unwrap().to_string();
    assert_eq!(hold, format!("held: {} changes src/a.txt too", scene.tasks[0]));
    let status = view::system(&mut conn, 20_000).await.unwrap();
    assert_eq!(status.held.len(), 1);
    assert_eq!(status.held[0].task, scene.tasks[1].to_string());
    drop(conn);

    std::fs::write(&gate, "").unwrap();
    scene.completes().await;
    let outcomes: Vec<String> = scene
        .attempts()
        .await
        .into_iter()
        .map(|(_, outcome, _)| outcome)
        .collect();
    assert_eq!(
        outcomes,
        ["done", "done", "done"],
        "nothing conflicted, nothing was done twice"
    );
    let repository = scene.repository.as_ref().unwrap();
    assert_eq!(
        repository.file("ralph/apart", "src/a.txt").unwrap(),
        "first\nsecond\n"
    );
    let remaining: i64 = sqlx::query_scalar("select count(*) from path_holds")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(remaining, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_with_common_paths_run_together_by_default() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let gate = world.gate("together");
    let _worker = world
        .worker(&WorkerOptions::named("w1").slots(3).pool("together"))
        .unwrap();
    let scene = Scene::submit(&world, "together", &same_file(&gate)).await;
    // Both work before the first may end.
    for effect in ["first", "second", "other"] {
        world.effects_of(effect, 1).await.unwrap();
    }
    std::fs::write(&gate, "").unwrap();
    scene
        .until("select count(*) >= 2 from tasks where feature_id = $1 and state = 'done'")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_an_attempt_changed_count_for_the_next_one() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let gate = world.gate("learned");
    let graph = format!(
        r"
- key: known
  title: Say what it changes
  paths: [a.txt]
  description: |
    @effect known
    @wait-for {0}
    @append a.txt known
    @done
- key: unknown
  title: Don't say it
  description: |
    @on-attempt 1 @append a.txt nothing
    @on-attempt 1 @effect tried
    @on-attempt 1 @fail I did it wrong
    @effect unknown
    @append a.txt unknown
    @done
",
        gate.display()
    );
    let _worker = world
        .worker(&WorkerOptions::named("w1").slots(2).pool("learned"))
        .unwrap();
    let scene = Scene::submit_with(&world, "learned", &graph, avoiding()).await;
    world.effects_of("known", 1).await.unwrap();
    // Nothing is assumed of the first attempt; the second one waits.
    world.effects_of("tried", 1).await.unwrap();
    scene.until(is_held("a.txt")).await;
    std::fs::write(&gate, "").unwrap();
    scene.completes().await;
    let repository = scene.repository.as_ref().unwrap();
    assert_eq!(
        repository.file("ralph/learned", "a.txt").unwrap(),
        "known\nunknown\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_task_begins_when_a_person_cancels_the_other_one() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let gate = world.gate("cancelled");
    let _worker = world
        .worker(&WorkerOptions::named("w1").slots(3).pool("cancelled"))
        .unwrap();
    let scene = Scene::submit_with(&world, "cancelled", &same_file(&gate), avoiding()).await;
    world.effects_of("first", 1).await.unwrap();
    scene.until(is_held("src/a.txt")).await;
    let (outcome, signals) = control::task(&world.db, scene.tasks[0], TaskCommand::Cancel, "test", None)
        .await
        .unwrap();
    assert_eq!(outcome, control::CommandOutcome::Done(1));
    world.bus.emit(signals).await;
    world.effects_of("second", 1).await.unwrap();
    scene
        .until("select count(*) = 2 from tasks where feature_id = $1 and state = 'done'")
        .await;
    std::fs::write(&gate, "").unwrap();
    world.check_processes().await.unwrap();
}
