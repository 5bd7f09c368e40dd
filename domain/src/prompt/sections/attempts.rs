//! Previous Attempts: failures that should not be repeated (SPEC 6.3).

use minijinja::context;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

use crate::prompt::sections::budget::{CharBudget, Written};
use crate::prompt::templates::Templates;
use crate::prompt::text::{cut_piece, fenced, item, line, quote};
use crate::prompt::values::{Attempt, Memory, Report, SiblingFailure};

/// Bound of one field of a report.
const FIELD_CHARS: usize = 500;
/// Most refs of orphan commits per attempt.
const MAX_ORPHAN_REFS: usize = 5;
/// Bound of a reason from a verifier or git.
const REASON_CHARS: usize = 1_000;
/// Bound of people's feedback, which may be several messages.
const FEEDBACK_CHARS: usize = 2_000;
/// Bounds of a sibling's failure: its error, and each other field.
const SIBLING_ERROR_CHARS: usize = 200;
const SIBLING_FIELD_CHARS: usize = 160;

/// An empty line separates blocks.
const GAP: usize = 2;

/// The newest attempt and the last suggestion have priority, then older attempts, then siblings. Shown in
/// order of time.
pub(in crate::prompt) fn attempts(templates: &Templates, memory: &Memory, allowed: usize) -> Option<Written> {
    let (newest, older) = match memory.attempts.split_last() {
        Some((newest, older)) => (Some(newest), older),
        None if memory.siblings.is_empty() => return None,
        None => (None, &[][..]),
    };
    let (given, earlier) = (memory.attempts.len(), memory.older_attempts);
    let head = templates.part("attempts/head", context! { before => given + earlier });
    let mut room = CharBudget::new(allowed);
    if !room.take(&head, 0) {
        return None;
    }
    let suggestion = suggestion(templates, memory, &mut room);
    let mut blocks = Vec::new();
    if let Some(newest) = newest {
        let text = cut_piece(
            &attempt(templates, newest, false),
            room.remaining().saturating_sub(GAP),
        );
        if room.take(&text, GAP) {
            blocks.push(text);
        }
    }
    let omitted = |n: usize| templates.part("attempts/omitted", context! { n });
    let mut left_out = 0;
    for (index, one) in older.iter().enumerate().rev() {
        let again = memory
            .attempts
            .iter()
            .any(|later| later.same_as == Some(one.number));
        let text = attempt(templates, one, again);
        let mut after = room;
        // If older attempts follow, room for the line that counts the omitted ones is reserved.
        let n = index + earlier;
        let fits =
            after.take(&text, GAP) && (n == 0 || after.remaining() >= omitted(n).chars().count() + GAP);
        if !fits {
            left_out = index + 1;
            break;
        }
        room = after;
        blocks.push(text);
    }
    if left_out + earlier > 0 {
        let text = omitted(left_out + earlier);
        if room.take(&text, GAP) {
            blocks.push(text);
        }
    }
    blocks.push(head);
    blocks.reverse();
    blocks.extend(siblings(templates, &memory.siblings, &mut room));
    blocks.extend(suggestion);
    (blocks.len() > 1).then(|| Written {
        text: blocks.join("\n\n"),
        shown: (left_out..given).collect(),
    })
}

fn suggestion(templates: &Templates, memory: &Memory, room: &mut CharBudget) -> Option<String> {
    // The suggestion was meant for the next attempt. A lost or interrupted attempt did not use it.
    let mut from_newest = memory.attempts.iter().rev();
    from_newest
        .find(|attempt| attempt.was_tried)
        .and_then(|attempt| attempt.report.as_ref()?.suggestion.as_deref())
        .map(|text| {
            let part = |text: String| templates.part("attempts/suggestion", context! { text });
            cut_piece(&part(quote(text, REASON_CHARS)), room.remaining() / 3)
        })
        .filter(|text| room.take(text, GAP))
}

/// `again`: whether a later attempt failed in the same way and describes the failure.
fn attempt(templates: &Templates, attempt: &Attempt, again: bool) -> String {
    let report = attempt.report.as_ref();
    templates.part(
        "attempts/attempt",
        context! {
            number => attempt.number,
            model => attempt.model.as_deref().map(|model| line(model, 60)),
            outcome => attempt.outcome.as_str(),
            ended => attempt.ended_at.map(minute),
            report => report.map(values),
            again,
            reason => attempt.reason.as_deref().map(|text| item(text, REASON_CHARS)),
            verified => attempt.verified,
            same_as => attempt.same_as,
            feedback => attempt.feedback.as_deref().map(|text| item(text, FEEDBACK_CHARS)),
            branch => attempt.branch.as_deref().map(|branch| line(branch, 200)),
            strays => attempt.strays.iter().take(MAX_ORPHAN_REFS).map(|name| line(name, 300)).collect::<Vec<_>>(),
            more_strays => attempt.strays.len().saturating_sub(MAX_ORPHAN_REFS),
        },
    )
}

/// A time in UTC, to the minute.
fn minute(at: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    at.to_offset(UtcOffset::UTC).format(format).unwrap_or_default()
}

fn values(report: &Report) -> minijinja::Value {
    context! {
        extracted => report.extracted,
        tried => item(&report.tried, FIELD_CHARS),
        why => item(&report.why, FIELD_CHARS),
        category => line(&report.category, 40),
        files => report.files.as_deref().map(|files| line(files, FIELD_CHARS)),
        error => report.error.as_deref().map(|text| fenced(text, FIELD_CHARS)).filter(|text| !text.is_empty()),
    }
}

/// As many failures of siblings as fit, the newest first, shown in order of time.
fn siblings(templates: &Templates, failures: &[SiblingFailure], room: &mut CharBudget) -> Option<String> {
    let head = templates.part("attempts/siblings", context! {});
    let mut after = *room;
    if !after.take(&head, GAP) {
        return None;
    }
    let field = |text: &str| Some(item(text, SIBLING_FIELD_CHARS)).filter(|text| !text.is_empty());
    let mut shown: Vec<String> = failures
        .iter()
        .rev()
        .map(|failure| {
            templates.part(
                "attempts/sibling",
                context! {
                    task => format!("{} {}", failure.task, line(&failure.title, 80)),
                    ended => failure.ended_at.map(minute),
                    category => failure.category.as_str(),
                    error => item(&failure.error, SIBLING_ERROR_CHARS),
                    attempted => field(&failure.attempted),
                    files => failure.files.as_deref().map(|files| line(files, SIBLING_FIELD_CHARS)),
                    context => failure.context.as_deref().and_then(field),
                },
            )
        })
        .take_while(|text| after.take(text, 1))
        .collect();
    if shown.is_empty() {
        return None;
    }
    *room = after;
    shown.reverse();
    Some(format!("{head}\n{}", shown.join("\n")))
}
