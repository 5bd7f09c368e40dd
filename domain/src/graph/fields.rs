//! The rules of a single task.

use ralph_shared::subjects::is_label;
use time::OffsetDateTime;

use super::file::TaskEntry;
use super::limits::{
    Limits, MAX_DESCRIPTION_CHARS, MAX_KEY_CHARS, MAX_NAME_CHARS, MAX_RETRIES, MAX_TITLE_CHARS,
};
use super::nearest::did_you_mean;
use super::printable::quote;
use super::problem::{ProblemKind, Problems};
use crate::scheduling::concurrency::Concurrency;
use crate::scheduling::paths::{MAX_PATHS, Pattern};

/// Adds the problems of the fields of `task`, except its references.
pub fn check(task: &TaskEntry, limits: &Limits, problems: &mut Problems) {
    let key = (!task.key.value.is_empty()).then_some(task.key.value.as_str());
    let mut refuse = |kind, what: &dyn Fn() -> String| problems.push(task.key.line, key, kind, what);
    check_key(key, &mut refuse);
    check_texts(task, &mut refuse);
    check_names(task, limits, &mut refuse);
    if let Some(retries) = task.max_retries.filter(|retries| *retries > MAX_RETRIES) {
        refuse(ProblemKind::Value, &|| {
            format!("`max_retries` must be a whole number from 0 to {MAX_RETRIES}, not {retries}")
        });
    }
    if let Some(Err(why)) = task.concurrency.as_ref().map(Concurrency::check) {
        refuse(ProblemKind::Value, &|| why.clone());
    }
    if let Some(text) = task.not_before.as_ref().filter(|text| moment(text).is_none()) {
        refuse(ProblemKind::Value, &|| {
            format!(
                "`not_before` must be a time such as 2026-12-01T08:00:00+01:00, not {}",
                quote(text)
            )
        });
    }
    check_paths(&task.paths, &mut refuse);
}

/// Adds a problem of the task.
type Refuse<'a> = dyn FnMut(ProblemKind, &dyn Fn() -> String) + 'a;

fn check_key(key: Option<&str>, refuse: &mut Refuse<'_>) {
    match key {
        None => refuse(ProblemKind::Value, &|| {
            "a task has no `key`; give it a short name of its own".into()
        }),
        Some(key) if !is_key(key) => refuse(ProblemKind::Value, &|| {
            format!(
                "a key is at most {MAX_KEY_CHARS} letters, digits and . _ - / : and begins with a letter, a digit or _; \
                 rename it"
            )
        }),
        Some(_) => {}
    }
}

fn check_texts(task: &TaskEntry, refuse: &mut Refuse<'_>) {
    let title = task.title.trim();
    if title.is_empty() {
        refuse(ProblemKind::Value, &|| {
            "it has no `title`; say in one line what is to be done".into()
        });
    } else if title
        .chars()
        .any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'))
    {
        refuse(ProblemKind::Value, &|| {
            "the title has a line break or a control character; write one line, and the rest as `description`"
                .into()
        });
    } else if is_longer(title, MAX_TITLE_CHARS) {
        refuse(ProblemKind::Limit, &|| {
            format!(
                "the title has {} characters, {MAX_TITLE_CHARS} at most; move words to `description`",
                title.chars().count()
            )
        });
    }

    let description = task.description.as_deref().unwrap_or_default();
    if description.contains('\0') {
        refuse(ProblemKind::Value, &|| {
            "the description has a NUL character; remove it".into()
        });
    }
    if is_longer(description, MAX_DESCRIPTION_CHARS) {
        refuse(ProblemKind::Limit, &|| {
            format!(
                "the description has {} characters, {MAX_DESCRIPTION_CHARS} at most; keep the text in the repository and \
                 name its path",
                description.chars().count()
            )
        });
    }
}

/// Checks the names of the pool, the agent and the model.
fn check_names(task: &TaskEntry, limits: &Limits, refuse: &mut Refuse<'_>) {
    if let Some(pool) = &task.pool {
        if !is_label(pool) {
            refuse(ProblemKind::Value, &|| {
                format!(
                    "{} is not a valid pool name; use 1 to 40 of a-z, 0-9 and -",
                    quote(pool)
                )
            });
        } else if let Some(pools) = limits.pools.as_ref().filter(|pools| !pools.contains(pool)) {
            refuse(ProblemKind::Value, &|| unknown("pool", pool, pools.iter()));
        }
    }
    if let Some(agent) = &task.agent {
        if !is_name(agent) {
            refuse(ProblemKind::Value, &|| not_a_name("agent", agent));
        } else if let Some(agents) = limits.agents.as_ref().filter(|agents| !agents.contains(agent)) {
            refuse(ProblemKind::Value, &|| unknown("agent", agent, agents.iter()));
        }
    }
    if let Some(model) = task.model.as_ref().filter(|model| !is_name(model)) {
        refuse(ProblemKind::Value, &|| not_a_name("model", model));
    }
}

fn check_paths(paths: &[String], refuse: &mut Refuse<'_>) {
    if paths.len() > MAX_PATHS {
        refuse(ProblemKind::Limit, &|| {
            format!(
                "it has {} `paths`, {MAX_PATHS} at most; name their folders",
                paths.len()
            )
        });
    }
    for path in paths {
        if let Err(bad) = Pattern::parse(path) {
            refuse(ProblemKind::Value, &|| {
                format!("{} can't be one of its `paths`: {bad}", quote(path))
            });
        }
    }
}

pub fn moment(text: &str) -> Option<OffsetDateTime> {
    let at: jiff::Timestamp = text.parse().ok()?;
    OffsetDateTime::from_unix_timestamp_nanos(at.as_nanosecond()).ok()
}

/// Whether a text can be a key.
pub fn is_key(text: &str) -> bool {
    !is_longer(text, MAX_KEY_CHARS)
        && text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || "._-/:".contains(c))
}

/// Whether a text can be the name of an agent or of a model.
pub fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && !is_longer(text, MAX_NAME_CHARS) && !text.chars().any(char::is_control)
}

/// Counts characters only if the number of bytes does not decide.
fn is_longer(text: &str, max_chars: usize) -> bool {
    text.len() > max_chars && text.chars().nth(max_chars).is_some()
}

fn not_a_name(field: &str, value: &str) -> String {
    format!(
        "{} is not a valid {field} name; use one line of at most {MAX_NAME_CHARS} characters",
        quote(value)
    )
}

fn unknown<'k>(field: &str, value: &str, known: impl Iterator<Item = &'k String> + Clone) -> String {
    let near = did_you_mean(value, known.clone().map(String::as_str));
    if !near.is_empty() {
        return format!("there is no {field} {}{near}", quote(value));
    }
    let shown: Vec<_> = known.take(10).map(|name| quote(name)).collect();
    if shown.is_empty() {
        return format!(
            "there is no {field} {}; remove the field to take the default",
            quote(value)
        );
    }
    format!(
        "there is no {field} {}; there are {}",
        quote(value),
        shown.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_words() {
        for good in ["a", "api-2", "1", "_x", "web/login:form.v2", "größe", "任务"] {
            assert!(is_key(good), "{good}");
        }
        for bad in [
            "-a",
            ".a",
            "a b",
            "a,b",
            "a\u{0}",
            "a\u{200b}",
            "a`",
            &"x".repeat(MAX_KEY_CHARS + 1),
        ] {
            assert!(!is_key(bad), "{bad}");
        }
    }

    #[test]
    fn lengths_are_counted_in_characters() {
        assert!(!is_longer("ääää", 4));
        assert!(is_longer("äääää", 4));
    }
}
