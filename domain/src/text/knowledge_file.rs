//! Knowledge files: Markdown with YAML front matter, one entry a file (SPEC 6.5). A file that this module
//! wrote stays the same byte for byte when it is read and written again.

use granit_parser::Event;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::graph::values::{Value, Values};

/// Longest slug. Characters.
const SLUG_CHARS: usize = 80;
const MARK: &str = "---";

/// A knowledge entry in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeFile {
    pub title: String,
    /// At least one, in lower case.
    pub tags: Vec<String>,
    pub feature: Option<String>,
    pub created_at: Option<OffsetDateTime>,
    pub body: String,
}

/// The reason why a file is no knowledge entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoKnowledge {
    #[error("it has no front matter; begin it with `---`, title, tags, `---`")]
    NoFrontMatter,
    #[error("line {line} of its front matter can't be read: {text}")]
    Line {
        /// From 1.
        line: usize,
        text: String,
    },
    #[error("it has no title; add `title: \"…\"` to its front matter")]
    NoTitle,
    #[error("it has no tags; add `tags: [one, two]` to its front matter")]
    NoTags,
}

impl KnowledgeFile {
    /// # Errors
    /// If it has no readable front matter, no title or no tag.
    pub fn parse(text: &str) -> Result<Self, NoKnowledge> {
        let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
        let rest = text.strip_prefix("---\n").ok_or(NoKnowledge::NoFrontMatter)?;
        let (front, body) = match rest.strip_prefix("---\n") {
            Some(body) => ("", body),
            None => rest
                .split_once("\n---\n")
                .or_else(|| rest.strip_suffix("\n---").map(|front| (front, "")))
                .ok_or(NoKnowledge::NoFrontMatter)?,
        };
        let mut file = Self {
            title: String::new(),
            tags: Vec::new(),
            feature: None,
            created_at: None,
            body: body.trim_start_matches('\n').trim_end().to_owned(),
        };
        let read = |front: &str, file: &mut Self| read(front, |key, value| file.take(key, value));
        if let Err(line) = read(front, &mut file) {
            // People write values without quotes: `title: Zones: how they wrap`.
            file.tags.clear();
            read(&with_quotes(front), &mut file).map_err(|_| {
                let text = front
                    .lines()
                    .nth((line as usize).saturating_sub(2))
                    .unwrap_or_default();
                NoKnowledge::Line {
                    line: line as usize,
                    text: text.chars().take(80).collect(),
                }
            })?;
        }
        file.tags.retain(|tag| !tag.is_empty());
        if file.title.trim().is_empty() {
            return Err(NoKnowledge::NoTitle);
        }
        if file.tags.is_empty() {
            return Err(NoKnowledge::NoTags);
        }
        Ok(file)
    }

    /// Takes a field, and ignores unknown ones. Returns whether the field is readable.
    fn take(&mut self, key: &str, value: &Value<'_>) -> bool {
        match (key, value) {
            ("title", Value::Scalar(title)) => self.title = title.text.to_string(),
            ("tags", Value::List(tags)) => {
                let tags = tags.iter().map(|tag| tag.value.text.to_lowercase());
                self.tags.extend(tags);
            }
            ("tags", Value::Scalar(tags)) if !tags.is_null() => {
                self.tags
                    .extend(tags.text.split(',').map(|tag| tag.trim().to_lowercase()));
            }
            ("feature", Value::Scalar(name)) => {
                self.feature = Some(name.text.to_string()).filter(|name| !name.is_empty());
            }
            ("created_at", Value::Scalar(at)) => self.created_at = time_of(at.text.trim()),
            ("title" | "tags" | "feature", Value::Map(_) | Value::Other(_)) => return false,
            _ => {}
        }
        true
    }

    /// The file's name: the title as a slug of at most 80 characters, with `.md`; without one, `entry.md`.
    pub fn name(&self) -> String {
        let mut slug = String::new();
        for c in self.title.to_lowercase().chars() {
            if c.is_alphanumeric() {
                slug.push(c);
            } else if !slug.ends_with('-') && !slug.is_empty() {
                slug.push('-');
            }
        }
        let slug: String = slug.chars().take(SLUG_CHARS).collect();
        let slug = slug.trim_matches('-');
        format!("{}.md", if slug.is_empty() { "entry" } else { slug })
    }

    pub fn text(&self) -> String {
        // In parsed form: entries from other sources may have other blanks, line ends and tags.
        let tags = self.tags.iter().map(|tag| tag.to_lowercase());
        let tags: Vec<String> = tags
            .filter(|tag| !tag.is_empty())
            .map(|tag| plain_or_quoted(&tag))
            .collect();
        let body = self.body.replace("\r\n", "\n");
        let body = body.trim_start_matches('\n').trim_end();
        let mut text = format!(
            "{MARK}\ntitle: {}\ntags: [{}]\n",
            quoted(&self.title),
            tags.join(", ")
        );
        if let Some(feature) = &self.feature {
            text.push_str(&format!("feature: {}\n", quoted(feature)));
        }
        if let Some(at) = self.created_at.and_then(|at| at.format(&Rfc3339).ok()) {
            text.push_str(&format!("created_at: {}\n", quoted(&at)));
        }
        text.push_str(&format!("{MARK}\n\n{body}\n"));
        text
    }
}

/// A double-quoted YAML string, which is a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

fn plain_or_quoted(tag: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' ' | '+');
    let starts_plain = tag.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/'));
    if starts_plain && tag.chars().all(plain) && !tag.ends_with(' ') {
        tag.to_owned()
    } else {
        quoted(tag)
    }
}

/// Reads front matter as YAML, field by field.
///
/// # Errors
/// The line, counted from 1 for the mark above, that is not YAML or that `take` can't read.
fn read(front: &str, mut take: impl FnMut(&str, &Value<'_>) -> bool) -> Result<(), u32> {
    let mut values = Values::new(front, 1);
    let mut next = || values.next().map_err(|fault| fault.line);
    loop {
        let event = next()?;
        match event.value {
            Event::StreamStart | Event::DocumentStart(..) => {}
            Event::StreamEnd => return Ok(()),
            Event::MappingStart(..) => break,
            _ => return Err(event.line),
        }
    }
    loop {
        let event = values.next().map_err(|fault| fault.line)?;
        let Event::Scalar(key, ..) = event.value else {
            return match event.value {
                Event::MappingEnd => Ok(()),
                _ => Err(event.line),
            };
        };
        let value = values.value().map_err(|fault| fault.line)?;
        if !take(key.trim(), &value.value) {
            return Err(event.line);
        }
    }
}

/// Adds quotes around plain values.
fn with_quotes(front: &str) -> String {
    let line = |line: &str| match line.split_once(": ") {
        Some((key, value)) if value.trim().starts_with(char::is_alphanumeric) => {
            format!("{key}: {}\n", quoted(value.trim()))
        }
        _ => format!("{line}\n"),
    };
    front.lines().map(line).collect()
}

/// A point in time, or the beginning of a day in UTC.
fn time_of(text: &str) -> Option<OffsetDateTime> {
    let parse = |text: &str| OffsetDateTime::parse(text, &Rfc3339).ok();
    parse(text)
        .or_else(|| parse(&text.replacen(' ', "T", 1)))
        .or_else(|| parse(&format!("{text}T00:00:00Z")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEED: &str = "---\ntitle: \"Cargo bench requires nightly\"\ntags: [testing, cargo, nightly]\nfeature: \
                        \"perf-optimization\"\ncreated_at: \"2026-02-17T12:00:00Z\"\n---\n\nRunning `cargo bench` \
                        requires nightly.\n\n---\nSee the book.\n";

    #[test]
    fn a_parsed_file_is_written_byte_for_byte() {
        let file = KnowledgeFile::parse(SEED).unwrap();
        assert_eq!(file.tags, ["testing", "cargo", "nightly"]);
        assert_eq!(
            file.body,
            "Running `cargo bench` requires nightly.\n\n---\nSee the book."
        );
        assert_eq!(file.text(), SEED);
        assert_eq!(file.name(), "cargo-bench-requires-nightly.md");
    }

    #[test]
    fn an_entry_from_elsewhere_is_written_in_parsed_form() {
        let file = KnowledgeFile {
            title: "T".to_owned(),
            tags: vec!["DNS".to_owned(), String::new()],
            feature: None,
            created_at: None,
            body: "\n one\r\ntwo \n".to_owned(),
        };
        let text = file.text();
        assert_eq!(KnowledgeFile::parse(&text).unwrap().text(), text);
        assert_eq!(text, "---\ntitle: \"T\"\ntags: [dns]\n---\n\n one\ntwo\n");
    }

    #[test]
    fn hand_written_front_matter_is_read() {
        for front in [
            "title: It's so\ntags:\n  - One\n  - 'two'\nauthor: me",
            "# mine\ntitle: 'It''s so' \ntags: [One, \"two\"] # both\n",
            "tags: one, two\ntitle: \"It's so\"",
            "tags: &t\n- One\n- two\ntitle: >-\n  It's\n  so\nother: *t",
            "? title\n: \"It's\\x20so\"\ntags: !!seq\n  - ONE # first\n  - |-\n    two\n",
        ] {
            let file = KnowledgeFile::parse(&format!("---\n{front}\n---\nBody\n")).unwrap();
            assert_eq!(
                (file.title.as_str(), file.body.as_str()),
                ("It's so", "Body"),
                "{front}"
            );
            assert_eq!(file.tags, ["one", "two"], "{front}");
        }
    }

    #[test]
    fn titles_with_colons_and_days_are_read() {
        let front = "title: Zones: how they wrap\ntags: [dns]\ncreated_at: 2026-01-31";
        let file = KnowledgeFile::parse(&format!("---\n{front}\n---\nBody\n")).unwrap();
        assert_eq!(file.title, "Zones: how they wrap");
        assert_eq!(
            file.created_at,
            Some(time::macros::datetime!(2026-01-31 00:00 UTC))
        );
        // An alias that copies without end is refused like other unreadable values.
        let bomb = (0..40).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
            text + &format!("a{}: &a{} [*a{n}, *a{n}]\n", n + 1, n + 1)
        });
        let file = KnowledgeFile::parse(&format!("---\n{bomb}title: T\ntags: [dns]\n---\nBody\n"));
        assert!(file.is_err() || file.is_ok_and(|file| file.title == "T"));
    }

    #[test]
    fn an_error_names_the_missing_part() {
        for (text, expected) in [
            ("no front matter", NoKnowledge::NoFrontMatter),
            ("---\ntitle: x\n", NoKnowledge::NoFrontMatter),
            ("---\ntags: [a]\n---\nb", NoKnowledge::NoTitle),
            ("---\ntitle: x\ntags: []\n---\nb", NoKnowledge::NoTags),
            (
                "---\ntitle: x\n{{{\n---\nb",
                NoKnowledge::Line {
                    line: 3,
                    text: "{{{".to_owned(),
                },
            ),
        ] {
            assert_eq!(KnowledgeFile::parse(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn titles_become_file_names() {
        for (title, name) in [
            ("SQLite: WAL  mode!", "sqlite-wal-mode.md"),
            ("Größe", "größe.md"),
            ("!!!", "entry.md"),
            ("../../etc/passwd", "etc-passwd.md"),
        ] {
            let file = KnowledgeFile {
                title: title.to_owned(),
                tags: vec!["a".to_owned()],
                feature: None,
                created_at: None,
                body: String::new(),
            };
            assert_eq!(file.name(), name);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(---\n)?((title|tags|: |\\[|\\]|'|\"|,|#|- |\n|---\n|a|ü){0,40})") {
            if let Ok(file) = KnowledgeFile::parse(&text) {
                prop_assert!(!file.title.trim().is_empty() && !file.tags.is_empty());
            }
        }

        #[test]
        fn any_entry_is_the_same_after_writing_and_reading(title in "\\PC{1,40}", tags in proptest::collection::vec("[a-zß\"', :#\\[\\]-]{1,12}", 1..5), body in "[a-z#\\n -]{0,200}") {
            let file = KnowledgeFile {
                title: title.clone(),
                tags: tags.iter().map(|tag| tag.trim().to_lowercase()).filter(|tag| !tag.is_empty()).collect(),
                feature: Some("f".to_owned()),
                created_at: Some(OffsetDateTime::UNIX_EPOCH),
                body: body.trim_start_matches('\n').trim_end().to_owned(),
            };
            prop_assume!(!title.trim().is_empty() && !file.tags.is_empty());
            let text = file.text();
            let again = KnowledgeFile::parse(&text).unwrap();
            prop_assert_eq!(&again, &file);
            prop_assert_eq!(again.text(), text);
        }
    }
}
