//! Claims: free slots get the best ready tasks (DESIGN 2).
//!
//! A batch of claims is one short transaction that takes tasks out of the queue, moves their fences and opens dispatches
//! with leases. The context is built outside it, while it commits; what was sent is stored when the claims are answered. A
//! claim that was answered before gets the same answer, so a lost answer costs nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use ralph_shared::ids::{DispatchId, FeatureId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{Assignment, ClaimAnswer, ClaimRequest};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::deal::{Asking, Dealt, deal};
use super::guard::{guarded, is_away};
use super::sent::Sent;
use super::{Settings, Signals, apply, context};
use crate::domain::door::Standing;
use crate::domain::strategy;
use crate::faults;
use crate::store;
use crate::store::dispatch::{Dispatch, DispatchState, NewDispatch};
use crate::store::door::Account;
use crate::store::worker::Claimer;

/// How long a worker waits whose claim can't be served for a passing reason. Milliseconds.
const RETRY_AFTER_MS: u64 = 1_000;

/// A dispatch that a claim opened, or had opened when it was asked before.
#[derive(Debug, Clone)]
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
    let mut tx = connections.take.begin().await?;
    let (mut answers, opened) = match open(&mut tx, settings, claims, Look::Later).await? {
        Some(opened) => opened,
        None => {
            tx.rollback().await?;
            tx = connections.take.begin().await?;
            open(&mut tx, settings, claims, Look::First)
                .await?
                .unwrap_or_default()
        }
    };
    let dispatches: Vec<Opened> = opened.iter().map(|(_, opened)| opened.clone()).collect();
    faults::point("claim.before_commit");
    // The answers wait for both; neither waits for the other.
    let built = guarded(context::build(&connections.build, settings, &dispatches));
    let committed = async {
        let committed = tx.commit().await;
        if committed.is_ok() {
            drop(turn.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        committed
    };
    let (committed, built) = tokio::join!(committed, built);
    committed?;
    faults::point("claim.after_commit");
    let mut signals = Signals::default();
    let (mut assignments, sent) = match built {
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
    Ok(Answered {
        answers,
        sent,
        signals,
    })
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

/// When it is looked whether claims were answered before. Hardly any was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Before anything is taken.
    First,
    /// Once they are dealt to: for those that got nothing, and where a dispatch stands already.
    Later,
}

/// Answers without work, and what was opened with the index of its claim.
pub(super) type Open = (Vec<ClaimAnswer>, Vec<(usize, Opened)>);

/// Takes the lock on claims, and within its transaction opens what they get. `None` when a claim that was answered before was dealt to
/// again: the transaction is to be taken back, and to be repeated with [`Look::First`].
async fn open(
    tx: &mut PgConnection,
    settings: &Settings,
    claims: &[ClaimRequest],
    look: Look,
) -> sqlx::Result<Option<Open>> {
    let known = known_workers(tx, claims, true).await?;
    deal_out(tx, settings, claims, known, look).await
}

/// The workers that claim, by name, and the accounts that are not open.
pub(super) type Known = (HashMap<String, Claimer>, Vec<Account>);

/// The same once the lock is held.
pub(super) async fn deal_out(
    tx: &mut PgConnection,
    settings: &Settings,
    claims: &[ClaimRequest],
    (known, accounts): Known,
    look: Look,
) -> sqlx::Result<Option<Open>> {
    let mut answers = vec![ClaimAnswer::Nothing; claims.len()];
    let mut opened = Vec::new();
    let waits = accounts.iter().filter(|one| one.standing != Standing::Free);
    let waiting: HashSet<&String> = waits.map(|one| &one.account).collect();
    let mut free = Vec::new();
    // One that was sent again while it waited here gets what its first one gets.
    let mut first: HashMap<DispatchId, usize> = HashMap::new();
    let mut repeated = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        let before = *first.entry(claim.claim).or_insert(index);
        if before != index {
            repeated.push((index, before));
            continue;
        }
        match known.get(claim.worker.as_str()) {
            Some(worker) if worker.incarnation != claim.incarnation => answers[index] = ClaimAnswer::SayHello,
            None => answers[index] = ClaimAnswer::SayHello,
            Some(worker) if worker.draining => answers[index] = not_now("the worker is to drain"),
            Some(worker) => {
                if worker.accounts.values().any(|account| waiting.contains(account)) {
                    // A ticket may be for what it can't start now: it asks again by itself.
                    answers[index] = not_now("an account that its agents use waits");
                }
                free.push(index);
            }
        }
    }
    if look == Look::First {
        free = asked_before(tx, claims, free, &mut answers, &mut opened).await?;
    }
    let asking = Asking {
        claims,
        known: &known,
    };
    let fresh = deal(tx, settings, asking, free.clone(), &accounts).await?;
    if !fresh.is_empty() {
        let Some(dispatched) = dispatch(tx, settings, claims, &fresh).await? else {
            return Ok(None);
        };
        opened.extend(dispatched);
    }
    if look == Look::Later {
        let dealt: HashSet<usize> = fresh.iter().map(|dealt| dealt.index).collect();
        free.retain(|index| !dealt.contains(index));
        asked_before(tx, claims, free, &mut answers, &mut opened).await?;
    }
    for (index, before) in repeated {
        answers[index] = answers[before].clone();
        let same = opened.iter().find(|(of, _)| *of == before);
        opened.extend(
            same.map(|(_, same)| (index, same.clone()))
                .into_iter()
                .collect::<Vec<_>>(),
        );
    }
    Ok(Some((answers, opened)))
}

fn not_now(reason: &str) -> ClaimAnswer {
    ClaimAnswer::NotNow {
        reason: reason.to_owned(),
        retry_after_ms: RETRY_AFTER_MS,
    }
}

pub(super) async fn known_workers(
    conn: &mut PgConnection,
    claims: &[ClaimRequest],
    alone: bool,
) -> sqlx::Result<Known> {
    let names: HashSet<&str> = claims.iter().map(|claim| claim.worker.as_str()).collect();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let (rows, any_door) = store::worker::claimers(conn, &names, alone).await?;
    let accounts = match any_door {
        true => store::door::not_open(conn).await?,
        false => Vec::new(),
    };
    let known = rows.into_iter().map(|row| (row.name.clone(), row)).collect();
    Ok((known, accounts))
}

/// Looks which of these claims have a dispatch already: one that is live is given again, one that is over gives nothing. Returns the
/// others.
async fn asked_before(
    conn: &mut PgConnection,
    claims: &[ClaimRequest],
    mut free: Vec<usize>,
    answers: &mut [ClaimAnswer],
    opened: &mut Vec<(usize, Opened)>,
) -> sqlx::Result<Vec<usize>> {
    if free.is_empty() {
        return Ok(free);
    }
    let ids: Vec<Uuid> = free.iter().map(|&index| claims[index].claim.0).collect();
    let rows = store::dispatch::read(conn, &ids).await?;
    let before: HashMap<DispatchId, &Dispatch> = rows.iter().map(|row| (row.id, row)).collect();
    free.retain(|&index| {
        let Some(row) = before.get(&claims[index].claim) else {
            return true;
        };
        answers[index] = ClaimAnswer::Nothing;
        if row.state == DispatchState::Live {
            opened.push((index, reopened(row)));
        }
        false
    });
    Ok(free)
}

/// A dispatch that stands, to be given the same work again.
pub(super) fn reopened(row: &Dispatch) -> Opened {
    Opened {
        dispatch: row.id,
        task: row.task,
        kind: row.kind,
        attempt: row.attempt,
        run: row.run,
        model: row.model.clone().map(|model| strategy::Choice {
            model,
            reason: String::new(),
        }),
        agent: row.agent.clone(),
        // The row of the batch that it came with may stand already, or be written yet: it gets one of its own.
        prompts: row.prompts.map(|_| row.id.0),
    }
}

/// Moves the fences of taken tasks and opens their dispatches. `None` when one stands already.
async fn dispatch(
    conn: &mut PgConnection,
    settings: &Settings,
    claims: &[ClaimRequest],
    fresh: &[Dealt],
) -> sqlx::Result<Option<Vec<(usize, Opened)>>> {
    let mut prompts: HashMap<FeatureId, Uuid> = HashMap::new();
    let mut new = Vec::with_capacity(fresh.len());
    for Dealt {
        index,
        taken,
        run,
        chosen,
    } in fresh
    {
        let claim = &claims[*index];
        let has_agent = taken.kind.has_agent();
        new.push(NewDispatch {
            id: claim.claim,
            task: taken.task,
            feature: taken.feature,
            run: *run,
            kind: taken.kind,
            begins_attempt: taken.kind.begins_attempt(),
            worker: claim.worker.clone(),
            incarnation: claim.incarnation,
            model: chosen.model.as_ref().map(|m| m.model.clone()),
            model_reason: chosen.model.as_ref().map(|m| m.reason.clone()),
            prompts: has_agent.then(|| *prompts.entry(taken.feature).or_insert_with(Uuid::now_v7)),
            agent: chosen.agent.clone(),
        });
    }
    let Some(attempts) = store::dispatch::open(conn, &new, settings.lease_ms()).await? else {
        return Ok(None);
    };
    let mut opened = Vec::with_capacity(fresh.len());
    let mut turns = (Vec::new(), Vec::new());
    for (dealt, new) in fresh.iter().zip(new) {
        // Its task may be gone.
        let Some(&attempt) = attempts.get(&new.id) else {
            continue;
        };
        // A verification holds the turn that it is a part of, if there is one.
        if matches!(new.kind, SessionKind::Integrate | SessionKind::Verify) {
            turns.0.push(new.task.0);
            turns.1.push(new.id.0);
        }
        opened.push((
            dealt.index,
            Opened {
                dispatch: new.id,
                task: new.task,
                kind: new.kind,
                attempt,
                run: new.run,
                model: dealt.chosen.model.clone(),
                agent: new.agent,
                prompts: new.prompts,
            },
        ));
    }
    if !turns.0.is_empty() {
        store::integration::give_turn(conn, &turns.0, &turns.1).await?;
    }
    Ok(Some(opened))
}
