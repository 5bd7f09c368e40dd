//! The learnings that a session merges, in full (SPEC 6.7).

use minijinja::context;

use crate::prompt::templates::Templates;
use crate::prompt::text::{item, line};
use crate::prompt::values::Merging;

/// Longest keyword, category and list of keywords that is shown whole. Characters.
const LINE_CHARS: usize = 200;

/// All learnings; the caller bounds their number.
pub(in crate::prompt) fn distill(templates: &Templates, merging: &Merging) -> String {
    let ids: Vec<String> = merging.learnings.iter().map(|one| one.id.clone()).collect();
    let head = templates.part(
        "distill/head",
        context! { tag => line(&merging.tag, LINE_CHARS).replace('`', "'"), ids => ids },
    );
    let learnings = merging.learnings.iter().map(|one| {
        templates.part(
            "distill/learning",
            context! {
                id => one.id.as_str(),
                category => line(&one.category, LINE_CHARS),
                tags => line(&one.tags.join(", "), LINE_CHARS),
                text => item(&one.text, usize::MAX),
            },
        )
    });
    let learnings: Vec<String> = learnings.filter(|text| !text.is_empty()).collect();
    format!("{head}\n\n{}", learnings.join("\n")).trim().to_owned()
}
