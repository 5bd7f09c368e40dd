//! The order of tasks: priorities that age, and weights of features.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;
use crate::scene::turn;

/// Makes all queued tasks a minute older.
async fn a_minute_passes(world: &World) {
    sqlx::query("update ready_tasks set since = since - interval '1 minute'")
        .execute(&world.db)
        .await
        .unwrap();
}

/// Claims for one slot and completes the session at once; returns its task.
async fn next(pool: &Pool<'_>) -> TaskId {
    let of = pool.claim_once(&[&["default"]]).await.remove(0);
    let text = format!("<task-done>{}</task-done>", of.task);
    pool.report(vec![pool.session(&of, turn(), &text, 1)]).await;
    of.task
}

/// Three urgent tasks are ready at any time of an hour, in which one slot takes a task a minute.
#[tokio::test(flavor = "multi_thread")]
async fn no_task_waits_beyond_its_bound_under_permanent_load() {
    const LOW: [i32; 5] = [0, 1, 3, 1_000, i32::MAX];
    const URGENT: i32 = -4;
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let mut graph = String::new();
    for priority in LOW {
        writeln!(graph, "- {{key: low-{priority}, title: T, priority: {priority}}}").unwrap();
    }
    for n in 0..63 {
        let after = if n < 3 {
            String::new()
        } else {
            format!(", after: [high-{}]", n - 3)
        };
        writeln!(graph, "- {{key: high-{n}, title: T, priority: {URGENT}{after}}}").unwrap();
    }
    let (_, _, tasks) = world
        .submit("f", None, &graph, &FeatureOptions::default())
        .await
        .unwrap();
    let mut started = BTreeMap::new();
    for minute in 0..=60 {
        let task = next(&pool).await;
        if let Some(place) = tasks
            .iter()
            .position(|one| *one == task)
            .filter(|place| *place < LOW.len())
        {
            started.insert(LOW[place], minute);
        }
        a_minute_passes(&world).await;
    }
    for priority in LOW {
        let moved = |priority: i32| {
            let priority = f64::from(priority);
            30.0 * priority / (1.0 + priority.abs())
        };
        // Tasks that are ready before, or become ready until then, go first, at one task a minute.
        let bound = moved(priority) - moved(URGENT) + 6.0;
        let minute = started
            .get(&priority)
            .map_or(f64::INFINITY, |minute| f64::from(*minute));
        assert!(
            minute <= bound && bound <= 60.0,
            "{priority}: {minute} of {bound}"
        );
        assert!(
            minute >= bound - 8.0,
            "priority {priority} starts already after {minute} minutes"
        );
    }
}

/// Submits a feature with this weight and 60 ready tasks.
async fn submit(world: &World, name: &str, weight: i32) -> FeatureId {
    let graph: String = (0..60).map(|n| format!("- {{key: t{n}, title: T}}\n")).collect();
    let (feature, ..) = world
        .submit(name, None, &graph, &FeatureOptions::default())
        .await
        .unwrap();
    sqlx::query("update features set weight = $2 where id = $1")
        .bind(feature.0)
        .bind(weight)
        .execute(&world.db)
        .await
        .unwrap();
    feature
}

#[tokio::test(flavor = "multi_thread")]
async fn features_get_slots_in_the_ratio_of_their_weights() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    submit(&world, "light", 1).await;
    let heavy = submit(&world, "heavy", 3).await;
    let count = |of: &[FeatureId]| of.iter().filter(|feature| **feature == heavy).count();
    // One slot, one session after the other.
    let mut got = Vec::new();
    for _ in 0..40 {
        let of = pool.claim_once(&[&["default"]]).await.remove(0);
        let text = format!("<task-done>{}</task-done>", of.task);
        pool.report(vec![pool.session(&of, turn(), &text, 1)]).await;
        got.push(of.feature);
    }
    assert_eq!(count(&got), 30);
    // Many claims at once.
    let many: Vec<FeatureId> = pool
        .claim_once(&[&["default"]; 8])
        .await
        .iter()
        .map(|of| of.feature)
        .collect();
    assert_eq!((many.len(), count(&many)), (8, 6));
}
