//! Work directly in a folder of one machine: no clone, one session at a time, nothing undone.

use std::path::{Path, PathBuf};

use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::control::{self, TaskCommand};
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, binary};

use crate::scene::Scene;

/// Creates a folder with one file.
fn notes(world: &World) -> PathBuf {
    let dir = world.dir().join("notes");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("old.txt"), "old\n").unwrap();
    dir.canonicalize().unwrap()
}

fn inside(dir: &Path, max_retries: i32) -> FeatureOptions {
    FeatureOptions {
        dir: Some(dir.display().to_string()),
        max_parallel: 1,
        max_retries,
        ..FeatureOptions::default()
    }
}

fn worker(name: &str, pool: &str, dirs: Option<&Path>) -> WorkerOptions {
    let mut options = WorkerOptions::named(name).slots(2).pool(pool);
    if let Some(dirs) = dirs {
        options
            .env
            .insert("RALPH_DIRS".to_owned(), dirs.display().to_string());
    }
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_work_one_after_the_other_in_the_folder_itself() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let dir = notes(&world);
    let graph = r"
- key: one
  title: Write one
  description: |
    @on-attempt 1 @append log.txt first
    @on-attempt 1 @fail I don't know how
    @expect-pass grep -qx first log.txt
    @expect-pass grep -qx old old.txt
    @write one.txt one
    @if-prompt-has What an earlier attempt left there is there still : @done
    @on-kind verify @if-prompt-has - one.txt : @say <verify-pass/>
    @on-kind verify @unless-prompt-has - one.txt : @say <verify-fail>not told what changed</verify-fail>
- key: two
  title: Write two
  verify: false
  description: |
    @effect two
    @expect-pass test ! -e busy.txt
    @write busy.txt two
    @run rm busy.txt
    @done
- key: three
  title: Write three
  verify: false
  description: |
    @effect three
    @expect-pass test ! -e busy.txt
    @write busy.txt three
    @run rm busy.txt
    @done
";
    let options = FeatureOptions {
        verify: true,
        ..inside(&dir, 3)
    };
    let parent = dir.parent().unwrap().to_owned();
    // The folder lies beside the workers' own data.
    assert_eq!(parent, world.dir().canonicalize().unwrap());
    let _worker = world.worker(&worker("w1", "notes", Some(&dir))).unwrap();
    let scene = Scene::scratch(&world, "notes", graph, options).await;
    scene.ends(RunOutcome::Complete).await;
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!((read("one.txt").trim(), read("log.txt").trim()), ("one", "first"));
    let changed: Vec<String> = sqlx::query_scalar(
        "select array_to_string(files_changed, ' ') from dispatches
         where task_id = $1 and kind = 'work' order by claimed_at",
    )
    .bind(scene.tasks[0].0)
    .fetch_all(&world.db)
    .await
    .unwrap();
    assert_eq!(changed, ["log.txt", "one.txt"]);
    let verdicts: Vec<String> =
        sqlx::query_scalar("select outcome::text from dispatches where kind = 'verify'")
            .fetch_all(&world.db)
            .await
            .unwrap();
    assert_eq!(verdicts, ["passed"]);
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_the_worker_may_not_use_stays_closed() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let dir = notes(&world);
    let graph = "- {key: one, title: One, description: '@write one.txt one'}";
    let elsewhere = world.dir().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let gone = elsewhere.join("gone");
    let closed = "this worker may not: add it to `dirs` of [workspace]";
    let rows = [
        ("nowhere", None, &dir, closed),
        ("elsewhere", Some(elsewhere.as_path()), &dir, closed),
        (
            "gone",
            Some(elsewhere.as_path()),
            &gone,
            "there is no such folder",
        ),
    ];
    for (name, dirs, folder, words) in rows {
        let _worker = world.worker(&worker(name, name, dirs)).unwrap();
        let scene = Scene::scratch(&world, name, graph, inside(folder, 0)).await;
        scene.ends(RunOutcome::Blocked).await;
        let attempts = scene.attempts().await;
        // Each try ends like one of an unavailable agent: after a pause, and without a failure of the task,
        // which may have none.
        let doors = attempts.iter().filter(|(_, outcome, _)| outcome == "door");
        assert_eq!((attempts.len(), doors.count()), (5, 5), "{attempts:?}");
        let failures: i16 = sqlx::query_scalar("select failures from tasks where id = $1")
            .bind(scene.tasks[0].0)
            .fetch_one(&world.db)
            .await
            .unwrap();
        assert_eq!(failures, 0);
        let reason = &attempts[4].2;
        assert!(reason.contains(words), "{reason}");
    }
    // A folder with the worker's own secrets stays closed too.
    let all = world.dir().to_owned();
    let _worker = world.worker(&worker("own", "own", Some(&all))).unwrap();
    let scene = Scene::scratch(&world, "own", graph, inside(&all.canonicalize().unwrap(), 0)).await;
    scene.ends(RunOutcome::Blocked).await;
    let (_, _, reason) = scene.attempts().await.pop().unwrap();
    assert!(reason.contains("own data lies in it"), "{reason}");
    assert!(!dir.join("one.txt").exists() && !all.join("one.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_of_a_dead_worker_is_held_until_a_person_frees_it() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let dir = notes(&world);
    let gate = world.gate("left");
    let graph = format!(
        "- key: one\n  title: One\n  description: |\n    @on-attempt 1 @effect began\n    @on-attempt 1 @wait-for {}\n    \
         @append one.txt one\n    @done\n",
        gate.display()
    );
    let mut first = world.worker(&worker("w1", "left", Some(&dir))).unwrap();
    let scene = Scene::scratch(&world, "left", &graph, inside(&dir, 0)).await;
    world.effects_of("began", 1).await.unwrap();
    first.kill();
    let _second = world.worker(&worker("w2", "left", Some(&dir))).unwrap();
    scene.ends(RunOutcome::Blocked).await;
    let (_, _, reason) = scene.attempts().await.pop().unwrap();
    assert!(
        reason.contains("is held by session") && reason.contains("ralph-worker free"),
        "{reason}"
    );

    let freed = tokio::process::Command::new(binary("ralph-worker"))
        .arg("free")
        .arg(&dir)
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let stdout = String::from_utf8_lossy(&freed.stdout).into_owned();
    assert!(
        freed.status.success() && stdout.contains("is free; it was held by session"),
        "{stdout}"
    );
    let (outcome, _) = control::task(&world.db, scene.tasks[0], TaskCommand::Retry, "test", None)
        .await
        .unwrap();
    assert_eq!(outcome, control::CommandOutcome::Done(1));
    let run = control::FeatureCommand::Run(Box::new(FeatureOptions::default().run));
    let (_, run, signals) = control::feature(&world.db, scene.feature, &run).await.unwrap();
    world.bus.emit(signals).await;
    assert_eq!(world.ended(run.unwrap()).await.unwrap(), RunOutcome::Complete);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(std::fs::read_to_string(dir.join("one.txt")).unwrap(), "one\n");
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn features_of_one_folder_share_one_slot() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let dir = notes(&world);
    let gate = world.gate("first");
    let _worker = world.worker(&worker("w1", "notes", Some(&dir))).unwrap();
    let submit = async |name: &str, graph: &str, options: FeatureOptions| {
        let (feature, run, _) = world
            .submit(name, None, graph, &options.pool("notes"))
            .await
            .unwrap();
        (feature, run)
    };
    let first = format!(
        "- key: a\n  title: A\n  description: |\n    @effect first\n    @wait-for {}\n    @done\n",
        gate.display()
    );
    let (_, first) = submit("first", &first, inside(&dir, 0)).await;
    world.effects_of("first", 1).await.unwrap();
    let done = "- {key: a, title: A, description: '@done'}";
    let (feature, second) = submit("second", done, inside(&dir, 0)).await;
    // The other slot is free for other features.
    let (_, elsewhere) = submit("elsewhere", done, FeatureOptions::default()).await;
    assert_eq!(world.ended(elsewhere).await.unwrap(), RunOutcome::Complete);
    let begun: i64 = sqlx::query_scalar("select count(*) from dispatches where feature_id = $1")
        .bind(feature.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(begun, 0);
    std::fs::write(&gate, "").unwrap();
    for run in [first, second] {
        assert_eq!(world.ended(run).await.unwrap(), RunOutcome::Complete);
    }
    world.check_processes().await.unwrap();
}
