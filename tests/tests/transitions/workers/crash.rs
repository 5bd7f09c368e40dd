//! The database server dies after commits that it had not yet on its disk: they are gone together, or stand together.

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

/// Connections as users have them; tests else trade durability for time.
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
async fn what_was_flushed_outlives_a_crash_with_all_before_it() {
    let world = World::start().await.unwrap();
    for round in 0..3 {
        // Those of before died with the server.
        let db = durable(&world).await;
        submit(&db, &format!("before-{round}")).await;
        store::flush(&db).await.unwrap();
        submit(&db, &format!("after-{round}")).await;
        world.kill_postgres().await.unwrap();
        let kept: Vec<String> = sqlx::query_scalar("select name from features")
            .fetch_all(&world.db)
            .await
            .unwrap();
        assert!(
            kept.contains(&format!("before-{round}")),
            "round {round}: {kept:?}"
        );
        // What came later is there as a whole, or not at all.
        invariants::check(&world.db).await.unwrap();
        let queued: i64 = sqlx::query_scalar("select count(*) from ready_tasks")
            .fetch_one(&world.db)
            .await
            .unwrap();
        assert_eq!(usize::try_from(queued).unwrap(), kept.len());
    }
}

/// What is on the disk for certain when the server dies; the rest may be there or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nothing,
    Claim,
    Report,
}

#[tokio::test]
async fn what_a_crash_took_back_is_done_again() {
    let world = World::start().await.unwrap();
    let scene = Scene::set(&world, ONE, &FeatureOptions::default()).await;
    let mut db = durable(&world).await;
    store::flush(&db).await.unwrap();
    // The session and its integration: the last two rounds bring one of them on each.
    for kept in [Kept::Nothing, Kept::Nothing, Kept::Claim, Kept::Report] {
        if scene.state(scene.tasks[0]).await == TaskState::Done {
            break;
        }
        let of = scene.claim().await;
        if kept == Kept::Claim {
            store::flush(&db).await.unwrap();
        }
        scene.done(&of).await;
        if kept == Kept::Report {
            store::flush(&db).await.unwrap();
        }
        world.kill_postgres().await.unwrap();
        scene.holds().await;
        // Its worker wasn't told that it is settled: it reports again, whatever stands of it.
        scene.done(&of).await;
        scene.holds().await;
        // Now it is told, and never reports it again.
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
