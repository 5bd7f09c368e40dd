//! Takes tasks for a batch of claims and opens their dispatches, in one transaction under the lock on claims.

use std::collections::{HashMap, HashSet};

use ralph_shared::ids::{DispatchId, FeatureId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{ClaimAnswer, ClaimRequest};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::budget::levels::Levels;
use crate::domain::routing::strategy;
use crate::domain::scheduling::availability::BreakerState;
use crate::domain::scheduling::fairness::Unserved;
use crate::flow::Settings;
use crate::flow::claim::matching::{ClaimMatches, MatchedTask, OpenClaims, match_claims};
use crate::flow::claim::opened::Opened;
use crate::store;
use crate::store::availability::Account;
use crate::store::budget::Tasks;
use crate::store::dispatch::{Dispatch, DispatchState, NewDispatch};
use crate::store::worker::Claimer;

/// How long a worker waits after a transient failure of its claim. Milliseconds.
const RETRY_AFTER_MS: u64 = 1_000;

#[derive(Debug)]
pub(in crate::flow) struct ClaimedBatch {
    /// Answers by index. They are complete for claims that opened nothing.
    pub answers: Vec<ClaimAnswer>,
    /// New dispatches, and live ones of repeated claims, with the index of their claim.
    pub opened: Vec<(usize, Opened)>,
    /// Why each unsatisfied claim got nothing, by index; missing means unknown.
    pub unmet: HashMap<usize, Unserved>,
}

/// Takes tasks for claims and opens their dispatches, under the lock on claims.
pub(in crate::flow) async fn take(
    tx: &mut PgConnection,
    settings: &Settings,
    claims: &[ClaimRequest],
) -> sqlx::Result<ClaimedBatch> {
    let names: HashSet<&str> = claims.iter().map(|claim| claim.worker.as_str()).collect();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let (rows, any_door, any_budget) = store::worker::claimers(tx, &names).await?;
    let known: HashMap<String, Claimer> = rows.into_iter().map(|row| (row.name.clone(), row)).collect();
    let accounts: Vec<Account> = match any_door {
        true => store::availability::not_open(tx).await?,
        false => Vec::new(),
    };
    let levels = match any_budget || !settings.levels.is_empty() {
        true => store::budget::read(tx, &settings.levels, Tasks::Of(&[]), false).await?,
        false => Levels::default(),
    };
    let mut answers = vec![ClaimAnswer::Nothing; claims.len()];
    let waits = accounts
        .iter()
        .filter(|one| !matches!(one.state, BreakerState::Free(_)));
    let waiting: HashSet<&String> = waits.map(|one| &one.account).collect();
    let asking = OpenClaims {
        claims,
        known: &known,
    };
    let (free, repeated) = sort_claims(asking, &waiting, &mut answers);
    let mut opened = Vec::new();
    let free = serve_repeated(tx, claims, free, &mut answers, &mut opened).await?;
    let ClaimMatches { matched, unmet } = match_claims(tx, settings, asking, free, &accounts, levels).await?;
    opened.extend(open(tx, settings, claims, &matched).await?);
    for (index, first) in repeated {
        answers[index] = answers[first].clone();
        let same = opened.iter().find(|(of, _)| *of == first);
        let same = same.map(|(_, same)| (index, same.clone()));
        opened.extend(same.into_iter().collect::<Vec<_>>());
    }
    Ok(ClaimedBatch {
        answers,
        opened,
        unmet,
    })
}

/// The claims that may get a task, and repeated claims with the index of their first one. Answers the others.
fn sort_claims(
    asking: OpenClaims<'_>,
    waiting: &HashSet<&String>,
    answers: &mut [ClaimAnswer],
) -> (Vec<usize>, Vec<(usize, usize)>) {
    let mut free = Vec::new();
    // A claim that was repeated while it waited here gets the answer of the first one.
    let mut first: HashMap<DispatchId, usize> = HashMap::new();
    let mut repeated = Vec::new();
    for (index, claim) in asking.claims.iter().enumerate() {
        let first_one = *first.entry(claim.claim).or_insert(index);
        if first_one != index {
            repeated.push((index, first_one));
            continue;
        }
        match asking.known.get(claim.worker.as_str()) {
            Some(worker) if worker.incarnation != claim.incarnation => answers[index] = ClaimAnswer::SayHello,
            None => answers[index] = ClaimAnswer::SayHello,
            Some(worker) if worker.draining => answers[index] = not_now("the worker drains"),
            Some(worker) => {
                if worker.accounts.values().any(|account| waiting.contains(account)) {
                    // A ticket may be for a task that it cannot start now, so it polls.
                    answers[index] = not_now("an account of its agents is paused");
                }
                free.push(index);
            }
        }
    }
    (free, repeated)
}

fn not_now(reason: &str) -> ClaimAnswer {
    ClaimAnswer::NotNow {
        reason: reason.to_owned(),
        retry_after_ms: RETRY_AFTER_MS,
    }
}

/// Finds claims that already have a dispatch: a live one is given again, a finished one gives nothing.
/// Returns the others.
async fn serve_repeated(
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

/// An existing dispatch, for a repeated claim.
pub(in crate::flow) fn reopened(row: &Dispatch) -> Opened {
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
        // The prompt row of the first batch may exist already, or not yet, so this one gets its own.
        prompts: row.prompts.map(|_| row.id.0),
        share: row.share,
    }
}

fn new_dispatches(settings: &Settings, claims: &[ClaimRequest], matched: &[MatchedTask]) -> Vec<NewDispatch> {
    let mut prompts: HashMap<FeatureId, Uuid> = HashMap::new();
    let new = matched.iter().map(|matched| {
        let MatchedTask {
            index,
            task: taken,
            run,
            chosen,
            ..
        } = matched;
        let claim = &claims[*index];
        let has_agent = taken.kind.has_agent();
        NewDispatch {
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
            account: matched.account.clone(),
            share: matched.share,
            key: taken.key.clone(),
            place: settings.attempts,
        }
    });
    new.collect()
}

/// Moves the fences of taken tasks and opens their dispatches.
async fn open(
    conn: &mut PgConnection,
    settings: &Settings,
    claims: &[ClaimRequest],
    matched: &[MatchedTask],
) -> sqlx::Result<Vec<(usize, Opened)>> {
    let new = new_dispatches(settings, claims, matched);
    let attempts = store::dispatch::open(conn, &new, settings.lease_ms()).await?;
    let mut opened = Vec::with_capacity(new.len());
    let mut turns = (Vec::new(), Vec::new());
    let mut checks = (Vec::new(), Vec::new());
    for (matched, new) in matched.iter().zip(&new) {
        // The task may be gone.
        let Some(&attempt) = attempts.get(&new.id) else {
            continue;
        };
        // A verification holds the turn that it belongs to, if any.
        if matches!(new.kind, SessionKind::Integrate | SessionKind::Verify) {
            turns.0.push(new.task.0);
            turns.1.push(new.id.0);
        }
        if new.kind == SessionKind::Check {
            checks.0.push(new.task.0);
            checks.1.push(new.id.0);
        }
        let one = Opened {
            dispatch: new.id,
            task: new.task,
            kind: new.kind,
            attempt,
            run: new.run,
            model: matched.chosen.model.clone(),
            agent: new.agent.clone(),
            prompts: new.prompts,
            share: new.share,
        };
        opened.push((matched.index, one));
    }
    if !turns.0.is_empty() {
        store::git::integration::give_turn(conn, &turns.0, &turns.1).await?;
    }
    if !checks.0.is_empty() {
        store::git::train::begin(conn, &checks.0, &checks.1).await?;
    }
    Ok(opened)
}
