//! Different statements insert a run that begins with its feature and one that begins later; both must store
//! all settings.

use ralph_coordinator::domain::graph::{self, Limits};
use ralph_coordinator::domain::routing::strategy::Strategy;
use ralph_coordinator::domain::run::{Run, RunSettings};
use ralph_coordinator::domain::states::FeatureState;
use ralph_coordinator::domain::train::Landing;
use ralph_coordinator::flow::control::{self, CommandOutcome, FeatureCommand};
use ralph_coordinator::flow::finish;
use ralph_coordinator::store;
use ralph_coordinator::store::feature::NewFeature;
use ralph_coordinator::{
    domain::run::defaults::TaskDefaults,
    flow::submit::{self, Start, Submission, Submitted},
};
use ralph_shared::ids::RunId;
use ralph_shared::wire::GateStep;
use ralph_tests::harness::World;

use crate::invariants;

/// Settings that all differ from the defaults.
fn settings() -> RunSettings {
    RunSettings {
        max_iterations: Some(11),
        first_iteration: 1,
        max_time_ms: Some(12_000),
        max_cost_usd: Some(1.5),
        max_tokens: Some(14),
        session_ms: 15,
        idle_ms: 16,
        output_bytes: 17,
        backoff_ms: 18,
        model: Some("large".to_owned()),
        model_strategy: Strategy::Escalate,
        agent: Some("other".to_owned()),
        gate: vec!["make test".to_owned()],
        gate_steps: vec![GateStep {
            name: Some("tests".to_owned()),
            timeout_ms: Some(19),
            parallel: true,
        }],
        gate_may_fail: true,
        protect: vec!["db/**".to_owned()],
        landing: Landing::Batch,
        max_speculation: 3,
        gate_retries: 2,
        limit_grows: true,
        review: false,
        cold: true,
    }
}

async fn run(world: &World, id: RunId) -> Run {
    let mut conn = world.db.acquire().await.unwrap();
    store::run::read(&mut conn, &[id.0]).await.unwrap().pop().unwrap()
}

/// Key, pool, agent and priority of each queued task.
async fn queue(world: &World) -> Vec<(String, String, String, i32)> {
    sqlx::query_as(
        "select x.key, q.pool, q.agent, q.priority from ready_tasks q join task_texts x using (task_id) order by x.key",
    )
    .fetch_all(&world.db)
    .await
    .unwrap()
}

#[tokio::test]
async fn a_run_that_begins_with_its_feature_equals_a_later_one() {
    let world = World::calm().await.unwrap();
    let text = r#"{"tasks": [
        {"key": "a", "title": "A", "priority": 7, "pool": "gpu"},
        {"key": "b", "title": "B", "agent": "own"},
        {"key": "c", "title": "C", "after": ["a"]},
        {"key": "d", "title": "D"},
        {"key": "e", "title": "E", "parent": "d"}
    ]}"#;
    let submission = Submission {
        feature: NewFeature::new("f".to_owned(), String::new()),
        graph: graph::load("tasks.json", text, &Limits::file()).unwrap(),
        defaults: TaskDefaults::default(),
        limits: Vec::new(),
        start: Start::Now(settings()),
    };
    let feature = submission.feature.id;
    let (submitted, mut signals) = submit::submit(&world.db, &submission).await.unwrap();
    let Submitted::Accepted { run: Some(first), .. } = submitted else {
        panic!("{submitted:?}")
    };
    let first = run(&world, first).await;
    assert_eq!((first.feature, &first.settings), (feature, &settings()));
    let queued = queue(&world).await;
    let keys: Vec<&str> = queued.iter().map(|(key, ..)| key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "e"]);
    // The signals ask for one ticket for each queued task.
    assert_eq!(signals.work.remove("gpu"), Some(1));
    assert_eq!(signals.work.remove("default"), Some(2));
    invariants::check(&world.db).await.unwrap();

    let (stopped, ..) = finish::stop(&world.db, feature, "".into()).await.unwrap();
    assert_eq!(stopped, CommandOutcome::Done(1));
    assert!(queue(&world).await.is_empty());
    let again = FeatureCommand::Run(Box::new(settings()));
    let (begun, later, _) = control::feature(&world.db, feature, &again).await.unwrap();
    assert_eq!(begun, CommandOutcome::Done(1));
    let later = run(&world, later.unwrap()).await;
    assert_eq!((later.feature, &later.settings), (feature, &settings()));
    assert_eq!(queue(&world).await, queued);
    let state: FeatureState = sqlx::query_scalar("select state from features")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(state, FeatureState::Running);
}
