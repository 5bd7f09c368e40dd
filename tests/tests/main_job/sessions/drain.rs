//! SIGTERM of a worker: sessions may finish within a time limit; after that they are ended, pushed and
//! reported.

use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, until};

use crate::scene::Scene;

const HALVES: &str = r"
- key: half
  title: Do it in two halves
  description: |
    @on-attempt 1 @write half.txt first half
    @effect begun
    @on-attempt 1 @silent
    @expect-pass grep -q 'first half' half.txt
    @append half.txt second half
    @done
";

/// How `Scene::attempts` shows a session that a drain ended.
fn interrupted() -> (String, String, String) {
    (
        "settled".into(),
        "interrupted".into(),
        "the worker was drained".into(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn drained_worker_lets_its_session_finish_and_takes_nothing_new() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let gate = world.gate("slow");
    let graph = format!(
        r"
- key: slow
  title: Take long
  description: |
    @effect begun
    @wait-for {}
    @write slow.txt slow
    @done
- key: after
  title: Come after
  after: [slow]
  description: |
    @done
",
        gate.display()
    );
    let options = |name: &str| WorkerOptions {
        drain_seconds: 60,
        ..WorkerOptions::named(name).pool("slow")
    };
    let mut drained = world.worker(&options("drained")).unwrap();
    let scene = Scene::submit(&world, "slow", &graph).await;
    world.effects_of("begun", 1).await.unwrap();
    drained.signal(Signal::SIGTERM);
    scene
        .until("select draining and $1::uuid is not null from workers where name = 'drained'")
        .await;
    std::fs::write(&gate, "").unwrap();
    assert!(drained.wait().await.success(), "{}", drained.output());
    let attempts = scene.attempts().await;
    assert_eq!(attempts, [("settled".into(), "done".into(), String::new())]);
    let _next = world.worker(&options("next")).unwrap();
    scene.completes().await;
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_outlasts_the_drain_is_pushed_and_continued() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let options = |name: &str| WorkerOptions {
        drain_seconds: 0,
        ..WorkerOptions::named(name).pool("half")
    };
    let mut drained = world.worker(&options("drained")).unwrap();
    let scene = Scene::submit(&world, "half", HALVES).await;
    world.effects_of("begun", 1).await.unwrap();
    drained.signal(Signal::SIGTERM);
    assert!(drained.wait().await.success(), "{}", drained.output());
    let attempts = scene.attempts().await;
    assert_eq!(attempts, [interrupted()]);
    let pushed = "select pushed_ref is not null from dispatches where feature_id = $1";
    scene.until(pushed).await;
    world.check_processes().await.unwrap();
    let _next = world.worker(&options("next")).unwrap();
    scene.completes().await;
    let file = scene
        .repository
        .as_ref()
        .unwrap()
        .file("ralph/half", "half.txt")
        .unwrap();
    assert_eq!(file, "first half\nsecond half\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_sigterm_ends_a_worker_and_its_agents_at_once() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let graph = r"
- key: stubborn
  title: Never leave
  description: |
    @on-attempt 1 @ignore-eof
    @on-attempt 1 @ignore-term
    @effect begun
    @on-attempt 1 @hang
    @done
";
    let options = |name: &str| WorkerOptions {
        drain_seconds: 600,
        ..WorkerOptions::named(name).pool("stubborn")
    };
    let mut twice = world.worker(&options("twice")).unwrap();
    let scene = Scene::submit(&world, "stubborn", graph).await;
    world.effects_of("begun", 1).await.unwrap();
    twice.signal(Signal::SIGTERM);
    scene
        .until("select draining and $1::uuid is not null from workers where name = 'twice'")
        .await;
    assert!(!world.session_processes().is_empty());
    twice.signal(Signal::SIGTERM);
    assert_eq!(twice.wait().await.code(), Some(130), "{}", twice.output());
    assert_eq!(world.session_processes(), []);
    let _again = world.worker(&options("twice")).unwrap();
    scene.completes().await;
}

/// Kills a worker in its drain, as a service manager with a short timeout does.
async fn kill_in_its_drain(world: &World, scene: &Scene<'_>, options: &WorkerOptions, effect: &str) {
    let mut stopped = world.worker(options).unwrap();
    world.effects_of(effect, 1).await.unwrap();
    stopped.signal(Signal::SIGTERM);
    scene
        .until("select bool_or(draining) and $1::uuid is not null from workers")
        .await;
    stopped.kill();
}

/// Kinds and outcomes of the dispatches that ended, oldest first.
async fn outcomes(world: &World, scene: &Scene<'_>) -> Vec<(String, String)> {
    sqlx::query_as(
        "select kind::text, coalesce(outcome::text, state::text)
         from dispatches where feature_id = $1 order by claimed_at, id",
    )
    .bind(scene.feature.0)
    .fetch_all(&world.db)
    .await
    .unwrap()
}

const NO_DEATH: &str =
    "select count(*) = 0 from tasks where feature_id = $1 and (lost_alone > 0 or lost_with_others > 0)";

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_worker_killed_in_its_drain_is_continued() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let options = WorkerOptions {
        drain_seconds: 600,
        ..WorkerOptions::named("stopped").pool("stopped")
    };
    let scene = Scene::submit(&world, "stopped", HALVES).await;
    kill_in_its_drain(&world, &scene, &options, "begun").await;
    let _again = world.worker(&options).unwrap();
    scene.completes().await;
    let attempts = scene.attempts().await;
    assert_eq!(attempts[0], interrupted());
    scene.until(NO_DEATH).await;
    world.check_processes().await.unwrap();
}

/// A verifier leaves nothing to push, so only its note on the disk shows that it ran.
#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_of_a_worker_killed_in_its_drain_is_interrupted_too() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let gate = world.gate("judged");
    let graph = format!(
        "- key: a
  title: A
  description: |
    @write a.txt a
    @on-kind work @effect writing
    @on-kind verify @effect judging
    @on-kind verify @wait-for {}
    @done
",
        gate.display()
    );
    let options = WorkerOptions {
        drain_seconds: 600,
        ..WorkerOptions::named("judge").pool("judge")
    };
    let verified = FeatureOptions {
        verify: true,
        ..FeatureOptions::default()
    };
    let scene = Scene::submit_with(&world, "judge", &graph, verified).await;
    kill_in_its_drain(&world, &scene, &options, "judging").await;
    std::fs::write(&gate, "").unwrap();
    let _again = world.worker(&options).unwrap();
    scene.completes().await;
    let outcomes = outcomes(&world, &scene).await;
    let judged = outcomes.iter().filter(|(kind, _)| kind == "verify");
    let judged: Vec<&str> = judged.map(|(_, outcome)| outcome.as_str()).collect();
    assert_eq!(judged, ["interrupted", "passed"], "{outcomes:?}");
    scene.until(NO_DEATH).await;
}

/// Waits for a file of this name below the world's folder.
async fn appears(world: &World, name: &str) {
    let found = async || {
        let find = tokio::process::Command::new("find")
            .arg(world.dir())
            .args(["-name", name, "-print", "-quit"])
            .output()
            .await
            .unwrap();
        !find.stdout.is_empty()
    };
    until(name, found).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_a_session_during_its_setup() {
    let mut world = World::calm().await.unwrap();
    let config = world.dir().join(".ralph.toml");
    std::fs::write(
        &config,
        "[workspace]\nsetup = [\"touch setting-up; sleep 600\"]\n",
    )
    .unwrap();
    world.coordinator().await.unwrap();
    let options = |name: &str| WorkerOptions {
        drain_seconds: 0,
        ..WorkerOptions::named(name).pool("setup")
    };
    let mut drained = world.worker(&options("drained")).unwrap();
    let graph =
        "- key: a\n  title: Work in what was set up\n  description: |\n    @write a.txt a\n    @done\n";
    let scene = Scene::submit(&world, "setup", graph).await;
    appears(&world, "setting-up").await;
    drained.signal(Signal::SIGTERM);
    assert!(drained.wait().await.success(), "{}", drained.output());
    assert_eq!(scene.attempts().await, [interrupted()]);
    world.check_processes().await.unwrap();
    std::fs::write(&config, "[workspace]\nsetup = [\"true\"]\n").unwrap();
    let _next = world.worker(&options("next")).unwrap();
    scene.completes().await;
}

/// Blocks fetches from repositories of this machine until the gate `go` opens; gives the git configuration's
/// path.
fn block_fetches(world: &World) -> String {
    let hook = world.dir().join("hook");
    let (go, fetching) = (world.gate("go"), world.dir().join("fetching"));
    let script = format!(
        "#!/bin/sh\n[ -e {} ] && exec \"$@\"\ntouch {}\nexec sleep 600\n",
        go.display(),
        fetching.display()
    );
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = world.dir().join("gitconfig");
    let text = format!("[uploadpack]\n\tpackObjectsHook = {}\n", hook.display());
    std::fs::write(&config, text).unwrap();
    config.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_a_session_during_its_fetch() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let config = block_fetches(&world);
    let options = |name: &str| {
        let mut options = WorkerOptions {
            drain_seconds: 0,
            ..WorkerOptions::named(name).pool("fetch")
        };
        options.env.insert("GIT_CONFIG_GLOBAL".to_owned(), config.clone());
        options
    };
    let mut drained = world.worker(&options("drained")).unwrap();
    let graph =
        "- key: a\n  title: Work in what was fetched\n  description: |\n    @write a.txt a\n    @done\n";
    let scene = Scene::submit(&world, "fetch", graph).await;
    appears(&world, "fetching").await;
    drained.signal(Signal::SIGTERM);
    assert!(drained.wait().await.success(), "{}", drained.output());
    assert_eq!(scene.attempts().await, [interrupted()]);
    std::fs::write(world.gate("go"), "").unwrap();
    // The worker continues in the same folder with the unfinished mirror.
    let _again = world.worker(&options("drained")).unwrap();
    scene.completes().await;
}
