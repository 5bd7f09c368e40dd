//! Commands on a whole feature: start, pause and end its runs.

use std::collections::BTreeSet;

use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_shared::wire::EndReason;
use sqlx::{PgConnection, PgPool};

use super::super::cascade::{self, Features};
use super::super::{Signals, finish, integrate, submit};
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
    /// Starts a run of one task and its parts alone.
    RunTask(Box<RunSettings>, TaskId),
    /// Starts a run of a feature whose tasks its sessions write.
    Build(Box<RunSettings>),
    /// Starts a run that reviews a feature whose tasks are over.
    Review(Box<RunSettings>),
    /// Lets running sessions end, and starts no new ones.
    Pause,
    /// Continues after a pause.
    Resume,
    /// Ends the feature; sessions end in order and push.
    Cancel,
}

pub async fn feature(
    db: &PgPool,
    id: FeatureId,
    command: &FeatureCommand,
) -> sqlx::Result<(CommandOutcome, Option<RunId>, Signals)> {
    feature_by(db, id, command, "".into()).await
}

/// Like [`feature`], for a request that takes effect once. A run that it starts gets the request's id.
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
    let Some(held) = features.get(&id) else {
        return Ok((CommandOutcome::NotFound, None, signals));
    };
    let (name, state_before) = (held.name.clone(), held.state);
    let refused = |verb: FeatureVerb| Err(suggestion::of_feature(verb, state_before, &name));
    let done = match command {
        FeatureCommand::Run(settings) => match submit::start(&mut tx, id, new, settings, &mut signals).await?
        {
            Some(run) => Ok(Some(run)),
            None => refused(FeatureVerb::Run),
        },
        FeatureCommand::RunTask(settings, task) => {
            run_alone::start(&mut tx, id, (new, *task), settings, &mut signals)
                .await?
                .map(Some)
        }
        FeatureCommand::Build(settings) => submit::build(&mut tx, id, new, settings, &mut signals)
            .await?
            .map(Some),
        FeatureCommand::Review(settings) => submit::review_now(&mut tx, id, new, settings, &mut signals)
            .await?
            .map(Some),
        FeatureCommand::Pause if state_before == FeatureState::Running => {
            pause(&mut tx, &mut features, id, &mut signals).await?;
            Ok(None)
        }
        FeatureCommand::Resume if state_before == FeatureState::Paused => {
            resume(&mut tx, &mut features, id, &mut signals).await?;
            Ok(None)
        }
        FeatureCommand::Cancel if !matches!(state_before, FeatureState::Done | FeatureState::Cancelled) => {
            cancel(&mut tx, &mut features, id, &mut signals).await?;
            Ok(None)
        }
        FeatureCommand::Pause => refused(FeatureVerb::Pause),
        FeatureCommand::Resume => refused(FeatureVerb::Resume),
        FeatureCommand::Cancel => refused(FeatureVerb::Cancel),
    };
    let run = match done {
        Ok(run) => run,
        Err(why) => return Ok((CommandOutcome::Refused(why), None, Signals::default())),
    };
    by.note(&mut tx, 1).await?;
    tx.commit().await?;
    Ok((CommandOutcome::Done(1), run, signals))
}

async fn pause(
    tx: &mut PgConnection,
    features: &mut Features,
    id: FeatureId,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    if let Some(held) = features.get_mut(&id) {
        held.state = FeatureState::Paused;
        if let Some(run) = held.current_run {
            store::run::pause(tx, run).await?;
        }
    }
    store::queue::ready::withdraw_feature(tx, id).await?;
    cascade::save_features(tx, features, signals).await
}

async fn resume(
    tx: &mut PgConnection,
    features: &mut Features,
    id: FeatureId,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let mut run = None;
    if let Some(held) = features.get_mut(&id) {
        held.state = FeatureState::Running;
        run = held.current_run;
    }
    if let Some(run) = run {
        store::run::resume(tx, run).await?;
    }
    cascade::save_features(tx, features, signals).await?;
    signals.got_work(store::queue::ready::enqueue_feature(tx, id, run).await?);
    integrate::promote(tx, &BTreeSet::from([id]), signals).await?;
    finish::check(tx, features, signals).await?;
    cascade::save_features(tx, features, signals).await
}

async fn cancel(
    tx: &mut PgConnection,
    features: &mut Features,
    id: FeatureId,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    if let Some(held) = features.get_mut(&id) {
        let has_run = matches!(held.state, FeatureState::Running | FeatureState::Paused);
        if let Some(current) = held.current_run.filter(|_| has_run) {
            let (outcome, reason) = (RunOutcome::Interrupted, "a person cancelled the feature");
            store::run::end(tx, current, outcome, reason).await?;
            store::notice::run_ended(tx, id, current, outcome, reason).await?;
            signals.ended_runs.push(current);
        }
        held.state = FeatureState::Cancelled;
    }
    finish::empty(tx, id, EndReason::Interrupted, signals).await?;
    cascade::save_features(tx, features, signals).await
}
