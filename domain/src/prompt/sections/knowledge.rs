//! Project Knowledge (SPEC 6.5).

use minijinja::context;

use crate::prompt::sections::budget::{CharBudget, Written};
use crate::prompt::sections::provenance::provenance;
use crate::prompt::templates::Templates;
use crate::prompt::text::{chars, line, quote};
use crate::prompt::values::Knowledge;

const TITLE_CHARS: usize = 200;
/// Least useful length of a cut entry.
const LEAST_BODY_CHARS: usize = 100;

/// As many entries as fit, best first; if not even the best one fits, it is cut.
pub(in crate::prompt) fn knowledge(
    templates: &Templates,
    entries: &[Knowledge],
    allowed: usize,
) -> Option<Written> {
    let mut room = CharBudget::new(allowed);
    let head = templates.part("knowledge/head", context! {});
    if !room.take(&head, 0) {
        return None;
    }
    let part = |entry: &Knowledge, max: usize| {
        templates.part(
            "knowledge/entry",
            context! {
                title => line(&entry.title, TITLE_CHARS),
                standing => provenance(templates, &entry.provenance),
                body => quote(&entry.body, max),
            },
        )
    };
    let mut blocks = vec![head];
    let mut shown = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let text = part(entry, room.remaining());
        if room.take(&text, 2) {
            blocks.push(text);
            shown.push(index);
            continue;
        }
        let around = chars(&part(
            &Knowledge {
                body: String::new(),
                ..entry.clone()
            },
            0,
        ));
        let left = room.remaining().saturating_sub(around + 3);
        if shown.is_empty() && left >= LEAST_BODY_CHARS {
            let text = part(entry, left);
            if room.take(&text, 2) {
                blocks.push(text);
                shown.push(index);
            }
        }
    }
    (!shown.is_empty()).then(|| Written {
        text: blocks.join("\n\n"),
        shown,
    })
}
