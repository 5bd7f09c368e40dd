//! Reasons of failures: in the database, when repeated, and when a worker causes them.

use ralph_coordinator::domain::failure::Failure;
use ralph_coordinator::domain::routing::strategy::Strategy;
use ralph_coordinator::flow::apply::Incoming;
use ralph_coordinator::flow::workers::health;
use ralph_coordinator::store::view;
use ralph_shared::wire::{Assignment, Ended, Finished};
use ralph_tests::harness::{FeatureOptions, World};

use super::pool::Pool;
use super::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn the_database_and_the_code_list_the_same_failures() {
    let world = World::calm().await.unwrap();
    let known: Vec<String> = sqlx::query_scalar("select unnest(enum_range(null::failure))::text")
        .fetch_all(&world.db)
        .await
        .unwrap();
    let table: Vec<&str> = Failure::ALL.iter().map(|failure| failure.as_str()).collect();
    assert_eq!(known, table);
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_chosen_by_earlier_attempts_in_the_repository() {
    let world = World::calm().await.unwrap();
    let mut options = FeatureOptions::default();
    options.run.model_strategy = Strategy::Adaptive;
    let graph: String = (0..14)
        .map(|n| format!("- {{key: t{n}, title: T{n}}}\n"))
        .collect();
    let scene = Scene::set(&world, &graph, &options).await;
    let first = scene.claim().await;
    let chosen = "select model, model_reason from dispatches where id = $1";
    let choice = async |of: &Assignment| -> (String, String) {
        let choice = sqlx::query_as(chosen).bind(of.dispatch.0);
        choice.fetch_one(&world.db).await.unwrap()
    };
    let (model, why) = choice(&first).await;
    assert_eq!(model, "sonnet");
    assert!(
        why.ends_with("while too little is known of this repository"),
        "{why}"
    );
    scene.done(&first).await;
    // Add earlier attempts, in which the weakest model succeeded every time.
    sqlx::query(
        "insert into dispatches (id, task_id, feature_id, run_id, kind, attempt, worker, incarnation, model, state, outcome, journal,
                                 cost_usd, duration_ms, claimed_at, settled_at, lease_until)
         select gen_random_uuid(), task_id, feature_id, run_id, kind, 100 + n, worker, incarnation, 'haiku', 'settled', 'done', '',
                0.01, 1000, claimed_at - n * interval '1 s', now(), now()
         from dispatches, generate_series(1, 150) n where id = $1",
    )
    .bind(first.dispatch.0)
    .execute(&world.db)
    .await
    .unwrap();
    let (model, why) = loop {
        let next = scene.claim().await;
        if next.kind.begins_attempt() {
            break choice(&next).await;
        }
        scene.done(&next).await;
    };
    assert_eq!(model, "haiku");
    assert!(why.contains("150 of its 150 attempts were done"), "{why}");
}

/// A report of a session whose workspace failed, before or after its agent called a tool.
fn broken(pool: &Pool<'_>, of: &Assignment, message: &str, tool_calls: u32) -> Incoming {
    let ended = Ended::Workspace {
        message: message.to_owned(),
        away: false,
    };
    let mut report = pool.session(of, ended, "", 0);
    if let Finished::Session(session) = &mut report.report.finished {
        session.tool_calls = tool_calls;
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_says_when_an_attempt_failed_the_same_way_as_before() {
    let world = World::calm().await.unwrap();
    let options = FeatureOptions {
        max_retries: 9,
        ..FeatureOptions::default()
    };
    let scene = Scene::set(&world, "- {key: a, title: A}", &options).await;
    let mut prompts = Vec::new();
    for message in [
        "no space at /tmp/a1/x after 3 s",
        "no such folder: /tmp/b",
        "no space at /var/b2/y after 21 s",
        "no space at /var/b3/z after 9 s",
    ] {
        let session = scene.claim().await;
        prompts.push(Scene::prompt(&session).to_owned());
        scene
            .pool
            .report(vec![broken(&scene.pool, &session, message, 1)])
            .await;
        scene.no_pauses().await;
    }
    let same = |of: &str, attempt: i32| of.contains(&format!("**The same failure as attempt {attempt}**"));
    let stuck = "The last two attempts failed in the same way.";
    assert!(!prompts[2].contains("The same failure"), "{}", prompts[2]);
    assert!(
        same(&prompts[3], 1) && !prompts[3].contains(stuck),
        "{}",
        prompts[3]
    );
    let last = scene.claim().await;
    let last = Scene::prompt(&last);
    assert!(same(last, 3) && last.contains(stuck), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_on_which_everything_fails_is_drained_once_another_exists() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let graph: String = (0..4)
        .map(|n| format!("- {{key: t{n}, title: T{n}}}\n"))
        .collect();
    world
        .submit("f", None, &graph, &FeatureOptions::default())
        .await
        .unwrap();
    let all = pool.claim_once(&[&["default"]; 4]).await;
    let lease_ms = world.settings.lease_ms();
    let tick = async || health::tick(&world.db, lease_ms).await.unwrap();
    for (n, one) in all.iter().enumerate().take(3) {
        assert!(tick().await.is_empty(), "{n}");
        pool.report(vec![broken(&pool, one, "no space", 0)]).await;
    }
    assert!(tick().await.is_empty(), "no other worker could do the work");
    sqlx::query(
        "insert into workers (name, incarnation, data_id, pools, agents, slots, free_slots, version, host, pid)
         values ('other', gen_random_uuid(), 'o', '{default}', '{default}', 1, 1, '0', 'h', 1)",
    )
    .execute(&world.db)
    .await
    .unwrap();
    assert_eq!(tick().await, ["w"]);
    assert!(tick().await.is_empty(), "a worker is drained once");
    assert!(pool.is_to_drain().await);
    let mut conn = world.db.acquire().await.unwrap();
    let workers = view::workers(&mut conn, lease_ms).await.unwrap();
    drop(conn);
    let why = workers
        .iter()
        .find_map(|worker| worker.drain_reason.clone())
        .unwrap();
    assert!(
        why.starts_with("3 tasks in a row failed there") && why.contains("no space"),
        "{why}"
    );
    let notice: String = sqlx::query_scalar("select reason from notices where event = 'worker_drained'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(notice, format!("worker w: {why}"));
    // The worker's next incarnation starts without a drain.
    let next = Pool::join(&world).await;
    assert!(!next.is_to_drain().await);
    assert!(tick().await.is_empty());
}
