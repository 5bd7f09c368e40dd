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
use crate::domain::states::Kind;
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
    pub kind: Kind,
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
    let Answered { answers, sent, .. } = answer(db, settings, claims, ()).await?;
    sent.keep(db).await?;
    Ok(answers)
}

/// Serves a batch of claims. Batches take their tasks one after another: `turn` is dropped as soon as this one has its own,
/// while its assignments may still be built.
///
/// # Errors
/// When the database fails; then nothing was opened, or what was opened is found when the claim comes again.
pub async fn answer<T: Send>(
    db: &PgPool,
    settings: &Settings,
    claims: &[ClaimRequest],
    turn: T,
) -> sqlx::Result<Answered> {
    let turn = Mutex::new(Some(turn));
    store::retry_serialization(|| answer_once(db, settings, claims, &turn)).await
}

async fn answer_once<T: Send>(
    db: &PgPool,
    settings: &Settings,
    claims: &[ClaimRequest],
    turn: &Mutex<Option<T>>,
) -> sqlx::Result<Answered> {
    let mut tx = db.begin().await?;
    let (mut answers, opened) = open(&mut tx, settings, claims).await?;
    let dispatches: Vec<Opened> = opened.iter().map(|(_, opened)| opened.clone()).collect();
    faults::point("claim.before_commit");
    // The answers wait for both; neither waits for the other.
    let built = guarded(context::build(db, settings, &dispatches));
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
            build_each(db, settings, &dispatches, &mut signals).await?
        }
        built => built?,
    };
    for (index, opened) in opened {
        if let Some(assignment) = assignments.remove(&opened.dispatch) {
            answers[index] = ClaimAnswer::Assigned {
                assignment: Box::new(assignment),
            };
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

/// Within the transaction: answers without work, and what was opened with the index of its claim.
async fn open(
    tx: &mut PgConnection,
    settings: &Settings,
    claims: &[ClaimRequest],
) -> sqlx::Result<(Vec<ClaimAnswer>, Vec<(usize, Opened)>)> {
    let mut answers = vec![ClaimAnswer::Nothing; claims.len()];
    let mut opened = Vec::new();
    store::ready::lock_claims(tx).await?;
    let (known, accounts) = known_workers(tx, claims).await?;
    let waits = accounts.iter().filter(|one| one.standing != Standing::Free);
    let waiting: HashSet<&String> = waits.map(|one| &one.account).collect();
    let before = asked_before(tx, claims).await?;
    let mut free = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        match known.get(claim.worker.as_str()) {
            Some(worker) if worker.incarnation != claim.incarnation => answers[index] = ClaimAnswer::SayHello,
            None => answers[index] = ClaimAnswer::SayHello,
            Some(worker) if worker.draining => answers[index] = not_now("the worker is to drain"),
            Some(worker) => match before.get(&claim.claim) {
                Some(Some(same)) => opened.push((index, same.clone())),
                Some(None) => {}
                None => {
                    if worker.accounts.values().any(|account| waiting.contains(account)) {
                        // A ticket may be for what it can't start now: it asks again by itself.
                        answers[index] = not_now("an account that its agents use waits");
                    }
                    free.push(index);
                }
            },
        }
    }
    let asking = Asking {
        claims,
        known: &known,
    };
    let fresh = deal(tx, settings, asking, free, &accounts).await?;
    if !fresh.is_empty() {
        opened.extend(dispatch(tx, settings, claims, &fresh).await?);
    }
    Ok((answers, opened))
}

fn not_now(reason: &str) -> ClaimAnswer {
    ClaimAnswer::NotNow {
        reason: reason.to_owned(),
        retry_after_ms: RETRY_AFTER_MS,
    }
}

/// The workers that claim, by name, and the accounts that are not open.
async fn known_workers(
    conn: &mut PgConnection,
    claims: &[ClaimRequest],
) -> sqlx::Result<(HashMap<String, Claimer>, Vec<Account>)> {
    let names: HashSet<&str> = claims.iter().map(|claim| claim.worker.as_str()).collect();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let (rows, any_door) = store::worker::claimers(conn, &names).await?;
    let accounts = match any_door {
        true => store::door::not_open(conn).await?,
        false => Vec::new(),
    };
    let known = rows.into_iter().map(|row| (row.name.clone(), row)).collect();
    Ok((known, accounts))
}

/// Claims whose id is a dispatch already: `Some` while it is live, `None` when it is over.
async fn asked_before(
    conn: &mut PgConnection,
    claims: &[ClaimRequest],
) -> sqlx::Result<HashMap<DispatchId, Option<Opened>>> {
    let ids: Vec<Uuid> = claims.iter().map(|claim| claim.claim.0).collect();
    let rows = store::dispatch::read(conn, &ids).await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let opened = (row.state == DispatchState::Live).then(|| reopened(&row));
            (row.id, opened)
        })
        .collect())
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

/// Moves the fences of taken tasks and opens their dispatches.
async fn dispatch(
    conn: &mut PgConnection,
    settings: &Settings,
    claims: &[ClaimRequest],
    fresh: &[Dealt],
) -> sqlx::Result<Vec<(usize, Opened)>> {
    let fences: Vec<(Uuid, Uuid, bool)> = fresh
        .iter()
        .map(|dealt| {
            let is_attempt = dealt.taken.kind.begins_attempt();
            (dealt.taken.task.0, claims[dealt.index].claim.0, is_attempt)
        })
        .collect();
    let tasks: HashMap<TaskId, _> = store::task::claim(conn, &fences)
        .await?
        .into_iter()
        .map(|task| (task.id, task))
        .collect();
    let mut prompts: HashMap<FeatureId, Uuid> = HashMap::new();
    let mut new = Vec::with_capacity(fresh.len());
    let mut opened = Vec::with_capacity(fresh.len());
    let mut turns = (Vec::new(), Vec::new());
    for Dealt {
        index,
        taken,
        run,
        chosen,
    } in fresh
    {
        let Some(task) = tasks.get(&taken.task) else {
            continue;
        };
        let claim = &claims[*index];
        let has_agent = SessionKind::from(taken.kind).has_agent();
        let model = &chosen.model;
        let prompts = has_agent.then(|| *prompts.entry(taken.feature).or_insert_with(Uuid::now_v7));
        // A verification holds the turn that it is a part of, if there is one.
        if matches!(taken.kind, Kind::Integrate | Kind::Verify) {
            turns.0.push(taken.task.0);
            turns.1.push(claim.claim.0);
        }
        new.push(NewDispatch {
            id: claim.claim,
            task: taken.task,
            feature: taken.feature,
            run: *run,
            kind: taken.kind,
            attempt: task.attempt,
            worker: claim.worker.clone(),
            incarnation: claim.incarnation,
            start_commit: task.start_commit.clone(),
            model: model.as_ref().map(|m| m.model.clone()),
            model_reason: model.as_ref().map(|m| m.reason.clone()),
            prompts,
            agent: chosen.agent.clone(),
        });
        opened.push((
            *index,
            Opened {
                dispatch: claim.claim,
                task: taken.task,
                kind: taken.kind,
                attempt: task.attempt,
                run: *run,
                model: model.clone(),
                agent: chosen.agent.clone(),
                prompts,
            },
        ));
    }
    store::dispatch::insert(conn, &new, settings.lease_ms()).await?;
    if !turns.0.is_empty() {
        store::integration::give_turn(conn, &turns.0, &turns.1).await?;
    }
    Ok(opened)
}
