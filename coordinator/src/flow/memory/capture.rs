//! Collects a report's memory for later iterations while a batch is judged (SPEC 4, 6): failure reports,
//! learnings, knowledge, notes. Writes it in the same transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ralph_shared::ids::{DispatchId, TaskId};
use ralph_shared::sigil::{
    ErrorCategory, FailureFacts, Learning, NOTHING_CAPTURED, Sigils, UsedEntries, extract_failure,
};
use ralph_shared::wire::SessionReport;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::recall::{
    Analysed, Arrival, Kind, Likeness, Replaced, Scope, Statement, analyse, merged_tags, replaces,
};
use crate::domain::states::Outcome;
use crate::flow::memory::{copies, credit};
use crate::store;
use crate::store::dispatch::earlier::FailureReport;
use crate::store::memory::index::NewDoc;
use crate::store::memory::{Learned, NewNote, Released, Source};

/// Most files per entry.
const MAX_PATHS: usize = 20;
/// A task retains the entries of this many attempts, each with the most entries that it may leave.
const RETAINED_ATTEMPTS: usize = 2;
/// Learnings of one session that are searched for new ones.
const MAX_LEARNINGS: usize = 100;
/// Longest free text of one sigil. Characters.
pub const MAX_TEXT_CHARS: usize = 20_000;

#[derive(Debug, Default)]
pub struct Captured {
    failures: Vec<(Source, FailureReport)>,
    learnings: Vec<Learned>,
    knowledge: Vec<Learned>,
    notes: Vec<NewNote>,
    /// Most entries of a task in quarantine, whichever attempts they come from.
    kept_of_task: i64,
    questions: Vec<(DispatchId, TaskId, Vec<String>)>,
    used: Vec<(DispatchId, UsedEntries)>,
}

impl Captured {
    /// Adds a session's questions for a person.
    pub fn add_questions(&mut self, dispatch: DispatchId, task: TaskId, asked: &[String]) {
        if !asked.is_empty() {
            self.questions.push((dispatch, task, asked.to_vec()));
        }
    }

    /// Takes the learnings of a work session's text, with the files that it changed. Keeps at most `kept`
    /// entries, knowledge before learnings, since an agent in a loop writes more. Ignores repetitions of an
    /// earlier entry.
    pub fn learn(&mut self, source: &Source, sigils: &Sigils, files_changed: &[String], kept: usize) {
        self.kept_of_task = i64::try_from(kept * RETAINED_ATTEMPTS).unwrap_or(i64::MAX);
        let knowledge = knowledge(source, sigils, files_changed, kept);
        let mut statements: Vec<Statement> = knowledge.iter().map(|one| Statement::of(&one.body)).collect();
        let is_new = |learning: &&Learning| {
            let new = Statement::of(&learning.body);
            let is_copy = statements.iter().any(|old| old.compare(&new) == Likeness::Same);
            statements.push(new);
            !is_copy
        };
        let room = kept.saturating_sub(knowledge.len());
        let learnings = sigils
            .learnings
            .iter()
            .take(MAX_LEARNINGS)
            .filter(is_new)
            .take(room);
        self.learnings.extend(learnings.map(|learning| Learned {
            id: Uuid::now_v7(),
            source: source.clone(),
            head: learning.category.as_str().to_owned(),
            tags: learning.tags.clone(),
            paths: paths(&learning.tags, files_changed),
            body: bounded(&learning.body),
        }));
        self.knowledge.extend(knowledge);
        if sigils.used != UsedEntries::default() {
            self.used.push((DispatchId(source.dispatch), sigils.used.clone()));
        }
        self.notes.extend(sigils.notes.iter().map(|note| NewNote {
            source: source.clone(),
            kind: note.kind.into(),
            body: bounded(&note.text),
            rationale: note.rationale.as_deref().map(bounded),
        }));
    }

    /// Takes the reason of a failed work session: the agent's own report, else the extracted one (SPEC 4.3).
    pub fn failure(
        &mut self,
        source: &Source,
        outcome: Outcome,
        reason: Option<&str>,
        report: &SessionReport,
        text: &str,
        sigils: &Sigils,
    ) {
        let changed = report.snapshot.files_changed_count > 0;
        let failed = match outcome {
            Outcome::Failed | Outcome::Error => true,
            // An attempt with changes continues (SPEC 3.3); the agent's own failure report is still taken.
            Outcome::NoSigil => !changed || sigils.failure_report.is_some(),
            _ => false,
        };
        if !failed {
            return;
        }
        let failure = match own_report(sigils) {
            Some(own) => own,
            None => {
                let extracted = extract_failure(&FailureFacts {
                    failure_reason: sigils.failure_reason.as_deref().unwrap_or_default(),
                    // After a regular end of the turn, only the agent itself can name the reason.
                    session_end: if outcome == Outcome::Error || !report.ended.is_in_order() {
                        reason.unwrap_or_default()
                    } else {
                        ""
                    },
                    tool_output: report.last_tool_error.as_deref().unwrap_or_default(),
                    stderr_tail: &report.stderr_tail,
                    text,
                    attempted: &report.attempted,
                    changed_files: &report.snapshot.files_changed,
                });
                // The reason of the session's end is better than nothing.
                let why_failed = match reason {
                    Some(reason) if extracted.error == NOTHING_CAPTURED => bounded(reason),
                    _ => extracted.error,
                };
                FailureReport {
                    extracted: true,
                    category: ErrorCategory::Unknown,
                    what_tried: extracted.attempted,
                    why_failed,
                    relevant_files: (!extracted.files.is_empty()).then(|| extracted.files.join(", ")),
                    error_output: (!extracted.context.is_empty()).then_some(extracted.context),
                    retry_suggestion: sigils.retry_suggestion.as_deref().map(bounded),
                }
            }
        };
        self.failures.push((source.clone(), failure));
    }

    /// Takes the reason why a verifier, the gate or leftover conflict markers refused an attempt that its
    /// agent considered done. The first line names the failure; output follows.
    pub fn refusal(&mut self, source: &Source, category: ErrorCategory, reason: &str) {
        let (why, output) = reason.split_once('\n').unwrap_or((reason, ""));
        let (why, output) = (why.trim().trim_end_matches(':'), output.trim());
        self.failures.push((
            source.clone(),
            FailureReport {
                extracted: true,
                category,
                what_tried: String::new(),
                why_failed: bounded(why),
                relevant_files: None,
                error_output: (!output.is_empty()).then(|| bounded(output)),
                retry_suggestion: None,
            },
        ));
    }

    /// Takes the reason of an attempt whose graph was refused: its agent's own report, else the problem.
    pub fn refused_graph(&mut self, source: &Source, sigils: &Sigils, problem: &str) {
        let has_report = |(of, _): &(Source, FailureReport)| of.dispatch == source.dispatch;
        if self.failures.iter().any(has_report) {
            return;
        }
        match own_report(sigils) {
            Some(own) => self.failures.push((source.clone(), own)),
            None => {
                self.refusal(source, ErrorCategory::Unknown, problem);
                if let Some((_, report)) = self.failures.last_mut() {
                    report.retry_suggestion = sigils.retry_suggestion.as_deref().map(bounded);
                }
            }
        }
    }

    /// Entries that repeat text which was revoked while their sessions worked, and which the sessions were
    /// shown. Holds the lock, so that nobody revokes meanwhile.
    async fn doubted(&self, conn: &mut PgConnection) -> sqlx::Result<Vec<(Uuid, Uuid)>> {
        let written = || self.knowledge.iter().chain(&self.learnings);
        let repos: BTreeSet<&str> = written().map(|one| one.source.repo_id.as_str()).collect();
        if repos.is_empty() {
            return Ok(Vec::new());
        }
        store::memory::library::lock(conn, &repos.into_iter().collect::<Vec<_>>()).await?;
        let written: Vec<(Uuid, Uuid, String)> = written()
            .map(|one| (one.id, one.source.dispatch, one.body.clone()))
            .collect();
        copies::late_copies(conn, &written).await
    }

    /// Writes everything. Returns the entries that are released already, since their tasks are among `done`.
    pub async fn save(&self, conn: &mut PgConnection, done: &[Uuid]) -> sqlx::Result<Vec<Findable>> {
        store::memory::insert_failure_reports(conn, &self.failures).await?;
        let doubted = self.doubted(conn).await?;
        let is_doubted = |learned: &Learned| doubted.iter().any(|(id, _)| *id == learned.id);
        let is_released = |learned: &&Learned| done.contains(&learned.source.task) && !is_doubted(learned);
        let arrivals = self.learnings.iter().filter(is_released);
        let arrivals = arrivals.map(|one| Arrival::new(one.id, &one.source.repo_id, "", &one.body));
        let replaced = copies::replaced_by(conn, Kind::Learning, &arrivals.collect::<Vec<_>>()).await?;
        let by = |one: &Learned| replaced.iter().find(|replaced| replaced.entry == one.id).copied();
        let by: Vec<Option<Replaced>> = self.learnings.iter().map(by).collect();
        let is_found = |(learned, by): &(&Learned, &Option<Replaced>)| by.is_none() && is_released(learned);
        let words = self.learnings.iter().zip(&by).map(|one| {
            is_found(&one).then(|| {
                let (one, _) = one;
                words(
                    &one.source.repo_id,
                    Kind::Learning,
                    "",
                    &one.body,
                    &one.paths,
                    &one.tags,
                )
            })
        });
        let docs = store::memory::insert_learnings(conn, &self.learnings, words.collect(), &by).await?;
        let found = self.learnings.iter().zip(&by).filter(is_found).zip(docs);
        let released = found.map(|((learned, _), doc)| Findable {
            paths: learned.paths.clone(),
            doc,
        });
        let released = released.collect();
        let is_old = |one: &&Replaced| !self.learnings.iter().any(|new| new.id == one.entry);
        let outdated: Vec<Replaced> = replaced.iter().filter(is_old).copied().collect();
        copies::replace(conn, Kind::Learning, &outdated).await?;
        store::memory::insert_knowledge(conn, &self.knowledge).await?;
        let mut room: BTreeMap<Uuid, i64> = BTreeMap::new();
        for one in &self.knowledge {
            room.insert(one.source.task, self.kept_of_task);
        }
        // Learnings that are released at once take the room of waiting entries.
        for one in &self.learnings {
            *room.entry(one.source.task).or_insert(self.kept_of_task) -= i64::from(is_released(&one));
        }
        if !room.is_empty() {
            let (tasks, room): (Vec<Uuid>, Vec<i64>) = room.into_iter().unzip();
            store::memory::hide_surplus(conn, &tasks, &room).await?;
        }
        if !doubted.is_empty() {
            store::memory::copies::doubt(conn, &doubted).await?;
        }
        store::memory::insert_notes(conn, &self.notes).await?;
        for (dispatch, used) in &self.used {
            credit::mark(conn, *dispatch, used).await?;
        }
        for (dispatch, task, asked) in &self.questions {
            store::question::keep(conn, *dispatch, *task, asked).await?;
        }
        Ok(released)
    }
}

fn knowledge(source: &Source, sigils: &Sigils, files_changed: &[String], kept: usize) -> Vec<Learned> {
    // Of entries with one title the last one replaces the others and takes over their tags, as it would
    // on release.
    let mut by_title: HashMap<String, usize> = HashMap::new();
    let mut knowledge: Vec<Learned> = Vec::new();
    for entry in &sigils.knowledge {
        let at = *by_title
            .entry(entry.title.to_lowercase())
            .or_insert(knowledge.len());
        let before = knowledge.get(at).map(|before| before.tags.as_slice());
        let tags = merged_tags(before.into_iter(), &entry.tags);
        let learned = Learned {
            id: Uuid::now_v7(),
            source: source.clone(),
            head: entry.title.clone(),
            paths: paths(&tags, files_changed),
            tags,
            body: bounded(&entry.body),
        };
        if let Some(before) = knowledge.get_mut(at) {
            *before = learned;
        } else if knowledge.iter().any(|old| has_same_body(old, &learned)) {
            by_title.remove(&entry.title.to_lowercase());
        } else if at < kept {
            knowledge.push(learned);
        }
    }
    knowledge
}

fn has_same_body(old: &Learned, new: &Learned) -> bool {
    Statement::of(&old.body).compare(&Statement::of(&new.body)) == Likeness::Same
}

fn own_report(sigils: &Sigils) -> Option<FailureReport> {
    let own = sigils.failure_report.as_ref()?;
    Some(FailureReport {
        extracted: false,
        category: own.error_category,
        what_tried: bounded(&own.what_tried),
        why_failed: bounded(&own.why_failed),
        relevant_files: (!own.relevant_files.is_empty()).then(|| own.relevant_files.join(", ")),
        error_output: own.stack_trace.clone(),
        retry_suggestion: sigils.retry_suggestion.as_deref().map(bounded),
    })
}

/// An entry for the index that others may find, with its files.
#[derive(Debug)]
pub struct Findable {
    paths: Vec<String>,
    doc: NewDoc,
}

/// Releases the entries of tasks that are done now from quarantine (SPEC 6.8). Knowledge replaces older
/// versions, and others can find all of it, including those `released` already. Resolves the tasks' errors.
pub async fn release(conn: &mut PgConnection, tasks: &[Uuid], findable: Vec<Findable>) -> sqlx::Result<()> {
    let quarantined = store::memory::resolve_or_quarantined(conn, tasks).await?;
    let is_more = !quarantined.is_empty();
    let mut repos: BTreeSet<&str> = quarantined.iter().map(String::as_str).collect();
    repos.extend(findable.iter().map(|one| one.doc.repo_id.as_str()));
    if repos.is_empty() {
        return Ok(());
    }
    // Lock before touching an entry: others lock the memory first and then change its entries.
    store::memory::library::lock(conn, &repos.into_iter().collect::<Vec<_>>()).await?;
    let released = if is_more {
        store::memory::release(conn, tasks).await?
    } else {
        Vec::new()
    };
    admit_locked(conn, released, findable).await
}

/// Admits released entries: knowledge replaces older versions, and all are indexed.
pub(in crate::flow) async fn admit(conn: &mut PgConnection, released: Vec<Released>) -> sqlx::Result<()> {
    if released.is_empty() {
        return Ok(());
    }
    let repos: BTreeSet<&str> = released.iter().map(|one| one.repo_id.as_str()).collect();
    store::memory::library::lock(conn, &repos.into_iter().collect::<Vec<_>>()).await?;
    admit_locked(conn, released, Vec::new()).await
}

/// Like [`admit`], with the memories locked, so that of two tasks that learned the same at once, the second
/// one finds the first. Also indexes entries that are already `findable`.
async fn admit_locked(
    conn: &mut PgConnection,
    mut released: Vec<Released>,
    mut findable: Vec<Findable>,
) -> sqlx::Result<()> {
    let knowledge: Vec<Uuid> = released
        .iter()
        .filter(|one| one.is_knowledge)
        .map(|one| one.id)
        .collect();
    let mut similar = store::memory::library::similar_knowledge(conn, &knowledge).await?;
    let order: HashMap<Uuid, usize> = released
        .iter()
        .enumerate()
        .map(|(at, one)| (one.id, at))
        .collect();
    let mut gone = HashSet::new();
    for id in knowledge {
        let (at, others) = (order[&id], similar.remove(&id).unwrap_or_default());
        let mut replaced = Vec::new();
        for mut old in others.into_iter().filter(|old| !gone.contains(&old.id)) {
            if let Some(&other) = order.get(&old.id) {
                // Of entries that arrive together, later ones replace earlier ones, with their links.
                if other > at {
                    continue;
                }
                old.tags.clone_from(&released[other].tags);
            }
            if replaces(&released[at].title, &released[at].tags, &old.title, &old.tags) {
                replaced.push(old);
            }
        }
        if replaced.is_empty() {
            continue;
        }
        let tags = merged_tags(replaced.iter().map(|old| old.tags.as_slice()), &released[at].tags);
        let ids: Vec<Uuid> = replaced.iter().map(|old| old.id).collect();
        store::memory::library::replace_knowledge(conn, id, &tags, &ids).await?;
        store::memory::index::remove(conn, &ids).await?;
        released[at].tags = tags;
        gone.extend(ids);
    }
    released.retain(|one| !gone.contains(&one.id));
    for kind in [Kind::Learning, Kind::Knowledge] {
        let compared = released
            .iter()
            .filter(|one| one.is_compared && one.is_knowledge == (kind == Kind::Knowledge));
        let arrivals = compared.map(|one| Arrival::new(one.id, &one.repo_id, &one.title, &one.body));
        let replaced = copies::replaced_by(conn, kind, &arrivals.collect::<Vec<_>>()).await?;
        copies::replace(conn, kind, &replaced).await?;
        let stays = |id: Uuid| !replaced.iter().any(|one| one.entry == id);
        released.retain(|one| stays(one.id));
        findable.retain(|one| stays(one.doc.entry));
    }
    findable.extend(released.into_iter().map(Findable::new));
    make_findable(conn, findable).await
}

/// Indexes entries, and records their files.
pub(in crate::flow) async fn make_findable(
    conn: &mut PgConnection,
    findable: Vec<Findable>,
) -> sqlx::Result<()> {
    let (mut paths, mut docs) = (Vec::new(), Vec::new());
    for one in findable {
        paths.extend(one.paths.into_iter().map(|path| (one.doc.repo_id.clone(), path)));
        docs.push(one.doc);
    }
    store::memory::repo_scan::note_paths(conn, &paths).await?;
    store::memory::index::insert(conn, &docs).await
}

impl Findable {
    /// An entry that is not in the index yet.
    pub(in crate::flow) fn new(released: Released) -> Self {
        let kind = if released.is_knowledge {
            Kind::Knowledge
        } else {
            Kind::Learning
        };
        let Released {
            id,
            repo_id,
            title,
            body,
            tags,
            paths,
            created_at,
            ..
        } = released;
        Self {
            doc: NewDoc {
                number: None,
                entry: id,
                kind,
                created_at,
                words: words(&repo_id, kind, &title, &body, &paths, &tags),
                repo_id,
            },
            paths,
        }
    }
}

/// The words by which an entry is found.
fn words(repo_id: &str, kind: Kind, title: &str, body: &str, paths: &[String], tags: &[String]) -> Analysed {
    let (title, body) = if title.is_empty() {
        head(body)
    } else {
        (title, body)
    };
    analyse(Scope::new(repo_id, kind), title, body, paths, tags)
}

/// The first line or sentence, and the rest: the beginning usually names the subject.
fn head(text: &str) -> (&str, &str) {
    let end = [text.find('\n'), text.find(". ").map(|at| at + 1)]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(text.len());
    text.split_at(end)
}

/// The files of an entry: those among its tags, then those that its session changed.
fn paths(tags: &[String], files_changed: &[String]) -> Vec<String> {
    let is_path = |tag: &&String| {
        let ending = tag.rsplit_once('.').is_some_and(|(stem, ending)| {
            !stem.is_empty()
                && (1..=5).contains(&ending.len())
                && ending.bytes().all(|b| b.is_ascii_alphanumeric())
        });
        !tag.contains(char::is_whitespace) && (tag.contains('/') || ending)
    };
    let mut paths: Vec<String> = Vec::new();
    for path in tags.iter().filter(is_path).chain(files_changed) {
        if paths.len() < MAX_PATHS && !paths.contains(path) {
            paths.push(path.clone());
        }
    }
    paths
}

/// The journal of an iteration: the agent's text, or nothing, which still marks an iteration.
pub fn journal(sigils: &Sigils) -> String {
    sigils.journal.as_deref().map(bounded).unwrap_or_default()
}

/// A text, cut to its longest stored length.
pub(in crate::flow) fn bounded(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} [truncated]", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_the_file_tags_and_the_changed_files() {
        let strings = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            paths(
                &strings(&[
                    "sqlite",
                    "src/dag/db.rs",
                    "v1.2 notes",
                    "main.rs",
                    "e.g. this",
                    "foreign keys"
                ]),
                &strings(&["src/lib.rs", "main.rs"]),
            ),
            strings(&["src/dag/db.rs", "main.rs", "src/lib.rs"])
        );
    }

    #[test]
    fn the_head_is_the_first_line_or_sentence() {
        for (text, expected) in [
            ("Use it. Then stop.", ("Use it.", " Then stop.")),
            ("Use it\nThen. Stop.", ("Use it", "\nThen. Stop.")),
            ("v1.2 only", ("v1.2 only", "")),
            ("", ("", "")),
        ] {
            assert_eq!(head(text), expected);
        }
    }
}
