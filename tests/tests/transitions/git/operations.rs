//! Branch operations without an agent: decisions, cancellations and retries.

use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::control::{self, CommandOutcome, FeatureCommand, TaskCommand};
use ralph_coordinator::flow::integrate::operations::{self, MergeRequest, Operated, RevertRequest};
use ralph_coordinator::flow::{edit::remove, integrate};
use ralph_coordinator::store;
use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::wire::{
    Assignment, DecideAnswer, DecideRequest, GitOperation, IntegrationEnd, MergeHow, Work, WorkspaceOrder,
};
use ralph_tests::harness::{FeatureOptions, Repository, World};

use crate::pool::Pool;
use crate::scene::turn;

const CHAIN: &str = "- {key: a, title: A}\n- {key: b, title: B, after: [a]}";

struct Landed<'a> {
    world: &'a World,
    pool: Pool<'a>,
    feature: FeatureId,
    tasks: Vec<TaskId>,
    _dir: tempfile::TempDir,
}

impl<'a> Landed<'a> {
    /// A feature whose tasks landed one after the other.
    async fn all(world: &'a World) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
        let options = FeatureOptions {
            max_parallel: 4,
            ..FeatureOptions::default()
        };
        let (feature, run, tasks) = world
            .submit("f", Some(&repository), CHAIN, &options)
            .await
            .unwrap();
        let landed = Self {
            world,
            pool: Pool::join(world).await,
            feature,
            tasks,
            _dir: dir,
        };
        for _ in 0..4 {
            let of = landed.next().await;
            landed.ends(&of).await;
        }
        assert_eq!(world.ended(run).await.unwrap(), RunOutcome::Complete);
        landed
    }

    async fn next(&self) -> Assignment {
        self.pool.claim(1).await.pop().expect("nothing is ready")
    }

    /// Reports success.
    async fn ends(&self, of: &Assignment) {
        let report = match of.work {
            Work::Session(_) => {
                self.pool
                    .session(of, turn(), &format!("<task-done>{}</task-done>", of.task), 1)
            }
            _ => self.pool.integration(
                of,
                IntegrationEnd::Merged {
                    commit: format!("{:040x}", of.dispatch.0.as_u128() >> 8),
                    empty: false,
                },
            ),
        };
        self.pool.report(vec![report]).await;
    }

    /// Requests an update from the base branch, and starts a run for it.
    async fn update(&self) -> TaskId {
        let templates = &self.world.settings.templates;
        let (operated, _) =
            operations::update(&self.world.db, templates, self.feature, TaskId::new(), "test")
                .await
                .unwrap();
        let Operated::Accepted(tasks) = operated else {
            panic!("{operated:?}")
        };
        self.run().await;
        tasks[0]
    }

    /// Requests a merge into a branch, or into the base, and starts a run for it.
    async fn merge(&self, into: Option<&str>) -> TaskId {
        let (db, how) = (&self.world.db, MergeHow::Merge);
        let (operated, _) = operations::merge(
            db,
            self.feature,
            TaskId::new(),
            MergeRequest {
                how,
                into,
                partial: true,
            },
            "test",
        )
        .await
        .unwrap();
        let Operated::Accepted(tasks) = operated else {
            panic!("{operated:?}")
        };
        self.run().await;
        tasks[0]
    }

    async fn run(&self) {
        let run = FeatureCommand::Run(Box::new(FeatureOptions::default().run));
        let (outcome, ..) = control::feature(&self.world.db, self.feature, &run)
            .await
            .unwrap();
        assert_eq!(outcome, CommandOutcome::Done(1));
    }

    async fn decide(&self, of: &Assignment) -> DecideAnswer {
        let request = DecideRequest {
            dispatch: of.dispatch,
            incarnation: self.pool.incarnation,
            old: format!("{:040x}", 1),
            new: format!("{:040x}", 2),
        };
        integrate::decide(&self.world.db, &request).await.unwrap()
    }

    async fn steer(&self, task: TaskId, command: TaskCommand) -> CommandOutcome {
        control::task(&self.world.db, task, command, "test", None)
            .await
            .unwrap()
            .0
    }

    async fn revert(&self, task: TaskId, dependents: bool) -> Operated {
        let options = RevertRequest {
            redo: false,
            dependents,
        };
        let templates = &self.world.settings.templates;
        operations::revert(
            &self.world.db,
            templates,
            task,
            TaskId::new(),
            options,
            None,
            "test",
        )
        .await
        .unwrap()
        .0
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decided_push_cannot_be_cancelled_nor_a_cancelled_one_decided() {
    let world = World::calm().await.unwrap();
    let landed = Landed::all(&world).await;

    let task = landed.update().await;
    let of = landed.next().await;
    assert_eq!((of.task, landed.decide(&of).await), (task, DecideAnswer::Decided));
    for command in [
        TaskCommand::Cancel,
        TaskCommand::Skip,
        TaskCommand::Fail,
        TaskCommand::Release,
    ] {
        let outcome = landed.steer(task, command).await;
        let CommandOutcome::Refused(why) = outcome else {
            panic!("{command:?}: {outcome:?}")
        };
        assert!(why.contains("decided and being pushed"), "{why}");
    }
    assert_eq!(
        landed.decide(&of).await,
        DecideAnswer::Decided,
        "the same answer to the same question"
    );
    landed.ends(&of).await;

    let task = landed.update().await;
    let of = landed.next().await;
    assert_eq!(
        landed.steer(task, TaskCommand::Cancel).await,
        CommandOutcome::Done(1)
    );
    assert!(matches!(landed.decide(&of).await, DecideAnswer::Refused { .. }));

    let task = landed.update().await;
    let of = landed.next().await;
    assert_eq!(of.task, task);
    let (outcome, ..) = control::feature(&world.db, landed.feature, &FeatureCommand::Cancel)
        .await
        .unwrap();
    assert_eq!(outcome, CommandOutcome::Done(1));
    assert!(matches!(landed.decide(&of).await, DecideAnswer::Refused { .. }));
}

/// The answer to the push was lost: it may be on the branch until another try has checked.
#[tokio::test(flavor = "multi_thread")]
async fn an_operation_whose_push_may_have_arrived_cannot_be_cancelled() {
    let world = World::calm().await.unwrap();
    let landed = Landed::all(&world).await;
    let unknown = |retry| IntegrationEnd::Failed {
        message: "failed to push; whether it arrived is not known".into(),
        retry,
        away: false,
    };
    let is_refused = async |task, command| {
        let outcome = landed.steer(task, command).await;
        let is_in_doubt = |why: &str| why.contains("arrived is not known yet");
        assert!(
            matches!(&outcome, CommandOutcome::Refused(why) if is_in_doubt(why)),
            "{command:?}: {outcome:?}"
        );
    };

    let task = landed.update().await;
    let of = landed.next().await;
    assert_eq!((of.task, landed.decide(&of).await), (task, DecideAnswer::Decided));
    let report = landed.pool.integration(&of, unknown(true));
    landed.pool.report(vec![report]).await;
    is_refused(task, TaskCommand::Cancel).await;
    is_refused(task, TaskCommand::Skip).await;
    sqlx::query("update ready_tasks set not_before = now()")
        .execute(&world.db)
        .await
        .unwrap();
    let next = landed.next().await;
    assert_eq!(next.task, task);
    // The next try has not checked yet.
    is_refused(task, TaskCommand::Cancel).await;
    is_refused(task, TaskCommand::Release).await;
    let void = IntegrationEnd::Void {
        reason: "it moved".into(),
    };
    let report = landed.pool.integration(&next, void);
    landed.pool.report(vec![report]).await;
    assert_eq!(
        landed.steer(task, TaskCommand::Cancel).await,
        CommandOutcome::Done(1)
    );

    // Once a person is asked, they may cancel the operation or have it repeated.
    for command in [TaskCommand::Cancel, TaskCommand::Retry] {
        let task = landed.update().await;
        let of = landed.next().await;
        assert_eq!((of.task, landed.decide(&of).await), (task, DecideAnswer::Decided));
        let report = landed.pool.integration(&of, unknown(false));
        landed.pool.report(vec![report]).await;
        assert_eq!(
            landed.steer(task, command).await,
            CommandOutcome::Done(1),
            "{command:?}"
        );
        if command == TaskCommand::Cancel {
            assert_eq!(
                landed.steer(task, TaskCommand::Retry).await,
                CommandOutcome::Done(1)
            );
            landed.run().await;
            let of = landed.next().await;
            landed.ends(&of).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_features_unknown_operation_names_feature_resume() {
    let world = World::calm().await.unwrap();
    let landed = Landed::all(&world).await;
    let task = landed.update().await;
    let of = landed.next().await;
    assert_eq!(landed.decide(&of).await, DecideAnswer::Decided);
    let unknown = IntegrationEnd::Failed {
        message: "failed to push; whether it arrived is not known".into(),
        retry: true,
        away: false,
    };
    landed
        .pool
        .report(vec![landed.pool.integration(&of, unknown)])
        .await;
    let (paused, ..) = control::feature(&world.db, landed.feature, &FeatureCommand::Pause)
        .await
        .unwrap();
    assert_eq!(paused, CommandOutcome::Done(1));
    let outcome = landed.steer(task, TaskCommand::Cancel).await;
    assert!(
        matches!(&outcome, CommandOutcome::Refused(why) if why.contains("`feature resume f` has a worker find out")),
        "{outcome:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_whose_branch_moved_waits_longer_each_time() {
    let world = World::calm().await.unwrap();
    let landed = Landed::all(&world).await;
    let task = landed.update().await;
    let mut before = 0;
    for _ in 0..3 {
        let of = landed.next().await;
        let void = IntegrationEnd::Void {
            reason: "it moved".into(),
        };
        landed.pool.report(vec![landed.pool.integration(&of, void)]).await;
        let mut conn = world.db.acquire().await.unwrap();
        // The measured part of the pauses of 250, 500 and 1,000 ms.
        let pause_ms: f64 = sqlx::query_scalar(
            "select (extract(epoch from q.not_before - d.settled_at) * 1000)::float8
             from ready_tasks q
             join tasks t on t.id = q.task_id
             join dispatches d on d.id = t.dispatch_id
             where q.task_id = $1",
        )
        .bind(task.0)
        .fetch_one(&mut *conn)
        .await
        .unwrap();
        assert!(
            pause_ms >= 200.0 && pause_ms > f64::from(before),
            "{pause_ms} after {before}"
        );
        before = pause_ms as i32;
        sqlx::query("update ready_tasks set not_before = now()")
            .execute(&mut *conn)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_landing_has_at_most_one_open_revert_in_any_order() {
    let world = World::calm().await.unwrap();
    let landed = Landed::all(&world).await;
    let [a, b] = landed.tasks[..] else { panic!() };
    let Operated::Accepted(first) = landed.revert(b, false).await else {
        panic!("b can be reverted")
    };
    let Operated::Refused(why) = landed.revert(a, true).await else {
        panic!("b is reverted twice")
    };
    assert!(
        why.contains(&first[0].to_string()) && why.contains(&b.to_string()),
        "{why}"
    );
    assert_eq!(
        landed.steer(first[0], TaskCommand::Cancel).await,
        CommandOutcome::Done(1)
    );
    let Operated::Accepted(both) = landed.revert(a, true).await else {
        panic!("both can be reverted")
    };
    assert_eq!(both.len(), 2);
    for one in [a, b] {
        assert!(matches!(landed.revert(one, true).await, Operated::Refused(_)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_without_an_agent_reads_no_memory() {
    let world = World::calm().await.unwrap();
    let landed = Landed::all(&world).await;
    landed.update().await;
    assert!(world.settings.memory);
    sqlx::query("alter table session_memory rename to out_of_reach")
        .execute(&world.db)
        .await
        .unwrap();
    let of = landed.next().await;
    assert!(matches!(of.work, Work::Git(_)));
}

/// Both tasks have conflicted twice in a row; `a` fails and has to back off.
#[tokio::test(flavor = "multi_thread")]
async fn a_conflicting_tasks_back_off_does_not_delay_the_other() {
    let world = World::calm().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
    let mut options = FeatureOptions::default();
    options.run.backoff_ms = 300_000;
    let graph = "- {key: a, title: A}\n- {key: b, title: B, priority: 5}";
    let (feature, _, tasks) = world
        .submit("f", Some(&repository), graph, &options)
        .await
        .unwrap();
    let [a, b] = tasks[..] else { panic!() };
    let pool = Pool::join(&world).await;
    let of = pool.claim(1).await.remove(0);
    assert_eq!(of.task, a);
    for query in ["update tasks set conflicts = 2", "delete from ready_tasks"] {
        sqlx::query(query).execute(&world.db).await.unwrap();
    }
    let failed =
        |of: &Assignment| pool.session(of, turn(), &format!("<task-failed>{}</task-failed>", of.task), 1);
    pool.report(vec![failed(&of)]).await;
    // `a` would go first without its back-off.
    let of = pool.claim(2).await;
    assert_eq!(of.iter().map(|of| of.task).collect::<Vec<_>>(), [b]);
    pool.report(vec![failed(&of[0])]).await;
    let mut conn = world.db.acquire().await.unwrap();
    let queued: Vec<uuid::Uuid> = sqlx::query_scalar("select task_id from ready_tasks where feature_id = $1")
        .bind(feature.0)
        .fetch_all(&mut *conn)
        .await
        .unwrap();
    let first: uuid::Uuid =
        sqlx::query_scalar("select id from tasks where feature_id = $1 order by not_before limit 1")
            .bind(feature.0)
            .fetch_one(&mut *conn)
            .await
            .unwrap();
    assert_eq!(queued, [first], "the task whose time comes first");
    let delay_ms = store::queue::ready::delay_ms(&mut conn, TaskId(first))
        .await
        .unwrap();
    assert!(delay_ms > 100_000, "{delay_ms}");
    drop(conn);
    assert!(pool.claim(1).await.is_empty());
}

/// A task that lands during a merge is not part of it. A merge into another branch is none into the base.
#[tokio::test(flavor = "multi_thread")]
async fn a_finished_feature_is_merged_unless_its_base_has_all_of_it() {
    let world = World::calm().await.unwrap();
    let landed = Landed::all(&world).await;
    sqlx::query("update features set merge = 'squash'")
        .execute(&world.db)
        .await
        .unwrap();
    let merges_into = |of: &Assignment| match &of.work {
        Work::Git(order) => match &order.operation {
            GitOperation::Merge { branch, at_end, .. } => (branch.clone(), *at_end),
            operation => panic!("{operation:?}"),
        },
        work => panic!("{work:?}"),
    };

    landed.merge(Some("staging")).await;
    let into_staging = landed.next().await;
    assert_eq!(merges_into(&into_staging), ("staging".to_owned(), false));
    landed
        .pool
        .report(vec![
            landed.pool.integration(&into_staging, delivered(&into_staging)),
        ])
        .await;
    let at_end = landed.next().await;
    assert_eq!(
        merges_into(&at_end),
        ("main".to_owned(), true),
        "staging is not the base"
    );
    landed
        .pool
        .report(vec![landed.pool.integration(&at_end, delivered(&at_end))])
        .await;
    assert!(landed.pool.claim(1).await.is_empty(), "the base has all of it");

    // Another task lands while a person's merge runs.
    let task = landed.merge(None).await;
    let merge = landed.next().await;
    assert_eq!(merge.task, task);
    sqlx::query("insert into integrations (id, feature_id, task_id, attempt, source_commit, source_ref, state, landed_commit, ended_at)
                 select gen_random_uuid(), feature_id, $1, 1, source_commit, source_ref, 'merged', $2, clock_timestamp()
                 from integrations limit 1")
        .bind(task.0)
        .bind(format!("{:040x}", 9))
        .execute(&world.db)
        .await
        .unwrap();
    landed
        .pool
        .report(vec![landed.pool.integration(&merge, delivered(&merge))])
        .await;
    let at_end = landed.next().await;
    assert_eq!(
        merges_into(&at_end),
        ("main".to_owned(), true),
        "the merge did not include it"
    );
    assert_eq!(of_last(&at_end), Some(format!("{:040x}", 9)));
    // A person who cancels that merge does not get it again.
    assert_eq!(
        landed.steer(at_end.task, TaskCommand::Cancel).await,
        CommandOutcome::Done(1)
    );
    assert!(landed.pool.claim(1).await.is_empty());
}

/// The report of a merge that included everything landed.
fn delivered(of: &Assignment) -> IntegrationEnd {
    IntegrationEnd::Delivered {
        commit: format!("{:040x}", 7),
        landed: of_last(of),
        empty: false,
    }
}

/// The last landed commit when the assignment was claimed.
fn of_last(of: &Assignment) -> Option<String> {
    match &of.workspace {
        WorkspaceOrder::Git(git) => git.landed.as_ref().map(|landed| landed.commit.clone()),
        workspace => panic!("{workspace:?}"),
    }
}

/// The branch contains a deleted task's landing, so later landings must contain it too, and a merge included
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_landed_commit_stays_known_after_its_task_is_deleted() {
    let world = World::calm().await.unwrap();
    let landed = Landed::all(&world).await;
    let [a, b] = landed.tasks[..] else { panic!() };
    sqlx::query("update features set merge = 'squash'")
        .execute(&world.db)
        .await
        .unwrap();
    landed.merge(None).await;
    let merge = landed.next().await;
    let last = of_last(&merge).expect("all of it landed");
    landed
        .pool
        .report(vec![landed.pool.integration(&merge, delivered(&merge))])
        .await;
    // Delete the last one first: the other landed before it.
    for task in [b, a] {
        let (deleted, _) = remove::task(&world.db, task, "test").await.unwrap();
        assert_eq!(deleted, CommandOutcome::Done(1));
        landed.merge(Some("staging")).await;
        let of = landed.next().await;
        assert_eq!(of_last(&of).as_ref(), Some(&last));
        landed
            .pool
            .report(vec![landed.pool.integration(&of, delivered(&of))])
            .await;
        assert!(
            landed.pool.claim(1).await.is_empty(),
            "the base has all of it already"
        );
    }
    // A later landing becomes the last one.
    landed.update().await;
    let update = landed.next().await;
    landed.ends(&update).await;
    let merge = landed.next().await;
    assert_eq!(
        of_last(&merge),
        Some(format!("{:040x}", update.dispatch.0.as_u128() >> 8))
    );
}
