//! Results of a submission that wait for approval.

use ralph_shared::kind::SessionKind;

use crate::api::http::problem::Problem;
use crate::domain::steps::{self, Provided};
use crate::flow::submit::provided;

/// The given results that a person must approve. Sessions must first write results that are not given.
///
/// # Errors
/// When a result to approve is neither given nor written.
pub(in crate::api) fn waiting(
    approve: &[SessionKind],
    given: Provided,
    written: &[SessionKind],
    graph: Option<String>,
    draft: bool,
) -> Result<provided::ProvidedResults, Problem> {
    let mut waits = provided::ProvidedResults::default();
    for &step in approve {
        let is_given = match step {
            SessionKind::Spec => given.spec,
            SessionKind::Plan => given.plan,
            _ => given.tasks,
        };
        let result = steps::result(step);
        match is_given {
            true if !waits.steps.contains(&step) => waits.steps.push(step),
            false if !(written.contains(&step) || draft && written.is_empty()) => {
                return Err(Problem::refused(format!(
                    "there is no {result} to approve: a later step is given, so no session writes it; remove `{result}` from `approve`, \
                     or submit it as well"
                )));
            }
            _ => {}
        }
    }
    waits.graph = graph.filter(|_| waits.steps.contains(&SessionKind::Build));
    Ok(waits)
}
