//! Finds the assigned task in a prompt (SPEC 6.1).

use ralph_shared::kind::SessionKind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment<'p> {
    /// The value of the section's `ID:` line.
    pub(super) id: Option<&'p str>,
    /// The section without the lines `ID:`, `Title:` and `Description:` at its start.
    pub(super) description: &'p str,
    /// Kind of the session, by the final tag that the prompt explains.
    pub(super) asks_for: SessionKind,
    /// The prompt without the description.
    pub(super) elsewhere: String,
}

impl<'p> Assignment<'p> {
    /// Parses a prompt; one without the section assigns nothing.
    pub(super) fn read(prompt: &'p str) -> Self {
        let mut lines = lines_with_starts(prompt);
        let heading = lines.find(|(_, line)| line.trim_end() == "## Assigned Task");
        let mut start = heading.map_or(prompt.len(), |(start, line)| start + line.len());
        let mut end = prompt.len();
        let mut id = None;
        let mut in_header = true;
        for (line_start, line) in lines {
            if line.starts_with("## ") || line.starts_with("### ") {
                end = line_start;
                break;
            }
            if !in_header || line.trim().is_empty() {
                continue;
            }
            if let Some(value) = labelled(line, "ID") {
                id = id.or(Some(value.trim()).filter(|value| !value.is_empty()));
                start = line_start + line.len();
            } else if labelled(line, "Title").is_some() {
                start = line_start + line.len();
            } else {
                if let Some(value) = labelled(line, "Description") {
                    start = line_start + line.len() - value.len();
                }
                in_header = false;
            }
        }
        let elsewhere = format!("{}\n{}", &prompt[..start], &prompt[end..]);
        Self {
            id,
            description: &prompt[start..end],
            asks_for: asked_for(&elsewhere),
            elsewhere,
        }
    }
}

/// The kind of session whose final tag the prompt explains (SPEC 5).
fn asked_for(prompt: &str) -> SessionKind {
    if prompt.contains("<verify-pass/>") {
        SessionKind::Verify
    } else if prompt.contains("<review-pass/>") {
        SessionKind::Review
    } else {
        SessionKind::Work
    }
}

fn lines_with_starts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |next, line| {
        let start = *next;
        *next += line.len();
        Some((start, line))
    })
}

/// The text after `LABEL:` at the line's start, ignoring list marks and emphasis, without leading blanks.
fn labelled<'l>(line: &'l str, label: &str) -> Option<&'l str> {
    let rest = line.trim_start_matches(['-', '*', ' ']).strip_prefix(label)?;
    let rest = rest.trim_start_matches('*').strip_prefix(':')?;
    Some(rest.trim_start_matches('*').trim_start_matches([' ', '\t']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(prompt: &str, id: Option<&str>, description: &str) {
        let assignment = Assignment::read(prompt);
        assert_eq!(
            (assignment.id, assignment.description),
            (id, description),
            "{prompt}"
        );
    }

    #[test]
    fn read_returns_only_the_assigned_section() {
        check(
            "You work.\n@crash\n## Assigned Task\nID: t-1\nTitle: T\nDescription: @say a\n@say b\n### Previous Attempts\n@crash\n",
            Some("t-1"),
            "@say a\n@say b\n",
        );
        check(
            "## Assigned Task\n\nID: t-1\nTitle: @T\n\n@say a\nDescription: b\n",
            Some("t-1"),
            "\n@say a\nDescription: b\n",
        );
        check(
            "## Assigned Task\n- **ID:** t-2\n\n@done\n## How to report\n",
            Some("t-2"),
            "\n@done\n",
        );
        check(
            "## Assigned Task\nID: t-3\nDescription:\nID: t-4\n#### deeper\n",
            Some("t-3"),
            "\nID: t-4\n#### deeper\n",
        );
        check("@crash\n", None, "");
        check("", None, "");
        check("## Assigned Task", None, "");
        check("see ## Assigned Task\n@crash\n", None, "");
    }

    #[test]
    fn the_session_kind_follows_from_the_explained_tag() {
        for (elsewhere, kind) in [
            ("`<task-done>`", SessionKind::Work),
            ("`<verify-pass/>`", SessionKind::Verify),
            ("`<review-pass/>`", SessionKind::Review),
        ] {
            let prompt =
                format!("## Assigned Task\nID: t-1\n@say <verify-pass/>\n## How to report\n{elsewhere}\n");
            assert_eq!(Assignment::read(&prompt).asks_for, kind, "{elsewhere}");
        }
    }

    #[test]
    fn elsewhere_excludes_the_description() {
        let prompt = "before\n## Assigned Task\nID: t-1\nDescription: inside\n## How to report\nafter\n";
        let elsewhere = Assignment::read(prompt).elsewhere;
        assert!(elsewhere.contains("before") && elsewhere.contains("after") && !elsewhere.contains("inside"));
    }
}
