//! Session Memory: notes of the feature's sessions (SPEC 6.4).

use minijinja::context;

use crate::prompt::sections::budget::{CharBudget, Written};
use crate::prompt::templates::Templates;
use crate::prompt::text::{cut, cut_piece, item, line};
use crate::prompt::values::SessionMemory;

const NOTE_CHARS: usize = 300;
/// Bound of each list of the task's own state.
const LIST_CHARS: usize = 900;

/// The task's own state first, then errors, decisions and facts, of each the newest first, shown in order of
/// time.
pub(in crate::prompt) fn session(
    templates: &Templates,
    memory: &SessionMemory,
    task: &str,
    allowed: usize,
) -> Option<Written> {
    let mut room = CharBudget::new(allowed);
    let mut state = templates.part(
        "session/task",
        context! {
            feature => line(&memory.feature, 80),
            task,
            phase => memory.phase.to_uppercase(),
            branch => memory.branch.as_deref().map(|branch| line(branch, 200)),
            pull_request => memory.pull_request.as_deref().map(|number| line(number, 200)),
        },
    );
    if !room.take(&state, 0) {
        return None;
    }
    let notes = notes(templates, memory, &mut room);
    for text in &notes {
        state = format!("{state}\n{text}");
    }
    let mut blocks = vec![state];
    blocks.extend(lists(templates, memory, &mut room));
    (!notes.is_empty() || blocks.len() > 1).then(|| Written {
        text: blocks.join("\n\n"),
        shown: Vec::new(),
    })
}

/// The task's own state, a line for each sort of notes.
fn notes(templates: &Templates, memory: &SessionMemory, room: &mut CharBudget) -> Vec<String> {
    let blocked: Vec<String> = memory.blocked.iter().cloned().collect();
    let mut lines = Vec::new();
    for (label, notes) in [
        ("Completed", &memory.completed),
        ("Pending", &memory.pending),
        ("Blocked", &blocked),
        ("Files modified", &memory.files_modified),
    ] {
        let items = newest(notes, LIST_CHARS);
        if items.is_empty() {
            continue;
        }
        let text = cut_piece(
            &templates.part("session/line", context! { label, items }),
            room.remaining().saturating_sub(1),
        );
        if room.take(&text, 1) && !text.is_empty() {
            lines.push(text);
        }
    }
    lines
}

fn lists(templates: &Templates, memory: &SessionMemory, room: &mut CharBudget) -> Vec<String> {
    let errors = memory.errors.iter().map(|error| {
        templates.part(
            "session/error",
            context! {
                iteration => error.iteration,
                phase => line(&error.phase, 20).to_uppercase(),
                task => error.task.as_str(),
                category => error.category.as_str(),
                text => item(&error.text, NOTE_CHARS),
            },
        )
    });
    let decisions = memory.decisions.iter().map(|decision| {
        templates.part(
            "session/decision",
            context! {
                text => item(&decision.text, NOTE_CHARS),
                rationale => decision.rationale.as_deref().map(|why| item(why, NOTE_CHARS)),
            },
        )
    });
    let facts = memory
        .key_facts
        .iter()
        .map(|fact| templates.part("session/fact", context! { text => item(fact, NOTE_CHARS) }));
    let mut blocks = Vec::new();
    blocks.extend(list(templates, "session/errors", errors.collect(), room));
    blocks.extend(list(templates, "session/decisions", decisions.collect(), room));
    blocks.extend(list(templates, "session/facts", facts.collect(), room));
    blocks
}

/// A heading with as many of the newest notes as fit.
fn list(templates: &Templates, heading: &str, notes: Vec<String>, room: &mut CharBudget) -> Option<String> {
    let head = templates.part(heading, context! {});
    let mut after = *room;
    if !after.take(&head, 2) {
        return None;
    }
    let mut shown: Vec<String> = notes
        .into_iter()
        .rev()
        .take_while(|note| after.take(note, 1))
        .collect();
    if shown.is_empty() {
        return None;
    }
    *room = after;
    shown.reverse();
    Some(format!("{head}\n{}", shown.join("\n")))
}

/// Notes on one line; if space is short, the newest ones stay.
fn newest(notes: &[String], max: usize) -> String {
    let mut room = CharBudget::new(max);
    let mut shown: Vec<String> = notes
        .iter()
        .rev()
        .map(|note| line(note, NOTE_CHARS.min(max)))
        .filter(|note| !note.is_empty())
        .take_while(|note| room.take(note, 2))
        .collect();
    if shown.len() < notes.iter().filter(|note| !note.trim().is_empty()).count() && !shown.is_empty() {
        shown.push("…".to_owned());
    }
    shown.reverse();
    cut(&shown.join(", "), max)
}
