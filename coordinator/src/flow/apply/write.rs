//! Writes the changes of a batch, in the order that locks and readers within the transaction need.

use std::time::Duration;

use ralph_shared::ids::TaskId;
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use super::super::{Settings, Signals, cascade, finish, integrate};
use super::batch::Batch;
use super::settle::Memory;
use crate::domain::failure::Failure;
use crate::domain::failure::signature::signature;
use crate::domain::run::Spent;
use crate::domain::run::end;
use crate::domain::states::{Outcome, TaskState};
use crate::flow::{
    claim::path_holds,
    memory::{capture, distill},
    submit::agent_graph,
};
use crate::prompt::{Templates, own_tasks};
use crate::store;
use crate::store::feature::Text;
use crate::store::task::Task;

impl Batch {
    pub(super) async fn write(
        mut self,
        conn: &mut PgConnection,
        settings: &Settings,
        memory: Memory,
        signals: &mut Signals,
    ) -> sqlx::Result<()> {
        self.write_graphs(conn, &settings.templates).await?;
        self.write_ends(conn, signals).await?;
        let landed: Vec<Uuid> = self.landed.iter().map(|task| task.0).collect();
        let released = match memory {
            Memory::Stored => self.captured.save(conn, &landed).await?,
            Memory::Omitted => Vec::new(),
        };
        for answer in self.distilled.iter().filter(|_| memory == Memory::Stored) {
            distill::take(conn, answer).await?;
        }
        self.write_reasons(conn).await?;
        self.availability.write(conn).await?;
        for (task, model) in &self.next_models {
            store::task::hint_model(conn, *task, model.as_deref()).await?;
        }
        self.write_integrations(conn).await?;
        self.queue(conn, signals).await?;
        if memory == Memory::Stored {
            capture::release(conn, &landed, released).await?;
        }
        let any_queued = self.free(conn, &landed, signals).await?;
        // After the landings, so that it also holds tasks that these free.
        let failed: Vec<_> = self
            .failed
            .iter()
            .map(|(feature, task, _)| (*feature, *task))
            .collect();
        cascade::failed(conn, &mut self.features, &failed).await?;
        self.write_operations(conn, signals).await?;
        self.write_checks(conn, signals).await?;
        path_holds::release(conn, &self.features, signals).await?;
        integrate::promote(conn, &self.turns, signals).await?;
        let spent = self.spent.iter().filter(|(_, spent)| **spent != Spent::default());
        store::run::spend(conn, spent).await?;
        for feature in &self.failed_runs {
            finish::promise_failure(conn, &mut self.features, *feature, signals).await?;
        }
        // At the end, because the cascades and branch changes above update the counts.
        if !(any_queued && self.surely_continues()) {
            finish::check(conn, &mut self.features, signals).await?;
        }
        cascade::save_features(conn, &self.features, signals).await
    }

    async fn write_graphs(&mut self, conn: &mut PgConnection, templates: &Templates) -> sqlx::Result<()> {
        for (id, graph) in std::mem::take(&mut self.split) {
            self.split_task(conn, templates, id, &graph).await?;
        }
        for (id, graph) in std::mem::take(&mut self.grown) {
            self.grow(conn, id, &graph).await?;
        }
        for (feature, which, text) in &self.written {
            store::feature::write(conn, *feature, *which, text.as_deref()).await?;
        }
        for id in std::mem::take(&mut self.reviewed) {
            self.create_requested_tasks(conn, templates, id).await?;
        }
        Ok(())
    }

    async fn write_ends(&self, conn: &mut PgConnection, signals: &mut Signals) -> sqlx::Result<()> {
        let changed: Vec<&Task> = self.changed.iter().filter_map(|id| self.tasks.get(id)).collect();
        store::task::save(conn, &changed).await?;
        store::dispatch::end(conn, &self.ends).await?;
        signals.ended.extend(self.ends.iter().map(|end| end.id));
        for (dispatch, commit, pushed_ref) in &self.pushed_late {
            store::dispatch::pushed_late(conn, *dispatch, commit, pushed_ref).await?;
        }
        for (dispatch, strays) in &self.late_orphans {
            store::dispatch::record_late_orphans(conn, *dispatch, strays).await?;
        }
        if !self.withdraw.is_empty() {
            store::queue::ready::withdraw(conn, &self.withdraw).await?;
        }
        Ok(())
    }

    /// Writes why tasks wait, need a person or failed.
    async fn write_reasons(&self, conn: &mut PgConnection) -> sqlx::Result<()> {
        for (task, why) in &self.waiting {
            store::git::integration::note_away(conn, *task, why.is_some()).await?;
            store::task::explain(conn, *task, why.as_deref()).await?;
        }
        for (task, reason) in &self.explained {
            store::task::explain(conn, *task, reason.as_deref()).await?;
            if let Some(reason) = reason {
                store::notice::person_needed(conn, *task, reason).await?;
            }
        }
        for (_, task, reason) in &self.failed {
            store::task::explain(conn, *task, Some(reason)).await?;
        }
        Ok(())
    }

    async fn write_integrations(&self, conn: &mut PgConnection) -> sqlx::Result<()> {
        for closed in &self.closed {
            store::git::integration::close(conn, closed).await?;
        }
        for task in &self.requeued {
            store::git::integration::requeue(conn, *task).await?;
        }
        for (task, commit, commit_ref) in &self.judged_again {
            store::git::integration::judge_again(conn, *task, commit, commit_ref).await?;
        }
        if !self.turn_kept.is_empty() {
            store::git::integration::keep_turn(conn, &self.turn_kept).await?;
        }
        for (task, attempt, commit, source_ref) in &self.queued {
            let feature = self.tasks[task].feature;
            store::git::integration::queue(conn, feature, *task, *attempt, commit, source_ref, false).await?;
        }
        Ok(())
    }

    async fn queue(&self, conn: &mut PgConnection, signals: &mut Signals) -> sqlx::Result<()> {
        let ids: Vec<Uuid> = self.enqueue.iter().map(|(task, _)| task.0).collect();
        let delays: Vec<i64> = self
            .enqueue
            .iter()
            .map(|(_, delay)| i64::try_from(delay.as_millis()).unwrap_or(0))
            .collect();
        let pools = store::queue::ready::enqueue(conn, &ids, &delays).await?;
        signals.got_work(pools);
        self.put_off_colliding(conn).await
    }

    /// Frees the tasks that waited for these landings. Returns whether that queued any.
    async fn free(
        &mut self,
        conn: &mut PgConnection,
        landed: &[Uuid],
        signals: &mut Signals,
    ) -> sqlx::Result<bool> {
        if self.landed.is_empty() {
            return Ok(false);
        }
        let tasks = std::mem::take(&mut self.landed);
        let is_part = |id: &&TaskId| self.tasks.get(id).is_none_or(|task| task.parent.is_some());
        let parts = tasks.iter().filter(is_part).copied().collect();
        let freed = cascade::freed(conn, &mut self.features, tasks, parts, signals).await?;
        if freed.any {
            store::task::pass_models_on(conn, landed).await?;
        }
        Ok(freed.any_queued)
    }

    /// Whether the only run of this batch surely continues, since the batch queued something. Most reports
    /// free other tasks.
    fn surely_continues(&self) -> bool {
        let mut features = self.features.values();
        let (Some(feature), None) = (features.next(), features.next()) else {
            return false;
        };
        let run = feature.current_run.and_then(|run| self.runs.get(&run));
        run.is_some_and(|run| {
            let spent = self.spent.get(&run.id).copied().unwrap_or_default();
            end::goes_on_queued(feature.state, feature.counts, &run.after(spent), run.now)
        })
    }

    /// Tasks that conflicted twice in a row are queued one at a time. Their back-off still holds.
    async fn put_off_colliding(&self, conn: &mut PgConnection) -> sqlx::Result<()> {
        let colliding = |task: &&(TaskId, Duration)| {
            let task = self.tasks.get(&task.0);
            task.is_some_and(|task| task.trouble.conflicts >= 2 && task.next_kind == Some(SessionKind::Work))
        };
        let put_off: Vec<_> = self.enqueue.iter().filter(colliding).collect();
        if put_off.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = put_off.iter().map(|(task, _)| task.0).collect();
        let delays = put_off
            .iter()
            .map(|(_, delay)| i64::try_from(delay.as_millis()).unwrap_or(0));
        store::queue::collisions::put_off_colliding(conn, &ids, &delays.collect::<Vec<_>>()).await
    }

    /// Makes a task the parent of its agent's graph. An unusable graph fails the attempt.
    async fn split_task(
        &mut self,
        conn: &mut PgConnection,
        templates: &Templates,
        id: TaskId,
        graph: &str,
    ) -> sqlx::Result<()> {
        let Some(mut task) = self.tasks.get(&id).cloned() else {
            return Ok(());
        };
        match agent_graph::split(conn, templates, &task, graph).await? {
            Ok(children) => {
                self.move_to(&mut task, TaskState::InProgress);
                task.next_kind = None;
                task.children += i32::try_from(children.len()).unwrap_or(0);
                if let Some(feature) = self.features.get_mut(&task.feature) {
                    for child in &children {
                        feature.counts.add(child.state, 1);
                    }
                }
                self.enqueue.extend(
                    children
                        .iter()
                        .filter(|c| c.ready)
                        .map(|c| (c.id, Duration::ZERO)),
                );
                if task.open_blockers > 0 {
                    // Its blocker was reopened while it ran, so its parts wait for that (SPEC 2.3).
                    let parts = children.iter().filter(|child| child.parent == Some(id));
                    let parts = parts.map(|child| child.id.0).collect();
                    cascade::closed(conn, &mut self.features, parts).await?;
                }
                self.tasks.insert(id, task);
            }
            Err(problem) => self.refuse_graph(task, problem),
        }
        Ok(())
    }

    /// Adds the graph of a build or a review to its feature, and ends its own task.
    async fn grow(&mut self, conn: &mut PgConnection, id: TaskId, graph: &str) -> sqlx::Result<()> {
        let Some(task) = self.tasks.get(&id).cloned() else {
            return Ok(());
        };
        if task.role == SessionKind::Build && self.is_approved_by_a_person(&task) {
            match agent_graph::check(graph, false) {
                Ok(()) => {
                    let proposed = Some(graph.to_owned());
                    self.written.push((task.feature, Text::ProposedGraph, proposed));
                    self.ask_for_approval(task);
                }
                Err(problem) => self.refuse_graph(task, problem),
            }
            return Ok(());
        }
        match agent_graph::grow(conn, &task, graph).await? {
            Ok(children) => {
                self.add_children(&task, &children);
                // This request replaces the one of an earlier attempt.
                self.written.push((task.feature, Text::ProposedGraph, None));
                self.land(task);
            }
            Err(problem) => self.refuse_graph(task, problem),
        }
        Ok(())
    }

    /// Creates the tasks that a review requested, once its own corrections landed.
    async fn create_requested_tasks(
        &mut self,
        conn: &mut PgConnection,
        templates: &Templates,
        id: TaskId,
    ) -> sqlx::Result<()> {
        let Some(task) = self.tasks.get(&id).cloned() else {
            return Ok(());
        };
        let texts = store::feature::texts(conn, task.feature)
            .await?
            .unwrap_or_default();
        let Some(graph) = texts.proposed_graph else {
            return Ok(());
        };
        match agent_graph::grow(conn, &task, &graph).await? {
            Ok(children) => self.add_children(&task, &children),
            Err(problem) => {
                let changes = own_tasks::changes(templates, &problem, &graph);
                let asked = agent_graph::of_changes(&capture::bounded(&changes));
                match agent_graph::grow(conn, &task, &asked).await? {
                    Ok(children) => self.add_children(&task, &children),
                    Err(problem) => {
                        tracing::warn!(problem, task = %id, "a review's changes can't become a task");
                    }
                }
            }
        }
        store::feature::write(conn, task.feature, Text::ProposedGraph, None).await
    }

    /// Counts and queues tasks that joined a feature.
    fn add_children(&mut self, task: &Task, children: &[agent_graph::Child]) {
        if let Some(feature) = self.features.get_mut(&task.feature) {
            for child in children {
                feature.counts.add(child.state, 1);
            }
        }
        let ready = children.iter().filter(|c| c.ready);
        self.enqueue.extend(ready.map(|c| (c.id, Duration::ZERO)));
    }

    /// An unusable graph fails the attempt that sent it.
    pub(super) fn refuse_graph(&mut self, mut task: Task, problem: String) {
        if let Some(end) = self.ends.iter_mut().find(|end| Some(end.id) == task.dispatch) {
            end.outcome = Outcome::Failed;
            end.failure = Some(Failure::Graph);
            end.failure_signature = Some(signature(Failure::Graph.as_str(), &problem));
            end.reason = Some(problem.clone());
        }
        if let Some((source, sigils)) = self.if_refused.remove(&task.id) {
            self.captured.refused_graph(&source, &sigils, &problem);
        }
        let next = self.decide(&mut task, Failure::Graph, false);
        self.retry_or_needs_person(task, next, || problem);
    }
}
