//! Reads the memory for a whole batch of claims and arranges it for each prompt (SPEC 6).

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use ralph_shared::ids::{DispatchId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::Difficulty;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::recall::{Dropped, Kind as EntryKind, unlike};
use crate::domain::run::Run;
use crate::domain::text::note::NoteKind;
use crate::flow::Settings;
use crate::flow::assignment::attempts::attempts;
use crate::flow::claim::opened::Opened;
use crate::flow::memory::layout::PromptMemory;
use crate::flow::memory::questions::{Asking, Recalled, recall};
use crate::flow::memory::select::{SelectedEntry, Selection, prompt_limit};
use crate::flow::memory::wording::{journal_entry, knowledge, learning, own_provenance, provenance, status};
use crate::prompt;
use crate::store;
use crate::store::dispatch::context::{Prerequisite, TaskFacts};
use crate::store::dispatch::earlier::{Earlier, JournalEntry};
use crate::store::memory::{Note, Own};

/// Journal entries of a run that are read (SPEC 6.5).
const JOURNAL_READ: i64 = 10;
/// Journal entries of this run in a prompt (SPEC 6.5).
const JOURNAL_SHOWN: usize = 5;
/// Omitted entries that are stored with their reason, for each kind.
const MAX_OMITTED: usize = 5;
/// Entries of the task itself in a prompt, for each kind.
const OWN_SHOWN: usize = 5;

/// The memory of a batch of claims.
#[derive(Debug, Default)]
pub(in crate::flow) struct Remembered {
    earlier: Vec<Earlier>,
    journal: Vec<Journaled>,
    notes: Vec<Note>,
    own: Vec<Own>,
    recalled: HashMap<DispatchId, Recalled>,
    max_entries: usize,
    /// Failures in a row that make a task stuck; 0 is never.
    stuck_threshold: i16,
}

/// The recalled entry behind a text, and its score; `None` for other texts.
type Recollected = Option<(Uuid, f64)>;

/// A journal entry of the batch, shared by the prompts that show it.
#[derive(Debug)]
struct Journaled {
    entry: JournalEntry,
    /// Rendered as an entry of this run.
    here: OnceLock<Arc<prompt::SharedEntry>>,
    /// Rendered as an entry of an earlier run.
    earlier: OnceLock<Arc<prompt::SharedEntry>>,
}

impl Journaled {
    fn new(entry: JournalEntry) -> Self {
        Self {
            entry,
            here: OnceLock::new(),
            earlier: OnceLock::new(),
        }
    }

    /// The entry as `task` may see it. Until its own task is done, only that task sees the agent's text.
    fn here(&self, task: TaskId) -> Arc<prompt::SharedEntry> {
        let entry = &self.entry;
        let shown = |notes: &str| prompt::JournalEntry {
            step: (entry.kind != SessionKind::Work).then(|| entry.kind.into_str().to_owned()),
            notes: notes.to_owned(),
            ..journal_entry(entry, entry.iteration)
        };
        if entry.task == task && !entry.verified {
            return shown(&entry.journal).into();
        }
        let notes = if entry.verified {
            entry.journal.as_str()
        } else {
            ""
        };
        Arc::clone(self.here.get_or_init(|| shown(notes).into()))
    }

    fn earlier(&self) -> Arc<prompt::SharedEntry> {
        let entry = &self.entry;
        let shown = || {
            let shown = prompt::JournalEntry {
                notes: if entry.verified {
                    entry.journal.clone()
                } else {
                    String::new()
                },
                // Other sections show the failures of this run.
                failure: entry.failure.clone().filter(|_| entry.verified),
                ..journal_entry(entry, None)
            };
            shown.into()
        };
        Arc::clone(self.earlier.get_or_init(shown))
    }
}

/// An entry that a prompt may show: the task's own, or a recalled one.
enum ShownEntry<'a> {
    Own(&'a Own),
    Recalled(&'a SelectedEntry),
}

impl ShownEntry<'_> {
    /// Its id and its score; the task's own entries have none.
    fn scored(&self) -> (Uuid, f64) {
        match self {
            Self::Own(own) => (own.id, 0.0),
            Self::Recalled(one) => (one.entry.id, one.score),
        }
    }

    fn learning(&self, now: OffsetDateTime) -> prompt::Learning {
        match self {
            Self::Own(own) => learning(own_provenance(own, now), &own.head, "", &own.body),
            Self::Recalled(SelectedEntry { entry, .. }) => {
                learning(provenance(entry, now), &entry.category, &entry.title, &entry.body)
            }
        }
    }

    fn knowledge(&self, now: OffsetDateTime) -> prompt::Knowledge {
        match self {
            Self::Own(own) => knowledge(own_provenance(own, now), &own.head, &own.body),
            Self::Recalled(SelectedEntry { entry, .. }) => {
                knowledge(provenance(entry, now), &entry.title, &entry.body)
            }
        }
    }

    /// The text by which near-duplicates are found.
    fn text(&self) -> String {
        match self {
            Self::Own(own) if own.is_knowledge => format!("{} {}", own.head, own.body),
            Self::Own(own) => own.body.clone(),
            Self::Recalled(one) => format!("{} {}", one.entry.title, one.entry.body),
        }
    }
}

/// The task's own entries, then recalled ones: none twice, and together no more than a prompt may show (SPEC
/// 6.5). Also returns the recalled entries that are crowded out.
fn together<'a>(
    own: impl Iterator<Item = &'a Own>,
    picked: &'a Selection,
    kind: EntryKind,
) -> (Vec<ShownEntry<'a>>, Vec<(&'a SelectedEntry, Dropped)>) {
    let mut shown: Vec<ShownEntry<'a>> = own.map(ShownEntry::Own).collect();
    if shown.is_empty() {
        return (
            picked.shown.iter().map(ShownEntry::Recalled).collect(),
            Vec::new(),
        );
    }
    shown.extend(picked.shown.iter().map(ShownEntry::Recalled));
    let texts: Vec<String> = shown.iter().map(ShownEntry::text).collect();
    let dropped = unlike(texts.iter().map(String::as_str), prompt_limit(kind));
    let (mut kept, mut gone) = (Vec::new(), Vec::new());
    for (one, why) in shown.into_iter().zip(dropped) {
        match (one, why) {
            (one, None) => kept.push(one),
            (ShownEntry::Recalled(one), Some(why)) => gone.push((one, why)),
            (ShownEntry::Own(_), Some(_)) => {}
        }
    }
    (kept, gone)
}

/// The newest journal entries of features and near to tasks, and the recalled ones.
async fn journal(
    conn: &mut PgConnection,
    features: &[Uuid],
    placed: &[Uuid],
    recalled: &HashMap<DispatchId, Recalled>,
) -> sqlx::Result<Vec<JournalEntry>> {
    let mut journal = store::dispatch::earlier::journal(conn, features, placed, JOURNAL_READ, &[]).await?;
    let read: HashSet<Uuid> = journal.iter().map(|entry| entry.dispatch).collect();
    let named: HashSet<Uuid> = recalled
        .values()
        .filter_map(|recalled| recalled.by_kind.get(&EntryKind::Journal))
        .flat_map(|picked| picked.shown.iter().map(|one| one.entry.id))
        .filter(|named| !read.contains(named))
        .collect();
    if !named.is_empty() {
        let named: Vec<Uuid> = named.into_iter().collect();
        journal.extend(store::dispatch::earlier::journal(conn, &[], &[], JOURNAL_READ, &named).await?);
        journal.sort_by_key(|entry| (entry.claimed_at, entry.dispatch));
    }
    Ok(journal)
}

/// Recalled entries that a prompt omits, and why.
fn left_out(recalled: &Recalled, alone: bool) -> impl Iterator<Item = (EntryKind, Uuid, f64, &'static str)> {
    let is_hidden = alone || recalled.is_off;
    let why = match recalled.is_off {
        true => "this memory is switched off, because it made results worse",
        false => "held out to measure what memory is worth",
    };
    recalled.by_kind.iter().flat_map(move |(kind, picked)| {
        let shown = picked.shown.iter().filter(move |_| is_hidden);
        let others = picked.left_out.iter().map(|(one, why)| (one, why.as_str()));
        shown
            .map(move |one| (one, why))
            .chain(others)
            .take(MAX_OMITTED)
            .map(|(one, why)| (*kind, one.entry.id, one.score, why))
    })
}

/// Whether its prompt shows other tasks' memory. A session that merges learnings gets only these.
pub(in crate::flow) fn remembers(dispatch: &Opened) -> bool {
    let begins = dispatch.kind.begins_attempt() && dispatch.kind.has_agent();
    begins && dispatch.kind != SessionKind::Distill
}

impl Remembered {
    /// Reads the memory of a batch. `prerequisites` are the blockers of the tasks.
    pub(in crate::flow) async fn read(
        conn: &mut PgConnection,
        settings: &Settings,
        opened: &[Opened],
        tasks: &[TaskFacts],
        prerequisites: &[Prerequisite],
    ) -> sqlx::Result<Self> {
        let working: Vec<&Opened> = opened.iter().filter(|d| remembers(d)).collect();
        if working.is_empty() {
            return Ok(Self::default());
        }
        let again: Vec<Uuid> = working
            .iter()
            .filter(|d| d.attempt > 1)
            .map(|d| d.task.0)
            .collect();
        let (earlier, own) = if again.is_empty() {
            (Vec::new(), Vec::new())
        } else {
            let earlier = store::dispatch::earlier::earlier(conn, &again).await?;
            (earlier, store::memory::own(conn, &again).await?)
        };
        let ids: HashSet<TaskId> = working.iter().map(|d| d.task).collect();
        let tasks: Vec<&TaskFacts> = tasks.iter().filter(|task| ids.contains(&task.task)).collect();
        let mut features: Vec<Uuid> = tasks.iter().map(|task| task.feature.0).collect();
        features.sort_unstable();
        features.dedup();
        let task_ids: Vec<Uuid> = tasks.iter().map(|task| task.task.0).collect();
        // Only tasks with a parent or blockers have near relatives.
        let blocked: HashSet<TaskId> = prerequisites.iter().map(|blocker| blocker.of).collect();
        let placed = tasks
            .iter()
            .filter(|task| task.parent.is_some() || blocked.contains(&task.task));
        let placed: Vec<Uuid> = placed.map(|task| task.task.0).collect();
        let fresh = store::memory::postings::fresh(conn, &settings.tail).await?;
        let asking = Asking {
            settings,
            working: &working,
            tasks: &tasks,
            earlier: &earlier,
            fresh: &fresh,
        };
        let recalled = recall(conn, asking).await?;
        let most = settings.max_entries;
        let notes = store::memory::notes(conn, &features, &task_ids, most).await?;
        let journal = journal(conn, &features, &placed, &recalled).await?;
        Ok(Self {
            earlier,
            journal: journal.into_iter().map(Journaled::new).collect(),
            notes,
            own,
            recalled,
            max_entries: most,
            stuck_threshold: settings.stuck_threshold,
        })
    }

    /// Arranges the memory of one prompt. A held-out attempt gets nothing that other tasks left for the
    /// memory: no recalled entries, no failures, decisions and facts, no journal. Its assignment is not
    /// memory: the texts of its feature and its parent, and the summaries of its blockers.
    pub(in crate::flow) fn of(&self, task: &TaskFacts, run: &Run, dispatch: &Opened) -> PromptMemory {
        let earlier: Vec<&Earlier> = self.earlier.iter().filter(|e| e.task == task.task).collect();
        let nothing = Recalled::default();
        let recalled = self.recalled.get(&dispatch.dispatch).unwrap_or(&nothing);
        // Only with entries to hold out; otherwise the attempts would not compare.
        let asked = recalled.by_kind.values().any(|picked| picked.confidence != 0.0);
        let alone = asked && recalled.held_out && !recalled.is_off;
        let own = |knowledge: bool| {
            let mine = move |own: &&Own| own.task == task.task.0 && own.is_knowledge == knowledge;
            self.own.iter().filter(mine).take(OWN_SHOWN)
        };
        let none = Selection::default();
        let picked = |kind| {
            let picked = recalled.by_kind.get(&kind).unwrap_or(&none);
            if alone || recalled.is_off { &none } else { picked }
        };
        let (learnings, like_learnings) =
            together(own(false), picked(EntryKind::Learning), EntryKind::Learning);
        let (knowledge, like_knowledge) =
            together(own(true), picked(EntryKind::Knowledge), EntryKind::Knowledge);
        let (journal, behind_journal) = self.journal(task, run, alone, picked(EntryKind::Journal));
        let attempts = attempts(&earlier);
        let now = OffsetDateTime::now_utc();
        let memory = prompt::Memory {
            attempt: dispatch.attempt,
            older_attempts: older_attempts(&earlier, attempts.len()),
            status: Some(status(task, run, dispatch, self.stuck_threshold, &attempts)),
            attempts,
            siblings: if alone { Vec::new() } else { self.siblings(task) },
            session: self.session(task, &earlier, alone),
            learnings: learnings.iter().map(|one| one.learning(now)).collect(),
            journal,
            knowledge: knowledge.iter().map(|one| one.knowledge(now)).collect(),
        };
        let like_own = [
            (EntryKind::Learning, like_learnings),
            (EntryKind::Knowledge, like_knowledge),
        ];
        let like_own = like_own.into_iter().flat_map(|(kind, dropped)| {
            dropped
                .into_iter()
                .map(move |(one, why)| (kind, one.entry.id, one.score, why.as_str()))
        });
        PromptMemory {
            dispatch: dispatch.dispatch,
            learnings: learnings.iter().map(|one| Some(one.scored())).collect(),
            knowledge: knowledge.iter().map(|one| Some(one.scored())).collect(),
            journal: behind_journal,
            left_out: like_own.chain(left_out(recalled, alone)).collect(),
            trial: (asked && !recalled.is_off).then(|| (recalled.repo_id.clone(), alone)),
            memory,
        }
    }

    /// Journals of this run, those of blockers and ancestors first, then the newest; then similar ones of
    /// earlier runs.
    fn journal(
        &self,
        task: &TaskFacts,
        run: &Run,
        alone: bool,
        picked: &Selection,
    ) -> (Vec<Arc<prompt::SharedEntry>>, Vec<Recollected>) {
        let of_run = |one: &&Journaled| {
            let entry = &one.entry;
            entry.feature == task.feature && entry.run == run.id.0 && (!alone || entry.task == task.task)
        };
        let mut here: Vec<&Journaled> = self.journal.iter().filter(of_run).collect();
        let order = |one: &&Journaled| {
            let is_near = one.entry.near.contains(&task.task.0);
            (!is_near, Reverse(one.entry.dispatch))
        };
        if here.len() > JOURNAL_SHOWN {
            // There may be hundreds, each a relative of some task of the batch.
            here.select_nth_unstable_by_key(JOURNAL_SHOWN, order);
            here.truncate(JOURNAL_SHOWN);
        }
        here.sort_by_key(order);
        let earlier = picked.shown.iter().filter_map(|one| {
            let mut entries = self.journal.iter();
            let found = entries.find(|found| found.entry.dispatch == one.entry.id)?;
            (found.entry.run != run.id.0).then_some((found, one.score))
        });
        let here = here.into_iter().map(|one| (one.here(task.task), None));
        let earlier = earlier.map(|(one, score)| (one.earlier(), Some((one.entry.dispatch, score))));
        here.chain(earlier).unzip()
    }

    /// Failures of siblings until their parent is done; without a parent, of the whole feature (SPEC 6.3).
    fn siblings(&self, task: &TaskFacts) -> Vec<prompt::SiblingFailure> {
        let parent = task.parent.as_ref().map(|parent| parent.id.0);
        self.notes
            .iter()
            .filter(|note| note.kind == NoteKind::Error && note.feature == task.feature.0)
            .filter(|note| note.task != Some(task.task.0) && (parent.is_none() || note.parent == parent))
            .map(|note| prompt::SiblingFailure {
                task: note.task.map(|id| TaskId(id).to_string()).unwrap_or_default(),
                title: note.task_title.clone().unwrap_or_default(),
                category: note.category.clone().unwrap_or_default(),
                ended_at: note.ended_at,
                ..failure(note)
            })
            .collect()
    }

    /// Omits errors of the task itself and of its siblings, which the previous attempts show.
    fn session(&self, task: &TaskFacts, earlier: &[&Earlier], alone: bool) -> prompt::SessionMemory {
        let parent = task.parent.as_ref().map(|parent| parent.id.0);
        let is_own = |note: &Note| note.task == Some(task.task.0);
        let is_elsewhere = |note: &Note| is_own(note) || parent.is_none() || note.parent == parent;
        let notes: Vec<&Note> = self
            .notes
            .iter()
            .filter(|n| n.feature == task.feature.0 && (!alone || is_own(n)))
            .collect();
        let is_shown = |note: &Note| is_own(note) || note.verified;
        let own = |kind: NoteKind| -> Vec<String> {
            let mine = notes.iter().filter(|n| n.kind == kind && is_own(n));
            distinct(mine.map(|n| n.body.clone()))
        };
        let completed = own(NoteKind::StepDone);
        let pending = own(NoteKind::StepPending)
            .into_iter()
            .filter(|step| !completed.iter().any(|done| same(done, step)))
            .collect();
        let mut files = own(NoteKind::FileModified);
        files.extend(earlier.iter().flat_map(|e| e.files_changed.iter().cloned()));
        let kept: Vec<&&Note> = notes
            .iter()
            .filter(|n| matches!(n.kind, NoteKind::Decision | NoteKind::Error) && !n.resolved)
            .collect();
        let kept = &kept[kept.len().saturating_sub(self.max_entries)..];
        prompt::SessionMemory {
            feature: task.feature_name.clone(),
            phase: task.role.into_str().to_owned(),
            branch: task.branch.clone(),
            pull_request: None,
            completed,
            pending,
            blocked: blocked(earlier),
            files_modified: distinct(files.into_iter()),
            errors: kept
                .iter()
                .filter(|n| n.kind == NoteKind::Error && !is_elsewhere(n))
                .map(|n| unresolved(n, is_shown(n)))
                .collect(),
            decisions: kept
                .iter()
                .filter(|n| n.kind == NoteKind::Decision && is_shown(n))
                .map(|n| prompt::Decision {
                    text: n.body.clone(),
                    rationale: n.rationale.clone(),
                })
                .collect(),
            key_facts: distinct(
                notes
                    .iter()
                    .filter(|n| n.kind == NoteKind::KeyFact && is_shown(n))
                    .map(|n| n.body.clone()),
            ),
        }
    }
}

fn blocked(earlier: &[&Earlier]) -> Option<String> {
    earlier
        .iter()
        .rev()
        .find(|e| e.kind.begins_attempt() && e.kind != SessionKind::Check)
        .filter(|e| e.difficulty == Some(Difficulty::Blocked))
        .and_then(|e| e.report.as_ref())
        .map(|report| report.why_failed.clone())
}

fn unresolved(note: &Note, is_shown: bool) -> prompt::UnresolvedError {
    prompt::UnresolvedError {
        iteration: note.iteration,
        phase: note.phase.unwrap_or(SessionKind::Work).into_str().to_owned(),
        task: note.task.map(|id| TaskId(id).to_string()).unwrap_or_default(),
        category: note.category.clone().unwrap_or_default(),
        text: if is_shown {
            note.body.clone()
        } else {
            String::new()
        },
    }
}

/// The agent's report of a failure, once its task is done; before that, only the changed files.
fn failure(note: &Note) -> prompt::SiblingFailure {
    if !note.verified {
        let files = note.files_changed.join(", ");
        return prompt::SiblingFailure {
            files: Some(files).filter(|files| !files.is_empty()),
            ..prompt::SiblingFailure::default()
        };
    }
    prompt::SiblingFailure {
        error: note.body.clone(),
        attempted: note.attempted.clone().unwrap_or_default(),
        files: note.files.clone(),
        context: note.context.clone(),
        ..prompt::SiblingFailure::default()
    }
}

/// Number of attempts that ended before those that were read.
fn older_attempts(earlier: &[&Earlier], read: usize) -> usize {
    let in_all = earlier.first().map_or(0, |first| first.attempts_in_all);
    usize::try_from(in_all).unwrap_or(0).saturating_sub(read)
}

fn same(one: &str, other: &str) -> bool {
    one.trim().to_lowercase() == other.trim().to_lowercase()
}

/// The texts in order, without repetitions.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    texts
        .filter(|text| seen.insert(text.trim().to_lowercase()))
        .collect()
}
