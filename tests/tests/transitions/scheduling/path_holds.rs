//! Tasks with overlapping paths, when the task that they wait for returns to the queue.

use ralph_coordinator::flow::control::{self, TaskCommand};
use ralph_coordinator::flow::{edit::remove, finish, workers::rescue};
use ralph_coordinator::store;
use ralph_coordinator::store::queue::ready::Dequeued;
use ralph_shared::ids::TaskId;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::Assignment;
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;

const SAME_FILE: &str = "- {key: a, title: A, paths: [f]}\n- {key: b, title: B, paths: [f]}";

/// Two tasks that change one file: one runs, and the other is held.
async fn one_runs(world: &World, pool: &Pool<'_>) -> (Assignment, [TaskId; 2]) {
    let options = FeatureOptions {
        avoid_conflicts: true,
        ..FeatureOptions::default()
    };
    let (_, _, tasks) = world.submit("f", None, SAME_FILE, &options).await.unwrap();
    let mut running = pool.claim(2).await;
    let held: i64 = sqlx::query_scalar("select count(*) from path_holds")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!((running.len(), held), (1, 1));
    (running.remove(0), [tasks[0], tasks[1]])
}

fn other([a, b]: [TaskId; 2], than: &Assignment) -> TaskId {
    if than.task == a { b } else { a }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_held_by_a_released_one_begins_before_it() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let (running, tasks) = one_runs(&world, &pool).await;
    control::task(&world.db, running.task, TaskCommand::Release, "test", None)
        .await
        .unwrap();
    // The released task would be held by the one that it holds.
    assert!(pool.claim(1).await.is_empty());
    finish::tick(&world.db).await.unwrap();
    let next = pool.claim(1).await;
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].task, other(tasks, &running));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_held_by_a_lost_one_begins_at_once() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let (running, tasks) = one_runs(&world, &pool).await;
    sqlx::query("update dispatches set lease_until = '-infinity'")
        .execute(&world.db)
        .await
        .unwrap();
    rescue::rescue(&world.db, world.settings.lease_ms(), true)
        .await
        .unwrap();
    let next = pool.claim(1).await;
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].task, other(tasks, &running));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_held_by_a_deleted_one_is_queued() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let (running, tasks) = one_runs(&world, &pool).await;
    // Add a hold of the running task by the one that is held now.
    let held = other(tasks, &running);
    sqlx::query(
        "insert into path_holds (task_id, feature_id, by_task, path)
         select $1, feature_id, $2, 'f' from tasks where id = $1",
    )
    .bind(running.task.0)
    .bind(held.0)
    .execute(&world.db)
    .await
    .unwrap();
    control::task(&world.db, running.task, TaskCommand::Release, "test", None)
        .await
        .unwrap();
    sqlx::query("delete from ready_tasks where task_id = $1")
        .bind(running.task.0)
        .execute(&world.db)
        .await
        .unwrap();
    let (outcome, _) = remove::task(&world.db, held, "test").await.unwrap();
    assert_eq!(outcome, control::CommandOutcome::Done(1));
    let next = pool.claim(1).await;
    assert_eq!(next.len(), 1, "{}", world.tell().await);
    assert_eq!(next[0].task, running.task);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_is_not_put_back_into_the_queue() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let (feature, _, tasks) = world
        .submit(
            "f",
            None,
            "- {key: a, title: A}\n- {key: b, title: B}",
            &FeatureOptions::default(),
        )
        .await
        .unwrap();
    control::task(&world.db, tasks[0], TaskCommand::Cancel, "test", None)
        .await
        .unwrap();
    let mut conn = world.db.acquire().await.unwrap();
    let taken = Dequeued {
        task: tasks[0],
        feature,
        kind: SessionKind::Work,
        priority: 0,
        waited_s: 0.0,
        key: None,
    };
    store::queue::ready::put_back(&mut conn, &[taken]).await.unwrap();
    drop(conn);
    let given: Vec<TaskId> = pool.claim(2).await.iter().map(|of| of.task).collect();
    assert_eq!(given, [tasks[1]]);
}
