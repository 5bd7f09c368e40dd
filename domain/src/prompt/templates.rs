//! The templates: part of the program, each replaceable by a file of the same name in a user's folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value, context};
use ralph_shared::file;
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::SigilName;

/// Starts a part of a template file; the part's name follows.
const PART: &str = "=== ";

/// File name without `.md`, and content.
const BUILT_IN: [(&str, &str); 21] = [
    ("spec.frame", include_str!("templates/spec.frame.md")),
    ("plan.frame", include_str!("templates/plan.frame.md")),
    ("build.frame", include_str!("templates/build.frame.md")),
    ("work.frame", include_str!("templates/work.frame.md")),
    ("verify.frame", include_str!("templates/verify.frame.md")),
    ("review.frame", include_str!("templates/review.frame.md")),
    ("distill.frame", include_str!("templates/distill.frame.md")),
    ("task", include_str!("templates/task.md")),
    ("distill", include_str!("templates/distill.md")),
    ("attempts", include_str!("templates/attempts.md")),
    ("session", include_str!("templates/session.md")),
    ("learnings", include_str!("templates/learnings.md")),
    ("status", include_str!("templates/status.md")),
    ("journal", include_str!("templates/journal.md")),
    ("knowledge", include_str!("templates/knowledge.md")),
    ("standing", include_str!("templates/standing.md")),
    ("graph", include_str!("templates/graph.md")),
    ("own_tasks", include_str!("templates/own_tasks.md")),
    ("after_exit", include_str!("templates/after_exit.md")),
    ("people", include_str!("templates/people.md")),
    ("chat", include_str!("templates/chat.md")),
];

#[derive(Debug)]
pub struct Templates {
    env: Environment<'static>,
    frames: BTreeMap<&'static str, String>,
    /// Parts without values, such as headings.
    constant: BTreeMap<String, String>,
}

/// An unusable folder of templates.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error(
        "the prompt template {path} can't be read; make it readable or remove it to use the built-in one"
    )]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the prompt template {name} is invalid; correct it or remove it to use the built-in one")]
    Invalid {
        name: String,
        #[source]
        source: minijinja::Error,
    },
    #[error("the prompt template {name} has no part `{part}`; add a line `=== {part}` with its text below")]
    Incomplete { name: String, part: String },
}

/// Instructions of prompts besides the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptOptions {
    /// Whether a session keeps CLAUDE.md, AGENTS.md and skills up to date.
    pub agent_files: bool,
    /// Maximum number of learnings and knowledge entries from one attempt, together.
    pub kept_entries: usize,
    /// Whether a person may answer a question while its session waits.
    pub people: bool,
}

impl Default for PromptOptions {
    fn default() -> Self {
        Self {
            agent_files: false,
            kept_entries: 5,
            people: true,
        }
    }
}

impl Templates {
    pub fn built_in() -> Arc<Self> {
        static TEMPLATES: LazyLock<Arc<Templates>> = LazyLock::new(|| {
            #[allow(clippy::expect_used)]
            let templates = Templates::load(None, PromptOptions::default())
                .expect("the templates are part of the program and tested");
            Arc::new(templates)
        });
        Arc::clone(&TEMPLATES)
    }

    /// The built-in templates, replaced by files of the same names in `folder`.
    ///
    /// # Errors
    /// If one of these files is unreadable, does not parse, or lacks a part.
    pub fn load(folder: Option<&Path>, asks: PromptOptions) -> Result<Self, TemplateError> {
        let mut env = Environment::new();
        let mut constant = BTreeMap::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        env.set_syntax(syntax.map_err(invalid("syntax"))?);
        for (name, built_in) in BUILT_IN {
            let own = folder
                .map(|folder| read(&folder.join(format!("{name}.md"))))
                .transpose()?
                .flatten();
            let source = own.as_deref().unwrap_or(built_in);
            let given = parts(source);
            for (part, _) in parts(built_in) {
                if !given.iter().any(|(other, _)| *other == part) {
                    return Err(TemplateError::Incomplete {
                        name: name.to_owned(),
                        part: part.to_owned(),
                    });
                }
            }
            for (part, text) in given {
                let key = if part.is_empty() {
                    name.to_owned()
                } else {
                    format!("{name}/{part}")
                };
                if !text.contains("{{") && !text.contains("{%") && !text.contains("{#") {
                    constant.insert(key.clone(), text.trim_matches('\n').to_owned());
                }
                env.add_template_owned(key.clone(), text.to_owned())
                    .map_err(invalid(&key))?;
            }
        }
        Ok(Self {
            frames: frames(&env, asks)?,
            env,
            constant,
        })
    }

    /// The frame of a kind's prompts.
    pub(super) fn frame(&self, kind: SessionKind) -> &str {
        let name = match kind {
            SessionKind::Spec => "spec.frame",
            SessionKind::Plan => "plan.frame",
            SessionKind::Build => "build.frame",
            SessionKind::Review => "review.frame",
            SessionKind::Verify => "verify.frame",
            SessionKind::Distill => "distill.frame",
            _ => "work.frame",
        };
        self.frames.get(name).map(String::as_str).unwrap_or_default()
    }

    /// One part of a template, without surrounding blank lines. A part that fails is logged and empty.
    pub(super) fn part(&self, name: &str, values: Value) -> String {
        if let Some(text) = self.constant.get(name) {
            return text.clone();
        }
        let rendered = self
            .env
            .get_template(name)
            .and_then(|template| template.render(values));
        match rendered {
            Ok(text) => text.trim_matches('\n').to_owned(),
            Err(error) => {
                tracing::error!(%error, name, "prompt template failed");
                String::new()
            }
        }
    }
}

/// The constant part of each kind's prompts.
fn frames(
    env: &Environment<'_>,
    asks: PromptOptions,
) -> Result<BTreeMap<&'static str, String>, TemplateError> {
    let sigils: BTreeMap<&str, &str> = SigilName::ALL
        .iter()
        .map(|name| (name.into_str(), name.form()))
        .collect();
    let mut frames = BTreeMap::new();
    for name in BUILT_IN
        .map(|(name, _)| name)
        .into_iter()
        .filter(|name| name.ends_with(".frame"))
    {
        let frame = env
            .get_template(name)
            .and_then(|template| template.render(context! { sigil => &sigils, agent_files => asks.agent_files, kept_entries => asks.kept_entries, people => asks.people }))
            .map_err(invalid(name))?;
        frames.insert(name, frame);
    }
    Ok(frames)
}

fn invalid(name: &str) -> impl FnOnce(minijinja::Error) -> TemplateError + use<> {
    let name = name.to_owned();
    move |source| TemplateError::Invalid { name, source }
}

fn read(path: &Path) -> Result<Option<String>, TemplateError> {
    match file::read_text(path, file::SMALL_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TemplateError::Unreadable {
            path: path.to_owned(),
            source,
        }),
    }
}

/// The parts of a file, or the whole file as one part without a name.
fn parts(source: &str) -> Vec<(&str, &str)> {
    if !source.starts_with(PART) {
        return vec![("", source)];
    }
    source
        .split("\n=== ")
        .map(|part| {
            let part = part.strip_prefix(PART).unwrap_or(part);
            part.split_once('\n').unwrap_or((part, ""))
        })
        .map(|(name, text)| (name.trim(), text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_replaces_templates_and_errors_name_missing_parts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("learnings.md");
        std::fs::write(&path, "=== head\n### Lessons\n=== learning\n* {{ text }}\n").unwrap();
        let templates = Templates::load(Some(folder.path()), PromptOptions::default()).unwrap();
        assert_eq!(templates.part("learnings/head", context! {}), "### Lessons");
        assert_eq!(
            templates.part("learnings/learning", context! { text => "x" }),
            "* x"
        );

        std::fs::write(&path, "=== head\n### Lessons\n").unwrap();
        let error = Templates::load(Some(folder.path()), PromptOptions::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the prompt template learnings has no part `learning`; add a line `=== learning` with its text below"
        );
        std::fs::write(&path, "=== head\n{% if %}\n=== learning\n").unwrap();
        assert!(matches!(
            Templates::load(Some(folder.path()), PromptOptions::default()),
            Err(TemplateError::Invalid { name, .. }) if name == "learnings/head"
        ));
    }
}
