//! What is shown and what is selected.

use ralph_api::view::{CarStatus, FeatureView, SystemView, TaskView, TrainView};
use ralph_domain::states::{FeatureState, TaskState};

use super::order::by_tree;
use crate::terminal::color::tame;

/// Lines of a log that are kept; beyond, the first go.
const LOG_LINES: usize = 50_000;
/// Lines that go at once then.
const LOG_STEP: usize = 5_000;

/// Everything that the screen shows.
#[derive(Debug, Default)]
pub struct State {
    /// Features, sessions, workers.
    pub system: Option<SystemView>,
    /// Which feature, by its place in `system`.
    pub feature: usize,
    /// Tasks of that feature, in the order of their tree, as far as the filter lets them through.
    pub tasks: Vec<TaskView>,
    /// All of them that were read.
    pub all: Vec<TaskView>,
    /// What a task's key, title or status must hold to be shown.
    pub filter: String,
    /// How deep each of them stands in it.
    pub depths: Vec<usize>,
    /// How many more there are.
    pub has_more: bool,
    /// What waits to land on the branch of that feature.
    pub train: Option<TrainView>,
    /// Which task, by its place in `tasks`.
    pub task: usize,
    /// What the agents of the selected task did, a line each; the last may grow.
    pub log: Vec<String>,
    /// Whether the log has the whole screen, and how many lines below the shown ones there are.
    pub reading: Option<usize>,
    /// Lines of the log that the screen held when it was last drawn.
    pub page: usize,
    /// Lines that are below when the first one is on the screen.
    pub most_below: usize,
    /// What is read in the place of the log: a diff, from which line on.
    pub diff: Option<(Vec<String>, usize)>,
    /// Whether the keys are explained.
    pub help: bool,
    /// What is typed.
    pub typing: Option<(Typing, String)>,
    /// What came of the last action, or why the coordinator doesn't answer.
    pub message: String,
}

/// What is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typing {
    /// Why this is done to a task.
    Reason(Verb),
    /// What the tasks that are shown must hold.
    Filter,
}

/// What a person does to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Ends its session; the next attempt is told why.
    Interrupt,
    /// Tries it again; the next attempt is told why.
    Retry,
    /// Lets its last attempt land.
    Approve,
    /// Sends back what waits for a person; the next session is told why.
    Reject,
    /// Goes on without it.
    Skip,
}

impl Verb {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Retry => "retry",
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Skip => "skip",
        }
    }

    /// Whether it does something to a task in this state.
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

/// What is to be done about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Nothing but drawing.
    Draw,
    /// Leave.
    Quit,
    Task {
        id: String,
        verb: Verb,
        /// Why, if the person said so.
        reason: Option<String>,
    },
    /// Run a feature, pause one that runs, or let it go on.
    Feature {
        id: String,
        /// `run`, `pause` or `resume`.
        verb: &'static str,
    },
    /// Read what a task changed.
    Diff {
        /// The task's id.
        id: String,
    },
}

impl State {
    /// The id of the selected feature.
    pub fn feature_id(&self) -> Option<String> {
        let features = &self.system.as_ref()?.features;
        Some(features.get(self.feature)?.id.clone())
    }

    pub fn selected(&self) -> Option<&TaskView> {
        self.tasks.get(self.task)
    }

    /// The selected feature.
    pub fn feature(&self) -> Option<&FeatureView> {
        self.system.as_ref()?.features.get(self.feature)
    }

    /// How many tasks wait for a person, once it is known.
    pub fn needs_person(&self) -> Option<i64> {
        let features = &self.system.as_ref()?.features;
        Some(features.iter().map(|feature| feature.tasks.needs_review).sum())
    }

    /// Takes what was read, what needs a person first; the selection stays on the same feature.
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

    /// Takes the tasks of a feature, if it is the selected one; the selection stays on the same task.
    pub fn take_tasks(&mut self, feature: &str, tasks: Vec<TaskView>, has_more: bool) {
        if self.feature_id().as_deref() != Some(feature) {
            return;
        }
        self.all = tasks;
        self.has_more = has_more;
        self.show_tasks();
    }

    /// Takes the train of a feature, if it is the selected one.
    pub fn take_train(&mut self, feature: &str, train: Option<TrainView>) {
        if self.feature_id().as_deref() == Some(feature) {
            self.train = train;
        }
    }

    /// A task's place in the train, from 1, and where it stands.
    pub fn car(&self, task: &TaskView) -> Option<(usize, CarStatus)> {
        let cars = &self.train.as_ref()?.cars;
        let mut cars = (1..).zip(cars);
        let (place, car) = cars.find(|(_, car)| car.task == task.id)?;
        Some((place, car.status))
    }

    /// Shows the tasks that the filter lets through.
    pub fn show_tasks(&mut self) {
        let wanted = self.filter.to_lowercase();
        let shown = |task: &&TaskView| {
            let words = [task.key.as_str(), task.title.as_str(), task.status.as_str()];
            words.iter().any(|word| word.to_lowercase().contains(&wanted))
        };
        let (tasks, depths) = by_tree(self.all.iter().filter(shown).cloned().collect());
        let selected = self.selected().map(|task| task.id.clone());
        let place = |id: &String| tasks.iter().position(|task| task.id == *id);
        // Nothing selected yet: what runs is what a person wants to see.
        let running = || tasks.iter().position(|task| task.session.is_some());
        self.task = selected.as_ref().and_then(place).or_else(running).unwrap_or(0);
        self.tasks = tasks;
        self.depths = depths;
        if self.selected().map(|task| &task.id) != selected.as_ref() {
            self.log.clear();
        }
    }

    /// Takes what a task changed, if it is the selected one.
    pub fn take_diff(&mut self, task: &str, text: &str) {
        if self.selected().is_none_or(|selected| selected.id != task) {
            return;
        }
        let lines: Vec<String> = text
            .lines()
            .map(|line| tame(line).replace('\t', "    "))
            .collect();
        match lines.is_empty() {
            true => "it changed nothing".clone_into(&mut self.message),
            false => self.diff = Some((lines, 0)),
        }
    }

    /// Takes more of a task's log, if it is the selected one.
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
        // Whoever reads further up stays there.
        if let Some(below) = self.reading.as_mut().filter(|below| **below > 0) {
            *below += self.log.len() - before;
        }
        if self.log.len() > LOG_LINES {
            self.log.drain(..LOG_STEP);
        }
    }
}

/// What stands higher: what needs a person, then what goes on, then what could.
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

    /// Two features; the first has four tasks, of which the second is worked on, and the last waits for a person.
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
    fn what_runs_is_selected_first_and_stays_selected() {
        let mut state = example();
        assert_eq!(state.selected().unwrap().id, "t-2");
        let mut tasks = state.tasks.clone();
        tasks.remove(0);
        state.take_tasks("f-1", tasks, false);
        assert_eq!(state.selected().unwrap().id, "t-2");
    }

    #[test]
    fn what_needs_a_person_stands_first_and_a_filter_hides_the_rest() {
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
