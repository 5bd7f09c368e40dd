//! Commands of people in a random history.

use std::collections::BTreeSet;

use ralph_coordinator::domain::graph::{self, Limits};
use ralph_coordinator::domain::run::defaults::TaskDefaults;
use ralph_coordinator::domain::states::TaskState;
use ralph_coordinator::flow::control::{self, CommandOutcome, FeatureCommand, TaskCommand};
use ralph_coordinator::flow::edit::dependencies::{self, Change};
use ralph_coordinator::flow::submit::add_task::{self, Addition};
use ralph_coordinator::flow::{
    control::approve,
    edit::{self, remove},
};
use ralph_coordinator::store;
use ralph_coordinator::store::edit::TaskEdit;
use ralph_shared::ids::TaskId;
use ralph_tests::harness::FeatureOptions;
use rand::Rng as _;

use super::invariants;
use super::random::History;

impl History<'_> {
    pub(super) async fn steer_a_task(&mut self) -> String {
        let ids = self.ids().await;
        let task = TaskId(ids[self.random.random_range(0..ids.len())]);
        let commands = [
            TaskCommand::Skip,
            TaskCommand::Cancel,
            TaskCommand::Fail,
            TaskCommand::Done,
            TaskCommand::Retry,
            TaskCommand::Retry,
            TaskCommand::Retry,
            TaskCommand::Reject,
            TaskCommand::Release,
        ];
        let command = commands[self.random.random_range(0..commands.len())];
        let (outcome, _) = control::task(&self.world.db, task, command, "test", None)
            .await
            .unwrap();
        format!("{command:?} of {task}: {outcome:?}")
    }

    pub(super) async fn ids(&self) -> Vec<uuid::Uuid> {
        sqlx::query_scalar("select id from tasks where feature_id = $1 order by id")
            .bind(self.feature.0)
            .fetch_all(&self.world.db)
            .await
            .unwrap()
    }

    pub(super) async fn change_an_edge(&mut self) -> String {
        let ids = self.ids().await;
        let mut some = || TaskId(ids[self.random.random_range(0..ids.len())]);
        let (task, blocker) = (some(), some());
        let change = if self.random.random_bool(0.7) {
            Change::Add
        } else {
            Change::Remove
        };
        let blockers = BTreeSet::from([blocker]);
        let (outcome, _) = dependencies::change(&self.world.db, task, &blockers, change, "test".into())
            .await
            .unwrap();
        format!("{change:?} {task} after {blocker}: {outcome:?}")
    }

    pub(super) async fn delete_a_task(&mut self) -> String {
        let ids = self.ids().await;
        if ids.len() < 4 {
            return "too few tasks to delete one".to_owned();
        }
        let task = TaskId(ids[self.random.random_range(0..ids.len())]);
        let (outcome, _) = remove::task(&self.world.db, task, "test").await.unwrap();
        format!("deleting {task}: {outcome:?}")
    }

    pub(super) async fn steer_the_feature(&mut self) -> String {
        let run = FeatureCommand::Run(Box::new(FeatureOptions::default().run));
        let commands = [
            FeatureCommand::Pause,
            FeatureCommand::Resume,
            FeatureCommand::Resume,
            run,
        ];
        let command = commands[self.random.random_range(0..commands.len())].clone();
        let (outcome, _, _) = control::feature(&self.world.db, self.feature, &command)
            .await
            .unwrap();
        format!("{command:?}: {outcome:?}")
    }

    async fn some_task(&mut self) -> TaskId {
        let ids = self.ids().await;
        TaskId(ids[self.random.random_range(0..ids.len())])
    }

    pub(super) async fn approve_a_task(&mut self) -> String {
        let waiting = self.in_states("needs_review").await;
        if waiting.is_empty() {
            return "nothing to approve".to_owned();
        }
        let task = waiting[self.random.random_range(0..waiting.len())];
        let (outcome, _) = approve::approve(&self.world.db, task, "test", None)
            .await
            .unwrap();
        format!("approving {task}: {outcome:?}")
    }

    pub(super) async fn interrupt_a_task(&mut self) -> String {
        let Some(task) = self.running.first().map(|of| of.task) else {
            return "nothing to interrupt".to_owned();
        };
        let (outcome, _) = control::interrupt(&self.world.db, task, "test", Some("a word"))
            .await
            .unwrap();
        format!("interrupting {task}: {outcome:?}")
    }

    pub(super) async fn add_a_task(&mut self) -> String {
        if self.ids().await.len() > 40 {
            return "tasks enough".to_owned();
        }
        let parent = if self.random.random_bool(0.4) {
            Some(self.some_task().await)
        } else {
            None
        };
        let mut after = Vec::new();
        for _ in 0..self.random.random_range(0..3) {
            after.push(self.some_task().await);
        }
        let graph = graph::load("test", "- {key: n, title: New}", &Limits::file()).unwrap();
        let addition = Addition {
            id: TaskId::new(),
            graph,
            key_is_chosen: false,
            parent,
            after,
            limit: None,
            defaults: TaskDefaults {
                verify: self.random.random_bool(0.5),
                ..TaskDefaults::default()
            },
            actor: "test",
        };
        let (added, _) = add_task::add(&self.world.db, self.feature, &addition)
            .await
            .unwrap();
        format!(
            "adding {} below {parent:?} after {:?}: {added:?}",
            addition.id, addition.after
        )
    }

    pub(super) async fn edit_a_task(&mut self) -> String {
        let task = self.some_task().await;
        let change = TaskEdit {
            priority: Some(self.random.random_range(-2..3)),
            ..TaskEdit::default()
        };
        let (outcome, _) = edit::task(&self.world.db, task, &change, None, "test")
            .await
            .unwrap();
        format!("editing {task}: {outcome:?}")
    }

    /// Retries all failed tasks, as `task retry --all-of` does.
    pub(super) async fn retry_all(&mut self) -> String {
        let tasks = self.in_states("failed, needs_review").await;
        for task in &tasks {
            control::task(&self.world.db, *task, TaskCommand::Retry, "test", Some("again"))
                .await
                .unwrap();
        }
        format!("retrying {tasks:?}")
    }

    /// Fails and retries a task; all tasks must be as before.
    pub(super) async fn fail_and_take_back(&mut self) -> String {
        let untouched: Vec<uuid::Uuid> = sqlx::query_scalar(
            "select id from tasks
             where feature_id = $1 and children = 0 and failures + conflicts = 0 and state in ('pending', 'blocked')
               and not exists (select 1 from tasks f where f.feature_id = $1 and f.state = 'failed')
               -- A retry has the gate tried again as well.
               and not exists (select 1 from tasks f where f.feature_id = $1 and f.role = 'check' and f.state = 'needs_review')
             order by id",
        )
        .bind(self.feature.0)
        .fetch_all(&self.world.db)
        .await
        .unwrap();
        if untouched.is_empty() {
            return "nothing to fail for a moment".to_owned();
        }
        let task = TaskId(untouched[self.random.random_range(0..untouched.len())]);
        let before = self.rows().await;
        for command in [TaskCommand::Fail, TaskCommand::Retry] {
            let (outcome, _) = control::task(&self.world.db, task, command, "test", None)
                .await
                .unwrap();
            assert_eq!(outcome, CommandOutcome::Done(1), "{command:?} {task}");
        }
        assert_eq!(self.rows().await, before, "{task} failed and was tried again");
        format!("failing {task} for a moment")
    }

    /// The leaves in these states, which are separated by ", ".
    async fn in_states(&self, states: &str) -> Vec<TaskId> {
        let states: Vec<TaskState> = TaskState::ALL
            .into_iter()
            .filter(|state| states.split(", ").any(|word| word == state.into_str()))
            .collect();
        let ids: Vec<uuid::Uuid> = sqlx::query_scalar(
            "select id from tasks where feature_id = $1 and children = 0 and state = any($2) order by id",
        )
        .bind(self.feature.0)
        .bind(&states)
        .fetch_all(&self.world.db)
        .await
        .unwrap();
        ids.into_iter().map(TaskId).collect()
    }

    /// Facts about the tasks that depend neither on ids nor on the order of landings.
    pub(super) async fn rows(&self) -> Vec<String> {
        sqlx::query_scalar(
            "select concat_ws(' ', x.key, px.key, t.state, t.held, t.open_blockers, t.open_children, t.children, t.next_kind,
                              t.failures, t.conflicts, t.attempt, t.verification,
                              (select count(*) from dispatches d where d.id = t.dispatch_id and d.state = 'live'),
                              (select count(*) from integrations i
                               where i.task_id = t.id and i.state in ('waiting', 'turn', 'decided')))
             from tasks t
             join task_texts x on x.task_id = t.id
             left join task_texts px on px.task_id = t.parent_id
             where t.feature_id = $1
             order by 1",
        )
        .bind(self.feature.0)
        .fetch_all(&self.world.db)
        .await
        .unwrap()
    }

    /// Deletes the history's feature.
    pub async fn forget(self) {
        let mut conn = self.world.db.acquire().await.unwrap();
        store::edit::delete_feature(&mut conn, self.feature)
            .await
            .unwrap();
        invariants::check(&self.world.db).await.unwrap();
    }

    /// Cancels the feature and ends its sessions; nothing can be begun or landed any more.
    pub async fn cancel(mut self) {
        let (outcome, ..) = control::feature(&self.world.db, self.feature, &FeatureCommand::Cancel)
            .await
            .unwrap();
        // A feature that is already done can't be cancelled.
        if outcome != CommandOutcome::Done(1) {
            return self.finish().await;
        }
        while !self.running.is_empty() {
            self.end_some().await;
            self.agrees("reports of a cancelled feature").await;
        }
        for task in self.in_states("failed, needs_review, cancelled, skipped").await {
            let (outcome, _) = control::task(&self.world.db, task, TaskCommand::Retry, "test", None)
                .await
                .unwrap();
            assert!(matches!(outcome, CommandOutcome::Refused(_)), "{outcome:?}");
            let (outcome, _) = approve::approve(&self.world.db, task, "test", None)
                .await
                .unwrap();
            assert!(matches!(outcome, CommandOutcome::Refused(_)), "{outcome:?}");
        }
        let claimed = self.pool.claim(4).await;
        assert!(claimed.is_empty(), "{} of a cancelled feature", claimed[0].task);
        self.agrees("the end of a cancelled feature").await;
    }
}
