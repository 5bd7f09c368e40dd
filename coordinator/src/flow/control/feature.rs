//! Commands on a whole feature: start, pause and end its runs.

use std::collections::BTreeSet;

use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_shared::wire::EndReason;
use sqlx::PgPool;

use super::super::{Signals, cascade, finish, integrate, submit};
use super::command::{By, CommandOutcome};
use crate::domain::run::RunSettings;
use crate::domain::states::{FeatureState, RunOutcome};
use crate::domain::status::suggestion::{self, FeatureVerb};
use crate::flow::control::run_alone;
use crate::store;

/// A person's command on a feature.
#[derive(Debug, Clone, PartialEq)]
pub enum FeatureCommand {
    /// Starts a run with these settings.
    Run(Box<RunSettings>),
    /// The same, of one task of it and its parts alone.
    RunTask(Box<RunSettings>, TaskId),
    /// The same for a feature whose tasks sessions must write.
    Build(Box<RunSettings>),
    /// The same for a feature whose tasks are over: it is reviewed.
    Review(Box<RunSettings>),
    /// Lets sessions end, and starts no new ones.
    Pause,
    /// Goes on after a pause.
    Resume,
    /// Ends it; sessions end in order and push.
    Cancel,
}

/// Does `command` to a feature.
pub async fn feature(
    db: &PgPool,
    id: FeatureId,
    command: &FeatureCommand,
) -> sqlx::Result<(CommandOutcome, Option<RunId>, Signals)> {
    feature_by(db, id, command, "".into()).await
}

/// The same for a request, which takes effect once: a run that it starts gets the request's id.
pub async fn feature_by(
    db: &PgPool,
    id: FeatureId,
    command: &FeatureCommand,
    by: By<'_>,
) -> sqlx::Result<(CommandOutcome, Option<RunId>, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let new = by.request.map_or_else(RunId::new, RunId);
    if let Some(done) = by.done(&mut tx).await? {
        let runs = store::run::read(&mut tx, &[new.0]).await?;
        return Ok((done, runs.first().map(|run| run.id), signals));
    }
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([id])).await?;
    let Some(held) = features.get_mut(&id) else {
        return Ok((CommandOutcome::NotFound, None, signals));
    };
    let (name, stood) = (held.name.clone(), held.state);
    let refused = |verb: FeatureVerb| CommandOutcome::Refused(suggestion::of_feature(verb, stood, &name));
    let mut run = None;
    match command {
        FeatureCommand::Run(settings) => {
            run = submit::start(&mut tx, id, new, settings, &mut signals).await?;
            if run.is_none() {
                return Ok((refused(FeatureVerb::Run), None, signals));
            }
            by.note(&mut tx, 1).await?;
            tx.commit().await?;
            return Ok((CommandOutcome::Done(1), run, signals));
        }
        FeatureCommand::Build(settings)
        | FeatureCommand::Review(settings)
        | FeatureCommand::RunTask(settings, _) => {
            let started = match command {
                FeatureCommand::RunTask(_, task) => {
                    run_alone::start(&mut tx, id, (new, *task), settings, &mut signals).await?
                }
                FeatureCommand::Build(_) => submit::build(&mut tx, id, new, settings, &mut signals).await?,
                _ => submit::review_now(&mut tx, id, new, settings, &mut signals).await?,
            };
            return Ok(match started {
                Ok(run) => {
                    by.note(&mut tx, 1).await?;
                    tx.commit().await?;
                    (CommandOutcome::Done(1), Some(run), signals)
                }
                Err(why) => (CommandOutcome::Refused(why), None, Signals::default()),
            });
        }
        FeatureCommand::Pause if held.state == FeatureState::Running => {
            held.state = FeatureState::Paused;
            if let Some(run) = held.current_run {
                store::run::pause(&mut tx, run).await?;
            }
            store::queue::ready::withdraw_feature(&mut tx, id).await?;
            cascade::save_features(&mut tx, &features, &mut signals).await?;
        }
        FeatureCommand::Resume if held.state == FeatureState::Paused => {
            held.state = FeatureState::Running;
            let run = held.current_run;
            if let Some(run) = run {
                store::run::resume(&mut tx, run).await?;
            }
            cascade::save_features(&mut tx, &features, &mut signals).await?;
            signals.got_work(store::queue::ready::enqueue_feature(&mut tx, id, run).await?);
            integrate::promote(&mut tx, &BTreeSet::from([id]), &mut signals).await?;
            finish::check(&mut tx, &mut features, &mut signals).await?;
            cascade::save_features(&mut tx, &features, &mut signals).await?;
        }
        FeatureCommand::Cancel if !matches!(held.state, FeatureState::Done | FeatureState::Cancelled) => {
            if let Some(current) = held
                .current_run
                .filter(|_| matches!(held.state, FeatureState::Running | FeatureState::Paused))
            {
                let (outcome, reason) = (RunOutcome::Interrupted, "a person cancelled the feature");
                store::run::end(&mut tx, current, outcome, reason).await?;
                store::notice::run_ended(&mut tx, id, current, outcome, reason).await?;
                signals.ended_runs.push(current);
            }
            held.state = FeatureState::Cancelled;
            finish::empty(&mut tx, id, EndReason::Interrupted, &mut signals).await?;
            cascade::save_features(&mut tx, &features, &mut signals).await?;
        }
        FeatureCommand::Pause => return Ok((refused(FeatureVerb::Pause), None, signals)),
        FeatureCommand::Resume => return Ok((refused(FeatureVerb::Resume), None, signals)),
        FeatureCommand::Cancel => return Ok((refused(FeatureVerb::Cancel), None, signals)),
    }
    by.note(&mut tx, 1).await?;
    tx.commit().await?;
    Ok((CommandOutcome::Done(1), run, signals))
}
