//! Claims: free slots get the best ready tasks.
//!
//! One short transaction serves a batch of claims: it takes tasks out of the queue, moves their fences and
//! opens dispatches with leases. The context is built after it, and prompts are stored once the claims are
//! answered. A repeated claim gets the same answer, so a lost answer costs nothing.

pub(crate) mod dispatches;
pub(crate) mod matching;
pub mod opened;
pub mod path_holds;
pub(crate) mod selection;
pub mod tickets;

use std::collections::{HashMap, HashSet};

use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Assignment, ClaimAnswer, ClaimRequest};
use sqlx::PgPool;

use super::guard::{guarded, is_away};
use super::{Settings, Signals, apply};
use crate::domain::scheduling::fairness::Unserved;
use crate::faults;
use crate::flow::assignment::context;
use crate::flow::assignment::prompt_log::SentPrompts;
use crate::flow::claim::dispatches::{ClaimedBatch, take};
use crate::flow::claim::opened::Opened;
use crate::store;

/// Answers to a batch of claims, in the claims' order, with data to store and to send after them.
#[derive(Debug)]
pub struct Answered {
    pub answers: Vec<ClaimAnswer>,
    /// Why each unsatisfied claim got nothing, by index; missing means unknown.
    pub unmet: HashMap<usize, Unserved>,
    /// Prompts to store after the answers went out.
    pub sent: SentPrompts,
    /// Signals of attempts that ended because their assignment could not be built.
    pub signals: Signals,
}

/// Serves a batch of claims and stores the prompts. Errors are those of [`serve`].
pub async fn claim(
    db: &PgPool,
    settings: &Settings,
    claims: &[ClaimRequest],
) -> sqlx::Result<Vec<ClaimAnswer>> {
    let Answered { answers, sent, .. } = serve(db, settings, claims, ()).await?;
    sent.keep(db).await?;
    Ok(answers)
}

/// Serves a batch of claims. Batches take their tasks one after another: `turn` is dropped as soon as this
/// batch has its tasks, while its assignments are still built.
///
/// # Errors
/// When the database fails. Then nothing was opened, or the repeated claim finds its dispatch.
pub async fn serve<T: Send>(
    db: &PgPool,
    settings: &Settings,
    claims: &[ClaimRequest],
    turn: T,
) -> sqlx::Result<Answered> {
    let taken = store::retry_serialization(async || {
        let mut tx = store::begin_claims(db).await?;
        let taken = take(&mut tx, settings, claims).await?;
        faults::point("claim.before_commit");
        tx.commit().await?;
        Ok(taken)
    });
    let ClaimedBatch {
        mut answers,
        opened,
        unmet,
    } = taken.await?;
    drop(turn);
    faults::point("claim.after_commit");
    let dispatches = distinct(&opened);
    let mut signals = Signals::default();
    let (assignments, sent) = match guarded(context::build(db, settings, &dispatches)).await {
        Err(error) if !is_away(&error) => {
            tracing::warn!(%error, dispatches = dispatches.len(), "assignments could not be built; building them one by one");
            build_each(db, settings, &dispatches, &mut signals).await?
        }
        built => built?,
    };
    for (index, opened) in opened {
        if let Some(assignment) = assignments.get(&opened.dispatch) {
            answers[index] = ClaimAnswer::Assigned {
                assignment: Box::new(assignment.clone()),
            };
        }
    }
    Ok(Answered {
        answers,
        unmet,
        sent,
        signals,
    })
}

/// Builds assignments one by one. A dispatch whose assignment cannot be built ends as an error and is
/// omitted.
async fn build_each(
    db: &PgPool,
    settings: &Settings,
    dispatches: &[Opened],
    signals: &mut Signals,
) -> sqlx::Result<(HashMap<DispatchId, Assignment>, SentPrompts)> {
    let mut assignments = HashMap::new();
    let mut sent = SentPrompts::default();
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
                    // Nobody renews its lease, so it lapses.
                    Err(error) => {
                        tracing::error!(%error, dispatch = %one.dispatch, "its attempt can't be ended")
                    }
                }
            }
        }
    }
    Ok((assignments, sent))
}

/// Each dispatch once.
fn distinct(opened: &[(usize, Opened)]) -> Vec<Opened> {
    let mut seen = HashSet::new();
    let opened = opened.iter().map(|(_, opened)| opened);
    opened
        .filter(|opened| seen.insert(opened.dispatch))
        .cloned()
        .collect()
}
