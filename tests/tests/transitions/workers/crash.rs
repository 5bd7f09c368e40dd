//! The database server dies before commits reach its disk: each is lost or kept as a whole.

use ralph_coordinator::domain::graph::{self, Limits};
use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::TaskState;
use ralph_coordinator::store;
use ralph_coordinator::store::feature::NewFeature;
use ralph_coordinator::{
    domain::run::defaults::TaskDefaults,
    flow::submit::{self, Start, Submission, Submitted},
};
use ralph_tests::harness::{FeatureOptions, World};
use sqlx::PgPool;

use crate::invariants;
use crate::scene::Scene;

const ONE: &str = r#"{"tasks": [{"key": "a", "title": "A"}]}"#;

/// Connections with durable commits, as in production; tests trade durability for time elsewhere.
async fn durable(world: &World) -> PgPool {
    sqlx::query("alter database ralph set synchronous_commit = on")
        .execute(&world.db)
        .await
        .unwrap();
    let url = world.postgres.as_ref().unwrap().url();
    store::connect(&url, 2).await.unwrap()
}

async fn submit(db: &PgPool, name: &str) {
    let submission = Submission {
        feature: NewFeature::new(name.to_owned(), String::new()),
        graph: graph::load("tasks.json", ONE, &Limits::file()).unwrap(),
        defaults: TaskDefaults::default(),
        limits: Vec::new(),
        start: Start::Now(RunSettings::default()),
    };
    let (submitted, _) = submit::submit(db, &submission).await.unwrap();
    assert!(matches!(submitted, Submitted::Accepted { run: Some(_), .. }));
}

#[tokio::test]
async fn flushed_commits_survive_a_crash() {
    let world = World::start().await.unwrap();
    for round in 0..3 {
        // The earlier connections died with the server.
        let db = durable(&world).await;
        submit(&db, &format!("before-{round}")).await;
        store::flush(&db).await.unwrap();
        submit(&db, &format!("after-{round}")).await;
        world.kill_postgres().await.unwrap();
        let survivors: Vec<String> = sqlx::query_scalar("select name from features")
            .fetch_all(&world.db)
            .await
            .unwrap();
        assert!(
            survivors.contains(&format!("before-{round}")),
            "round {round}: {survivors:?}"
        );
        // A later commit is there as a whole, or not at all.
        invariants::check(&world.db).await.unwrap();
        let queued: i64 = sqlx::query_scalar("select count(*) from ready_tasks")
            .fetch_one(&world.db)
            .await
            .unwrap();
        assert_eq!(usize::try_from(queued).unwrap(), survivors.len());
    }
}

/// The last commit that is certainly on disk when the server dies; later ones may be there or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flushed {
    Nothing,
    Claim,
    Report,
}

#[tokio::test]
async fn work_lost_in_a_crash_is_done_again() {
    let world = World::start().await.unwrap();
    let scene = Scene::set(&world, ONE, &FeatureOptions::default()).await;
    let mut db = durable(&world).await;
    store::flush(&db).await.unwrap();
    // The session and its integration: each of the last two rounds completes one of them.
    for flushed in [
        Flushed::Nothing,
        Flushed::Nothing,
        Flushed::Claim,
        Flushed::Report,
    ] {
        if scene.state(scene.tasks[0]).await == TaskState::Done {
            break;
        }
        let of = scene.claim().await;
        if flushed == Flushed::Claim {
            store::flush(&db).await.unwrap();
        }
        scene.done(&of).await;
        if flushed == Flushed::Report {
            store::flush(&db).await.unwrap();
        }
        world.kill_postgres().await.unwrap();
        scene.holds().await;
        // The worker doesn't know that its report was settled: it reports again, whatever remains of it.
        scene.done(&of).await;
        scene.holds().await;
        // Now the report is durable, so the worker may forget it.
        db = durable(&world).await;
        store::flush(&db).await.unwrap();
    }
    assert_eq!(scene.state(scene.tasks[0]).await, TaskState::Done);
    let landed: i64 = sqlx::query_scalar("select count(*) from integrations where state = 'merged'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(landed, 1);
}
