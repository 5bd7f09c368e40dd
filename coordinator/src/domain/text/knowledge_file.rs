//! Knowledge files: Markdown with YAML front matter, one entry a file (SPEC 6.5). What was written here and read again is
//! written the same, byte for byte.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Longest slug. Characters.
const SLUG_CHARS: usize = 80;
const MARK: &str = "---";

/// A knowledge entry as a file holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeFile {
    pub title: String,
    /// At least one, in lower case.
    pub tags: Vec<String>,
    pub feature: Option<String>,
    pub created_at: Option<OffsetDateTime>,
    pub body: String,
}

/// Why a file is no knowledge entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoKnowledge {
    /// It doesn't begin with front matter.
    #[error("it has no front matter; begin it with `---`, title, tags, `---`")]
    NoFrontMatter,
    /// A line of the front matter can't be read.
    #[error("line {line} of its front matter can't be read: {text}")]
    Line {
        /// From 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    #[error("it has no title; add `title: \"…\"` to its front matter")]
    NoTitle,
    #[error("it has no tags; add `tags: [one, two]` to its front matter")]
    NoTags,
}

impl KnowledgeFile {
    /// Reads a file.
    ///
    /// # Errors
    /// When it has no readable front matter, no title or no tag.
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
        let mut in_tags = false;
        for (number, line) in front.lines().enumerate() {
            let unreadable = || NoKnowledge::Line {
                line: number + 2,
                text: line.chars().take(80).collect(),
            };
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            if in_tags && let Some(tag) = line.trim_start().strip_prefix("- ") {
                file.tags.push(scalar(tag).ok_or_else(unreadable)?.to_lowercase());
                continue;
            }
            let (key, value) = line.split_once(':').ok_or_else(unreadable)?;
            let value = value.trim();
            in_tags = key == "tags" && value.is_empty();
            match key.trim() {
                "title" => file.title = scalar(value).ok_or_else(unreadable)?,
                "tags" => file.tags.extend(list(value).ok_or_else(unreadable)?),
                "feature" => {
                    file.feature = Some(scalar(value).ok_or_else(unreadable)?).filter(|name| !name.is_empty())
                }
                "created_at" => {
                    let text = scalar(value).ok_or_else(unreadable)?;
                    file.created_at = OffsetDateTime::parse(&text, &Rfc3339).ok();
                }
                // Others' fields are passed over.
                _ => {}
            }
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

    /// The file's text.
    pub fn text(&self) -> String {
        // As it is read: entries that somebody gave may hold other blanks, line ends and tags.
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

/// A YAML scalar: quoted in one of the two ways, or plain with a comment cut off.
fn scalar(text: &str) -> Option<String> {
    let text = text.trim();
    if text.starts_with('"') {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
        return values.next()?.ok();
    }
    if let Some(rest) = text.strip_prefix('\'') {
        return Some(rest.strip_suffix('\'')?.replace("''", "'"));
    }
    Some(text.split(" #").next().unwrap_or_default().trim().to_owned())
}

/// A flow list, or a line of words with commas between them. In lower case.
fn list(text: &str) -> Option<Vec<String>> {
    let inside = match text.strip_prefix('[') {
        Some(rest) => rest[..rest.rfind(']')?].trim_end(),
        None => text,
    };
    let mut items = Vec::new();
    let mut rest = inside.trim();
    while !rest.is_empty() {
        let close = match rest.as_bytes()[0] {
            b'"' => {
                let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                values.next()?.ok()?;
                values.byte_offset()
            }
            b'\'' => rest[1..].find('\'')? + 2,
            _ => 0,
        };
        let end = rest[close..].find(',').map_or(rest.len(), |at| close + at);
        items.push(scalar(&rest[..end])?.to_lowercase());
        rest = rest[end..].trim_start_matches(',').trim_start();
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEED: &str = "---\ntitle: \"Cargo bench requires nightly\"\ntags: [testing, cargo, nightly]\nfeature: \
                        \"perf-optimization\"\ncreated_at: \"2026-02-17T12:00:00Z\"\n---\n\nRunning `cargo bench` \
                        requires nightly.\n\n---\nSee the book.\n";

    #[test]
    fn a_file_survives_byte_for_byte() {
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
    fn what_somebody_gave_otherwise_is_written_as_it_is_read() {
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
    fn what_is_missing_is_said() {
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
        fn any_entry_survives(title in "\\PC{1,40}", tags in proptest::collection::vec("[a-zß\"', :#\\[\\]-]{1,12}", 1..5), body in "[a-z#\\n -]{0,200}") {
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
