//! Later prompts of a session: after an unusable task graph, after a restart of the agent's process, and what
//! people say.

use minijinja::context;
use ralph_shared::sigil::{SigilName, defuse};

use super::templates::Templates;
use super::text::cut;

/// Longest description of the problem. Characters.
const PROBLEM_CHARS: usize = 6_000;

/// The prompt of one more turn in the same session.
pub fn again(templates: &Templates, problem: &str) -> String {
    let problem = cut(&defuse(problem), PROBLEM_CHARS);
    let form = SigilName::TaskGraph.form();
    templates.part("graph/again", context! { problem, form })
}

/// The problem of a text without a whole graph.
pub fn unfinished(templates: &Templates) -> String {
    templates.part("graph/unfinished", context! {})
}

/// The problem of any graph for a task that is `levels` levels deep.
pub fn too_deep(templates: &Templates, levels: i32) -> String {
    templates.part("graph/too_deep", context! { levels })
}

/// The problem of any graph for a task that resolves a conflict of a branch operation.
pub fn of_a_conflict(templates: &Templates) -> String {
    templates.part("graph/of_a_conflict", context! {})
}

/// The prompt of an agent whose process ended within its turn and that resumed its session.
pub fn after_exit(templates: &Templates) -> String {
    templates.part("after_exit", context! {})
}

/// Longest question that an answer repeats. Characters.
const QUESTION_CHARS: usize = 1_000;

/// A person's message to a session; an answer comes with the session's question.
pub fn operator_message(templates: &Templates, by: &str, text: &str, asked: Option<&str>) -> String {
    match asked {
        Some(asked) => {
            let asked = cut(&defuse(asked), QUESTION_CHARS);
            templates.part("people/answered", context! { by, text, asked })
        }
        None => templates.part("people/said", context! { by, text }),
    }
}

/// The answer to an agent that asks while nobody is there.
pub fn decide(templates: &Templates) -> String {
    templates.part("people/decide", context! {})
}
