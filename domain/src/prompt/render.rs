//! Renders prompts from plain values.

use minijinja::{Value, context};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{CONTEXT_DIR, TestChange, TestChangeKind};

use super::budget::{Budgets, Section};
use super::sections::{self, Written};
use super::templates::Templates;
use super::text::{assignment, chars, data, item, line, quote};
use super::values::{Conflict, HeldWork, Judged, Memory, Neighbour, Prerequisite, TaskContext};

/// Files of the texts that a prompt cuts, below [`CONTEXT_DIR`].
const SPEC_FILE: &str = "spec.md";
const PLAN_FILE: &str = "plan.md";
const DESCRIPTION_FILE: &str = "description.md";
/// Longest summary of a prerequisite. Characters.
const SUMMARY_CHARS: usize = 600;

/// Most paths of a conflict, and most tasks on its other side, in a prompt.
const CONFLICT_PATHS: usize = 30;
const OTHERS: usize = 5;
/// Most changed files in the prompt of a verifier without a clone.
const DIR_CHANGED: usize = 200;
/// Limits of the lists of neighbours, landed tasks and verdicts: the characters of a title, a path or a
/// reason, and the number of entries.
const TITLE_CHARS: usize = 120;
const NEIGHBOUR_PATHS: usize = 6;
const LANDED: usize = 50;
const VERDICTS: usize = 5;
const VERDICT_CHARS: usize = 500;
/// Longest path that is shown whole. Characters.
const LINE_CHARS: usize = 300;
/// Longest shown description of a task on the other side of a conflict. Characters.
const INTENT_CHARS: usize = 1_500;
/// Longest diff in a prompt, as long as the longest one from a worker.
const DIFF_CHARS: usize = 24_576;

/// Separates the frame's two halves.
const SPLIT: &str = "\n%%%% body %%%%\n";

/// A prompt in its two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Instructions, the same for all prompts of the kind.
    pub frame: String,
    /// This dispatch's own part.
    pub body: String,
}

impl Prompt {
    /// The sent text: the frame around the body.
    pub fn whole(&self) -> String {
        Self::join(&self.frame, &self.body)
    }

    /// Puts a stored frame around a stored body.
    pub fn join(frame: &str, body: &str) -> String {
        match frame.split_once(SPLIT) {
            Some((head, tail)) => format!("{head}\n\n{body}\n\n{tail}"),
            None => format!("{frame}\n\n{body}"),
        }
    }
}

/// Longest feedback on an attempt in its verifier's prompt.
const FEEDBACK_CHARS: usize = 8_000;

/// A prompt with the account of its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    pub prompt: Prompt,
    /// Every possible section, by priority.
    pub account: Vec<SectionAccount>,
}

impl Rendered {
    /// The entries that a section shows, as indices of the given ones.
    pub fn shown(&self, section: Section) -> &[usize] {
        self.account
            .iter()
            .find(|account| account.section == section)
            .map_or(&[], |account| &account.shown)
    }
}

/// The account of a section in a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionAccount {
    pub section: Section,
    pub fate: SectionFate,
    /// Unicode characters in the prompt.
    pub chars: usize,
    /// Unicode characters of its budget.
    pub allowed: usize,
    /// The entries that it shows, as indices of the given ones.
    pub shown: Vec<usize>,
}

/// Whether a section is shown, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionFate {
    Shown,
    /// The section has no content.
    Empty,
    /// The rest of the budget is below its minimum, or no part of it fits.
    NoRoom,
}

impl SectionFate {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::Empty => "empty",
            Self::NoRoom => "no room",
        }
    }
}

/// Renders the prompt of one session. `memory` is `None` for a session or a feature without memory (SPEC 5).
pub fn render(
    templates: &Templates,
    budgets: &Budgets,
    kind: SessionKind,
    task: &TaskContext,
    memory: Option<&Memory>,
    judged: Option<&Judged>,
) -> Rendered {
    let mut blocks = vec![assigned(templates, budgets, kind, task, judged)];
    blocks.extend(
        task.merging
            .as_ref()
            .map(|merging| sections::distill(templates, merging)),
    );
    let mut account = Vec::new();
    if let Some(memory) = memory {
        let mut written = written(templates, budgets, task, memory, &mut account);
        blocks.extend(Section::BY_PLACE.iter().filter_map(|section| {
            let at = written.iter().position(|(other, _)| other == section)?;
            Some(written.swap_remove(at).1.text)
        }));
    }
    Rendered {
        prompt: Prompt {
            frame: templates.frame(kind).to_owned(),
            body: blocks.join("\n\n"),
        },
        account,
    }
}

/// The sections by priority, each with the budget that earlier ones left.
fn written(
    templates: &Templates,
    budgets: &Budgets,
    task: &TaskContext,
    memory: &Memory,
    account: &mut Vec<SectionAccount>,
) -> Vec<(Section, Written)> {
    let mut left = budgets.total;
    let mut written: Vec<(Section, Written)> = Vec::new();
    for section in Section::BY_PRIORITY {
        let allowed = budgets.allow(section, left);
        let write = |allowed: usize| match section {
            Section::PreviousAttempts => sections::attempts(templates, memory, allowed),
            Section::SessionMemory => sections::session(templates, &memory.session, &task.id, allowed),
            Section::Learnings => sections::learnings(templates, &memory.learnings, allowed),
            Section::Knowledge => sections::knowledge(templates, &memory.knowledge, allowed),
            Section::Journal => sections::journal(templates, &memory.journal, allowed),
            Section::LoopStatus if written.is_empty() => None,
            Section::LoopStatus => {
                let status = memory.status.as_ref()?;
                sections::status(templates, status, memory.attempt, allowed)
            }
        };
        let text = allowed.and_then(write);
        // A section without content needs no room.
        let has_content = text.is_some() || write(usize::MAX).is_some();
        let taken = text.as_ref().map_or(0, |written| chars(&written.text));
        left -= taken;
        account.push(SectionAccount {
            section,
            fate: match (&text, has_content) {
                (Some(_), _) => SectionFate::Shown,
                (None, true) => SectionFate::NoRoom,
                (None, false) => SectionFate::Empty,
            },
            chars: taken,
            allowed: allowed.unwrap_or(0),
            shown: text
                .as_ref()
                .map(|written| written.shown.clone())
                .unwrap_or_default(),
        });
        written.extend(text.map(|text| (section, text)));
    }
    written
}

/// The texts that a prompt cuts, with the names of their files.
pub fn overlong<'t>(task: &'t TaskContext, budgets: &Budgets) -> Vec<(&'static str, &'t str)> {
    let texts = [
        (DESCRIPTION_FILE, Some(task.feature_description.as_str())),
        (SPEC_FILE, task.spec.as_deref()),
        (PLAN_FILE, task.plan.as_deref()),
    ];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
    texts
        .filter(|(_, text)| chars(text) > budgets.reference)
        .collect()
}

fn assigned(
    templates: &Templates,
    budgets: &Budgets,
    kind: SessionKind,
    task: &TaskContext,
    judged: Option<&Judged>,
) -> String {
    let reference = |text: &str| quote(text, budgets.reference);
    let title = |text: &str| line(text, usize::MAX);
    let overlong = overlong(task, budgets);
    let file = |name: &str| {
        let found = overlong.iter().find(|(other, _)| *other == name);
        found.map(|(name, _)| format!("{CONTEXT_DIR}/{name}"))
    };
    templates.part(
        "task",
        context! {
            id => task.id.as_str(),
            title => title(&task.title),
            description => assignment(&task.description),
            parent => task.parent.as_ref().map(|parent| context! {
                id => parent.id.as_str(),
                title => title(&parent.title),
                description => reference(&parent.description),
            }),
            prerequisites => task.prerequisites.iter().map(prerequisite).collect::<Vec<_>>(),
            more_prerequisites => task.more_prerequisites,
            conflict => task.conflict.as_ref().map(conflict),
            feature => title(&task.feature),
            feature_description => reference(&task.feature_description),
            spec => task.spec.as_deref().map(reference),
            plan => task.plan.as_deref().map(reference),
            feature_description_file => file(DESCRIPTION_FILE),
            spec_file => file(SPEC_FILE),
            plan_file => file(PLAN_FILE),
            judged => judged.map(attempt),
            dir_changed => task.dir_changed.iter().take(DIR_CHANGED).map(|path| listed(path)).collect::<Vec<_>>(),
            dir => task.dir.as_deref().map(|dir| line(dir, usize::MAX)),
            said => task.feedback.as_deref().map(|text| item(text, FEEDBACK_CHARS)),
            gate => match kind {
                SessionKind::Work | SessionKind::Verify => task.gate.iter().map(|command| line(command, usize::MAX)).collect(),
                _ => Vec::new(),
            },
            gate_fails => task.gate_fails,
            is_verified => task.is_verified && kind == SessionKind::Work,
            branch => task.branch.as_deref().filter(|_| kind == SessionKind::Work).map(|branch| line(branch, LINE_CHARS)),
            holds => task.holds.as_ref().filter(|_| kind == SessionKind::Work).map(held_work),
            neighbours => match kind {
                SessionKind::Work => task.neighbours.iter().map(neighbour).collect(),
                _ => Vec::new(),
            },
            landed => match kind {
                SessionKind::Review => task.landed.iter().take(LANDED).map(|title| line(title, TITLE_CHARS)).collect(),
                _ => Vec::new(),
            },
            more_landed => task.landed.len().saturating_sub(LANDED),
            reviewed => (kind == SessionKind::Review).then_some(task.base.as_deref()).flatten(),
        },
    )
}

fn prerequisite(blocker: &Prerequisite) -> Value {
    context! {
        id => blocker.id.as_str(),
        title => line(&blocker.title, usize::MAX),
        skipped => blocker.skipped,
        summary => blocker.summary.as_deref().map(|text| item(text, SUMMARY_CHARS)),
    }
}

fn conflict(conflict: &Conflict) -> Value {
    context! {
        paths => conflict.paths.iter().take(CONFLICT_PATHS).map(|path| listed(path)).collect::<Vec<_>>(),
        more => conflict.paths.len().saturating_sub(CONFLICT_PATHS),
        others => conflict.others.iter().take(OTHERS).map(|other| context! {
            id => other.id.as_str(),
            title => line(&other.title, usize::MAX),
            description => item(&other.description, INTENT_CHARS),
            summary => other.summary.as_deref().map(|text| item(text, SUMMARY_CHARS)),
        }).collect::<Vec<_>>(),
    }
}

fn held_work(held: &HeldWork) -> Value {
    context! {
        task => line(&held.task, LINE_CHARS),
        attempt => line(&held.attempt, LINE_CHARS),
    }
}

fn neighbour(neighbour: &Neighbour) -> Value {
    let paths = neighbour.paths.iter().take(NEIGHBOUR_PATHS);
    let paths: Vec<String> = paths.map(|path| line(path, TITLE_CHARS)).collect();
    context! {
        id => neighbour.id.as_str(),
        title => line(&neighbour.title, TITLE_CHARS),
        relation => neighbour.relation.into_str(),
        paths => paths.join(", "),
    }
}

/// A path at the start of a list entry, which cannot become a heading.
fn listed(path: &str) -> String {
    let path = line(path, LINE_CHARS);
    if path.starts_with('#') {
        format!("\\{path}")
    } else {
        path
    }
}

/// The attempt in its verifier's prompt.
fn attempt(judged: &Judged) -> Value {
    let change = judged.change.as_ref();
    context! {
        attempt => judged.attempt,
        said => judged.feedback.as_deref().map(|text| item(text, FEEDBACK_CHARS)),
        doubt => judged.doubt.as_deref().map(|text| line(text, LINE_CHARS)),
        verdicts => judged.verdicts.iter().rev().take(VERDICTS).rev().map(|verdict| context! {
            attempt => verdict.attempt,
            by_gate => verdict.by_gate,
            reason => item(&verdict.reason, VERDICT_CHARS),
        }).collect::<Vec<_>>(),
        nothing => change.is_some_and(|change| change.diff.is_empty() && !change.diff_cut),
        base => change.map(|change| line(&change.base, LINE_CHARS)),
        diff => change.map(|change| data(&change.diff, DIFF_CHARS)).filter(|diff| !diff.is_empty()),
        diff_cut => change.is_some_and(|change| change.diff_cut || chars(&change.diff) > DIFF_CHARS),
        tests => change.map(|change| change.tests.iter().map(test_change).collect::<Vec<_>>()),
        tests_more => change.map_or(0, |change| change.tests_more),
        tests_unread => change.is_some_and(|change| change.tests_unread),
    }
}

fn test_change(change: &TestChange) -> Value {
    let lines: Vec<String> = change.lines.iter().map(|text| line(text, LINE_CHARS)).collect();
    context! {
        path => listed(&change.path),
        what => change.kind.as_str(),
        sign => match change.kind {
            TestChangeKind::Configuration
            | TestChangeKind::Checks
            | TestChangeKind::Bulk
            | TestChangeKind::Skipped => "+",
            _ => "-",
        },
        lines => lines.iter().map(|line| line.replace("```", "'''")).collect::<Vec<_>>(),
        more => change.more,
    }
}
