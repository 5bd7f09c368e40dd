//! Advice for a refused command, for people and programs.

use ralph_shared::ids::TaskId;

use crate::states::FeatureState;

/// A command on a feature that its state may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureVerb {
    Run,
    Build,
    Review,
    Pause,
    Resume,
    Stop,
    Cancel,
}

impl FeatureVerb {
    /// Its effect on a feature, after "can't".
    fn words(self) -> &'static str {
        match self {
            Self::Run => "run a feature",
            Self::Build => "build the tasks of a feature",
            Self::Review => "review a feature",
            Self::Pause => "pause a feature",
            Self::Resume => "resume a feature",
            Self::Stop => "stop a feature",
            Self::Cancel => "cancel a feature",
        }
    }
}

/// The reason why the feature `name` refuses a command in this state, and the remedy.
pub fn of_feature(verb: FeatureVerb, state: FeatureState, name: &str) -> String {
    format!(
        "can't {} that is {}; {}",
        verb.words(),
        word(state),
        next(verb, state, name)
    )
}

/// The state in words. A state that only says that tasks exist is called "not running".
fn word(state: FeatureState) -> &'static str {
    match state {
        FeatureState::Ready => "not running",
        state => state.into_str(),
    }
}

fn next(verb: FeatureVerb, state: FeatureState, name: &str) -> String {
    use {FeatureState as State, FeatureVerb as Verb};
    match (verb, state) {
        (Verb::Cancel, State::Cancelled) => {
            format!("it is over for good; `feature delete {name}` removes it")
        }
        (_, State::Cancelled) => "it is over for good: submit another feature".to_owned(),
        (Verb::Cancel, _) => format!("it has already ended; `feature delete {name}` removes it"),
        (Verb::Pause, State::Paused) => {
            format!("`feature resume {name}` continues it, `feature stop {name}` ends its run")
        }
        (Verb::Review, State::Draft | State::Planned) => {
            format!("it has no tasks to review: `feature run {name}` creates and does them")
        }
        (Verb::Review, State::Running) => {
            format!("its tasks are in progress: `feature wait {name}` waits for their end")
        }
        (Verb::Review, State::Failed) => format!(
            "`feature review {name} --show` shows what failed: `task retry TASK` or `task skip TASK`, then `feature run {name}`"
        ),
        (_, State::Running) => {
            format!(
                "it is running: `feature show {name}` shows its progress, `feature stop {name}` ends its run"
            )
        }
        (_, State::Paused) => format!("`feature resume {name}` continues it"),
        (Verb::Run | Verb::Build, State::Draft) => format!(
            "there is nothing to start with: `feature edit {name} --description TEXT` describes it, `feature plan \
             {name} --file FILE` gives its plan, `task create TITLE --feature {name}` adds a task"
        ),
        (Verb::Run | Verb::Build | Verb::Resume, State::Done) => format!(
            "its tasks are done: `task create TITLE --feature {name}` adds one, `feature review {name}` reviews the whole once more"
        ),
        (Verb::Pause | Verb::Stop, State::Done) => "it no longer runs".to_owned(),
        _ => format!("it has no active run: `feature run {name}` starts one"),
    }
}

/// The command that makes a worker check whether a push arrived, for a feature that does not check it by
/// itself. There is none for a cancelled feature.
pub fn finds_out(state: FeatureState, name: &str) -> Option<String> {
    let verb = match state {
        FeatureState::Running | FeatureState::Cancelled => return None,
        FeatureState::Paused => "resume",
        _ => "run",
    };
    Some(format!("`feature {verb} {name}` has a worker find out"))
}

/// Maximum number of a task's parts in a message.
const NAMED: usize = 3;

/// Refers a person's command for the sessions of `whole` to the parts whose state allows it.
pub fn of_whole(whole: TaskId, verb: &str, fitting: &[TaskId]) -> String {
    let named: Vec<String> = fitting
        .iter()
        .take(NAMED)
        .map(|part| format!("`task {verb} {part}`"))
        .collect();
    let which = if named.is_empty() {
        format!("and `task {verb}` fits none of them now")
    } else {
        format!("so name those: {}", named.join(", "))
    };
    format!("{whole} is split, and only its parts have sessions, {which}; `task show {whole}` lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERBS: [FeatureVerb; 7] = [
        FeatureVerb::Run,
        FeatureVerb::Build,
        FeatureVerb::Review,
        FeatureVerb::Pause,
        FeatureVerb::Resume,
        FeatureVerb::Stop,
        FeatureVerb::Cancel,
    ];

    const STATES: [FeatureState; 8] = [
        FeatureState::Draft,
        FeatureState::Planned,
        FeatureState::Ready,
        FeatureState::Running,
        FeatureState::Paused,
        FeatureState::Done,
        FeatureState::Failed,
        FeatureState::Cancelled,
    ];

    #[test]
    fn refusals_name_a_remedy_other_than_the_refused_command() {
        use {FeatureState as State, FeatureVerb as Verb};
        for verb in VERBS {
            for state in STATES {
                let fits = match verb {
                    Verb::Run | Verb::Build => matches!(state, State::Planned | State::Ready | State::Failed),
                    Verb::Stop => matches!(state, State::Running | State::Paused),
                    Verb::Resume => state == State::Paused,
                    _ => false,
                };
                if fits {
                    continue;
                }
                let words = of_feature(verb, state, "f");
                let says = words.split_once("; ").map_or("", |(_, next)| next);
                let is_final = words.contains("it no longer runs") || words.contains("submit another");
                assert!(is_final || says.contains("` "), "{words}");
                let same = words.split('`').any(|command| {
                    let verb = verb.words().split(' ').next().unwrap_or_default();
                    command == format!("feature {verb} f")
                });
                assert!(!same, "{words}");
            }
        }
    }

    #[test]
    fn refusals_fit_the_state() {
        use {FeatureState as State, FeatureVerb as Verb};
        let check = |verb, state, next: &str| {
            let words = of_feature(verb, state, "f");
            assert!(words.contains(next), "{words}");
        };
        check(Verb::Run, State::Draft, "`feature edit f --description TEXT`");
        check(Verb::Run, State::Running, "`feature show f`");
        check(Verb::Run, State::Paused, "`feature resume f`");
        check(Verb::Run, State::Done, "`task create TITLE --feature f`");
        check(Verb::Run, State::Cancelled, "submit another feature");
        check(Verb::Resume, State::Running, "`feature show f`");
        check(Verb::Resume, State::Ready, "`feature run f` starts one");
        check(Verb::Resume, State::Done, "`feature review f`");
        check(Verb::Review, State::Planned, "`feature run f` creates");
        check(Verb::Review, State::Running, "`feature wait f`");
        check(Verb::Review, State::Paused, "`feature resume f`");
        check(Verb::Review, State::Failed, "`feature review f --show`");
        check(Verb::Pause, State::Paused, "`feature resume f`");
        check(Verb::Stop, State::Ready, "`feature run f`");
        check(Verb::Cancel, State::Done, "`feature delete f`");
    }

    #[test]
    fn the_command_that_checks_a_push_fits_the_features_state() {
        let check = |state, verb: Option<&str>| {
            let words = verb.map(|verb| format!("`feature {verb} f` has a worker find out"));
            assert_eq!(finds_out(state, "f"), words, "{state:?}");
        };
        check(FeatureState::Running, None);
        check(FeatureState::Cancelled, None);
        check(FeatureState::Paused, Some("resume"));
        check(FeatureState::Ready, Some("run"));
        check(FeatureState::Failed, Some("run"));
    }

    #[test]
    fn a_refused_command_on_a_split_task_names_its_parts() {
        let ids: Vec<TaskId> = (1..6).map(|n| TaskId(uuid::Uuid::from_u128(n))).collect();
        let words = of_whole(ids[0], "interrupt", &ids[1..]);
        assert_eq!(
            words,
            "t-000000000001 is split, and only its parts have sessions, so name those: `task interrupt t-000000000002`, `task interrupt \
             t-000000000003`, `task interrupt t-000000000004`; `task show t-000000000001` lists them"
        );
        let words = of_whole(ids[0], "release", &[]);
        assert!(words.contains("fits none of them"), "{words}");
    }
}
