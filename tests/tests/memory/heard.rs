//! Words of agents and people reach the right attempts, however the session ended.

use ralph_coordinator::flow::control::{self, CommandOutcome, TaskCommand};
use ralph_coordinator::flow::{Settings, memory::upkeep};
use ralph_shared::wire::{Assignment, Ended, Unavailable, Work};
use ralph_tests::harness::World;

use super::pool::Pool;
use super::scene;
use super::trust::settings;

/// The model of a session, and the reason for it.
async fn model(world: &World, of: &Assignment) -> (String, String) {
    let Work::Session(order) = &of.work else {
        panic!("no session: {of:?}");
    };
    let reason: String = sqlx::query_scalar("select model_reason from dispatches where id = $1")
        .bind(of.dispatch.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
    (order.model.clone().expect("a model").tier, reason)
}

async fn count(world: &World, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&world.db).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_an_agent_requests_applies_to_one_attempt() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let graph = "- {key: a, title: Look, model: sonnet}\n- {key: b, title: Free, after: [a]}\n";
    scene::submit(&world, "wheel", graph).await;
    scene::fails(&pool, "<next-model>haiku</next-model>").await;
    let second = scene::claims(&pool).await;
    assert_eq!(
        model(&world, &second).await,
        (
            "haiku".to_owned(),
            "an agent asked for it (the task names sonnet)".to_owned()
        )
    );
    scene::says(
        &pool,
        &second,
        &format!("<task-failed>{}</task-failed>", second.task),
    )
    .await;
    let third = scene::claims(&pool).await;
    assert_eq!(
        model(&world, &third).await,
        (
            "sonnet".to_owned(),
            "the task names it (cost-optimized would have chosen opus)".to_owned()
        )
    );
    scene::says(&pool, &third, &format!("<task-done>{}</task-done>", third.task)).await;
    // A freed task doesn't inherit a hint that is used up.
    let freed = scene::claims(&pool).await;
    assert_eq!(model(&world, &freed).await.0, "sonnet");
    assert!(!model(&world, &freed).await.1.contains("an agent asked for it"));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_a_task_that_a_person_marks_done_are_resolved() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "wheel", "- {key: a, title: Look}").await;
    let failed = scene::fails(&pool, "It broke.").await;
    let open = "select count(*) from session_memory where kind = 'error' and resolved_at is null";
    assert_eq!(count(&world, open).await, 1);
    let (outcome, _) = control::task(&world.db, failed.task, TaskCommand::Done, "test", None)
        .await
        .unwrap();
    assert_eq!(outcome, CommandOutcome::Done(1));
    // The frequent upkeep doesn't resolve them.
    assert_eq!(upkeep::tick_often(&world.db).await.unwrap().released, 0);
    assert_eq!(count(&world, open).await, 1);
    scene::upkeep(&world).await;
    assert_eq!(count(&world, open).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn feedback_reaches_the_next_prompt_after_an_unavailable_agent() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "wheel", "- {key: a, title: Look}").await;
    let of = scene::claims(&pool).await;
    let door = Ended::Unavailable {
        door: Unavailable::Silent,
        message: "it did not answer".to_owned(),
    };
    let report = pool.session(&of, door, "", 0);
    pool.report(vec![report]).await;
    let outcome = control::feedback(&world.db, of.task, "test", "use the staging server")
        .await
        .unwrap();
    assert_eq!(outcome, CommandOutcome::Done(1));
    sqlx::query("update ready_tasks set not_before = now()")
        .execute(&world.db)
        .await
        .unwrap();
    let prompt = scene::prompt(&scene::claims(&pool).await);
    assert!(prompt.contains("use the staging server"), "{prompt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_leaves_at_most_five_entries() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(
        &world,
        "wheel",
        "- {key: a, title: Look}\n- {key: b, title: See}\n- {key: c, title: Hear}\n",
    )
    .await;
    let same: String = (0..3_000)
        .map(|n| format!("<knowledge tags='a' title='T'>Body {n}.</knowledge>"))
        .collect();
    scene::does(&pool, &same).await;
    let bodies: Vec<String> = sqlx::query_scalar("select body from knowledge")
        .fetch_all(&world.db)
        .await
        .unwrap();
    assert_eq!(bodies, ["Body 2999."]);
    let others: String = (0..1_000)
        .map(|n| format!("<knowledge tags='a' title='Title {n}'>B.</knowledge><learning category='pitfall' tags='a'>L {n}.</learning>"))
        .collect();
    scene::does(&pool, &others).await;
    // Five entries an attempt, knowledge before learnings.
    assert_eq!(count(&world, "select count(*) from knowledge").await, 6);
    assert_eq!(count(&world, "select count(*) from learnings").await, 0);
    let learnings: String = (0..1_000)
        .map(|n| format!("<learning category='pitfall' tags='a'>L {n}.</learning>"))
        .collect();
    scene::does(&pool, &learnings).await;
    assert_eq!(count(&world, "select count(*) from learnings").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_report_is_stored_although_its_graph_is_refused() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "wheel", "- {key: a, title: Look}").await;
    let of = scene::claims(&pool).await;
    let text = "<task-graph>[{\"key\": \"x\"}]</task-graph>\
                <failure-report>\nwhat_tried: I split it.\nwhy_failed: The spokes are glued.\n\
                error_category: build_error\n</failure-report>\
                <retry-suggestion>Cut them.</retry-suggestion>";
    scene::says(&pool, &of, text).await;
    let reports: Vec<(String, Option<String>)> =
        sqlx::query_as("select why_failed, retry_suggestion from failure_reports")
            .fetch_all(&world.db)
            .await
            .unwrap();
    assert_eq!(
        reports,
        [("The spokes are glued.".to_owned(), Some("Cut them.".to_owned()))]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn feedback_reaches_the_next_prompt_without_a_memory() {
    let settings = Settings {
        memory: false,
        ..settings()
    };
    let world = World::start_with(settings).await.unwrap();
    let pool = Pool::join(&world).await;
    scene::submit(&world, "wheel", "- {key: a, title: Look}").await;
    let failed = scene::fails(&pool, "It broke.").await;
    control::feedback(&world.db, failed.task, "test", "use the staging server")
        .await
        .unwrap();
    let prompt = scene::prompt(&scene::claims(&pool).await);
    assert!(prompt.contains("use the staging server"), "{prompt}");
    assert!(!prompt.contains("It broke"), "{prompt}");
}
