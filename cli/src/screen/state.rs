//! Content and selection of the screen.

use ralph_api::view::{CarStatus, FeatureView, SystemView, TaskView, TrainView};
use ralph_domain::states::{FeatureState, TaskState};
use ralph_shared::terminal::tame;

use super::order::by_tree;

/// The longest log, in lines; beyond this, the first lines are dropped.
const LOG_LINES: usize = 50_000;
/// Number of lines dropped at once.
const LOG_STEP: usize = 5_000;

/// The complete state of the screen.
#[derive(Debug, Default)]
pub struct State {
    /// Features, sessions, workers.
    pub system: Option<SystemView>,
    /// Index of the selected feature in `system`.
    pub feature: usize,
    /// Tasks of that feature that pass the filter, in tree order.
    pub tasks: Vec<TaskView>,
    /// All loaded tasks of that feature.
    pub all: Vec<TaskView>,
    /// Text that a task's key, title or status must contain.
    pub filter: String,
    /// Depth of each task of `tasks` in the tree.
    pub depths: Vec<usize>,
    /// Whether the feature has more tasks.
    pub has_more: bool,
    /// Attempts that wait to land on the feature's branch.
    pub train: Option<TrainView>,
    /// Index of the selected task in `tasks`.
    pub task: usize,
    /// Log of the selected task's agents by line; the last line may grow.
    pub log: Vec<String>,
    /// If the log fills the screen: the number of lines below the screen.
    pub reading: Option<usize>,
    /// Log lines on the screen when it was last drawn.
    pub page: usize,
    /// Lines below the screen when the first line is visible.
    pub most_below: usize,
    /// An open diff, and its first visible line.
    pub diff: Option<(Vec<String>, usize)>,
    pub help: bool,
    /// The text being edited.
    pub typing: Option<(Typing, String)>,
    /// Result of the last action, or why the coordinator doesn't respond.
    pub message: String,
}

/// Purpose of the text being edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typing {
    /// Reason for this action on a task.
    Reason(Verb),
    /// Text that the listed tasks must contain.
    Filter,
}

/// A person's action on a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Verb {
    /// End its session; the next attempt gets the reason.
    Interrupt,
    /// Try it again; the next attempt gets the reason.
    Retry,
    /// Let its last attempt land.
    Approve,
    /// Send back work that waits for a person; the next session gets the reason.
    Reject,
    /// Go on without it.
    Skip,
}

impl Verb {
    /// Whether the action applies to a task in this state.
    pub fn fits(self, task: &TaskView) -> bool {
        match self {
            Self::Interrupt => task.session.is_some(),
            Self::Retry => matches!(
                task.status,
                TaskState::Failed | TaskState::NeedsReview | TaskState::Cancelled | TaskState::Skipped
            ),
            Self::Approve | Self::Reject => task.status == TaskState::NeedsReview,
            Self::Skip => !matches!(task.status, TaskState::Done | TaskState::Skipped),
        }
    }
}

/// The effect of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Only draw.
    Draw,
    Quit,
    Task {
        id: String,
        verb: Verb,
        /// The person's reason, if given.
        reason: Option<String>,
    },
    /// Run, pause or resume a feature.
    Feature {
        id: String,
        /// `run`, `pause` or `resume`.
        verb: &'static str,
    },
    /// Open a task's diff.
    Diff {
        id: String,
    },
}

impl State {
    pub fn feature_id(&self) -> Option<String> {
        let features = &self.system.as_ref()?.features;
        Some(features.get(self.feature)?.id.clone())
    }

    pub fn selected(&self) -> Option<&TaskView> {
        self.tasks.get(self.task)
    }

    pub fn feature(&self) -> Option<&FeatureView> {
        self.system.as_ref()?.features.get(self.feature)
    }

    /// Number of tasks that wait for a person, once known.
    pub fn needs_person(&self) -> Option<i64> {
        let features = &self.system.as_ref()?.features;
        Some(features.iter().map(|feature| feature.tasks.needs_review).sum())
    }

    /// Applies a new overview, with features that need a person first; the selection stays on the same
    /// feature.
    pub fn take_system(&mut self, mut system: SystemView) {
        system.features.sort_by_key(rank);
        let selected = self.feature_id();
        let place = |id: &String| system.features.iter().position(|feature| feature.id == *id);
        self.feature = selected.as_ref().and_then(place).unwrap_or(0);
        if self.system.is_none() || self.message.contains("coordinator") {
            self.message.clear();
        }
        self.system = Some(system);
    }

    /// Applies the tasks of a feature, if it is the selected one; the selection stays on the same task.
    pub fn take_tasks(&mut self, feature: &str, tasks: Vec<TaskView>, has_more: bool) {
        if self.feature_id().as_deref() != Some(feature) {
            return;
        }
        self.all = tasks;
        self.has_more = has_more;
        self.show_tasks();
    }

    /// Applies the train of a feature, if it is the selected one.
    pub fn take_train(&mut self, feature: &str, train: Option<TrainView>) {
        if self.feature_id().as_deref() == Some(feature) {
            self.train = train;
        }
    }

    /// A task's place in the train, from 1, and its status there.
    pub fn car(&self, task: &TaskView) -> Option<(usize, CarStatus)> {
        let cars = &self.train.as_ref()?.cars;
        let mut cars = (1..).zip(cars);
        let (place, car) = cars.find(|(_, car)| car.task == task.id)?;
        Some((place, car.status))
    }

    /// Lists the tasks that pass the filter.
    pub fn show_tasks(&mut self) {
        let wanted = self.filter.to_lowercase();
        let shown = |task: &&TaskView| {
            let words = [task.key.as_str(), task.title.as_str(), task.status.into_str()];
            words.iter().any(|word| word.to_lowercase().contains(&wanted))
        };
        let (tasks, depths) = by_tree(self.all.iter().filter(shown).cloned().collect());
        let selected = self.selected().map(|task| task.id.clone());
        let place = |id: &String| tasks.iter().position(|task| task.id == *id);
        // Without a selection, a running task is the most interesting.
        let running = || tasks.iter().position(|task| task.session.is_some());
        self.task = selected.as_ref().and_then(place).or_else(running).unwrap_or(0);
        self.tasks = tasks;
        self.depths = depths;
        if self.selected().map(|task| &task.id) != selected.as_ref() {
            self.log.clear();
        }
    }

    /// Opens the diff of a task, if it is the selected one.
    pub fn take_diff(&mut self, task: &str, text: &str) {
        if self.selected().is_none_or(|selected| selected.id != task) {
            return;
        }
        let lines: Vec<String> = text
            .lines()
            .map(|line| tame(line).replace('\t', "    "))
            .collect();
        match lines.is_empty() {
            true => "it has no changes".clone_into(&mut self.message),
            false => self.diff = Some((lines, 0)),
        }
    }

    /// Appends to a task's log, if it is the selected one.
    pub fn take_log(&mut self, task: &str, text: &str) {
        if self.selected().is_none_or(|selected| selected.id != task) {
            return;
        }
        let before = self.log.len();
        let text = text.replace('\t', "    ");
        let mut lines = text.split('\n');
        match (self.log.last_mut(), lines.next()) {
            (Some(last), Some(first)) => last.push_str(first),
            (None, Some(first)) => self.log.push(first.to_owned()),
            (_, None) => {}
        }
        self.log.extend(lines.map(str::to_owned));
        // A reader further up keeps the position.
        if let Some(below) = self.reading.as_mut().filter(|below| **below > 0) {
            *below += self.log.len() - before;
        }
        if self.log.len() > LOG_LINES {
            self.log.drain(..LOG_STEP);
        }
    }
}

/// Rank of a feature: those that need a person first, then active ones, then those that could run.
fn rank(feature: &FeatureView) -> u8 {
    match feature.status {
        _ if feature.tasks.needs_review > 0 => 0,
        _ if feature.gate.as_ref().is_some_and(|gate| gate.fails()) => 0,
        FeatureState::Running => 1,
        FeatureState::Paused => 2,
        FeatureState::Done | FeatureState::Cancelled => 4,
        _ => 3,
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// Two features; the first has four tasks: the second is running, and the last waits for a person.
    pub fn example() -> State {
        let feature = |id: &str, name: &str, status: &str| {
            json!({
                "id": id, "name": name, "status": status, "condition": {"word": status}, "repo": null, "repo_id": "", "base_ref": null,
                "base_commit": null, "branch": null, "max_parallel": 4, "failure_policy": "continue", "run": null,
                "tasks": {"total": 3, "pending": 0, "blocked": 1, "in_progress": 1, "done": 1, "failed": 0,
                          "cancelled": 0, "skipped": 0, "needs_review": 0},
                "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"
            })
        };
        let session = json!({"id": "d-1", "kind": "work", "worker": "worker-1", "model": "sonnet",
                             "started_at": "2026-01-01T00:00:00Z"});
        let task = |id: &str, status: &str, session: serde_json::Value| {
            json!({
                "id": id, "feature": "f-1", "parent": null, "key": id, "title": format!("Title of {id}"),
                "status": status, "reason": null, "priority": 0, "pool": "default", "agent": null, "model": null,
                "max_retries": 3, "verify": true, "verification_status": "none", "attempt": 1, "failures": 0,
                "open_blockers": 0, "children": 0, "held": false, "session": session
            })
        };
        let mut state = State::default();
        let system = json!({
            "version": "0", "sessions": [], "live_sessions": 1, "workers": [], "pools": {},
            "features": [feature("f-1", "todo", "running"), feature("f-2", "docs", "paused")]
        });
        state.take_system(serde_json::from_value(system).unwrap());
        let tasks = json!([
            task("t-1", "done", json!(null)),
            task("t-2", "in_progress", session),
            task("t-3", "blocked", json!(null)),
            task("t-4", "needs_review", json!(null))
        ]);
        state.take_tasks("f-1", serde_json::from_value(tasks).unwrap(), false);
        state.take_log("t-2", "I read ");
        state.take_log("t-2", "the code.\n▸ Run tests");
        state
    }

    #[test]
    fn a_running_task_is_selected_first_and_stays_selected() {
        let mut state = example();
        assert_eq!(state.selected().unwrap().id, "t-2");
        let mut tasks = state.tasks.clone();
        tasks.remove(0);
        state.take_tasks("f-1", tasks, false);
        assert_eq!(state.selected().unwrap().id, "t-2");
    }

    #[test]
    fn features_in_need_come_first_and_the_filter_hides_tasks() {
        let mut state = example();
        let mut system = state.system.clone().unwrap();
        system.features[1].tasks.needs_review = 1;
        state.take_system(system);
        let names = |state: &State| -> Vec<String> {
            let features = &state.system.as_ref().unwrap().features;
            features.iter().map(|feature| feature.name.clone()).collect()
        };
        assert_eq!(names(&state), ["docs", "todo"]);
        assert_eq!(state.feature_id().unwrap(), "f-1", "the selection stays");
        "NEEDS".clone_into(&mut state.filter);
        state.show_tasks();
        assert_eq!(state.tasks.len(), 1);
        assert_eq!(state.selected().unwrap().id, "t-4");
    }
}
