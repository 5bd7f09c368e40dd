//! Unreachable git servers: their cost for a task, and work that reaches the server late.

use ralph_coordinator::domain::outcome;
use ralph_coordinator::domain::states::{RunOutcome, TaskState};
use ralph_coordinator::flow::control::approve;
use ralph_coordinator::flow::control::{self, CommandOutcome, TaskCommand};
use ralph_shared::ids::TaskId;
use ralph_shared::wire::{Assignment, Ended, IntegrationEnd, WorkspaceOrder};
use ralph_tests::harness::{FeatureOptions, Repository, World};

use crate::pool::Pool;
use crate::scene::{Scene, turn};

async fn steer(world: &World, task: TaskId, command: TaskCommand) -> CommandOutcome {
    control::task(&world.db, task, command, "test", None)
        .await
        .unwrap()
        .0
}

/// The commit and ref from which an assignment starts.
fn start(of: &Assignment) -> Option<(String, String)> {
    match &of.workspace {
        WorkspaceOrder::Git(git) => git.start.clone().zip(git.start_ref.clone()),
        workspace => panic!("{workspace:?}"),
    }
}

async fn state(world: &World, task: TaskId) -> (String, i16, i16) {
    sqlx::query_as("select state::text, failures, door_failures from tasks where id = $1")
        .bind(task.0)
        .fetch_one(&world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_needs_a_person_after_five_sessions() {
    let world = World::calm().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
    let mut options = FeatureOptions::default();
    options.run.backoff_ms = 0;
    let graph = "- {key: a, title: A}";
    let (_, _, tasks) = world
        .submit("f", Some(&repository), graph, &options)
        .await
        .unwrap();
    let pool = Pool::join(&world).await;
    for times in 1..=5 {
        assert_eq!(
            state(&world, tasks[0]).await,
            ("pending".to_owned(), 0, times - 1)
        );
        let of = pool.claim(1).await.pop().unwrap();
        let away = Ended::Workspace {
            message: "the server could not be reached".into(),
            away: true,
        };
        let mut report = pool.session(&of, away, "", 0);
        Pool::unpushed(&mut report);
        pool.report(vec![report]).await;
    }
    assert_eq!(state(&world, tasks[0]).await, ("needs_review".to_owned(), 0, 5));
    let counted: (i32, i64, i64) = sqlx::query_as(
        "select (select sum(iterations)::int from runs), (select count(*) from failure_reports),
                (select count(*) from dispatches where outcome <> 'door')",
    )
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert_eq!(
        counted,
        (0, 0, 0),
        "no iteration, no failure report, no other outcome"
    );
}

/// A worker sends a report again until it is settled, so a coordinator may read both together.
#[tokio::test(flavor = "multi_thread")]
async fn work_of_a_failure_that_is_reported_twice_is_not_continued() {
    let world = World::calm().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
    let mut options = FeatureOptions::default();
    options.run.backoff_ms = 0;
    let (_, _, tasks) = world
        .submit("f", Some(&repository), "- {key: a, title: A}", &options)
        .await
        .unwrap();
    let pool = Pool::join(&world).await;
    let of = pool.claim(1).await.pop().unwrap();
    let text = format!("<task-failed>{}</task-failed>", tasks[0]);
    let report = pool.session(&of, turn(), &text, 1);
    pool.report(vec![report.clone(), report]).await;
    let next = pool.claim(1).await.pop().unwrap();
    assert_eq!(start(&next), None);
}

/// Work whose push failed is the next session's start once it reached the server.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_session_continues_work_that_was_pushed_late() {
    let world = World::calm().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
    let mut options = FeatureOptions::default();
    options.run.backoff_ms = 300_000;
    let graph = "- {key: a, title: A}";
    let (_, _, tasks) = world
        .submit("f", Some(&repository), graph, &options)
        .await
        .unwrap();
    let task = tasks[0];
    let pool = Pool::join(&world).await;
    let of = pool.claim(1).await.pop().unwrap();
    let text = format!("<task-done>{task}</task-done>");
    let late = pool.session(&of, turn(), &text, 1);
    let mut report = late.clone();
    Pool::unpushed(&mut report);
    pool.report(vec![report]).await;
    let pushed = async || -> (Option<String>, Option<String>) {
        sqlx::query_as("select commit, pushed_ref from dispatches where id = $1")
            .bind(of.dispatch.0)
            .fetch_one(&world.db)
            .await
            .unwrap()
    };
    assert_eq!(pushed().await.1, None);
    for _ in 0..2 {
        pool.report(vec![late.clone()]).await;
        let (commit, pushed_ref) = pushed().await;
        assert_eq!((commit, pushed_ref), Pool::pushed_by(&of));
    }
    // The late report changed nothing else: the attempt failed once.
    assert_eq!(state(&world, task).await, ("pending".to_owned(), 1, 0));
    sqlx::query("update ready_tasks set not_before = now()")
        .execute(&world.db)
        .await
        .unwrap();
    let next = pool.claim(1).await.pop().unwrap();
    let (commit, pushed_ref) = Pool::pushed_by(&of);
    assert_eq!(start(&next), commit.zip(pushed_ref));
    // Once another session has begun, the late push is only recorded.
    let mut unpushed = pool.session(&next, turn(), &text, 1);
    Pool::unpushed(&mut unpushed);
    pool.report(vec![unpushed]).await;
    sqlx::query("update ready_tasks set not_before = now()")
        .execute(&world.db)
        .await
        .unwrap();
    let third = pool.claim(1).await.pop().unwrap();
    pool.report(vec![pool.session(&next, turn(), &text, 1)]).await;
    assert_eq!(
        steer(&world, task, TaskCommand::Release).await,
        CommandOutcome::Done(1)
    );
    let fourth = pool.claim(1).await.pop().unwrap();
    assert_eq!(start(&fourth), start(&third));
}

async fn reason(world: &World, task: TaskId) -> String {
    let reason: Option<String> = sqlx::query_scalar("select reason from task_texts where task_id = $1")
        .bind(task.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
    reason.unwrap_or_default()
}

/// Claims the next integration and reports that its repository refused the login.
async fn is_refused_access(scene: &Scene<'_>) {
    scene.no_pauses().await;
    let of = scene.claim().await;
    assert!(Pool::is_integration(&of), "{} {}", of.task, of.kind);
    let refused = IntegrationEnd::Failed {
        message: "authentication failed".to_owned(),
        retry: false,
        away: true,
    };
    scene
        .pool
        .report(vec![scene.pool.integration(&of, refused)])
        .await;
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_integration_without_access_waits_and_returns_its_turn() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, "- {key: a, title: A}", &FeatureOptions::default()).await;
    let a = scene.tasks[0];
    scene.done(&scene.claim().await).await;
    for times in 1..outcome::MAX_REFUSED_TRIES {
        is_refused_access(&scene).await;
        let integration: (String, i32, i32, i64) = sqlx::query_as(
            "select i.state::text, i.tries, i.away_tries, (select count(*) from notices) from integrations i",
        )
        .fetch_one(&world.db)
        .await
        .unwrap();
        assert_eq!(
            integration,
            ("waiting".to_owned(), 0, times, 0),
            "nobody is notified"
        );
        assert_eq!(scene.state(a).await, TaskState::InProgress);
        let reason = reason(&world, a).await;
        assert!(
            reason.contains("its work is pushed") && reason.contains("authentication failed"),
            "{reason}"
        );
    }
    scene.no_pauses().await;
    scene.done(&scene.claim().await).await;
    assert_eq!(scene.state(a).await, TaskState::Done);
    assert_eq!(reason(&world, a).await, "");
    let attempt: i32 = sqlx::query_scalar("select attempt from tasks")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(attempt, 1);
    scene.ends(RunOutcome::Complete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_integration_that_no_worker_can_push_lands_after_an_approval() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, "- {key: a, title: A}", &FeatureOptions::default()).await;
    let a = scene.tasks[0];
    scene.done(&scene.claim().await).await;
    for _ in 0..outcome::MAX_REFUSED_TRIES {
        assert_eq!(scene.state(a).await, TaskState::InProgress);
        is_refused_access(&scene).await;
    }
    assert_eq!(scene.state(a).await, TaskState::NeedsReview);
    let why = reason(&world, a).await;
    assert!(why.contains(&format!("`task approve {a}` lands it")), "{why}");
    let (outcome, _) = approve::approve(&world.db, a, "test", None).await.unwrap();
    assert_eq!(outcome, CommandOutcome::Done(1));
    scene.run_if_over().await;
    let of = scene.claim().await;
    assert!(Pool::is_integration(&of));
    scene.done(&of).await;
    assert_eq!(scene.state(a).await, TaskState::Done);
    let attempt: i32 = sqlx::query_scalar("select attempt from tasks")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(attempt, 1);
}
