//! Effects of keys, without I/O.

use ralph_domain::states::FeatureState;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::{Action, State, Typing, Verb};

/// Lines of a page in a diff.
const PAGE: usize = 10;

/// Every key with its effect, for the help.
pub const HELP: [(&str, &str); 16] = [
    ("↑ ↓, Home, End", "choose a task"),
    ("Tab, Shift+Tab", "choose a feature"),
    ("l, Enter", "read its agent's log"),
    ("d", "read its changes (in a clone of the repository)"),
    ("/", "show only tasks whose key, title or status contains a word"),
    ("i", "interrupt its session, and tell the next one why"),
    ("r", "try it again"),
    ("a", "approve: its last attempt lands"),
    ("x", "reject, and tell the next session why"),
    ("s", "go on without it"),
    ("R", "run the feature"),
    ("p", "pause or resume the feature"),
    ("?", "this help"),
    ("Esc", "back"),
    ("q", "back from a log, or leave"),
    ("Ctrl+C", "leave"),
];

impl State {
    /// The keys that have an effect now, with their labels.
    pub fn keys(&self) -> Vec<(&'static str, &'static str)> {
        let verb = |key, verb: Verb, word| {
            let fits = self.selected().is_some_and(|task| verb.fits(task));
            fits.then_some((key, word))
        };
        let status = self.feature().map(|feature| feature.status);
        let runs = matches!(status, Some(FeatureState::Running | FeatureState::Paused));
        let task = |key, word| self.selected().map(|_| (key, word));
        let pause = match status {
            Some(FeatureState::Running) => Some(("p", "pause")),
            Some(FeatureState::Paused) => Some(("p", "go on")),
            _ => None,
        };
        let keys = [
            Some(("↑↓", "task")),
            Some(("Tab", "feature")),
            task("l", "log"),
            task("d", "diff"),
            verb("i", Verb::Interrupt, "interrupt"),
            verb("r", Verb::Retry, "retry"),
            verb("a", Verb::Approve, "approve"),
            verb("x", Verb::Reject, "reject"),
            verb("s", Verb::Skip, "skip"),
            (status.is_some() && !runs).then_some(("R", "run")),
            pause,
            Some(("/", "filter")),
            Some(("?", "help")),
            Some(("q", "quit")),
        ];
        keys.into_iter().flatten().collect()
    }

    pub fn on_key(&mut self, key: KeyEvent) -> Action {
        let ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if ctrl_c {
            return Action::Quit;
        }
        if let Some((what, text)) = self.typing.take() {
            return match what {
                Typing::Reason(verb) => self.reason(key.code, verb, text),
                Typing::Filter => self.filtered(key.code, text),
            };
        }
        if self.help {
            self.help = false;
            return Action::Draw;
        }
        if let Some((lines, top)) = self.diff.take() {
            self.diff = scrolled(key.code, top, lines.len()).map(|top| (lines, top));
            return Action::Draw;
        }
        if let Some(below) = self.reading {
            self.reading = self.read(key.code, below);
            return Action::Draw;
        }
        self.choose(key.code)
    }

    fn choose(&mut self, code: KeyCode) -> Action {
        let before = self.task;
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Esc => self.show_all(),
            KeyCode::Char('?') => self.help = true,
            KeyCode::Char('/') => self.typing = Some((Typing::Filter, self.filter.clone())),
            KeyCode::Enter | KeyCode::Char('l') => {
                self.reading = self.selected().map(|_| 0);
                return Action::Draw;
            }
            KeyCode::Char('d') => {
                if let Some(task) = self.selected() {
                    return Action::Diff { id: task.id.clone() };
                }
            }
            KeyCode::Down | KeyCode::Char('j') => {
                self.task = (self.task + 1).min(self.tasks.len().saturating_sub(1))
            }
            KeyCode::Up | KeyCode::Char('k') => self.task = self.task.saturating_sub(1),
            KeyCode::Home => self.task = 0,
            KeyCode::End => self.task = self.tasks.len().saturating_sub(1),
            KeyCode::Tab | KeyCode::Right => return self.other_feature(1),
            KeyCode::BackTab | KeyCode::Left => return self.other_feature(-1),
            KeyCode::Char('i') => return self.prompt_reason(Verb::Interrupt),
            KeyCode::Char('r') => return self.prompt_reason(Verb::Retry),
            KeyCode::Char('a') => return self.prompt_reason(Verb::Approve),
            KeyCode::Char('x') => return self.prompt_reason(Verb::Reject),
            KeyCode::Char('s') => return self.prompt_reason(Verb::Skip),
            KeyCode::Char('p') => return self.pause(),
            KeyCode::Char('R') => return self.run(),
            _ => return Action::Draw,
        }
        // The log is cleared only if another task is selected.
        if self.task != before {
            self.log.clear();
        }
        Action::Draw
    }

    /// Clears the filter; without one, explains how to leave.
    fn show_all(&mut self) {
        if self.filter.is_empty() {
            "q leaves; ? explains the keys".clone_into(&mut self.message);
            return;
        }
        self.filter.clear();
        self.show_tasks();
    }

    /// Number of log lines below the screen after a key; `None` when the log closes.
    fn read(&self, code: KeyCode, below: usize) -> Option<usize> {
        let most = self.most_below;
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

    fn prompt_reason(&mut self, verb: Verb) -> Action {
        match self.selected() {
            Some(task) if verb.fits(task) => self.typing = Some((Typing::Reason(verb), String::new())),
            Some(task) => {
                let status = task.status.into_str().replace('_', " ");
                self.message = format!("nothing to {}: the task is {status}", verb.into_str());
            }
            None => {}
        }
        Action::Draw
    }

    fn reason(&mut self, code: KeyCode, verb: Verb, text: String) -> Action {
        match code {
            KeyCode::Esc => Action::Draw,
            KeyCode::Enter => {
                let Some(task) = self.selected() else {
                    return Action::Draw;
                };
                let reason = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
                if verb == Verb::Reject && reason.is_none() {
                    self.typing = Some((Typing::Reason(verb), text));
                    return Action::Draw;
                }
                Action::Task {
                    id: task.id.clone(),
                    verb,
                    reason,
                }
            }
            code => {
                self.typing = Some((Typing::Reason(verb), edited(text, code)));
                Action::Draw
            }
        }
    }

    fn filtered(&mut self, code: KeyCode, text: String) -> Action {
        match code {
            KeyCode::Enter => return Action::Draw,
            KeyCode::Esc => self.filter.clear(),
            code => {
                self.filter = edited(text, code);
                self.typing = Some((Typing::Filter, self.filter.clone()));
            }
        }
        self.show_tasks();
        Action::Draw
    }

    fn pause(&mut self) -> Action {
        let feature = self.feature().map(|feature| (feature.id.clone(), feature.status));
        match feature {
            Some((id, FeatureState::Running)) => Action::Feature { id, verb: "pause" },
            Some((id, FeatureState::Paused)) => Action::Feature { id, verb: "resume" },
            Some(_) => {
                "nothing to pause: the feature doesn't run; R runs it".clone_into(&mut self.message);
                Action::Draw
            }
            None => Action::Draw,
        }
    }

    fn run(&mut self) -> Action {
        let feature = self.feature().map(|feature| (feature.id.clone(), feature.status));
        match feature {
            Some((_, FeatureState::Running)) => {
                "the feature runs already".clone_into(&mut self.message);
                Action::Draw
            }
            Some((id, FeatureState::Paused)) => Action::Feature { id, verb: "resume" },
            Some((id, _)) => Action::Feature { id, verb: "run" },
            None => Action::Draw,
        }
    }

    fn other_feature(&mut self, step: isize) -> Action {
        let count = self.system.as_ref().map_or(0, |system| system.features.len());
        if count == 0 {
            return Action::Draw;
        }
        self.feature = (self.feature + count).saturating_add_signed(step) % count;
        self.all.clear();
        self.tasks.clear();
        self.depths.clear();
        self.train = None;
        self.task = 0;
        self.log.clear();
        Action::Draw
    }
}

/// Edits a text with a key.
fn edited(mut text: String, code: KeyCode) -> String {
    match code {
        KeyCode::Backspace => {
            text.pop();
        }
        KeyCode::Char(c) => text.push(c),
        _ => {}
    }
    text
}

/// First visible line of a diff after a key; `None` when the diff closes.
fn scrolled(code: KeyCode, top: usize, lines: usize) -> Option<usize> {
    let last = lines.saturating_sub(1);
    Some(match code {
        KeyCode::Char('q' | 'd') | KeyCode::Esc | KeyCode::Enter => return None,
        KeyCode::Up | KeyCode::Char('k') => top.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => (top + 1).min(last),
        KeyCode::PageUp => top.saturating_sub(PAGE),
        KeyCode::PageDown | KeyCode::Char(' ') => (top + PAGE).min(last),
        KeyCode::Home => 0,
        KeyCode::End => last,
        _ => top,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::state::tests::example;
    use super::*;

    fn press(state: &mut State, codes: &[KeyCode]) -> Action {
        codes
            .iter()
            .map(|code| state.on_key(KeyEvent::from(*code)))
            .last()
            .unwrap_or(Action::Draw)
    }

    #[test]
    fn enter_sends_a_typed_reason_and_escape_drops_it() {
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
            press(&mut state, &[KeyCode::Char('s'), KeyCode::Esc]),
            Action::Draw
        );
        assert_eq!(state.typing, None);
        // While a text is edited, q is a letter.
        assert_eq!(
            press(&mut state, &[KeyCode::Char('s'), KeyCode::Char('q')]),
            Action::Draw
        );
        assert_eq!(
            press(&mut state, &[KeyCode::Esc, KeyCode::Char('q')]),
            Action::Quit
        );
    }

    #[test]
    fn a_rejection_needs_a_reason() {
        let mut state = example();
        press(&mut state, &[KeyCode::End]);
        let keys = [KeyCode::Char('x'), KeyCode::Char(' '), KeyCode::Enter];
        assert_eq!(press(&mut state, &keys), Action::Draw);
        assert!(state.typing.is_some());
        let expected = Action::Task {
            id: "t-4".to_owned(),
            verb: Verb::Reject,
            reason: Some("no".to_owned()),
        };
        let keys = [KeyCode::Char('n'), KeyCode::Char('o'), KeyCode::Enter];
        assert_eq!(press(&mut state, &keys), expected);
    }

    #[test]
    fn a_log_opens_at_its_end_and_new_lines_keep_the_position() {
        let mut state = example();
        (state.page, state.most_below) = (10, 94);
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
        // This closes the log, not the screen.
        assert_eq!(press(&mut state, &[KeyCode::Char('q')]), Action::Draw);
        assert_eq!(state.reading, None);
        // Another task has another log.
        press(&mut state, &[KeyCode::Down]);
        assert!(state.log.is_empty());
    }

    #[test]
    fn p_pauses_or_resumes_a_feature() {
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
    }

    #[test]
    fn the_selection_stays_within_the_list() {
        let mut state = example();
        press(&mut state, &[KeyCode::Up; 9]);
        assert_eq!(state.task, 0);
        press(&mut state, &[KeyCode::Down; 9]);
        assert_eq!(state.task, 3);
        assert_eq!(
            press(
                &mut State::default(),
                &[KeyCode::Down, KeyCode::Tab, KeyCode::Char('i')]
            ),
            Action::Draw
        );
    }

    #[test]
    fn only_keys_that_fit_the_state_are_shown_and_work() {
        let mut state = example();
        let shown = |state: &State| -> Vec<&str> { state.keys().into_iter().map(|(key, _)| key).collect() };
        assert_eq!(
            shown(&state),
            ["↑↓", "Tab", "l", "d", "i", "s", "p", "/", "?", "q"]
        );
        press(&mut state, &[KeyCode::Char('a')]);
        assert!(
            state.typing.is_none() && state.message.contains("nothing to approve"),
            "{}",
            state.message
        );
        press(&mut state, &[KeyCode::Home]);
        assert_eq!(shown(&state), ["↑↓", "Tab", "l", "d", "p", "/", "?", "q"]);
        press(&mut state, &[KeyCode::End]);
        assert_eq!(
            shown(&state),
            ["↑↓", "Tab", "l", "d", "r", "a", "x", "s", "p", "/", "?", "q"]
        );
        assert_eq!(press(&mut state, &[KeyCode::Char('R')]), Action::Draw);
        state.system.as_mut().unwrap().features[0].status = FeatureState::Ready;
        assert!(shown(&state).contains(&"R") && !shown(&state).contains(&"p"));
        let run = Action::Feature {
            id: "f-1".to_owned(),
            verb: "run",
        };
        assert_eq!(press(&mut state, &[KeyCode::Char('R')]), run);
        assert_eq!(
            press(&mut State::default(), &[KeyCode::Char('R'), KeyCode::Char('d')]),
            Action::Draw
        );
    }

    #[test]
    fn escape_goes_back_and_never_quits() {
        let mut state = example();
        for way in [KeyCode::Char('?'), KeyCode::Char('l'), KeyCode::Char('/')] {
            assert_eq!(press(&mut state, &[way, KeyCode::Esc]), Action::Draw, "{way:?}");
            assert!(!state.help && state.reading.is_none() && state.typing.is_none());
        }
        let typed = [KeyCode::Char('/'), KeyCode::Char('4'), KeyCode::Enter];
        press(&mut state, &typed);
        assert_eq!((state.filter.as_str(), state.tasks.len()), ("4", 1));
        press(&mut state, &[KeyCode::Esc]);
        assert_eq!((state.filter.as_str(), state.tasks.len()), ("", 4));
        assert_eq!(press(&mut state, &[KeyCode::Esc]), Action::Draw);
        let diff = Action::Diff { id: "t-4".to_owned() };
        assert_eq!(press(&mut state, &[KeyCode::End, KeyCode::Char('d')]), diff);
        state.diff = Some(((0..50).map(|n| n.to_string()).collect(), 0));
        press(&mut state, &[KeyCode::PageDown, KeyCode::Down]);
        assert_eq!(state.diff.as_ref().unwrap().1, 11);
        assert_eq!(press(&mut state, &[KeyCode::Esc]), Action::Draw);
        assert!(state.diff.is_none());
    }
}
