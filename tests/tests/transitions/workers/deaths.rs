//! Consequences of a worker's death: for a task that may have killed it, and for others lost with it.

use ralph_coordinator::flow::workers::rescue;
use ralph_coordinator::store::view;
use ralph_shared::ids::TaskId;
use ralph_shared::wire::{Assignment, EndReason, Ended, Work};
use ralph_tests::harness::{FeatureOptions, Repository, World};
use sqlx::AssertSqlSafe;

use crate::pool::Pool;
use crate::scene::{Scene, turn};

async fn one_task(world: &World, repository: Option<&Repository>) -> TaskId {
    let options = FeatureOptions::default();
    let (_, _, tasks) = world
        .submit("f", repository, "- {key: a, title: A}", &options)
        .await
        .unwrap();
    tasks[0]
}

/// State, number of lone losses, and reason of a task.
async fn state_of(world: &World, task: TaskId) -> (String, i16, Option<String>) {
    sqlx::query_as(
        "select t.state::text, t.lost_alone, x.reason from tasks t join task_texts x on x.task_id = t.id where t.id = $1",
    )
    .bind(task.0)
    .fetch_one(&world.db)
    .await
    .unwrap()
}

async fn dies(pool: &Pool<'_>, reason: EndReason) {
    let of = pool.claim(1).await.pop().expect("nothing is ready");
    pool.report(vec![pool.session(&of, Ended::Told { reason }, "", 0)])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_alone_kills_three_workers_needs_a_person() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let task = one_task(&world, None).await;
    for _ in 0..5 {
        dies(&pool, EndReason::DiedWithOthers).await;
    }
    assert_eq!(state_of(&world, task).await, ("pending".into(), 0, None));
    for deaths in 1..=2 {
        dies(&pool, EndReason::DiedAlone).await;
        assert_eq!(state_of(&world, task).await, ("pending".into(), deaths, None));
    }
    dies(&pool, EndReason::DiedAlone).await;
    let reason = "its worker died 3 times while it ran, and nothing else was lost".to_owned();
    assert_eq!(
        state_of(&world, task).await,
        ("needs_review".into(), 3, Some(reason))
    );
    assert!(pool.claim(1).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_kills_six_busy_workers_needs_a_person() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let task = one_task(&world, None).await;
    for _ in 0..5 {
        dies(&pool, EndReason::DiedWithOthers).await;
        assert_eq!(state_of(&world, task).await, ("pending".into(), 0, None));
    }
    dies(&pool, EndReason::DiedWithOthers).await;
    let (state, alone, reason) = state_of(&world, task).await;
    assert_eq!((state.as_str(), alone), ("needs_review", 0));
    let reason = reason.unwrap();
    assert!(
        reason.starts_with("its worker died 6 times while it ran together with other tasks"),
        "{reason}"
    );
    assert!(pool.claim(1).await.is_empty());
}

/// The worker was away for a whole lease before it reported its death.
#[tokio::test(flavor = "multi_thread")]
async fn a_death_counts_once() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let task = one_task(&world, None).await;
    for deaths in 1..=3 {
        let of = pool.claim(1).await.pop().expect("nothing is ready");
        lose(&world).await;
        assert_eq!(state_of(&world, task).await.1, deaths);
        let reason = EndReason::DiedAlone;
        pool.report(vec![pool.session(&of, Ended::Told { reason }, "", 0)])
            .await;
        assert_eq!(state_of(&world, task).await.1, deaths);
        sqlx::query("update workers set seen_at = now()")
            .execute(&world.db)
            .await
            .unwrap();
    }
    assert_eq!(state_of(&world, task).await.0, "needs_review");
}

/// Makes every worker silent and every lease over.
async fn lose(world: &World) {
    for query in [
        "update workers set seen_at = now() - interval '1 hour'",
        "update dispatches set lease_until = '-infinity' where state = 'live'",
    ] {
        sqlx::query(query).execute(&world.db).await.unwrap();
    }
    let (lost, _) = rescue::rescue(&world.db, world.settings.lease_ms(), true)
        .await
        .unwrap();
    assert_eq!(lost, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_integration_that_kills_its_worker_needs_a_person() {
    let world = World::calm().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
    let task = one_task(&world, Some(&repository)).await;
    let pool = Pool::join(&world).await;
    let of = pool.claim(1).await.remove(0);
    let done = format!("<task-done>{}</task-done>", of.task);
    pool.report(vec![pool.session(&of, turn(), &done, 1)]).await;
    for last_tries in [18, 19] {
        sqlx::query("update integrations set tries = $1")
            .bind(last_tries)
            .execute(&world.db)
            .await
            .unwrap();
        for query in [
            "update workers set seen_at = now()",
            "update ready_tasks set not_before = now()",
        ] {
            sqlx::query(query).execute(&world.db).await.unwrap();
        }
        let of = pool.claim(1).await.pop().expect("nothing is to be landed");
        assert!(matches!(of.work, Work::Integrate(_)));
        assert_eq!(state_of(&world, task).await.0, "in_progress");
        lose(&world).await;
    }
    let (state, _, reason) = state_of(&world, task).await;
    assert_eq!(state, "needs_review");
    assert!(reason.unwrap().contains("20 tries failed"));
}

async fn losses(world: &World, task: TaskId) -> (i16, i16) {
    sqlx::query_as("select lost_alone, lost_with_others from tasks where id = $1")
        .bind(task.0)
        .fetch_one(&world.db)
        .await
        .unwrap()
}

async fn expires(world: &World, of: &Assignment, only_ended: bool) {
    let until = if only_ended {
        "'-infinity'"
    } else {
        "now() - interval '1 second'"
    };
    sqlx::query(AssertSqlSafe(format!(
        "update dispatches set lease_until = {until} where id = $1"
    )))
    .bind(of.dispatch.0)
    .execute(&world.db)
    .await
    .unwrap();
    let (lost, _) = rescue::rescue(&world.db, world.settings.lease_ms(), only_ended)
        .await
        .unwrap();
    assert_eq!(lost, 1);
}

async fn worker_is_gone(world: &World) {
    sqlx::query("update workers set seen_at = now() - interval '1 hour'")
        .execute(&world.db)
        .await
        .unwrap();
}

const TWO: &str = "- {key: a, title: A}\n- {key: b, title: B}";

/// Each claim gives its own lease, so the leases of a dead worker end one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_lost_within_one_lease_are_lost_together() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, TWO, &FeatureOptions::default())
        .await
        .unwrap();
    let held = pool.claim(2).await;
    worker_is_gone(&world).await;
    for of in &held {
        expires(&world, of, false).await;
    }
    for of in &held {
        assert_eq!(losses(&world, of.task).await, (0, 1));
    }
}

/// A worker's next incarnation reports the sessions that it finds; the others are rescued.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_the_next_incarnation_reports_counts_as_lost_too() {
    let world = World::calm().await.unwrap();
    let before = Pool::join(&world).await;
    world
        .submit("f", None, TWO, &FeatureOptions::default())
        .await
        .unwrap();
    let held = before.claim(2).await;
    let after = Pool::join(&world).await;
    after.beat(&[&held[0]], &[]).await;
    expires(&world, &held[1], true).await;
    assert_eq!(losses(&world, held[1].task).await, (0, 1));
}

/// An integration that kills busy workers is ended as well.
#[tokio::test(flavor = "multi_thread")]
async fn an_integration_that_kills_busy_workers_needs_a_person() {
    let world = World::calm().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
    world
        .submit("f", Some(&repository), TWO, &FeatureOptions::default())
        .await
        .unwrap();
    let pool = Pool::join(&world).await;
    let [first, second] = pool.claim(2).await.try_into().unwrap();
    let done = format!("<task-done>{}</task-done>", first.task);
    pool.report(vec![pool.session(&first, turn(), &done, 1)]).await;
    sqlx::query("update integrations set tries = 19")
        .execute(&world.db)
        .await
        .unwrap();
    let lands = pool.claim(1).await.pop().expect("nothing is to be landed");
    assert!(lands.task == first.task && matches!(lands.work, Work::Integrate(_)));
    worker_is_gone(&world).await;
    sqlx::query("update dispatches set lease_until = now() - interval '1 second' where state = 'live'")
        .execute(&world.db)
        .await
        .unwrap();
    let (lost, _) = rescue::rescue(&world.db, world.settings.lease_ms(), false)
        .await
        .unwrap();
    assert_eq!(lost, 2);
    assert_eq!(state_of(&world, first.task).await.0, "needs_review");
    assert_eq!(state_of(&world, second.task).await.0, "pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_duration_is_not_shown() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let task = one_task(&world, None).await;
    for duration_ms in [0, 90_000] {
        let of = pool.claim(1).await.pop().expect("nothing is ready");
        let ended = Ended::Told {
            reason: EndReason::DiedWithOthers,
        };
        let mut report = pool.session(&of, ended, "", 0);
        report.report.duration_ms = duration_ms;
        pool.report(vec![report]).await;
    }
    let mut conn = world.db.acquire().await.unwrap();
    let shown = view::dispatches_of_task(&mut conn, task, 10).await.unwrap();
    let shown: Vec<_> = shown.iter().map(|dispatch| dispatch.duration_ms).collect();
    assert_eq!(shown, [None, Some(90_000)]);
    drop(conn);
    let of = pool.claim(1).await.pop().expect("nothing is ready");
    let prompt = Scene::prompt(&of);
    assert!(!prompt.contains(" 0.0"), "{prompt}");
}
