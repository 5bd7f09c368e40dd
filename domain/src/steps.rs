//! The steps from an idea to a graph, and the review at the end (SPEC 2.1, 5).

use ralph_shared::ids::TaskId;
use ralph_shared::kind::SessionKind;

/// The inputs of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Provided {
    pub description: bool,
    pub spec: bool,
    pub plan: bool,
    pub tasks: bool,
}

/// Advice on an empty submission.
pub const NOTHING_TO_START_WITH: &str = "there is nothing to start with: say what the feature is about (--description TEXT), \
     give its specification (--spec FILE), plan (--plan FILE) or tasks (--tasks FILE), or only create it (--draft)";

impl Provided {
    /// Notes which inputs are given; a blank text is none.
    pub fn new(description: &str, spec: Option<&str>, plan: Option<&str>, tasks: usize) -> Self {
        let filled = |text: &str| !text.trim().is_empty();
        Self {
            description: filled(description),
            spec: spec.is_some_and(filled),
            plan: plan.is_some_and(filled),
            tasks: tasks > 0,
        }
    }
}

/// The missing steps in order: none if there are tasks, else from the first missing text. `None` without
/// anything to start with (SPEC 2.1).
pub fn missing(given: Provided) -> Option<&'static [SessionKind]> {
    const ALL: [SessionKind; 3] = [SessionKind::Spec, SessionKind::Plan, SessionKind::Build];
    match given {
        Provided { tasks: true, .. } => Some(&[]),
        Provided { plan: true, .. } => Some(&ALL[2..]),
        Provided { spec: true, .. } => Some(&ALL[1..]),
        Provided {
            description: true, ..
        } => Some(&ALL),
        _ => None,
    }
}

/// Key and title of a step's task; `round` counts reviews, from 1.
pub fn name(step: SessionKind, round: i64) -> (String, String) {
    match step {
        SessionKind::Spec => ("spec".to_owned(), "Write the specification".to_owned()),
        SessionKind::Plan => ("plan".to_owned(), "Write the plan".to_owned()),
        SessionKind::Build => ("build".to_owned(), "Break the plan into tasks".to_owned()),
        SessionKind::Distill => (
            "distill".to_owned(),
            "Merge learnings that say nearly the same".to_owned(),
        ),
        _ => (
            format!("review-{round}"),
            format!("Review the feature, round {round}"),
        ),
    }
}

/// The name of a step's result, for approvals on the command line and in messages.
pub fn result(step: SessionKind) -> &'static str {
    match step {
        SessionKind::Spec => "spec",
        SessionKind::Plan => "plan",
        _ => "tasks",
    }
}

/// The reason why a step's task waits for a person: its result needs approval.
pub fn waits_for_approval(step: SessionKind, feature: &str, task: TaskId) -> String {
    let (result, waits) = match step {
        SessionKind::Build => (result(step), "wait"),
        _ => (result(step), "waits"),
    };
    format!(
        "the {result} of {feature} {waits} for approval: read it with `feature {result} {feature}`, continue with `task approve \
         {task}`, or have it redone with `task reject {task} --reason TEXT`"
    )
}

/// The other step that a person's result makes unnecessary: a specification only feeds the plan.
pub fn needless_with(step: SessionKind) -> Option<SessionKind> {
    (step == SessionKind::Plan).then_some(SessionKind::Spec)
}

/// Names of all results that people may approve.
pub const RESULTS: [&str; 3] = ["spec", "plan", "tasks"];

/// The step whose result has this name.
pub fn of_result(name: &str) -> Option<SessionKind> {
    [SessionKind::Spec, SessionKind::Plan, SessionKind::Build]
        .into_iter()
        .find(|step| result(*step) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_start_with_the_first_missing_text() {
        let none = Provided::default();
        let check =
            |given, expected: Option<&[SessionKind]>| assert_eq!(missing(given), expected, "{given:?}");
        check(none, None);
        let description = Provided {
            description: true,
            ..none
        };
        check(
            description,
            Some(&[SessionKind::Spec, SessionKind::Plan, SessionKind::Build]),
        );
        check(
            Provided {
                spec: true,
                ..description
            },
            Some(&[SessionKind::Plan, SessionKind::Build]),
        );
        check(Provided { plan: true, ..none }, Some(&[SessionKind::Build]));
        check(
            Provided {
                tasks: true,
                ..description
            },
            Some(&[]),
        );
    }

    #[test]
    fn a_result_names_its_step() {
        for (step, name) in [SessionKind::Spec, SessionKind::Plan, SessionKind::Build]
            .into_iter()
            .zip(RESULTS)
        {
            assert_eq!((result(step), of_result(name)), (name, Some(step)));
        }
        assert_eq!(of_result("work"), None);
    }
}
