//! Agents that misbehave, seen from the feature: each costs at most its own attempt, and leaves nothing
//! behind.

use futures::future::join_all;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, binary, until};

use crate::scene::Scene;

/// Script, outcome and reason of a first attempt; the second one does the task.
struct Case {
    name: &'static str,
    first: &'static str,
    outcome: &'static str,
    reason: &'static str,
}

const fn case(name: &'static str, first: &'static str, outcome: &'static str, reason: &'static str) -> Case {
    Case {
        name,
        first,
        outcome,
        reason,
    }
}

const CASES: &[Case] = &[
    case("long-line", "@long-line 5M", "done", ""),
    case("several-mb", "@flood 3M", "done", ""),
    // Short enough for one message as it is, too long as JSON.
    case("controls", "@flood-controls 195K", "done", ""),
    case("bad-utf8", "@bad-utf8", "done", ""),
    case("orphan", "@orphan 600", "done", ""),
    case("flood", "@flood 200M", "error", "more than the output limit"),
    case(
        "closed-pipe",
        "@close-stdout",
        "error",
        "closed its output in the middle of its turn",
    ),
    case("hang", "@hang", "error", "silent for longer than the limit"),
    case("crash", "@crash", "error", "exited with code 101"),
    case("killed", "@kill", "error", "ended by signal 9"),
    case(
        "wrong-id",
        "@done t-000000000000",
        "no_sigil",
        "without saying whether the task is done",
    ),
];

/// Output limit of a session. The flood exceeds it; output that must arrive stays below.
const OUTPUT_BYTES: i64 = 8 << 20;

async fn check_case(world: &World, case: &Case) {
    let graph = format!(
        r"
- key: only
  title: Misbehave at first
  description: |
    @on-attempt 1 {}
    {}@done
",
        case.first,
        // The task's own id after another one would count.
        if case.outcome == "no_sigil" {
            "@on-attempt 2+ "
        } else {
            ""
        }
    );
    let mut options = FeatureOptions::default();
    options.run.output_bytes = OUTPUT_BYTES;
    if case.first == "@hang" {
        // Longer than busy processors delay the second attempt beside the flood, and shorter than the flood
        // takes.
        options.run.idle_ms = 15_000;
    }
    let scene = Scene::scratch(world, case.name, &graph, options).await;
    scene.completes().await;
    let attempts = scene.attempts().await;
    let expected = if case.outcome == "done" { 1 } else { 2 };
    assert_eq!(attempts.len(), expected, "{}: {attempts:?}", case.name);
    let (_, outcome, reason) = &attempts[0];
    assert_eq!(outcome, case.outcome, "{}: {reason}", case.name);
    assert!(reason.contains(case.reason), "{}: {reason}", case.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn misbehaving_agent_costs_its_own_attempt_and_leaves_no_process() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let pools: Vec<&str> = CASES.iter().map(|case| case.name).collect();
    let _worker = world
        .worker(&WorkerOptions::named("w").slots(4).pool(&pools.join(",")))
        .unwrap();
    join_all(CASES.iter().map(|case| check_case(&world, case))).await;
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_waits_for_a_missing_agent_and_loses_no_attempt() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    // Several workers, since each one rests after a failed start of its agent.
    let start = |n: u32| {
        let options = WorkerOptions {
            agent: Some("/no/such/agent --acp".to_owned()),
            ..WorkerOptions::named(&format!("w{n}")).pool("missing")
        };
        world.worker(&options).unwrap()
    };
    let _workers: Vec<_> = (0..5).map(start).collect();
    let graph = "- key: only\n  title: Start late\n  description: \"@done\"\n";
    let scene = Scene::scratch(&world, "missing", graph, FeatureOptions::default()).await;
    // More often than a task may fail.
    until("five failed starts", async || match scene.attempts().await {
        attempts if attempts.len() > 5 => Ok(()),
        attempts => Err(format!("{attempts:?}")),
    })
    .await;
    let _found = world.worker(&WorkerOptions::named("w9").pool("missing")).unwrap();
    scene.ends(RunOutcome::Complete).await;
    let mut attempts = scene.attempts().await;
    let (_, last, _) = attempts.pop().unwrap();
    assert_eq!(last, "done");
    assert!(
        attempts.iter().all(|(_, outcome, _)| outcome == "door"),
        "{attempts:?}"
    );
    let failures: i16 = sqlx::query_scalar("select failures from tasks where feature_id = $1")
        .bind(scene.feature.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(failures, 0);
    world.check_counts(scene.feature).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_an_agent_that_keeps_sessions_costs_no_attempt() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let agent = binary("ralph-scripted-agent");
    let options = WorkerOptions {
        agent: Some(format!("{} --keep-sessions", agent.display())),
        ..WorkerOptions::named("w").pool("keeping")
    };
    let _worker = world.worker(&options).unwrap();
    let graph = "- key: only\n  title: Crash\n  description: |\n    @say <journal>Begun.\n    @kill\n    \
                 @if-prompt-has Your process ended in the middle of your last turn : @say And ended.</journal>\n    @done\n";
    let scene = Scene::scratch(&world, "keeping", graph, FeatureOptions::default()).await;
    scene.completes().await;
    let attempts = scene.attempts().await;
    let [(_, outcome, _)] = &attempts[..] else {
        panic!("{attempts:?}");
    };
    assert_eq!(outcome, "done");
    let journal: String = sqlx::query_scalar("select journal from dispatches where kind = 'work'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(journal, "Begun.\nAnd ended.");
    world.check_processes().await.unwrap();
}
