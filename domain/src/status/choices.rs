//! Commands for a task that waits for a person or failed, ready to type.

use ralph_shared::kind::SessionKind;

use crate::states::{TaskState, Verification};
use crate::steps;

/// Facts on the task.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// Its feature's name or id.
    pub feature: &'a str,
    /// FEATURE/KEY, or its id.
    pub task: &'a str,
    pub state: TaskState,
    pub role: SessionKind,
    /// Result of its last attempt's verification.
    pub verification: Verification,
    /// Whether an attempt left a result to approve.
    pub has_result: bool,
    /// Whether a session worked on it.
    pub has_session: bool,
}

/// Complete commands, without placeholders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices {
    /// Commands that show facts for the decision.
    pub look: Vec<String>,
    /// Commands that decide, the most likely one first.
    pub decide: Vec<String>,
}

impl Choices {
    /// All commands, those that show facts first.
    pub fn all(self) -> Vec<String> {
        self.look.into_iter().chain(self.decide).collect()
    }
}

/// Whether a result of the task waits for approval, without a failure.
pub fn is_approval(facts: &Facts<'_>) -> bool {
    let is_step = matches!(
        facts.role,
        SessionKind::Spec | SessionKind::Plan | SessionKind::Build
    );
    facts.state == TaskState::NeedsReview
        && facts.has_result
        && (is_step || facts.verification == Verification::Passed)
}

pub fn of(facts: &Facts<'_>) -> Choices {
    let (feature, task) = (facts.feature, facts.task);
    let command = |verb: &str| format!("ralph task {verb} {task}");
    let of_session = match facts.has_session {
        true => vec![command("show"), format!("ralph logs {task}")],
        false => vec![command("show")],
    };
    let (look, verbs): (Vec<String>, &[&str]) = match (facts.state, facts.role) {
        (TaskState::Cancelled, _) => (vec![command("show")], &["skip", "retry"]),
        (TaskState::NeedsReview, role @ (SessionKind::Spec | SessionKind::Plan | SessionKind::Build)) => {
            let result = steps::result(role);
            match facts.has_result {
                true => (
                    vec![format!("ralph feature {result} {feature} --show")],
                    &["approve", "reject"],
                ),
                false => (of_session, &["retry", "skip"]),
            }
        }
        (_, SessionKind::Check) => (vec![command("show")], &["retry", "skip"]),
        (_, SessionKind::Git) => (vec![command("show")], &["retry", "cancel"]),
        (TaskState::NeedsReview, _) if facts.has_result => (
            vec![format!("ralph feature review {feature} --show"), command("diff")],
            match facts.verification {
                Verification::Passed => &["approve", "reject"],
                _ => &["retry", "approve", "skip"],
            },
        ),
        _ => (of_session, &["retry", "skip"]),
    };
    Choices {
        look,
        decide: verbs.iter().map(|verb| command(verb)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_fit_the_task_and_the_likeliest_decision_goes_first() {
        use {SessionKind as Kind, TaskState as State, Verification as Verified};
        let check = |state, role, verification, has_result, looks: &str, decides: &[&str]| {
            let facts = Facts {
                feature: "todo",
                task: "todo/a",
                state,
                role,
                verification,
                has_result,
                has_session: true,
            };
            let choices = of(&facts);
            assert_eq!(choices.look[0], format!("ralph {looks}"), "{facts:?}");
            let decides: Vec<String> = decides
                .iter()
                .map(|verb| format!("ralph task {verb} todo/a"))
                .collect();
            assert_eq!(choices.decide, decides, "{facts:?}");
            is_approval(&facts)
        };
        let (review, none) = (State::NeedsReview, Verified::None);
        let steps = [(Kind::Spec, "spec"), (Kind::Plan, "plan"), (Kind::Build, "tasks")];
        for (role, result) in steps {
            let shows = format!("feature {result} todo --show");
            assert!(check(review, role, none, true, &shows, &["approve", "reject"]));
            assert!(!check(
                review,
                role,
                none,
                false,
                "task show todo/a",
                &["retry", "skip"]
            ));
        }
        let shows = "feature review todo --show";
        assert!(check(
            review,
            Kind::Work,
            Verified::Passed,
            true,
            shows,
            &["approve", "reject"]
        ));
        let unsure = ["retry", "approve", "skip"];
        assert!(!check(review, Kind::Work, Verified::Failed, true, shows, &unsure));
        let shows = "task show todo/a";
        let again = ["retry", "skip"];
        assert!(!check(review, Kind::Work, none, false, shows, &again));
        assert!(!check(State::Failed, Kind::Work, none, true, shows, &again));
        assert!(!check(review, Kind::Check, none, false, shows, &again));
        assert!(!check(
            review,
            Kind::Git,
            none,
            false,
            shows,
            &["retry", "cancel"]
        ));
        assert!(!check(
            State::Cancelled,
            Kind::Work,
            none,
            false,
            shows,
            &["skip", "retry"]
        ));
    }
}
