//! Concurrency keys: a key never has more live sessions than its limit, whichever coordinator serves the
//! claims.

use ralph_coordinator::domain::scheduling::concurrency::Concurrency;
use ralph_coordinator::flow::claim;
use ralph_coordinator::store::feature::priority::{self, Precedence};
use ralph_coordinator::store::view;
use ralph_shared::ids::TaskId;
use ralph_shared::wire::{Assignment, ClaimAnswer};
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;
use crate::scene::turn;

fn assigned(answers: Vec<ClaimAnswer>) -> Vec<Assignment> {
    let of = |answer| match answer {
        ClaimAnswer::Assigned { assignment } => Some(*assignment),
        _ => None,
    };
    answers.into_iter().filter_map(of).collect()
}

async fn live(world: &World, key: &str) -> i64 {
    sqlx::query_scalar("select count(*) from dispatches where state = 'live' and key = $1")
        .bind(key)
        .fetch_one(&world.db)
        .await
        .unwrap()
}

async fn done(pool: &Pool<'_>, of: &Assignment) {
    let text = format!("<task-done>{}</task-done>", of.task);
    pool.report(vec![pool.session(of, turn(), &text, 1)]).await;
}

async fn waits(world: &World, task: TaskId) -> Option<String> {
    let mut conn = world.db.acquire().await.unwrap();
    view::tasks(&mut conn, &[task.0], 20_000)
        .await
        .unwrap()
        .remove(0)
        .waits
}

/// Two coordinators and two features, one of which uses the key in another pool.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_limits_sessions_across_features_pools_and_coordinators() {
    const LIMIT: i64 = 3;
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let keyed = |n: usize, of: &str| -> String {
        (0..n)
            .map(|n| format!("- {{key: t{n}, title: T, concurrency: {{key: db, limit: 3}}{of}}}\n"))
            .collect()
    };
    for (name, of) in [("f", ""), ("g", ", pool: gpu")] {
        world
            .submit(name, None, &keyed(12, of), &FeatureOptions::default())
            .await
            .unwrap();
    }
    let other = world.settings.clone();
    let mut finished = 0;
    while finished < 24 {
        let requests = || {
            pool.requests(&[
                ["default", "gpu"],
                ["gpu", "default"],
                ["default", "gpu"],
                ["gpu", "default"],
            ])
        };
        let (ours, theirs) = (requests(), requests());
        let (one, two) = tokio::join!(
            claim::claim(&world.db, &world.settings, &ours),
            claim::claim(&world.db, &other, &theirs),
        );
        let got = [assigned(one.unwrap()), assigned(two.unwrap())].concat();
        assert_eq!(i64::try_from(got.len()).unwrap(), LIMIT);
        assert_eq!(live(&world, "db").await, LIMIT);
        assert!(pool.claim_once(&[["default", "gpu"]; 4]).await.is_empty());
        for of in &got {
            done(&pool, of).await;
        }
        finished += got.len();
        sqlx::query("update ready_tasks set not_before = now()")
            .execute(&world.db)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_a_key_says_so_and_delays_no_other() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let graph = "- {key: a, title: A, priority: -5, concurrency: {key: db, limit: 1}}
- {key: b, title: B, priority: -5, concurrency: {key: db, limit: 1}}
- {key: c, title: C}
- {key: d, title: D, not_before: 2999-01-01T00:00:00Z}";
    let (feature, _, tasks) = world
        .submit("f", None, graph, &FeatureOptions::default())
        .await
        .unwrap();
    let got = pool.claim_once(&[["default"]; 4]).await;
    let of: Vec<TaskId> = got.iter().map(|of| of.task).collect();
    assert_eq!(of, [tasks[0], tasks[2]]);
    let full = Some("the concurrency key `db` has 1 of 1 sessions".to_owned());
    assert_eq!(waits(&world, tasks[1]).await, full);
    let later = Some("it begins later".to_owned());
    assert_eq!(waits(&world, tasks[3]).await, later);
    let mut conn = world.db.acquire().await.unwrap();
    let shown = view::system(&mut conn, 60_000).await.unwrap();
    assert_eq!(
        (shown.full_keys.len(), shown.full_keys[0].key.as_str()),
        (1, "db")
    );
    // A larger limit lets the task begin, even if only the feature names it.
    let larger = Precedence {
        concurrency: Some(Concurrency {
            key: "db".to_owned(),
            limit: 2,
        }),
        ..Precedence::default()
    };
    priority::set(&mut conn, feature, &larger).await.unwrap();
    drop(conn);
    assert_ne!(waits(&world, tasks[1]).await, full);
    let next = pool.claim_once(&[["default"]; 4]).await;
    assert_eq!(next.iter().map(|of| of.task).collect::<Vec<_>>(), [tasks[1]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_without_a_key_uses_its_features_key() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let graph =
        "- {key: a, title: A}\n- {key: b, title: B}\n- {key: c, title: C, concurrency: {key: own, limit: 9}}";
    let (feature, _, tasks) = world
        .submit("f", None, graph, &FeatureOptions::default())
        .await
        .unwrap();
    let one = Precedence {
        concurrency: Some(Concurrency {
            key: "all".to_owned(),
            limit: 1,
        }),
        ..Precedence::default()
    };
    priority::set(&mut world.db.acquire().await.unwrap(), feature, &one)
        .await
        .unwrap();
    let got = pool.claim_once(&[["default"]; 4]).await;
    assert_eq!(
        got.iter().map(|of| of.task).collect::<Vec<_>>(),
        [tasks[0], tasks[2]]
    );
}
