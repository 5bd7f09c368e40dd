//! One feature with a repository and a simulated worker.

use ralph_coordinator::domain::states::{FeatureState, RunOutcome, TaskState};
use ralph_coordinator::flow::control::{self, CommandOutcome, FeatureCommand, TaskCommand};
use ralph_coordinator::store;
use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::wire::{Assignment, EndReason, Ended, IntegrationEnd, SessionOrder, Text, Work};
use ralph_tests::harness::{FeatureOptions, Repository, World};

use super::invariants;
use super::pool::Pool;

pub struct Scene<'a> {
    pub world: &'a World,
    pub pool: Pool<'a>,
    pub feature: FeatureId,
    /// Tasks in the graph's order.
    pub tasks: Vec<TaskId>,
    _dir: tempfile::TempDir,
}

impl<'a> Scene<'a> {
    /// Submits the graph as the feature `f`, and runs it.
    pub async fn set(world: &'a World, graph: &str, options: &FeatureOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
        let (feature, _, tasks) = world
            .submit("f", Some(&repository), graph, options)
            .await
            .unwrap();
        Self {
            world,
            pool: Pool::join(world).await,
            feature,
            tasks,
            _dir: dir,
        }
    }

    /// Claims the best ready task.
    pub async fn claim(&self) -> Assignment {
        match self.pool.claim(1).await.pop() {
            Some(of) => of,
            None => panic!("nothing is ready:\n{}", self.world.tell().await),
        }
    }

    pub async fn nothing_is_ready(&self) {
        let got = self.pool.claim(1).await;
        assert!(got.is_empty(), "{} is claimed", got[0].task);
    }

    /// Reports success.
    pub async fn done(&self, of: &Assignment) {
        let report = if Pool::is_check(of) {
            self.pool.integration(of, IntegrationEnd::Checked)
        } else if !matches!(of.work, Work::Session(_)) {
            let merged = IntegrationEnd::Merged {
                commit: format!("{:040x}", of.dispatch.0.as_u128() >> 8),
                empty: false,
            };
            self.pool.integration(of, merged)
        } else {
            let text = format!("<task-done>{}</task-done>\n<verify-pass/>", of.task);
            self.pool.session(of, turn(), &text, 1)
        };
        self.pool.report(vec![report]).await;
    }

    /// Reports a failure by the agent.
    pub async fn fails(&self, of: &Assignment) {
        let text = format!(
            "<task-failed>{}</task-failed>\n<verify-fail>no</verify-fail>",
            of.task
        );
        self.pool
            .report(vec![self.pool.session(of, turn(), &text, 1)])
            .await;
    }

    /// Reports that the session was interrupted.
    pub async fn is_interrupted(&self, of: &Assignment) {
        let ended = Ended::Told {
            reason: EndReason::Interrupted,
        };
        let report = self.pool.session(of, ended, "", 1);
        self.pool.report(vec![report]).await;
    }

    /// The session's prompt.
    pub fn prompt(of: &Assignment) -> &str {
        match &of.work {
            Work::Session(SessionOrder {
                prompt: Text::Inline(text),
                ..
            }) => text,
            other => panic!("{other:?}"),
        }
    }

    pub async fn steer(&self, task: TaskId, command: TaskCommand) -> CommandOutcome {
        control::task(&self.world.db, task, command, "test", None)
            .await
            .unwrap()
            .0
    }

    pub async fn feature(&self, command: FeatureCommand) {
        let (outcome, ..) = control::feature(&self.world.db, self.feature, &command)
            .await
            .unwrap();
        assert_eq!(outcome, CommandOutcome::Done(1));
    }

    pub async fn run(&self) {
        let run = FeatureCommand::Run(Box::new(FeatureOptions::default().run));
        self.feature(run).await;
    }

    /// Starts a run unless one is in progress.
    pub async fn run_if_over(&self) {
        let state: FeatureState = sqlx::query_scalar("select state from features where id = $1")
            .bind(self.feature.0)
            .fetch_one(&self.world.db)
            .await
            .unwrap();
        if state != FeatureState::Running {
            self.run().await;
        }
    }

    pub async fn state(&self, task: TaskId) -> TaskState {
        sqlx::query_scalar("select state from tasks where id = $1")
            .bind(task.0)
            .fetch_one(&self.world.db)
            .await
            .unwrap()
    }

    /// Checks the outcome of the last run.
    pub async fn ends(&self, outcome: RunOutcome) {
        let ended: Option<RunOutcome> = sqlx::query_scalar(
            "select r.outcome from features f join runs r on r.id = f.current_run where f.id = $1",
        )
        .bind(self.feature.0)
        .fetch_one(&self.world.db)
        .await
        .unwrap();
        assert_eq!(ended, Some(outcome), "{}", self.world.tell().await);
    }

    /// Ends all back-offs.
    pub async fn no_pauses(&self) {
        sqlx::query("update ready_tasks set not_before = now()")
            .execute(&self.world.db)
            .await
            .unwrap();
    }

    /// Makes the task the one that has been ready longest.
    pub async fn goes_first(&self, task: TaskId) {
        sqlx::query("update ready_tasks set since = since - interval '1 day' where task_id = $1")
            .bind(task.0)
            .execute(&self.world.db)
            .await
            .unwrap();
    }

    /// Deletes the feature.
    pub async fn forget(self) {
        let mut conn = self.world.db.acquire().await.unwrap();
        store::edit::delete_feature(&mut conn, self.feature)
            .await
            .unwrap();
        invariants::check(&self.world.db).await.unwrap();
    }

    /// Checks that the rows agree with a recount.
    pub async fn holds(&self) {
        if let Err(broken) = invariants::check(&self.world.db).await {
            panic!("{broken}\n{}", self.world.tell().await);
        }
    }
}

pub fn turn() -> Ended {
    Ended::Turn {
        stop_reason: "end_turn".into(),
    }
}
