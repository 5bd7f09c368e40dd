//! Judges the report of a session and collects its changes.

use std::sync::Arc;

use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{ErrorCategory, Sigils};
use ralph_shared::wire::{Report, SessionReport};

use super::batch::{Batch, REFUSED};
use super::incoming::Incoming;
use super::record::end;
use crate::domain::failure::Failure;
use crate::domain::failure::silence::{self, Meaning};
use crate::domain::outcome::{self, AttemptFacts, Judgement, Step};
use crate::domain::routing::strategy;
use crate::domain::states::{Outcome, Verification};
use crate::domain::text::document::document;
use crate::flow::Settings;
use crate::flow::memory::capture;
use crate::flow::{memory::distill, submit::agent_graph};
use crate::store::dispatch::{Dispatch, DispatchState};
use crate::store::feature::Text;
use crate::store::memory::Source;
use crate::store::task::Task;

/// A session's report with its parsed text.
pub(super) struct EndedSession<'a> {
    settings: &'a Settings,
    dispatch: &'a Dispatch,
    report: &'a Report,
    session: &'a SessionReport,
    text: &'a str,
    sigils: Arc<Sigils>,
    /// The specification or the plan that the session wrote.
    document: Option<&'a str>,
}

impl<'a> EndedSession<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        dispatch: &'a Dispatch,
        one: &'a Incoming,
        session: &'a SessionReport,
    ) -> Self {
        let writes = matches!(dispatch.kind, SessionKind::Spec | SessionKind::Plan);
        Self {
            settings,
            dispatch,
            report: &one.report,
            session,
            text: &one.text,
            sigils: one.sigils(settings, dispatch),
            document: document(&one.text).filter(|_| writes),
        }
    }

    fn changed_files(&self) -> bool {
        self.session.snapshot.files_changed_count > 0
    }
}

impl Batch {
    pub(super) fn session(&mut self, ended: &EndedSession<'_>, mut task: Task) {
        let (dispatch, session) = (ended.dispatch, ended.session);
        let kind = dispatch.kind;
        let judgement = self.judge(ended, &task);
        let counted = kind == SessionKind::Work && !judgement.is_nobodys();
        self.spend(dispatch, session, counted, judgement.outcome == Outcome::Done);
        self.remember(ended, &judgement);
        if kind.changes_files() {
            keep_start(&mut task, session, &judgement);
        }
        if judgement.run_failed {
            self.failed_runs.insert(task.feature);
        }
        self.end_session(ended, &judgement, counted);
        if kind == SessionKind::Verify {
            self.verified_in_turn(&task, &judgement);
        }
        self.follow(ended, task, judgement);
    }

    fn judge(&mut self, ended: &EndedSession<'_>, task: &Task) -> Judgement {
        let (dispatch, session) = (ended.dispatch, ended.session);
        let kind = dispatch.kind;
        let facts = self.facts_of(ended, task);
        let mut judgement = outcome::session(kind, &session.ended, &ended.sigils, facts);
        let meaning = self.silence_of(ended);
        if let Some(meaning) = meaning {
            judgement = outcome::empty_turn(kind, meaning, judgement);
        }
        if kind == SessionKind::Work && judgement.outcome == Outcome::Done {
            judgement.reason = outcome::doubt(session.tool_calls, session.failed_tool_calls, facts);
        }
        judgement = outcome::bulky(kind, &session.snapshot.bulk, judgement);
        add_causes(&mut judgement, session);
        self.availability.note(dispatch, session, &judgement, meaning);
        judgement
    }

    fn facts_of(&self, ended: &EndedSession<'_>, task: &Task) -> AttemptFacts {
        let feature = self.features.get(&task.feature);
        let has_repository = feature.is_some_and(|f| f.has_repository);
        let has_dir = feature.is_some_and(|f| f.has_dir);
        AttemptFacts {
            verify: task.verify && (has_repository || has_dir),
            needs_push: has_repository,
            pushed: ended.session.snapshot.pushed_ref.is_some(),
            verify_tries: task.verify_tries,
            // Corrections of a review's earlier attempt are part of the commit that this attempt started
            // from.
            changed: ended.changed_files()
                || (ended.dispatch.kind == SessionKind::Review && task.start_commit.is_some()),
            wrote: ended.document.is_some(),
        }
    }

    /// What an empty turn means; `None` for any other.
    fn silence_of(&mut self, ended: &EndedSession<'_>) -> Option<Meaning> {
        let account = &ended.session.agent.account;
        (silence::is_empty(ended.session, ended.text) && !account.is_empty()).then(|| {
            let known = self.silences.entry(account.clone()).or_default();
            known.met(ended.dispatch.task)
        })
    }

    /// Collects the session's contributions to the memory and to later sessions.
    fn remember(&mut self, ended: &EndedSession<'_>, judgement: &Judgement) {
        let dispatch = ended.dispatch;
        self.captured
            .add_questions(dispatch.id, dispatch.task, &ended.session.questions);
        let source = self.source(dispatch);
        if dispatch.kind.begins_attempt() {
            self.remember_attempt(ended, judgement, &source);
        }
        if dispatch.kind == SessionKind::Verify && judgement.outcome == Outcome::Failed {
            let reason = judgement.reason.as_deref().unwrap_or(REFUSED);
            self.captured.refusal(&source, ErrorCategory::Unknown, reason);
            self.uncount_success(dispatch);
        }
    }

    fn remember_attempt(&mut self, ended: &EndedSession<'_>, judgement: &Judgement, source: &Source) {
        let EndedSession {
            dispatch,
            session,
            sigils,
            ..
        } = ended;
        if dispatch.kind != SessionKind::Distill {
            let files = &session.snapshot.files_changed;
            self.captured
                .learn(source, sigils, files, ended.settings.kept_entries);
        } else if judgement.outcome == Outcome::Done {
            self.distilled.push(distill::MergedLearnings {
                task: dispatch.task,
                source: source.clone(),
                learnings: sigils.learnings.clone(),
                knowledge: sigils.knowledge.clone(),
            });
        }
        let reason = judgement.reason.as_deref();
        if !judgement.is_nobodys() {
            self.captured
                .failure(source, judgement.outcome, reason, session, ended.text, sigils);
        }
        let had_hint =
            dispatch.model_reason.as_deref().is_some_and(strategy::is_hinted) && !judgement.is_nobodys();
        if sigils.next_model.is_some() || had_hint {
            self.next_models.push((dispatch.task, sigils.next_model.clone()));
        }
        if sigils.task_graph.is_some() {
            self.if_refused
                .insert(dispatch.task, (source.clone(), Arc::clone(sigils)));
        }
    }

    fn end_session(&mut self, ended: &EndedSession<'_>, judgement: &Judgement, counted: bool) {
        let EndedSession { dispatch, sigils, .. } = ended;
        // A review is no iteration, but its journal is shown to later sessions.
        let wrote = dispatch.kind == SessionKind::Review && sigils.journal.is_some();
        let journal = (counted || wrote).then(|| capture::journal(sigils));
        let state = DispatchState::Settled;
        let mut end = end(
            dispatch,
            state,
            judgement,
            ended.report,
            journal,
            sigils.malformed,
        );
        if counted {
            end.iteration = self.iteration(dispatch);
            end.difficulty = sigils.difficulty;
        }
        self.ends.push(end);
    }

    /// The number of the last counted iteration, of the run and this batch.
    fn iteration(&self, dispatch: &Dispatch) -> Option<i32> {
        let before = self.runs.get(&dispatch.run)?.iterations;
        Some(before + self.spent.get(&dispatch.run)?.iterations)
    }

    /// Moves the task by the judgement of its session.
    fn follow(&mut self, ended: &EndedSession<'_>, mut task: Task, judgement: Judgement) {
        let dispatch = ended.dispatch;
        if judgement.grows && judgement.step == Step::Landed {
            self.grown.push((task.id, agent_graph::asked_for(&ended.sigils)));
            self.tasks.insert(task.id, task);
            return;
        }
        if dispatch.kind == SessionKind::Review
            && judgement.outcome == Outcome::Done
            && let Err(problem) = self.propose(ended, &task, &judgement)
        {
            self.refuse_graph(task, problem);
            return;
        }
        match judgement.step {
            Step::Verify | Step::Land | Step::Landed => self.continue_attempt(task, judgement.step),
            Step::Wrote => self.store_text(task, ended.document.unwrap_or_default()),
            Step::Split => {
                let graph = ended.sigils.task_graph.clone().unwrap_or_default();
                self.split.push((task.id, graph));
                self.tasks.insert(task.id, task);
            }
            Step::Ask if judgement.failure == Some(Failure::Unanswered) => {
                self.ask(ended, task, judgement);
            }
            Step::Ask if judgement.failure == Some(Failure::Blocked) => {
                let why = judgement.reason.map(|why| format!(": {why}")).unwrap_or_default();
                self.needs_person(task, format!("the agent reports that it is blocked{why}"));
            }
            Step::Retry => {
                if dispatch.kind == SessionKind::Verify {
                    task.verification = Verification::Failed;
                }
                self.retry(task, dispatch, &judgement, ended.changed_files());
            }
            Step::Repeat => self.repeat_verify(task, dispatch, &judgement),
            Step::Resolve | Step::Ask => {
                let reason = judgement.reason.unwrap_or_default();
                self.needs_person(task, reason);
            }
        }
    }

    /// The review's own corrections may still fail, so its requests wait for them. Older requests are void.
    fn propose(
        &mut self,
        ended: &EndedSession<'_>,
        task: &Task,
        judgement: &Judgement,
    ) -> Result<(), String> {
        let asked = judgement.grows.then(|| agent_graph::asked_for(&ended.sigils));
        if let Some(graph) = &asked {
            agent_graph::check(graph, false)?;
        }
        self.written.push((task.feature, Text::ProposedGraph, asked));
        Ok(())
    }

    /// Handles a session that ended because nobody answered its question.
    fn ask(&mut self, ended: &EndedSession<'_>, task: Task, judgement: Judgement) {
        match self.unanswered.remove(&ended.dispatch.id) {
            Some(asked) => {
                let id = task.id;
                self.ask_person(task, format!("it asks: {asked}\n`task answer {id}` answers it"));
            }
            // The answer arrived after the session had been asked to end.
            None => {
                let judgement = Judgement {
                    failure: Some(Failure::Interrupted),
                    ..judgement
                };
                self.retry(task, ended.dispatch, &judgement, ended.changed_files());
            }
        }
    }
}

/// Adds problems beside the session to the reason of its failure.
fn add_causes(judgement: &mut Judgement, session: &SessionReport) {
    if let Some(unread) = &session.unread_output
        && !matches!(
            judgement.outcome,
            Outcome::Done | Outcome::Passed | Outcome::Split
        )
    {
        judgement.reason = Some(match judgement.reason.take() {
            Some(reason) => format!("{reason}; {unread}"),
            None => unread.clone(),
        });
    }
    if judgement.outcome == Outcome::Error
        && let Some(error) = &session.snapshot.push_error
    {
        judgement.reason = Some(format!(
            "{}: {error}",
            judgement.reason.take().unwrap_or_default()
        ));
    }
}

/// Sets where the task's next dispatch starts (SPEC 3.3): from the feature branch after a failure by the
/// agent's own word, else from this session's pushed commit.
fn keep_start(task: &mut Task, session: &SessionReport, judgement: &Judgement) {
    let is_review = task.role == SessionKind::Review;
    if judgement.outcome == Outcome::Failed {
        task.start_commit = None;
        task.start_ref = None;
    } else if is_review && task.start_commit.is_none() && session.snapshot.files_changed_count == 0 {
        // The review corrected nothing, so the next review starts from whatever has landed by then.
    } else if let (Some(commit), Some(pushed)) = (&session.snapshot.commit, &session.snapshot.pushed_ref) {
        task.start_commit = Some(commit.clone());
        task.start_ref = Some(pushed.clone());
    }
}
