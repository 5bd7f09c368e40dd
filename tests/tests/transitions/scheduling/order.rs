//! Attempts are ordered by the database's clock, not by ids, which workers derive from their own clocks.

use ralph_coordinator::store::view;
use ralph_shared::ids::DispatchId;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::Finished;
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;
use crate::scene::{Scene, turn};

/// A slot may repeat an old claim id, or its worker's clock may be behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_attempt_with_an_older_id_is_listed_last() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let mut options = FeatureOptions::default();
    options.run.backoff_ms = 0;
    let (_, _, tasks) = world
        .submit("f", None, "- {key: a, title: A}", &options)
        .await
        .unwrap();
    let older = DispatchId::new();
    let first = pool.claim(1).await.pop().unwrap();
    let failed = format!("<task-failed>{}</task-failed>", tasks[0]);
    pool.report(vec![pool.session(&first, turn(), &failed, 0)]).await;
    let second = pool.claim_as(older).await.unwrap();
    assert!(second.dispatch.0 < first.dispatch.0);
    let mut conn = world.db.acquire().await.unwrap();
    let shown = view::dispatches_of_task(&mut conn, tasks[0], 10).await.unwrap();
    let attempts: Vec<i32> = shown.iter().map(|one| one.attempt).collect();
    assert_eq!(attempts, [1, 2]);
    let last = view::session_of_task(&mut conn, tasks[0], None, None)
        .await
        .unwrap();
    assert_eq!(last, Some(second.dispatch));
    let after = view::dispatch_after(&mut conn, tasks[0], Some(first.dispatch))
        .await
        .unwrap();
    assert_eq!(after, Some(second.dispatch));
    drop(conn);
    pool.report(vec![pool.session(&second, turn(), &failed, 0)]).await;
    let third = pool.claim(1).await.pop().unwrap();
    let prompt = Scene::prompt(&third);
    let places = ["#### Attempt 1 ", "#### Attempt 2 "].map(|heading| prompt.find(heading).unwrap());
    assert!(places[0] < places[1], "{prompt}");
}

/// People see the agent's reason for a failure and the model that it really used, and can open each session
/// of an attempt.
#[tokio::test(flavor = "multi_thread")]
async fn every_session_of_an_attempt_can_be_opened_with_its_reason() {
    let world = World::calm().await.unwrap();
    let options = FeatureOptions {
        verify: true,
        max_retries: 0,
        ..FeatureOptions::default()
    };
    let scene = Scene::set(&world, "- {key: a, title: A}\n- {key: b, title: B}", &options).await;
    let [a, b] = scene.tasks[..] else { panic!() };
    let work = scene.claim().await;
    scene.done(&work).await;
    let verify = scene.claim().await;
    assert_eq!((verify.task, verify.kind), (a, SessionKind::Verify));
    let mut conn = world.db.acquire().await.unwrap();
    for (attempt, kind, expected) in [
        (None, None, Some(verify.dispatch)),
        (Some(1), None, Some(work.dispatch)),
        (None, Some(SessionKind::Work), Some(work.dispatch)),
        (Some(1), Some(SessionKind::Verify), Some(verify.dispatch)),
        (Some(2), Some(SessionKind::Verify), None),
        (None, Some(SessionKind::Integrate), None),
    ] {
        let shown = view::session_of_task(&mut conn, a, attempt, kind).await.unwrap();
        assert_eq!(shown, expected, "{attempt:?} {kind:?}");
    }
    drop(conn);
    scene.done(&verify).await;
    scene.done(&scene.claim().await).await;
    let of = scene.claim().await;
    assert_eq!(of.task, b);
    let text = format!(
        "<task-failed>{b}</task-failed><failure-report>what_tried: all\nwhy_failed: there is no such thing\n\
         error_category: unknown\nrelevant_files: a\nstack_trace: none</failure-report>\
         <next-model>opus|sonnet|haiku</next-model>"
    );
    let mut report = scene.pool.session(&of, turn(), &text, 0);
    let Finished::Session(session) = &mut report.report.finished else {
        panic!()
    };
    session.agent.model = Some("another".to_owned());
    scene.pool.report(vec![report]).await;
    let mut conn = world.db.acquire().await.unwrap();
    let shown = view::dispatches_of_task(&mut conn, b, 10)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        (
            shown.reason.as_deref(),
            shown.model_used.as_deref(),
            shown.malformed_sigils
        ),
        (Some("there is no such thing"), Some("another"), Some(1))
    );
    let reason: Option<String> = sqlx::query_scalar("select reason from task_texts where task_id = $1")
        .bind(b.0)
        .fetch_one(&mut *conn)
        .await
        .unwrap();
    assert_eq!(reason.as_deref(), Some("there is no such thing"));
    drop(conn);
}
