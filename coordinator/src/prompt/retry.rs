//! What an agent is told later in its session: that its task graph can't be used, that its process was started again.

use minijinja::context;
use ralph_shared::sigil::{SigilName, defuse};

use super::templates::Templates;
use super::text::cut;

/// So much of the problem is told. Characters.
const PROBLEM_CHARS: usize = 6_000;

/// The prompt of one more turn in the same session.
pub fn again(templates: &Templates, problem: &str) -> String {
    let problem = cut(&defuse(problem), PROBLEM_CHARS);
    let form = SigilName::TaskGraph.form();
    templates.part("graph/again", context! { problem, form })
}

/// What is wrong with a text that was to hold a graph and holds no whole one.
pub fn unfinished(templates: &Templates) -> String {
    templates.part("graph/unfinished", context! {})
}

/// What is wrong with any graph of a task that is so many levels deep.
pub fn too_deep(templates: &Templates, levels: i32) -> String {
    templates.part("graph/too_deep", context! { levels })
}

/// What is wrong with any graph of a task that resolves what stands in the way of a change of branches.
pub fn of_a_conflict(templates: &Templates) -> String {
    templates.part("graph/of_a_conflict", context! {})
}

/// The prompt of an agent whose process ended in the middle of its turn and that resumed its session.
pub fn after_exit(templates: &Templates) -> String {
    templates.part("after_exit", context! {})
}
