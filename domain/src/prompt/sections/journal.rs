//! Run Journal (SPEC 6.5).

use std::sync::Arc;

use minijinja::context;

use crate::prompt::sections::budget::{CharBudget, Written};
use crate::prompt::templates::Templates;
use crate::prompt::text::{item, line};
use crate::prompt::values::{JournalEntry, SharedEntry};

const TITLE_CHARS: usize = 120;
const NOTES_CHARS: usize = 2_000;
const FILES_CHARS: usize = 400;
const FAILURE_CHARS: usize = 500;

/// As many entries as fit, most useful first; shown in order, entries of earlier runs before this run's.
pub(in crate::prompt) fn journal(
    templates: &Templates,
    entries: &[Arc<SharedEntry>],
    allowed: usize,
) -> Option<Written> {
    let mut room = CharBudget::new(allowed);
    let head = templates.part("journal/head", context! {});
    if !room.take(&head, 0) {
        return None;
    }
    let mut kept: Vec<(usize, &str)> = Vec::new();
    for (index, shared) in entries.iter().enumerate() {
        let text = shared.text(|entry| piece(templates, entry));
        if room.take(text, 2) {
            kept.push((index, text));
        }
    }
    kept.sort_by_key(|(index, _)| {
        let entry = &entries[*index].entry;
        let here = entry.iteration.is_some() || entry.step.is_some();
        (here, entry.dispatch, entry.iteration)
    });
    let (shown, texts): (Vec<usize>, Vec<&str>) = kept.into_iter().unzip();
    (!texts.is_empty()).then(|| Written {
        text: format!("{head}\n\n{}", texts.join("\n\n")),
        shown,
    })
}

fn piece(templates: &Templates, entry: &JournalEntry) -> String {
    templates.part(
        "journal/entry",
        context! {
            iteration => entry.iteration,
            step => entry.step.as_deref().map(str::to_uppercase),
            outcome => entry.outcome.as_str(),
            task => entry.task.as_str(),
            title => line(&entry.title, TITLE_CHARS),
            model => entry.model.as_deref().map(|model| line(model, 60)),
            files => line(&entry.files.join(", "), FILES_CHARS),
            notes => Some(item(&entry.notes, NOTES_CHARS)).filter(|notes| !notes.is_empty()),
            is_doubted => entry.is_doubted,
            said => entry.feedback.as_deref().map(|said| item(said, NOTES_CHARS)),
            tried => entry.failure.as_ref().map(|(tried, _)| item(tried, FAILURE_CHARS)),
            failed => entry.failure.as_ref().map(|(_, why)| item(why, FAILURE_CHARS)),
        },
    )
}
