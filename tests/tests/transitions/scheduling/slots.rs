//! Distribution of free slots among features.

use ralph_coordinator::domain::scheduling::fairness::Unserved;
use ralph_coordinator::flow::claim;
use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::wire::Assignment;
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;

const FOUR: &str = "- {key: a, title: A}\n- {key: b, title: B}\n- {key: c, title: C}\n- {key: d, title: D}";

async fn submit(
    world: &World,
    name: &str,
    graph: &str,
    options: &FeatureOptions,
) -> (FeatureId, Vec<TaskId>) {
    let (feature, _, tasks) = world.submit(name, None, graph, options).await.unwrap();
    (feature, tasks)
}

fn tasks_of(assigned: &[Assignment], of: &[TaskId]) -> usize {
    assigned.iter().filter(|one| of.contains(&one.task)).count()
}

/// A limit beyond the clock's range stops nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_beyond_the_clocks_range_is_no_limit() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let mut options = FeatureOptions::default();
    options.run.max_time_ms = Some(i64::MAX);
    let (_, tasks) = submit(&world, "long", FOUR, &options).await;
    let assigned = pool.claim_once(&[&["default"]; 4]).await;
    assert_eq!(tasks_of(&assigned, &tasks), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feature_in_back_off_takes_no_slot_from_others() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let (waiting, _) = submit(&world, "waiting", FOUR, &FeatureOptions::default()).await;
    let (_, other) = submit(&world, "other", FOUR, &FeatureOptions::default()).await;
    sqlx::query("update ready_tasks set not_before = now() + interval '1 hour' where feature_id = $1")
        .bind(waiting.0)
        .execute(&world.db)
        .await
        .unwrap();
    let assigned = pool.claim_once(&[&["default"]; 4]).await;
    assert_eq!(tasks_of(&assigned, &other), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_unused_share_of_a_feature_goes_to_others() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let one = "- {key: a, title: A}";
    let (_, small) = submit(&world, "small", one, &FeatureOptions::default()).await;
    let (_, large) = submit(&world, "large", FOUR, &FeatureOptions::default()).await;
    let assigned = pool.claim_once(&[&["default"]; 5]).await;
    assert_eq!((tasks_of(&assigned, &small), tasks_of(&assigned, &large)), (1, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_held_by_their_paths_take_no_slot_from_others() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let options = FeatureOptions {
        avoid_conflicts: true,
        ..FeatureOptions::default()
    };
    let same_file = "- {key: a, title: A, paths: [x]}\n- {key: b, title: B, paths: [x]}\n- {key: c, title: C, paths: [x]}";
    let (_, apart) = submit(&world, "apart", same_file, &options).await;
    let (_, other) = submit(&world, "other", FOUR, &FeatureOptions::default()).await;
    let assigned = pool.claim_once(&[&["default"]; 5]).await;
    assert_eq!((tasks_of(&assigned, &apart), tasks_of(&assigned, &other)), (1, 4));
}

/// Number of assignments when workers of one pool, of the other and of both claim at once.
async fn claimed_at_once(options: &FeatureOptions) -> usize {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let graph: String = ["x", "y"]
        .into_iter()
        .flat_map(|pool| (0..4).map(move |n| format!("- {{key: {pool}{n}, title: T, pool: {pool}}}\n")))
        .collect();
    submit(&world, "f", &graph, options).await;
    let slots: [&[&str]; 6] = [&["x"], &["y"], &["x", "y"], &["x"], &["y"], &["x", "y"]];
    let assigned = pool.claim_once(&slots).await;
    assigned.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_several_pools_at_once_keep_to_max_parallel() {
    let options = FeatureOptions {
        max_parallel: 2,
        ..FeatureOptions::default()
    };
    assert_eq!(claimed_at_once(&options).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_several_pools_at_once_keep_to_the_runs_iterations() {
    let mut options = FeatureOptions::default();
    options.run.max_iterations = Some(3);
    assert_eq!(claimed_at_once(&options).await, 3);
}

/// Why each unsatisfied claim got nothing.
async fn unserved(world: &World, pool: &Pool<'_>, claims: usize) -> Vec<Unserved> {
    let claims = pool.requests(&vec![["default"]; claims]);
    let answered = claim::serve(&world.db, &world.settings, &claims, ())
        .await
        .unwrap();
    let mut unmet: Vec<_> = answered.unmet.into_iter().collect();
    unmet.sort_by_key(|(index, _)| *index);
    unmet.into_iter().map(|(_, why)| why).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsatisfied_claim_learns_whether_room_is_missing() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    assert_eq!(unserved(&world, &pool, 1).await, [Unserved::Nothing]);
    let narrow = FeatureOptions {
        max_parallel: 1,
        ..FeatureOptions::default()
    };
    submit(&world, "narrow", "- {key: a, title: A}", &narrow).await;
    assert_eq!(unserved(&world, &pool, 2).await, [Unserved::NoRoom]);
    // The feature is full, but has no more tasks.
    assert_eq!(unserved(&world, &pool, 1).await, [Unserved::Nothing]);
    submit(&world, "wide", FOUR, &FeatureOptions::default()).await;
    assert_eq!(unserved(&world, &pool, 6).await, [Unserved::Nothing; 2]);
    submit(&world, "full", FOUR, &narrow).await;
    assert_eq!(unserved(&world, &pool, 3).await, [Unserved::NoRoom; 2]);
    assert_eq!(unserved(&world, &pool, 1).await, [Unserved::NoRoom]);
}
