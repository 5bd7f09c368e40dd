//! Branch operations that a person or the end of a feature requests, and when they are refused or void.

use ralph_coordinator::domain::graph::{self, Limits};
use ralph_coordinator::domain::run::defaults::TaskDefaults;
use ralph_coordinator::domain::states::{RunOutcome, TaskState};
use ralph_coordinator::flow::control::{CommandOutcome, TaskCommand};
use ralph_coordinator::flow::integrate::operations::{self, MergeRequest, Operated, RevertRequest};
use ralph_coordinator::flow::submit::add_task::{self, Added, Addition};
use ralph_coordinator::flow::{finish, integrate, workers::rescue};
use ralph_shared::ids::TaskId;
use ralph_shared::wire::{DecideAnswer, DecideRequest, IntegrationEnd, MergeHow};
use ralph_tests::harness::{FeatureOptions, World};

use crate::scene::{Scene, turn};

const ONE: &str = "- {key: a, title: A}";

/// The feature `f`, whose only task has landed.
async fn landed(world: &World) -> Scene<'_> {
    let scene = Scene::set(world, ONE, &FeatureOptions::default()).await;
    scene.done(&scene.claim().await).await;
    scene.done(&scene.claim().await).await;
    scene.ends(RunOutcome::Complete).await;
    scene
}

/// Requests an update from the base branch.
async fn update(scene: &Scene<'_>) -> TaskId {
    let (db, templates) = (&scene.world.db, &scene.world.settings.templates);
    let (operated, _) = operations::update(db, templates, scene.feature, TaskId::new(), "test")
        .await
        .unwrap();
    match operated {
        Operated::Accepted(tasks) => tasks[0],
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runs_reason_names_the_merge_that_a_limit_forbade() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, ONE, &FeatureOptions::default()).await;
    scene.done(&scene.claim().await).await;
    let lands = scene.claim().await;
    sqlx::raw_sql("update features set merge = 'squash'; update runs set max_cost_usd = 1, cost_usd = 2")
        .execute(&world.db)
        .await
        .unwrap();
    scene.done(&lands).await;
    scene.ends(RunOutcome::Complete).await;
    let reason: String = sqlx::query_scalar("select reason from runs")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!(reason.contains("`feature merge f --how squash`"), "{reason}");
    scene.nothing_is_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflicting_branch_operation_cannot_be_split() {
    let world = World::calm().await.unwrap();
    let scene = landed(&world).await;
    let task = update(&scene).await;
    scene.run().await;
    let of = scene.claim().await;
    assert_eq!((of.task, of.kind.into_str()), (task, "git"));
    let conflict = IntegrationEnd::Conflict {
        paths: vec!["a".to_owned()],
        hunks: String::new(),
        others: Vec::new(),
        head: format!("{:040x}", 1),
        source: Some(format!("{:040x}", 2)),
        source_ref: Some("refs/heads/main".to_owned()),
    };
    scene
        .pool
        .report(vec![scene.pool.integration(&of, conflict)])
        .await;
    let resolves = scene.claim().await;
    assert_eq!((resolves.task, resolves.kind.into_str()), (task, "work"));
    let text = "<task-graph>- {key: x, title: X}</task-graph>";
    let split = scene.pool.session(&resolves, turn(), text, 1);
    scene.pool.report(vec![split]).await;
    scene.holds().await;
    scene.no_pauses().await;
    let again = scene.claim().await;
    assert_eq!((again.task, again.kind.into_str()), (task, "work"));
    let prompt = Scene::prompt(&again);
    assert!(prompt.contains("which can't be split"), "{prompt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_operation_gets_no_children() {
    let world = World::calm().await.unwrap();
    let scene = landed(&world).await;
    let task = update(&scene).await;
    let addition = Addition {
        id: TaskId::new(),
        graph: graph::load("test", "- {key: n, title: New}", &Limits::file()).unwrap(),
        key_is_chosen: false,
        parent: Some(task),
        after: Vec::new(),
        limit: None,
        defaults: TaskDefaults::default(),
        actor: "test",
    };
    let (added, _) = add_task::add(&world.db, scene.feature, &addition).await.unwrap();
    assert!(
        matches!(&added, Added::Refused(why) if why.contains("has no parts")),
        "{added:?}"
    );
    scene.run().await;
    assert_eq!(scene.claim().await.task, task, "the operation is unchanged");
}

/// While the feature doesn't run, nothing retries the push by itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_push_of_a_stopped_feature_names_feature_run() {
    let world = World::calm().await.unwrap();
    let scene = landed(&world).await;
    let task = update(&scene).await;
    scene.run().await;
    let of = scene.claim().await;
    let request = DecideRequest {
        dispatch: of.dispatch,
        incarnation: scene.pool.incarnation,
        old: format!("{:040x}", 1),
        new: format!("{:040x}", 2),
    };
    let answer = integrate::decide(&world.db, &request).await.unwrap();
    assert_eq!(answer, DecideAnswer::Decided);
    finish::stop(&world.db, scene.feature, "test".into())
        .await
        .unwrap();
    let refused = async || match scene.steer(task, TaskCommand::Cancel).await {
        CommandOutcome::Refused(why) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused().await.contains("is decided and being pushed"));
    sqlx::query("update dispatches set lease_until = '-infinity' where id = $1")
        .bind(of.dispatch.0)
        .execute(&world.db)
        .await
        .unwrap();
    rescue::rescue(&world.db, world.settings.lease_ms(), true)
        .await
        .unwrap();
    let why = refused().await;
    assert!(why.contains("`feature run f` has a worker find out"), "{why}");
    // The run finds out, and then the task can be cancelled.
    scene.run().await;
    let looks = scene.claim().await;
    assert_eq!(looks.task, task);
    let void = IntegrationEnd::Void {
        reason: "it moved".to_owned(),
    };
    scene
        .pool
        .report(vec![scene.pool.integration(&looks, void)])
        .await;
    assert_eq!(
        scene.steer(task, TaskCommand::Cancel).await,
        CommandOutcome::Done(1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_into_another_branch_or_by_another_method_differ() {
    let world = World::calm().await.unwrap();
    let scene = landed(&world).await;
    let merge = async |how: MergeHow, into: Option<&str>| {
        let (db, id) = (&world.db, TaskId::new());
        let wanted = operations::merge(
            db,
            scene.feature,
            id,
            MergeRequest {
                how,
                into,
                partial: true,
            },
            "test",
        )
        .await;
        matches!(wanted.unwrap().0, Operated::Accepted(_))
    };
    assert!(merge(MergeHow::Merge, Some("release")).await);
    assert!(
        !merge(MergeHow::Merge, Some("release")).await,
        "the same merge is still open"
    );
    assert!(merge(MergeHow::Squash, Some("release")).await);
    assert!(merge(MergeHow::Merge, None).await);
    assert!(!merge(MergeHow::Merge, Some("main")).await, "main is the base");
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_of_the_only_done_child_blocks_the_parents_dependents() {
    let world = World::calm().await.unwrap();
    let graph = "- {key: o, title: O}\n- {key: p, title: P, parent: o}\n- {key: a, title: A, parent: p}\n\
                 - {key: b, title: B, parent: o}\n- {key: d, title: D, after: [o]}";
    let scene = Scene::set(&world, graph, &FeatureOptions::default()).await;
    let [o, p, a, b, d] = scene.tasks[..] else {
        panic!()
    };
    assert_eq!(scene.steer(b, TaskCommand::Cancel).await, CommandOutcome::Done(1));
    scene.done(&scene.claim().await).await;
    scene.done(&scene.claim().await).await;
    let states = async || {
        let mut states = Vec::new();
        for task in [o, p, a, d] {
            states.push(scene.state(task).await);
        }
        states
    };
    let done = TaskState::Done;
    assert_eq!(states().await, [done, done, done, TaskState::Pending]);
    let (db, templates) = (&world.db, &world.settings.templates);
    let options = RevertRequest::default();
    let (operated, _) = operations::revert(db, templates, a, TaskId::new(), options, None, "test")
        .await
        .unwrap();
    assert!(matches!(operated, Operated::Accepted(_)), "{operated:?}");
    let reverts = scene.claim().await;
    assert_eq!(reverts.kind.into_str(), "git");
    scene.done(&reverts).await;
    let gone = TaskState::Cancelled;
    assert_eq!(states().await, [gone, gone, gone, TaskState::Blocked]);
    scene.holds().await;
    scene.nothing_is_ready().await;
    scene.ends(RunOutcome::Blocked).await;
}

/// Requests the revert of a task's landing; returns the task that does it.
async fn revert(scene: &Scene<'_>, task: TaskId, redo: bool) -> TaskId {
    let (db, templates) = (&scene.world.db, &scene.world.settings.templates);
    let options = RevertRequest {
        redo,
        ..RevertRequest::default()
    };
    let (operated, _) = operations::revert(db, templates, task, TaskId::new(), options, None, "test")
        .await
        .unwrap();
    match operated {
        Operated::Accepted(tasks) => tasks[0],
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_revert_does_not_revert_a_newer_landing() {
    let world = World::calm().await.unwrap();
    let graph = "- {key: a, title: A}\n- {key: b, title: B}";
    let scene = Scene::set(&world, graph, &FeatureOptions::default()).await;
    let a = scene.tasks[0];
    scene.done(&scene.claim().await).await;
    scene.done(&scene.claim().await).await;
    assert_eq!(scene.state(a).await, TaskState::Done);

    // Two reverts run at once: the second one finds the landing gone.
    let older = revert(&scene, a, false).await;
    assert_eq!(
        scene.steer(older, TaskCommand::Skip).await,
        CommandOutcome::Done(1)
    );
    let newer = revert(&scene, a, true).await;
    assert_eq!(
        scene.steer(older, TaskCommand::Retry).await,
        CommandOutcome::Done(1)
    );
    let reverts = [scene.claim().await, scene.claim().await];
    let of = |task: TaskId| reverts.iter().find(|one| one.task == task).unwrap();
    scene.done(of(newer)).await;
    assert_eq!(scene.state(a).await, TaskState::Pending);
    scene.goes_first(a).await;
    scene.done(&scene.claim().await).await;
    scene.done(&scene.claim().await).await;
    assert_eq!(scene.state(a).await, TaskState::Done);
    scene.done(of(older)).await;
    assert_eq!(scene.state(older).await, TaskState::Done);
    assert_eq!(scene.state(a).await, TaskState::Done);
    let landings: i64 =
        sqlx::query_scalar("select count(*) from integrations where task_id = $1 and state = 'merged'")
            .bind(a.0)
            .fetch_one(&world.db)
            .await
            .unwrap();
    assert_eq!(landings, 1);
    scene.holds().await;

    // A skipped revert that has become void.
    let older = revert(&scene, a, false).await;
    assert_eq!(
        scene.steer(older, TaskCommand::Skip).await,
        CommandOutcome::Done(1)
    );
    revert(&scene, a, false).await;
    scene.done(&scene.claim().await).await;
    assert_eq!(scene.state(a).await, TaskState::Cancelled);
    let CommandOutcome::Refused(why) = scene.steer(older, TaskCommand::Retry).await else {
        panic!("the retry was accepted")
    };
    assert!(
        why.contains("was taken back before") && why.contains(&format!("`task revert {a}`")),
        "{why}"
    );
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_a_person_marks_done_waits_for_no_verdict() {
    let world = World::calm().await.unwrap();
    let graph = "- {key: a, title: A, verify: true}\n- {key: b, title: B}";
    let scene = Scene::set(&world, graph, &FeatureOptions::default()).await;
    let a = scene.tasks[0];
    scene.done(&scene.claim().await).await;
    let verdict = async || -> String {
        sqlx::query_scalar("select verification::text from tasks where id = $1")
            .bind(a.0)
            .fetch_one(&world.db)
            .await
            .unwrap()
    };
    assert_eq!(verdict().await, "pending");
    let judges = scene.claim().await;
    assert_eq!((judges.task, judges.kind.into_str()), (a, "verify"));
    assert_eq!(scene.steer(a, TaskCommand::Done).await, CommandOutcome::Done(1));
    assert_eq!(verdict().await, "none");
    scene.holds().await;
}

/// The command is configured on each worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_merge_command_is_retried_until_a_worker_has_it() {
    let world = World::calm().await.unwrap();
    let scene = landed(&world).await;
    let (db, how) = (&world.db, MergeHow::Command);
    let (operated, _) = operations::merge(
        db,
        scene.feature,
        TaskId::new(),
        MergeRequest {
            how,
            into: None,
            partial: true,
        },
        "test",
    )
    .await
    .unwrap();
    let Operated::Accepted(tasks) = operated else {
        panic!("{operated:?}")
    };
    scene.run().await;
    for _ in 0..8 {
        let of = scene.claim().await;
        let lacks = IntegrationEnd::Failed {
            message: "this worker has no command".to_owned(),
            retry: true,
            away: true,
        };
        scene.pool.report(vec![scene.pool.integration(&of, lacks)]).await;
        assert_eq!(scene.state(tasks[0]).await, TaskState::Pending);
        scene.no_pauses().await;
    }
    scene.done(&scene.claim().await).await;
    scene.ends(RunOutcome::Complete).await;
}
