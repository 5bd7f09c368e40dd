//! What is shown and what is selected.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::order::by_tree;
use crate::store::view::{SystemView, TaskView};

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
    /// Tasks of that feature, in the order of their tree.
    pub tasks: Vec<TaskView>,
    /// How deep each of them stands in it.
    pub depths: Vec<usize>,
    /// How many more there are.
    pub has_more: bool,
    /// Which task, by its place in `tasks`.
    pub task: usize,
    /// What the agents of the selected task did, a line each; the last may grow.
    pub log: Vec<String>,
    /// Whether the log has the whole screen, and how many lines below the shown ones there are.
    pub reading: Option<usize>,
    /// Lines of the log that the screen held when it was last drawn.
    pub page: usize,
    /// What is typed: a reason, for an action that takes one.
    pub typing: Option<(Verb, String)>,
    /// What came of the last action, or why the coordinator doesn't answer.
    pub message: String,
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
}

/// What is to be done about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Nothing but drawing.
    Draw,
    /// Leave.
    Quit,
    /// Do this to a task.
    Task {
        /// Its id.
        id: String,
        /// What.
        verb: Verb,
        /// Why, if the person said so.
        reason: Option<String>,
    },
    /// Pause a feature that runs, let it go on, or start a run.
    Feature {
        /// Its id.
        id: String,
        /// `pause`, `resume` or `run`.
        verb: &'static str,
    },
}

impl State {
    /// The id of the selected feature.
    pub fn feature_id(&self) -> Option<String> {
        let features = &self.system.as_ref()?.features;
        Some(features.get(self.feature)?.id.clone())
    }

    /// The selected task.
    pub fn selected(&self) -> Option<&TaskView> {
        self.tasks.get(self.task)
    }

    /// Takes what was read; the selection stays on the same feature.
    pub fn take_system(&mut self, system: SystemView) {
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
        let (tasks, depths) = by_tree(tasks);
        let selected = self.selected().map(|task| task.id.clone());
        let place = |id: &String| tasks.iter().position(|task| task.id == *id);
        // Nothing selected yet: what runs is what a person wants to see.
        let running = || tasks.iter().position(|task| task.session.is_some());
        self.task = selected.as_ref().and_then(place).or_else(running).unwrap_or(0);
        self.tasks = tasks;
        self.depths = depths;
        self.has_more = has_more;
        if self.selected().map(|task| &task.id) != selected.as_ref() {
            self.log.clear();
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

    /// What a key means.
    pub fn on_key(&mut self, key: KeyEvent) -> Action {
        let ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if ctrl_c {
            return Action::Quit;
        }
        if let Some((verb, text)) = self.typing.take() {
            return self.typed(key.code, verb, text);
        }
        if let Some(below) = self.reading {
            self.reading = self.read(key.code, below);
            return Action::Draw;
        }
        let before = self.task;
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Enter | KeyCode::Char('l') => {
                self.reading = self.selected().map(|_| 0);
                return Action::Draw;
            }
            KeyCode::Down | KeyCode::Char('j') => {
                self.task = (self.task + 1).min(self.tasks.len().saturating_sub(1))
            }
            KeyCode::Up | KeyCode::Char('k') => self.task = self.task.saturating_sub(1),
            KeyCode::Home => self.task = 0,
            KeyCode::End => self.task = self.tasks.len().saturating_sub(1),
            KeyCode::Tab | KeyCode::Right => return self.other_feature(1),
            KeyCode::BackTab | KeyCode::Left => return self.other_feature(-1),
            KeyCode::Char('i') => return self.ask(Verb::Interrupt),
            KeyCode::Char('r') => return self.ask(Verb::Retry),
            KeyCode::Char('a') => return self.ask(Verb::Approve),
            KeyCode::Char('x') => return self.ask(Verb::Reject),
            KeyCode::Char('s') => return self.ask(Verb::Skip),
            KeyCode::Char('p') => return self.pause(),
            KeyCode::Char('R') => return self.run(),
            _ => return Action::Draw,
        }
        // Who reads the log begins anew for another task alone.
        if self.task != before {
            self.log.clear();
        }
        Action::Draw
    }

    /// How many lines are below the shown ones after a key in the log; `None` when it is left.
    fn read(&self, code: KeyCode, below: usize) -> Option<usize> {
        let most = self.log.len().saturating_sub(self.page);
        Some(match code {
            KeyCode::Char('q' | 'l') | KeyCode::Esc | KeyCode::Enter => return None,
            KeyCode::Up | KeyCode::Char('k') => (below + 1).min(most),
            KeyCode::Down | KeyCode::Char('j') => below.saturating_sub(1),
            KeyCode::PageUp => (below + self.page).min(most),
            KeyCode::PageDown | KeyCode::Char(' ') => below.saturating_sub(self.page),
            KeyCode::Home => most,
            KeyCode::End => 0,
            _ => below,
        })
    }

    fn ask(&mut self, verb: Verb) -> Action {
        if self.selected().is_some() {
            self.typing = Some((verb, String::new()));
        }
        Action::Draw
    }

    fn typed(&mut self, code: KeyCode, verb: Verb, mut text: String) -> Action {
        match code {
            KeyCode::Esc => return Action::Draw,
            KeyCode::Enter => {
                let Some(task) = self.selected() else {
                    return Action::Draw;
                };
                let reason = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
                if verb == Verb::Reject && reason.is_none() {
                    self.typing = Some((verb, text));
                    return Action::Draw;
                }
                return Action::Task {
                    id: task.id.clone(),
                    verb,
                    reason,
                };
            }
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(c) => text.push(c),
            _ => {}
        }
        self.typing = Some((verb, text));
        Action::Draw
    }

    fn pause(&self) -> Action {
        let feature = self
            .system
            .as_ref()
            .and_then(|system| system.features.get(self.feature));
        match feature.map(|feature| (feature.id.clone(), feature.status.as_str())) {
            Some((id, "running")) => Action::Feature { id, verb: "pause" },
            Some((id, "paused")) => Action::Feature { id, verb: "resume" },
            _ => Action::Draw,
        }
    }

    /// Starts a run where one would do something.
    fn run(&self) -> Action {
        let feature = self
            .system
            .as_ref()
            .and_then(|system| system.features.get(self.feature));
        match feature {
            Some(feature) if feature.needs_run => Action::Feature {
                id: feature.id.clone(),
                verb: "run",
            },
            _ => Action::Draw,
        }
    }

    fn other_feature(&mut self, step: isize) -> Action {
        let count = self.system.as_ref().map_or(0, |system| system.features.len());
        if count == 0 {
            return Action::Draw;
        }
        self.feature = (self.feature + count).saturating_add_signed(step) % count;
        self.tasks.clear();
        self.depths.clear();
        self.task = 0;
        self.log.clear();
        Action::Draw
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// Two features; the first has three tasks, of which the second is worked on.
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
            task("t-3", "blocked", json!(null))
        ]);
        state.take_tasks("f-1", serde_json::from_value(tasks).unwrap(), false);
        state.take_log("t-2", "I read ");
        state.take_log("t-2", "the code.\n▸ Run tests");
        state
    }

    fn press(state: &mut State, codes: &[KeyCode]) -> Action {
        codes
            .iter()
            .map(|code| state.on_key(KeyEvent::from(*code)))
            .last()
            .unwrap_or(Action::Draw)
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
    fn a_reason_is_typed_and_sent_or_dropped() {
        let mut state = example();
        let keys = [
            KeyCode::Char('i'),
            KeyCode::Char('n'),
            KeyCode::Char('x'),
            KeyCode::Backspace,
            KeyCode::Char('o'),
        ];
        assert_eq!(press(&mut state, &keys), Action::Draw);
        let expected = Action::Task {
            id: "t-2".to_owned(),
            verb: Verb::Interrupt,
            reason: Some("no".to_owned()),
        };
        assert_eq!(press(&mut state, &[KeyCode::Enter]), expected);
        assert_eq!(
            press(&mut state, &[KeyCode::Char('r'), KeyCode::Esc]),
            Action::Draw
        );
        assert_eq!(state.typing, None);
        // While something is typed, q is a letter.
        assert_eq!(
            press(&mut state, &[KeyCode::Char('a'), KeyCode::Char('q')]),
            Action::Draw
        );
        assert_eq!(
            press(&mut state, &[KeyCode::Esc, KeyCode::Char('q')]),
            Action::Quit
        );
    }

    #[test]
    fn what_is_rejected_needs_a_reason() {
        let mut state = example();
        let keys = [KeyCode::Char('x'), KeyCode::Char(' '), KeyCode::Enter];
        assert_eq!(press(&mut state, &keys), Action::Draw);
        assert!(state.typing.is_some());
        let expected = Action::Task {
            id: "t-2".to_owned(),
            verb: Verb::Reject,
            reason: Some("no".to_owned()),
        };
        let keys = [KeyCode::Char('n'), KeyCode::Char('o'), KeyCode::Enter];
        assert_eq!(press(&mut state, &keys), expected);
    }

    #[test]
    fn a_log_is_read_from_its_end_and_stays_where_it_is_read() {
        let mut state = example();
        state.page = 10;
        let lines: String = (0..100).map(|n| format!("\nline {n}")).collect();
        state.take_log("t-2", &lines);
        state.take_log("t-1", "of another task");
        assert_eq!(state.log.len(), 102);
        press(&mut state, &[KeyCode::Char('l'), KeyCode::Up, KeyCode::PageUp]);
        assert_eq!(state.reading, Some(11));
        state.take_log("t-2", "\none\ntwo");
        assert_eq!(state.reading, Some(13));
        press(&mut state, &[KeyCode::Home]);
        assert_eq!(state.reading, Some(94));
        press(&mut state, &[KeyCode::End]);
        state.take_log("t-2", "\nthree");
        assert_eq!(state.reading, Some(0));
        // It is left, not the screen.
        assert_eq!(press(&mut state, &[KeyCode::Char('q')]), Action::Draw);
        assert_eq!(state.reading, None);
        // Another task has another log.
        press(&mut state, &[KeyCode::Down]);
        assert!(state.log.is_empty());
    }

    #[test]
    fn a_feature_is_paused_or_goes_on() {
        let mut state = example();
        let action = |verb, id: &str| Action::Feature {
            id: id.to_owned(),
            verb,
        };
        assert_eq!(press(&mut state, &[KeyCode::Char('p')]), action("pause", "f-1"));
        assert_eq!(
            press(&mut state, &[KeyCode::Tab, KeyCode::Char('p')]),
            action("resume", "f-2")
        );
        assert_eq!(
            press(&mut state, &[KeyCode::BackTab, KeyCode::Char('p')]),
            action("pause", "f-1")
        );
        assert_eq!(press(&mut state, &[KeyCode::Char('R')]), Action::Draw);
        state.system.as_mut().unwrap().features[0].needs_run = true;
        assert_eq!(press(&mut state, &[KeyCode::Char('R')]), action("run", "f-1"));
    }

    #[test]
    fn the_selection_stays_inside() {
        let mut state = example();
        press(&mut state, &[KeyCode::Up; 9]);
        assert_eq!(state.task, 0);
        press(&mut state, &[KeyCode::Down; 9]);
        assert_eq!(state.task, 2);
        assert_eq!(
            press(
                &mut State::default(),
                &[KeyCode::Down, KeyCode::Tab, KeyCode::Char('i')]
            ),
            Action::Draw
        );
    }
}
