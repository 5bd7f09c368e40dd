//! Claims: free slots get the best ready tasks (DESIGN 2).
//!
//! A batch of claims is one short transaction that takes tasks out of the queue, moves their fences and opens dispatches
//! with leases. The context is built outside it, while it commits; what was sent is stored when the claims are answered. A
//! claim that was answered before gets the same answer, so a lost answer costs nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use ralph_shared::ids::{DispatchId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{Assignment, ClaimAnswer, ClaimRequest, Share};
use sqlx::{PgPool, Postgres, Transaction};
use uuid::Uuid;

use super::guard::{guarded, is_away};
use super::hand::{Known, Look, Open, deal_out, known_workers};
use super::sent::Sent;
use super::{Settings, Signals, apply, context};
use crate::domain::fairness::Left;
use crate::domain::strategy;
use crate::faults;
use crate::store;

/// A dispatch that a claim opened, or had opened when it was asked before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The dispatch.
    pub dispatch: DispatchId,
    /// Its task.
    pub task: TaskId,
    /// What it is to do.
    pub kind: SessionKind,
    /// Number of the attempt.
    pub attempt: i32,
    /// The run.
    pub run: RunId,
    /// The model and the reason for it.
    pub model: Option<strategy::Choice>,
    /// Its agent among the worker's; `None` for the default one.
    pub agent: Option<String>,
    /// The row that keeps its prompt.
    pub prompts: Option<Uuid>,
    /// What it may use of its run's cost and tokens.
    pub share: Share,
}

/// Whose connections claims use: of few that do nothing else, so that each has made its plans.
#[derive(Debug, Clone)]
pub struct Connections {
    /// For the transaction that takes tasks; there is one at a time.
    pub take: PgPool,
    /// For what assignments are built from, and for what was sent.
    pub build: PgPool,
}

impl Connections {
    /// The same ones for all of it.
    pub fn shared(db: &PgPool) -> Self {
        Self {
            take: db.clone(),
            build: db.clone(),
        }
    }
}

/// Answers to a batch of claims, in the claims' order, and what has to be kept of them.
#[derive(Debug)]
pub struct Answered {
    /// The answers.
    pub answers: Vec<ClaimAnswer>,
    /// What there is for claims that got nothing, by their place; of who isn't listed it isn't known.
    pub unmet: HashMap<usize, Left>,
    /// What was sent with them; to be kept after they went out.
    pub sent: Sent,
    /// What followed for tasks whose assignment could not be built.
    pub signals: Signals,
}

/// Serves a batch of claims and keeps what was sent.
///
/// # Errors
/// When the database fails; then nothing was opened, or what was opened is found when the claim comes again.
pub async fn claim(
    db: &PgPool,
    settings: &Settings,
    claims: &[ClaimRequest],
) -> sqlx::Result<Vec<ClaimAnswer>> {
    let connections = Connections::shared(db);
    let Answered { answers, sent, .. } = answer(&connections, settings, claims, ()).await?;
    sent.keep(db).await?;
    Ok(answers)
}

/// Serves a batch of claims. Batches take their tasks one after another: `turn` is dropped as soon as this one has its own,
/// while its assignments may still be built.
///
/// # Errors
/// When the database fails; then nothing was opened, or what was opened is found when the claim comes again.
pub async fn answer<T: Send>(
    connections: &Connections,
    settings: &Settings,
    claims: &[ClaimRequest],
    turn: T,
) -> sqlx::Result<Answered> {
    let turn = Mutex::new(Some(turn));
    store::retry_serialization(|| answer_once(connections, settings, claims, &turn)).await
}

async fn answer_once<T: Send>(
    connections: &Connections,
    settings: &Settings,
    claims: &[ClaimRequest],
    turn: &Mutex<Option<T>>,
) -> sqlx::Result<Answered> {
    for look in [Look::Later, Look::First] {
        if let Some(answered) = answer_looking(connections, settings, claims, turn, look).await? {
            return Ok(answered);
        }
    }
    // Whoever isn't answered asks again.
    Ok(Answered {
        answers: Vec::new(),
        unmet: HashMap::new(),
        sent: Sent::default(),
        signals: Signals::default(),
    })
}

/// `None` when a claim that was answered before was dealt to again, which was taken back: to be repeated with [`Look::First`].
async fn answer_looking<T: Send>(
    connections: &Connections,
    settings: &Settings,
    claims: &[ClaimRequest],
    turn: &Mutex<Option<T>>,
    look: Look,
) -> sqlx::Result<Option<Answered>> {
    let (mut tx, known) = begin(connections, claims).await?;
    let hand = deal_out(&mut tx, settings, claims, known, look).await?;
    let planned = hand.planned();
    let places = hand.places();
    let unmet = hand.unmet();
    let opening = async {
        let Some(open) = hand.open(&mut tx, settings, claims).await? else {
            tx.rollback().await?;
            return Ok(None);
        };
        faults::point("claim.before_commit");
        tx.commit().await?;
        drop(turn.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(Some(open))
    };
    // The answers wait for both; neither waits for the other.
    let gathering = guarded(context::gather(&connections.build, settings, &planned));
    let (opened, gathered): (sqlx::Result<Option<Open>>, _) = tokio::join!(opening, gathering);
    let Some((mut answers, opened)) = opened? else {
        return Ok(None);
    };
    faults::point("claim.after_commit");
    settings.opens.note(places);
    let dispatches = distinct(&opened);
    let mut signals = Signals::default();
    let built = async {
        if dispatches == planned {
            context::assemble(gathered?, settings, &dispatches).await
        } else {
            // A task changed just now, or a claim turned out to be a repeated one.
            context::build(&connections.build, settings, &dispatches).await
        }
    };
    let (mut assignments, sent) = match guarded(built).await {
        Err(error) if !is_away(&error) => {
            tracing::warn!(%error, dispatches = dispatches.len(), "assignments could not be built; building them one by one");
            build_each(&connections.build, settings, &dispatches, &mut signals).await?
        }
        built => built?,
    };
    let mut given: HashMap<DispatchId, usize> = HashMap::new();
    for (index, opened) in opened {
        if let Some(assignment) = assignments.remove(&opened.dispatch) {
            answers[index] = ClaimAnswer::Assigned {
                assignment: Box::new(assignment),
            };
            given.insert(opened.dispatch, index);
        } else if let Some(&same) = given.get(&opened.dispatch) {
            answers[index] = answers[same].clone();
        }
    }
    Ok(Some(Answered {
        answers,
        unmet,
        sent,
        signals,
    }))
}

/// Takes the turn of claims. Who claims is read meanwhile, where a connection is idle.
async fn begin(
    connections: &Connections,
    claims: &[ClaimRequest],
) -> sqlx::Result<(Transaction<'static, Postgres>, Known)> {
    let idle = connections.build.try_acquire();
    let known = async {
        match idle {
            Some(mut conn) => known_workers(&mut conn, claims).await.map(Some),
            None => Ok(None),
        }
    };
    let (mut tx, known) = tokio::try_join!(store::begin_claims(&connections.take), known)?;
    let known = match known {
        Some(known) => known,
        None => known_workers(&mut tx, claims).await?,
    };
    Ok((tx, known))
}

/// Builds assignments one by one; a dispatch whose assignment can't be built ends as an error and is left out.
async fn build_each(
    db: &PgPool,
    settings: &Settings,
    dispatches: &[Opened],
    signals: &mut Signals,
) -> sqlx::Result<(HashMap<DispatchId, Assignment>, Sent)> {
    let mut assignments = HashMap::new();
    let mut sent = Sent::default();
    for one in dispatches {
        match guarded(context::build(db, settings, std::slice::from_ref(one))).await {
            Ok((built, more)) => {
                assignments.extend(built);
                sent.merge(more);
            }
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => {
                tracing::error!(%error, dispatch = %one.dispatch, task = %one.task, "an assignment can't be built; its attempt ends");
                let message = format!("its assignment could not be built: {error}");
                match apply::end_as_error(db, settings, one.dispatch, message).await {
                    Ok(more) => signals.merge(more),
                    Err(error) if is_away(&error) => return Err(error),
                    // Nobody renews its lease.
                    Err(error) => {
                        tracing::error!(%error, dispatch = %one.dispatch, "its attempt can't be ended")
                    }
                }
            }
        }
    }
    Ok((assignments, sent))
}

/// Each once.
fn distinct(opened: &[(usize, Opened)]) -> Vec<Opened> {
    let mut seen = HashSet::new();
    let opened = opened.iter().map(|(_, opened)| opened);
    opened
        .filter(|opened| seen.insert(opened.dispatch))
        .cloned()
        .collect()
}
