//! Changes by people to waiting tasks and to features; deletion of features.

pub mod cycle;
pub mod dependencies;
pub mod remove;

use std::collections::BTreeSet;

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::{PgConnection, PgPool};

use super::{Signals, cascade, integrate, submit};
use crate::domain::budget::limit;
use crate::domain::run::{Run, RunSettings};
use crate::domain::states::{FeatureState, TaskState};
use crate::domain::steps;
use crate::flow::control::{self, By, CommandOutcome, TaskCommand};
use crate::flow::{finish::resume, integrate::base_gate, submit::agent_graph};
use crate::store;
use crate::store::edit::{FeatureEdit, TaskEdit};
use crate::store::feature::{Locked, Text};

/// Changes a task. A running or done task is refused, since its session read the old text. Of a split task,
/// only its texts change, for later sessions. `before` is the description that the change started from; when
/// it has changed since, nothing is stored.
pub async fn task(
    db: &PgPool,
    id: TaskId,
    edit: &TaskEdit,
    before: Option<&str>,
    actor: &str,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let Some((_features, task)) = cascade::lock_task(&mut tx, id).await? else {
        return Ok((CommandOutcome::NotFound, signals));
    };
    let feature = task.feature;
    let refused = match task.state {
        TaskState::InProgress if task.children > 0 && edit.is_words() => None,
        TaskState::InProgress if task.children > 0 => {
            Some(control::refer(&mut tx, id, "edit", |_| true).await?)
        }
        TaskState::InProgress if task.next_kind == Some(SessionKind::Integrate) => Some(format!(
            "{id} waits to land; `task release {id}` takes it back for more work, then edit it"
        )),
        TaskState::InProgress => Some(format!(
            "a session works on {id}; `task interrupt {id}` first, or submit another task"
        )),
        TaskState::Done => Some(format!(
            "{id} is over, and no session will read the change; if it landed, `task revert {id} --redo` repeats it, else submit \
             another task"
        )),
        _ => None,
    };
    if let Some(why) = refused {
        return Ok((CommandOutcome::Refused(why), signals));
    }
    let stored = store::edit::values(&mut tx, id).await?.unwrap_or_default();
    if let Some(before) = before
        && stored.description.as_deref() != Some(before)
    {
        return Ok((CommandOutcome::Refused(changed_meanwhile("description")), signals));
    }
    store::edit::task(&mut tx, id, edit).await?;
    // The queue holds the old pool, agent and priority, and a hold may be for other paths.
    let changes_queue =
        edit.pool.is_some() || edit.agent.is_some() || edit.priority.is_some() || edit.paths.is_some();
    let queued = task.state == TaskState::Pending && changes_queue;
    if queued {
        let delay_ms = store::queue::ready::delay_ms(&mut tx, id).await?;
        store::queue::ready::withdraw(&mut tx, &[id.0]).await?;
        signals.got_work(store::queue::ready::enqueue(&mut tx, &[id.0], &[delay_ms]).await?);
    }
    store::task::log(&mut tx, id, actor, "edit", Some(&words(&stored, edit))).await?;
    tx.commit().await?;
    signals.features.insert(feature);
    Ok((CommandOutcome::Done(1), signals))
}

fn changed_meanwhile(text: &str) -> String {
    format!(
        "the {text} was changed by somebody else meanwhile, so nothing was stored: read it again, and change that"
    )
}

/// Computes a run's new settings from its present ones, or returns why that is impossible.
pub type SettingsChange<'a> = &'a (dyn Fn(&RunSettings) -> Result<RunSettings, String> + Send + Sync);

/// Changes a feature for later sessions. `before` is the description that the change started from, as in
/// [`task`]. Returns the number of tasks that changed with it.
pub async fn feature(
    db: &PgPool,
    id: FeatureId,
    edit: &FeatureEdit,
    before: Option<&str>,
    run: Option<SettingsChange<'_>>,
    by: By<'_>,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let mut tx = db.begin().await?;
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([id])).await?;
    let Some(held) = features.get(&id) else {
        return Ok((CommandOutcome::NotFound, Signals::default()));
    };
    let refused = |why: String| Ok((CommandOutcome::Refused(why), Signals::default()));
    if let Some(why) = refusal(held, edit) {
        return refused(why);
    }
    if let Some(text) = &edit.description {
        let texts = store::feature::texts(&mut tx, id).await?.unwrap_or_default();
        if before.is_some_and(|before| before != texts.description) {
            return refused(changed_meanwhile("description"));
        }
        store::edit::describe(&mut tx, id, text).await?;
    }
    if let Some(change) = run
        && let Err(why) = change_run(&mut tx, held, change).await?
    {
        return refused(why);
    }
    let mut signals = Signals {
        features: BTreeSet::from([id]),
        ..Signals::default()
    };
    if run.is_some() && matches!(held.state, FeatureState::Running | FeatureState::Paused) {
        let cause = base_gate::GateCause::Changed;
        base_gate::follow(&mut tx, &mut features, id, cause, &mut signals).await?;
        cascade::save_features(&mut tx, &features, &mut signals).await?;
        integrate::promote(&mut tx, &BTreeSet::from([id]), &mut signals).await?;
    }
    store::edit::feature(&mut tx, id, edit).await?;
    let mut changed = 0;
    if edit.max_retries.is_some() || edit.verify.is_some() {
        let why = words_of_feature(edit);
        changed = store::edit::tasks_of_feature(&mut tx, id, edit, by.actor, &why).await?;
    }
    if by.resumes {
        resume::after_raise(&mut tx, id, &mut signals).await?;
    }
    tx.commit().await?;
    Ok((
        CommandOutcome::Done(usize::try_from(changed).unwrap_or(0)),
        signals,
    ))
}

fn refusal(held: &Locked, edit: &FeatureEdit) -> Option<String> {
    if held.state == FeatureState::Cancelled {
        return Some(format!(
            "`{}` is cancelled, so no session would see the change; submit another feature",
            held.name
        ));
    }
    (held.has_dir && edit.max_parallel.is_some_and(|most| most > 1)).then(|| {
        format!(
            "`{}` works directly in a folder, which allows one session at a time; `max_parallel` stays 1",
            held.name
        )
    })
}

/// Changes the present run, an ended one that may continue, or the settings of a draft's first run. The inner
/// error says why it cannot.
async fn change_run(
    conn: &mut PgConnection,
    held: &Locked,
    change: SettingsChange<'_>,
) -> sqlx::Result<Result<(), String>> {
    let last = store::run::last(conn, held.id).await?;
    let may_go_on = held.state != FeatureState::Done;
    if let Some(run) = last.as_ref().filter(|run| run.ended_at.is_none() || may_go_on) {
        let settings = match change(&run.settings) {
            Ok(settings) => settings,
            Err(why) => return Ok(Err(why)),
        };
        let after = Run {
            settings: settings.clone(),
            ..run.clone()
        };
        if let Some(reached) = limit::reached(&after)
            && run.ended_at.is_some()
            && settings.limits() != run.settings.limits()
        {
            return Ok(Err(format!(
                "with that limit no session of `{}` could begin ({reached}); give more, or 0 for no limit",
                held.name
            )));
        }
        store::run::change(conn, run.id, &settings).await?;
        if settings.agent != run.settings.agent {
            // The queue holds the agent of each task.
            store::queue::ready::follow_run(conn, held.id).await?;
        }
        return Ok(Ok(()));
    }
    let (_, defaults) = store::feature::draft(conn, held.id).await?;
    let draft = submit::first_run(conn, held.id).await?;
    let (Some(draft), Some(defaults), None) = (draft, defaults, last) else {
        return Ok(Err(format!(
            "`{0}` doesn't run, so it has no limits and choices to change; give them to `feature run {0}`, which takes those of the \
             last run by default",
            held.name
        )));
    };
    let settings = match change(&draft) {
        Ok(settings) => submit::value(&settings)?,
        Err(why) => return Ok(Err(why)),
    };
    store::feature::keep_draft(conn, held.id, &settings, &defaults).await?;
    Ok(Ok(()))
}

/// The changes of a feature's tasks, for their logs.
fn words_of_feature(edit: &FeatureEdit) -> String {
    let retries = edit.max_retries.map(|n| format!("max_retries to `{n}`"));
    let verify = edit.verify.map(|verify| format!("verify to `{verify}`"));
    let changes: Vec<String> = [retries, verify].into_iter().flatten().collect();
    format!("changed {}, with all of its feature", changes.join(", "))
}

/// Stores a person's task graph in place of the one that waits for approval. `before` is the text that they
/// started from, as in [`text`].
pub async fn graph(
    db: &PgPool,
    id: FeatureId,
    text: &str,
    before: Option<&str>,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let mut tx = db.begin().await?;
    let held = cascade::lock_features(&mut tx, &BTreeSet::from([id])).await?;
    let Some(texts) = store::feature::texts(&mut tx, id).await? else {
        return Ok((CommandOutcome::NotFound, Signals::default()));
    };
    let refused = |why: String| Ok((CommandOutcome::Refused(why), Signals::default()));
    let name = held.get(&id).map_or("the feature", |held| held.name.as_str());
    let step = match store::feature::step(&mut tx, id, SessionKind::Build).await? {
        Some(step) => store::task::lock(&mut tx, &[step.0]).await?.pop(),
        None => None,
    };
    let (state, gave) = (
        step.as_ref().map(|step| step.state),
        step.is_some_and(|step| step.attempt == 0),
    );
    // It also holds a review's requests until the review's own corrections landed.
    let waits = state == Some(TaskState::NeedsReview);
    let Some(stored) = texts.proposed_graph.filter(|_| waits) else {
        return refused(format!(
            "no task graph of {name} waits for approval; `task create TITLE --feature {name}` adds a task"
        ));
    };
    if before.is_some_and(|before| before != stored) {
        return refused(changed_meanwhile("task graph"));
    }
    if let Err(problem) = agent_graph::check(text, gave) {
        return refused(problem);
    }
    store::feature::write(&mut tx, id, Text::ProposedGraph, Some(text)).await?;
    tx.commit().await?;
    let signals = Signals {
        features: BTreeSet::from([id]),
        ..Signals::default()
    };
    Ok((CommandOutcome::Done(1), signals))
}

/// Stores a person's specification or plan. The step that would have written it is done, and a step that only
/// fed that step is skipped, so that neither continues beside what follows. `before` is the text that they
/// started from; when it has changed since, nothing is stored.
pub async fn text(
    db: &PgPool,
    id: FeatureId,
    step: SessionKind,
    text: &str,
    before: Option<&str>,
    by: By<'_>,
) -> sqlx::Result<(CommandOutcome, Signals)> {
    let mut tx = db.begin().await?;
    cascade::lock_features(&mut tx, &BTreeSet::from([id])).await?;
    let Some(texts) = store::feature::texts(&mut tx, id).await? else {
        return Ok((CommandOutcome::NotFound, Signals::default()));
    };
    let result = steps::result(step);
    let refused = |why: String| Ok((CommandOutcome::Refused(why), Signals::default()));
    let (which, stored) = match step {
        SessionKind::Plan => (Text::Plan, texts.plan),
        _ => (Text::Spec, texts.spec),
    };
    if let Some(before) = before
        && before != stored.as_deref().unwrap_or_default()
    {
        return refused(changed_meanwhile(result));
    }
    let task = store::feature::step(&mut tx, id, step).await?;
    let state = match task {
        Some(task) => store::task::state_of(&mut tx, task).await?,
        None => None,
    };
    if let (Some(task), Some(TaskState::InProgress)) = (task, state) {
        return refused(format!(
            "a session writes the {result} right now; wait for it, or `task interrupt {task}` first"
        ));
    }
    store::feature::write(&mut tx, id, which, Some(text)).await?;
    let mut signals = Signals {
        features: BTreeSet::from([id]),
        ..Signals::default()
    };
    let mut ends = needless_step(&mut tx, id, step).await?;
    ends.extend(task.map(|task| (task, state, TaskCommand::Done)));
    let why = format!("a person wrote the {result}");
    for (task, state, command) in ends {
        if state.is_none_or(TaskState::is_resolved) {
            continue;
        }
        let (outcome, more) = control::task_in(&mut tx, task, command, by.actor, Some(&why)).await?;
        if !matches!(outcome, CommandOutcome::Done(_)) {
            return Ok((outcome, more));
        }
        signals.merge(more);
    }
    if by.resumes {
        resume::after_decision(&mut tx, id, false, &mut signals).await?;
    }
    tx.commit().await?;
    Ok((CommandOutcome::Done(1), signals))
}

/// The step that only fed this one, with its state and the command that ends it.
async fn needless_step(
    conn: &mut PgConnection,
    id: FeatureId,
    step: SessionKind,
) -> sqlx::Result<Vec<(TaskId, Option<TaskState>, TaskCommand)>> {
    let Some(before) = steps::needless_with(step) else {
        return Ok(Vec::new());
    };
    let Some(task) = store::feature::step(conn, id, before).await? else {
        return Ok(Vec::new());
    };
    let state = store::task::state_of(conn, task).await?;
    Ok(vec![(task, state, TaskCommand::Skip)])
}

/// The changes, for the log, with the old values, so that no text is lost.
fn words(before: &TaskEdit, edit: &TaskEdit) -> String {
    fn shown<T: ToString>(value: Option<&T>) -> String {
        value.map_or_else(|| "none".to_owned(), T::to_string)
    }
    fn change<T: ToString>(name: &str, before: Option<&T>, now: Option<&T>) -> Option<String> {
        now.map(|now| format!("{name} from `{}` to `{}`", shown(before), now.to_string()))
    }
    let joined = |paths: &Option<Vec<String>>| paths.as_ref().map(|paths| paths.join(", "));
    let changes = [
        change("title", before.title.as_ref(), edit.title.as_ref()),
        change("priority", before.priority.as_ref(), edit.priority.as_ref()),
        change("pool", before.pool.as_ref(), edit.pool.as_ref()),
        change("agent", before.agent.as_ref(), edit.agent.as_ref()),
        change("model", before.model.as_ref(), edit.model.as_ref()),
        change(
            "max_retries",
            before.max_retries.as_ref(),
            edit.max_retries.as_ref(),
        ),
        change("verify", before.verify.as_ref(), edit.verify.as_ref()),
        change(
            "paths",
            joined(&before.paths).as_ref(),
            joined(&edit.paths).as_ref(),
        ),
        edit.description
            .as_ref()
            .map(|_| match before.description.as_deref() {
                None | Some("") => "description, which was empty".to_owned(),
                Some(text) => format!("description, which was:\n{text}"),
            }),
    ];
    let changes: Vec<String> = changes.into_iter().flatten().collect();
    format!("changed {}", changes.join(", "))
}

/// Deletes a feature that does not run, with its outcomes; its branches stay.
pub async fn delete_feature(db: &PgPool, id: FeatureId) -> sqlx::Result<CommandOutcome> {
    let mut tx = db.begin().await?;
    let features = cascade::lock_features(&mut tx, &BTreeSet::from([id])).await?;
    let Some(feature) = features.get(&id) else {
        return Ok(CommandOutcome::NotFound);
    };
    let live = store::dispatch::live_count(&mut tx, id).await?;
    if live > 0 || matches!(feature.state, FeatureState::Running | FeatureState::Paused) {
        let sessions = if live == 1 { "session" } else { "sessions" };
        let next = match feature.state {
            FeatureState::Running | FeatureState::Paused => {
                format!("`feature cancel {}` first", feature.name)
            }
            _ => {
                "they are about to end: try again in a moment (`worker list` shows where they are)".to_owned()
            }
        };
        let why = format!(
            "can't delete the feature `{}` while it is {} with {live} {sessions}; {next}",
            feature.name,
            feature.state.into_str()
        );
        return Ok(CommandOutcome::Refused(why));
    }
    let entries = store::edit::delete_feature(&mut tx, id).await?;
    store::memory::library::lock(&mut tx, &[feature.repo_id.as_str()]).await?;
    store::memory::index::remove(&mut tx, &entries).await?;
    tx.commit().await?;
    Ok(CommandOutcome::Done(1))
}
