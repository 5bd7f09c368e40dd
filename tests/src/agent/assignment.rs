//! Finds the assigned task in a prompt (SPEC 6.1).

/// What a prompt assigns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment<'p> {
    /// The value of the section's `ID:` line.
    pub(super) id: Option<&'p str>,
    /// The description: the section from its `Description:` on, or all of it where no line says so.
    pub(super) description: &'p str,
    /// The prompt without the description.
    pub(super) elsewhere: String,
}

impl<'p> Assignment<'p> {
    /// Reads a prompt; one without the section assigns nothing.
    pub(super) fn read(prompt: &'p str) -> Self {
        let mut section = None;
        let mut description_start = None;
        let mut end = prompt.len();
        let mut id = None;
        for (start, line) in lines_with_starts(prompt) {
            if section.is_none() {
                section = (line.trim_end() == "## Assigned Task").then_some(start + line.len());
                continue;
            }
            if line.starts_with("## ") || line.starts_with("### ") {
                end = start;
                break;
            }
            if description_start.is_some() {
                continue;
            }
            if let Some(value) = labelled(line, "ID") {
                id = id.or(Some(value.trim()).filter(|value| !value.is_empty()));
            } else if let Some(value) = labelled(line, "Description") {
                description_start = Some(start + line.len() - value.len());
            }
        }
        let start = description_start.or(section).unwrap_or(end);
        Self {
            id,
            description: &prompt[start..end],
            elsewhere: format!("{}\n{}", &prompt[..start], &prompt[end..]),
        }
    }
}

fn lines_with_starts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |next, line| {
        let start = *next;
        *next += line.len();
        Some((start, line))
    })
}

/// What follows `LABEL:` at the line's start, list marks and emphasis aside, without leading blanks.
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
    fn a_prompt_yields_the_section_and_nothing_else() {
        check(
            "You work.\n@crash\n## Assigned Task\nID: t-1\nTitle: T\nDescription: @say a\n@say b\n### Previous Attempts\n@crash\n",
            Some("t-1"),
            "@say a\n@say b\n",
        );
        check(
            "## Assigned Task\n- **ID:** t-2\n\n@done\n## Memory\n",
            Some("t-2"),
            "- **ID:** t-2\n\n@done\n",
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
    fn elsewhere_leaves_the_description_out() {
        let prompt = "before\n## Assigned Task\nID: t-1\nDescription: inside\n## Memory\nafter\n";
        let elsewhere = Assignment::read(prompt).elsewhere;
        assert!(elsewhere.contains("before") && elsewhere.contains("after") && !elsewhere.contains("inside"));
    }
}
