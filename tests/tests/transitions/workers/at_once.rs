//! Two concurrent transactions: a claim, which holds no lock on its feature, and a command that takes its
//! tasks.

use ralph_coordinator::domain::graph::{self, Limits};
use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::scheduling::availability::NO_AGENT;
use ralph_coordinator::domain::scheduling::capability::Capability;
use ralph_coordinator::domain::states::{FailurePolicy, TaskState};
use ralph_coordinator::flow::control::{self, CommandOutcome, FeatureCommand};
use ralph_coordinator::flow::finish;
use ralph_coordinator::store;
use ralph_coordinator::store::feature::{Locked, NewFeature};
use ralph_coordinator::store::queue::ready::ReadyFilter;
use ralph_coordinator::{
    domain::run::defaults::TaskDefaults,
    flow::submit::{self, Start, Submission, Submitted},
};
use ralph_shared::ids::TaskId;
use ralph_shared::wire::EndReason;
use ralph_tests::harness::{FeatureOptions, World};
use sqlx::PgConnection;

use crate::scene::{Scene, turn};

const FLAT: &str = "- {key: a, title: A}\n- {key: b, title: B}\n- {key: c, title: C}";

const ONE_WAITS: &str = "select $1::uuid is not null and (select count(*) >= 1 from pg_stat_activity where wait_event_type = 'Lock')";
const TWO_WAIT: &str = "select $1::uuid is not null and (select count(*) >= 2 from pg_stat_activity where wait_event_type = 'Lock')";

async fn until(world: &World, waiting: &'static str) {
    world.until(waiting, uuid::Uuid::nil()).await.unwrap();
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ends {
    Stop,
    Cancel,
    Promise,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_claimed_while_its_run_ends_is_ended_with_it() {
    let world = World::calm().await.unwrap();
    for ends in [Ends::Stop, Ends::Cancel, Ends::Promise] {
        let scene = Scene::set(&world, FLAT, &FeatureOptions::default()).await;
        let first = scene.claim().await;
        // The next claim has taken its task out of the queue, and waits here.
        let mut held = world.db.begin().await.unwrap();
        sqlx::query("select from tasks where id = $1 for no key update")
            .bind(scene.tasks[1].0)
            .execute(&mut *held)
            .await
            .unwrap();
        let claiming = scene.pool.claim(1);
        let ending = async {
            until(&world, ONE_WAITS).await;
            let end = async {
                match ends {
                    Ends::Stop => {
                        let (outcome, ..) = finish::stop(&world.db, scene.feature, "test".into())
                            .await
                            .unwrap();
                        assert_eq!(outcome, CommandOutcome::Done(1));
                    }
                    Ends::Cancel => scene.feature(FeatureCommand::Cancel).await,
                    Ends::Promise => {
                        let text = "<promise>FAILURE</promise>";
                        scene
                            .pool
                            .report(vec![scene.pool.session(&first, turn(), text, 0)])
                            .await;
                    }
                }
            };
            let let_go = async {
                until(&world, TWO_WAIT).await;
                held.commit().await.unwrap();
            };
            tokio::join!(end, let_go);
        };
        let (claimed, ()) = tokio::join!(claiming, ending);
        assert_eq!(claimed[0].task, scene.tasks[1]);
        let not_asked: i64 =
            sqlx::query_scalar("select count(*) from dispatches where state = 'live' and end_reason is null")
                .fetch_one(&world.db)
                .await
                .unwrap();
        assert_eq!(not_asked, 0, "{ends:?}");
        scene.is_interrupted(&claimed[0]).await;
        scene.forget().await;
    }
}

/// Like a claim that takes the first task, can't begin it, and puts it back without a commit yet.
async fn put_back(conn: &mut PgConnection, scene: &Scene<'_>) -> TaskId {
    let offer = Capability {
        startable: Vec::new(),
        shut: Vec::new(),
        pools: vec!["default".to_owned()],
        agents: vec![NO_AGENT.to_owned(), "default".to_owned()],
    };
    let taken = store::queue::ready::take(conn, &offer, &[(scene.feature, 1)], ReadyFilter::Work)
        .await
        .unwrap();
    let task = taken[0].task;
    store::queue::ready::put_back(conn, &taken).await.unwrap();
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_waits_for_a_claim_that_puts_a_task_back() {
    let world = World::calm().await.unwrap();
    for withdraw in ["close", "hold", "pause"] {
        let options = FeatureOptions {
            failure_policy: FailurePolicy::Stop,
            ..FeatureOptions::default()
        };
        let scene = Scene::set(&world, FLAT, &options).await;
        let mut claiming = world.db.begin().await.unwrap();
        let task = put_back(&mut claiming, &scene).await;
        let other = scene.tasks[2];
        let mut withdrawing = world.db.begin().await.unwrap();
        let withdrawn = async {
            match withdraw {
                "close" => drop(
                    store::task::dependencies::close(&mut withdrawing, &[task.0])
                        .await
                        .unwrap(),
                ),
                "hold" => {
                    let failed = [other.0];
                    store::task::hold_beside(&mut withdrawing, scene.feature, &failed)
                        .await
                        .unwrap();
                }
                _ => store::queue::ready::withdraw_feature(&mut withdrawing, scene.feature)
                    .await
                    .unwrap(),
            }
            withdrawing.commit().await.unwrap();
        };
        let committed = async {
            until(&world, ONE_WAITS).await;
            claiming.commit().await.unwrap();
        };
        tokio::join!(withdrawn, committed);
        let queued: bool = sqlx::query_scalar("select exists (select from ready_tasks where task_id = $1)")
            .bind(task.0)
            .fetch_one(&world.db)
            .await
            .unwrap();
        assert!(!queued, "{withdraw}");
        let mut conn = world.db.acquire().await.unwrap();
        store::edit::delete_feature(&mut conn, scene.feature)
            .await
            .unwrap();
    }
}

/// A session that continues while its feature is paused finds the feature infeasible.
#[tokio::test(flavor = "multi_thread")]
async fn a_promise_of_failure_counts_while_its_feature_is_paused() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, FLAT, &FeatureOptions::default()).await;
    let of = scene.claim().await;
    scene.feature(FeatureCommand::Pause).await;
    let text = "<promise>FAILURE</promise>";
    scene
        .pool
        .report(vec![scene.pool.session(&of, turn(), text, 0)])
        .await;
    scene
        .ends(ralph_coordinator::domain::states::RunOutcome::Failure)
        .await;
    scene.holds().await;
    assert_eq!(scene.state(scene.tasks[1]).await, TaskState::Pending);
    let (outcome, ..) = control::feature(&world.db, scene.feature, &FeatureCommand::Resume)
        .await
        .unwrap();
    assert!(matches!(outcome, CommandOutcome::Refused(_)), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_also_orders_the_end_of_a_session() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, FLAT, &FeatureOptions::default()).await;
    let of = scene.claim().await;
    finish::stop(&world.db, scene.feature, "test".into())
        .await
        .unwrap();
    let end = scene.pool.end_ordered(&of).await;
    assert_eq!(end, Some(EndReason::Interrupted));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_submissions_do_not_get_the_same_branch() {
    let world = World::calm().await.unwrap();
    let submission = |name: &str| {
        let mut feature = NewFeature::new(name.to_owned(), "r".to_owned());
        feature.repo_address = Some("/nowhere".to_owned());
        feature.base_ref = Some("main".to_owned());
        feature.base_commit = Some("0123456789".repeat(4));
        feature.branch = Some("shared".to_owned());
        Submission {
            feature,
            graph: graph::load("tasks.yaml", FLAT, &Limits::file()).unwrap(),
            defaults: TaskDefaults::default(),
            limits: Vec::new(),
            start: Start::Later(RunSettings::default()),
        }
    };
    // The first submission has checked the branch, and isn't committed yet.
    let mut first = world.db.begin().await.unwrap();
    let owner = store::feature::branch::owner(&mut first, "r", "shared", "one").await;
    assert_eq!(owner.unwrap(), None);
    let new = submission("one").feature;
    let stored = store::feature::insert(&mut first, &new, &Locked::inserted(&new), None).await;
    assert!(stored.unwrap());
    let (one, two) = (submission("one"), submission("two"));
    let others = async { tokio::join!(submit::submit(&world.db, &one), submit::submit(&world.db, &two)) };
    let committed = async {
        until(&world, TWO_WAIT).await;
        first.commit().await.unwrap();
    };
    let ((one, two), ()) = tokio::join!(others, committed);
    assert!(matches!(one.unwrap().0, Submitted::NameTaken));
    match two.unwrap().0 {
        Submitted::BranchTaken(why) => assert!(why.contains("`one`"), "{why}"),
        other => panic!("{other:?}"),
    }
}
