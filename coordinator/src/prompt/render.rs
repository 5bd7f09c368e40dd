//! One render function of plain values. A prompt has two parts: the frame, which is the same for all prompts of its kind
//! and stored once, and the body, which is this dispatch's own.

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, context};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::defuse;

use crate::domain::run::Run;
use crate::domain::states::{Kind, Outcome};
use crate::domain::strategy::Choice;
use crate::store::context::{Earlier, JournalEntry, Prerequisite, TaskFacts};

/// A spec or plan longer than this is cut in the prompt (SPEC 6.1). Characters.
const REFERENCE_CHARS: usize = 30_000;
/// Longest summary of a prerequisite. Characters.
const SUMMARY_CHARS: usize = 600;
/// Longest text of a journal entry. Characters.
const JOURNAL_CHARS: usize = 2_000;

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    #[allow(clippy::expect_used)]
    env.set_syntax(syntax.expect("the default delimiters are valid"));
    for (name, source) in [
        ("work.frame", include_str!("templates/work.frame.md")),
        ("work", include_str!("templates/work.md")),
        ("verify.frame", include_str!("templates/verify.frame.md")),
        ("verify", include_str!("templates/verify.md")),
    ] {
        #[allow(clippy::expect_used)]
        env.add_template(name, source)
            .expect("the templates are part of the program and tested");
    }
    env
});

/// What a prompt is made of.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Known<'a> {
    pub task: &'a TaskFacts,
    pub run: &'a Run,
    pub kind: SessionKind,
    pub attempt: i32,
    pub model: Option<&'a Choice>,
    pub prerequisites: &'a [&'a Prerequisite],
    pub earlier: &'a [&'a Earlier],
    pub journal: &'a [&'a JournalEntry],
}

/// A rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Instructions, the same for all prompts of the kind.
    pub frame: String,
    /// This dispatch's own part.
    pub body: String,
}

/// Stands between the frame's two halves.
const SPLIT: &str = "\n%%%% body %%%%\n";

impl Prompt {
    /// The text that is sent: the frame around the body.
    pub fn whole(&self) -> String {
        Self::join(&self.frame, &self.body)
    }

    /// Puts a stored frame around a stored body.
    pub fn join(frame: &str, body: &str) -> String {
        match frame.split_once(SPLIT) {
            Some((head, tail)) => format!("{head}\n{body}\n{tail}"),
            None => format!("{frame}\n{body}"),
        }
    }
}

/// Renders the prompt of one dispatch.
pub fn render(known: &Known<'_>) -> Prompt {
    let (frame, body) = match known.kind {
        SessionKind::Verify => ("verify.frame", "verify"),
        _ => ("work.frame", "work"),
    };
    let task = known.task;
    let values = context! {
        id => task.task.to_string(),
        title => task.title.clone(),
        description => task.description.clone(),
        parent => task.parent.as_ref().map(|p| context! { id => p.id.to_string(), title => p.title.clone(), description => cut(&p.description, REFERENCE_CHARS) }),
        prerequisites => known.prerequisites.iter().map(|p| context! {
            id => p.id.to_string(), title => p.title.clone(), skipped => p.skipped,
            summary => p.summary.as_deref().map(|s| cut(&defuse(s), SUMMARY_CHARS)),
        }).collect::<Vec<_>>(),
        feature => task.feature_name.clone(),
        feature_description => cut(&task.feature_description, REFERENCE_CHARS),
        spec => task.spec.as_deref().map(|s| cut(s, REFERENCE_CHARS)),
        plan => task.plan.as_deref().map(|s| cut(s, REFERENCE_CHARS)),
        attempts => attempts(known),
        journal => known.journal.iter().map(|entry| journal_entry(entry)).collect::<Vec<_>>(),
        attempt => known.attempt,
        failures => task.failures,
        max_retries => task.max_retries,
        iteration => known.run.iterations + 1,
        limit => known.run.settings.max_iterations,
        model => known.model.map(|m| m.model.clone()),
        model_reason => known.model.map(|m| m.reason.clone()),
    };
    let render = |name: &str| {
        TEMPLATES
            .get_template(name)
            .and_then(|t| t.render(&values))
            .unwrap_or_else(|error| {
                tracing::error!(%error, name, "prompt template failed");
                format!(
                    "## Assigned Task\n\nID: {}\nTitle: {}\n\n{}\n",
                    task.task, task.title, task.description
                )
            })
    };
    let sources = TEMPLATES
        .get_template(frame)
        .map(|t| t.source().to_owned())
        .unwrap_or_default();
    Prompt {
        frame: sources,
        body: render(body),
    }
}

fn attempts(known: &Known<'_>) -> Vec<minijinja::Value> {
    let work = |e: &&&Earlier| matches!(e.kind, Kind::Work | Kind::Verify | Kind::Integrate);
    known
        .earlier
        .iter()
        .filter(work)
        .filter(|e| !matches!(e.outcome, Outcome::Passed | Outcome::Merged | Outcome::Void))
        .map(|e| {
            let report = e.report.as_ref();
            context! {
                kind => ralph_shared::kind::SessionKind::from(e.kind).as_str(),
                number => e.attempt,
                outcome => e.outcome.as_str(),
                model => e.model.clone(),
                seconds => e.duration_ms.map(|ms| format!("{:.1}", ms as f64 / 1000.0)),
                reason => e.reason.as_deref().map(|r| cut(&defuse(r), JOURNAL_CHARS)),
                feedback => e.feedback.as_deref().map(|f| cut(&defuse(f), JOURNAL_CHARS)),
                branch => e.pushed_ref.as_deref().map(|r| r.trim_start_matches("refs/heads/")),
                tried => report.map(|r| cut(&defuse(&r.what_tried), 500)),
                why => report.map(|r| cut(&defuse(&r.why_failed), 500)),
                category => report.map(|r| r.category.clone()),
                files => report.and_then(|r| r.relevant_files.as_deref()).map(defuse),
                error => report.and_then(|r| r.error_output.as_deref()).map(|t| cut(&defuse(t), JOURNAL_CHARS)),
                extracted => report.is_some_and(|r| r.extracted),
                suggestion => report.and_then(|r| r.retry_suggestion.as_deref()).map(|t| cut(&defuse(t), JOURNAL_CHARS)),
            }
        })
        .collect()
}

fn journal_entry(entry: &JournalEntry) -> minijinja::Value {
    context! {
        task => entry.task.to_string(),
        title => entry.task_title.clone(),
        outcome => entry.outcome.as_str(),
        model => entry.model.clone(),
        seconds => entry.duration_ms.map(|ms| format!("{:.1}", ms as f64 / 1000.0)),
        cost => entry.cost_usd.map(|usd| format!("{usd:.4}")),
        files => entry.files_changed.iter().take(20).cloned().collect::<Vec<_>>().join(", "),
        notes => cut(&defuse(&entry.journal), JOURNAL_CHARS),
    }
}

/// At most `chars` characters, with a word that says so.
fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}\n_(truncated)_", text[..end].trim_end()),
    }
}
