//! Learnings: each whole or not at all (SPEC 6.2).

use minijinja::context;

use crate::prompt::sections::budget::{CharBudget, Written};
use crate::prompt::sections::provenance::provenance;
use crate::prompt::templates::Templates;
use crate::prompt::text::{item, line};
use crate::prompt::values::Learning;

/// The learnings that fit, best first.
pub(in crate::prompt) fn learnings(
    templates: &Templates,
    learnings: &[Learning],
    allowed: usize,
) -> Option<Written> {
    let mut room = CharBudget::new(allowed);
    let head = templates.part("learnings/head", context! {});
    if !room.take(&head, 1) {
        return None;
    }
    let mut lines = Vec::new();
    let mut shown = Vec::new();
    for (index, learning) in learnings.iter().enumerate() {
        let text = templates.part(
            "learnings/learning",
            context! {
                category => line(&learning.category, 40),
                standing => provenance(templates, &learning.provenance),
                text => item(&learning.text, usize::MAX),
            },
        );
        if room.take(&text, 1) {
            lines.push(text);
            shown.push(index);
        }
    }
    (!lines.is_empty()).then(|| Written {
        text: format!("{head}\n\n{}", lines.join("\n")),
        shown,
    })
}
