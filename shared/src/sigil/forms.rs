//! The forms in which a prompt shows sigils to an agent. An agent can follow them, but they never parse, so a
//! text that repeats the prompt changes nothing.

use super::name::SigilName;

impl SigilName {
    /// The form, with placeholders in curly braces.
    #[must_use]
    pub const fn form(self) -> &'static str {
        match self {
            Self::TaskDone => "<task-done>{the task's ID}</task-done>",
            Self::TaskFailed => "<task-failed>{the task's ID}</task-failed>",
            Self::Promise => "<promise id=\"{the task's ID}\">{COMPLETE or FAILURE}</promise>",
            Self::NextModel => "<next-model>{name of a model tier}</next-model>",
            Self::Journal => {
                "<journal>{what you decided and why, what you found, what the next one should know}</journal>"
            }
            Self::Knowledge => {
                "<knowledge tags=\"{comma-separated keywords}\" title=\"{short title}\">{what is so, in at most 500 \
                 words}</knowledge>"
            }
            Self::FailureReport => {
                "<failure-report>\n\
                 what_tried: {the approach, in one or two sentences}\n\
                 why_failed: {the root cause, in one or two sentences}\n\
                 error_category: {test_failure | build_error | missing_file | logic_error | type_error | \
                 dependency_error | timeout | unknown}\n\
                 relevant_files: {comma-separated paths}\n\
                 stack_trace: {the first lines of the error output}\n\
                 </failure-report>"
            }
            Self::RetrySuggestion => {
                "<retry-suggestion>{what the next attempt should do instead}</retry-suggestion>"
            }
            Self::Learning => {
                "<learning category=\"{success_pattern | pitfall | tool_usage | code_structure | testing_strategy | \
                 debugging_technique | other}\" tags=\"{comma-separated keywords}\">{one to three sentences that \
                 help to act}</learning>"
            }
            Self::DifficultyEstimate => {
                "<difficulty-estimate>{trivial | easy | moderate | hard | blocked}</difficulty-estimate>"
            }
            Self::TaskGraph => "<task-graph>{the list of tasks, in YAML or JSON}</task-graph>",
            Self::Memory => {
                "<memory kind=\"{key_fact | decision | step_done | step_pending | file_modified}\" rationale=\"{why, \
                 for a decision}\">{one sentence, or a path}</memory>"
            }
            Self::Question => {
                "<question choices=\"{the answers to choose from, with | between them; leave it out where any will do}\">{what \
                 only a person can decide, and what each answer leads to}</question>"
            }
            Self::VerifyPass => "<verify-pass id=\"{the task's ID}\"/>",
            Self::VerifyFail => {
                "<verify-fail id=\"{the task's ID}\">{what is wrong, and where}</verify-fail>"
            }
            Self::ReviewPass => "<review-pass id=\"{the task's ID}\"/>",
            Self::Used => "<used helped=\"{their ids}\" misled=\"{their ids}\"/>",
            Self::ReviewChanges => {
                "<review-changes id=\"{the task's ID}\">{what to change, and why; or a task graph}</review-changes>"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::SessionKind;
    use crate::sigil::{Context, Sigils, parse};

    #[test]
    fn a_text_that_repeats_the_forms_changes_nothing() {
        let forms: Vec<&str> = SigilName::ALL.into_iter().map(SigilName::form).collect();
        for kind in SessionKind::ALL {
            let context = Context {
                kind,
                task_id: "t-9f2c41aa07be",
                model_tiers: &["opus".to_owned()],
            };
            for text in [
                forms.join("\n"),
                forms.concat(),
                format!("```xml\n{}\n```", forms.join("\n\n")),
            ] {
                assert_eq!(parse(&text, &context), Sigils::default(), "{kind}");
            }
        }
    }

    #[test]
    fn a_form_names_its_sigil() {
        for name in SigilName::ALL {
            assert!(name.form().contains(&format!("<{name}")), "{name}");
        }
    }
}
