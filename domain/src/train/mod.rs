//! The train of a branch: attempts that passed and wait to land, in their order (DESIGN 6).
//!
//! A car's check tries the gate on the tree that the branch will have once the cars before it landed. The turn
//! alone lands a car, on the tree that it finds; a check only saves the gate's time there. So a wrong guess
//! costs a check, and never lets anything land that its gate did not pass.
//!
//! ```text
//! waits ─► queued ─► checks ─► passed │ failed │ conflict │ lost ─► (first in the train) its turn
//!            └── withdrawn ◄───┴── aborted: what was ahead of it is something else by now
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Most cars that one check of a batch covers.
pub const MAX_BATCH: usize = 32;
/// Checks of a feature at once when nobody says how many.
pub const DEFAULT_SPECULATION: i32 = 8;

/// How the attempts of a feature land.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
// A landing of a feature has that name already.
#[schema(as = LandingMode)]
pub enum Landing {
    /// The gate runs on every commit that lands; those that wait are checked ahead of their turn.
    #[default]
    Each,
    /// The gate runs on the last of several, and on parts of them when it fails there.
    Batch,
    /// The gate runs on one commit after the other, each in its turn.
    Serial,
}

impl Landing {
    /// The word on command lines, in the database and in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::Batch => "batch",
            Self::Serial => "serial",
        }
    }
}

impl fmt::Display for Landing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no way to land.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no way to land: say each, batch or serial")]
pub struct NoLanding(String);

impl FromStr for Landing {
    type Err = NoLanding;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Each, Self::Batch, Self::Serial]
            .into_iter()
            .find(|landing| landing.as_str() == text)
            .ok_or_else(|| NoLanding(text.to_owned()))
    }
}

/// What a car does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    Waits,
    /// Its check waits for a slot.
    Queued,
    /// A worker has its check.
    Checks,
    /// It has the turn, or is queued for it.
    Lands,
}

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "check_result", rename_all = "snake_case")
)]
pub enum CheckResult {
    Passed,
    /// The gate failed.
    Failed,
    /// It conflicts with what is ahead of it.
    Conflict,
    /// Nothing is known: its worker died, or what was ahead conflicts.
    Lost,
}

/// The check that a car had, or has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The cars that were to land before it, in order.
    pub ahead: Vec<Uuid>,
    /// The landing that was the newest then.
    pub since: Option<Uuid>,
    pub result: Option<CheckResult>,
}

/// An attempt that waits to land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Car {
    /// Of its integration.
    pub id: Uuid,
    pub stand: Stand,
    pub check: Option<Check>,
    /// Whether an earlier attempt of its task failed: a batch would likely fail for it again.
    pub failed_before: bool,
}

/// A landing of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landed {
    pub id: Uuid,
    /// Whether it was built on the landing before it, and on nothing that came in between.
    pub follows: bool,
}

/// What is known of a train.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Train {
    pub landing: Landing,
    /// Most checks at once.
    pub max_checks: usize,
    /// The first one lands next.
    pub cars: Vec<Car>,
    /// The newest landings of the branch, oldest first.
    pub landed: Vec<Landed>,
    /// Whether these are all that there were.
    pub from_the_start: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Cars to check, each behind these others.
    pub checks: Vec<(Uuid, Vec<Uuid>)>,
    /// Queued checks that are for nothing.
    pub withdraw: Vec<Uuid>,
    /// Running checks that are for nothing.
    pub abort: Vec<Uuid>,
    /// Cars that may have their turn, of a train with batches.
    pub cleared: Vec<Uuid>,
}

impl Train {
    /// What of a check's `ahead` has not landed yet; `None` when the check says nothing any more, since something
    /// else landed.
    ///
    /// A check that came to nothing says so only until the next landing: one that was pushed while it was
    /// handed out looks to its worker as if somebody else had moved the branch.
    fn still_ahead<'c>(&self, check: &'c Check) -> Option<&'c [Uuid]> {
        let since = match check.since {
            None => self.from_the_start.then_some(0)?,
            Some(since) => self.landed.iter().rposition(|landed| landed.id == since)? + 1,
        };
        let landed = &self.landed[since..];
        if check.result == Some(CheckResult::Lost) && !landed.is_empty() {
            return None;
        }
        // The first landing of a branch follows nothing.
        let first = usize::from(since == 0);
        let (gone, ahead) = check.ahead.split_at_checked(landed.len())?;
        let as_it_stood = landed.iter().map(|landed| &landed.id).eq(gone);
        (as_it_stood && landed.iter().skip(first).all(|landed| landed.follows)).then_some(ahead)
    }

    /// What the check of the car at `at` says behind `ahead`: `None` when it has none that holds.
    fn known(&self, at: usize, ahead: &[Uuid]) -> Option<Option<CheckResult>> {
        let check = self.cars[at].check.as_ref()?;
        (self.still_ahead(check)? == ahead).then_some(check.result)
    }

    fn ids(&self, chain: &[usize]) -> Vec<Uuid> {
        chain.iter().map(|at| self.cars[*at].id).collect()
    }

    /// What is known of each car of a chain behind those before it.
    fn results(&self, chain: &[usize]) -> Vec<Option<CheckResult>> {
        let ids = self.ids(chain);
        let known = |(n, at): (usize, &usize)| self.known(*at, &ids[..n]).flatten();
        chain.iter().enumerate().map(known).collect()
    }

    /// The cars without those that the last passed check went around.
    fn chain(&self) -> Vec<usize> {
        let passed = self.cars.iter().enumerate().rev().find_map(|(at, car)| {
            let check = car.check.as_ref()?;
            let ahead = self
                .still_ahead(check)
                .filter(|_| check.result == Some(CheckResult::Passed))?;
            let among = |car: &&Car| ahead.contains(&car.id);
            let are_there = self.cars[..at].iter().filter(among).map(|car| &car.id).eq(ahead);
            are_there.then_some((at, ahead))
        });
        let all = 0..self.cars.len();
        match passed {
            Some((last, ahead)) => all
                .filter(|at| *at >= last || ahead.contains(&self.cars[*at].id))
                .collect(),
            None => all.collect(),
        }
    }

    /// The last place of the batch that begins at `first`. One that failed before is alone, so that no other is
    /// checked again for it.
    fn end_of_batch(&self, chain: &[usize], first: usize) -> usize {
        let likely = |at: &&usize| !self.cars[**at].failed_before;
        let batch = chain[first..].iter().take_while(likely).take(MAX_BATCH);
        first + batch.count().saturating_sub(1)
    }
}

/// Decides what to check.
pub fn plan(train: &Train) -> Plan {
    match train.landing {
        Landing::Each => each(train),
        Landing::Batch => batch(train),
        Landing::Serial => Plan {
            withdraw: cars_with(train, Stand::Queued),
            abort: cars_with(train, Stand::Checks),
            ..Plan::default()
        },
    }
}

fn cars_with(train: &Train, stand: Stand) -> Vec<Uuid> {
    let cars = train.cars.iter().filter(|car| car.stand == stand);
    cars.map(|car| car.id).collect()
}

/// Each car behind the first is checked behind all before it that may land.
fn each(train: &Train) -> Plan {
    let mut plan = Plan::default();
    let mut ahead: Vec<Uuid> = Vec::new();
    let mut wanted = Vec::new();
    let mut busy = 0;
    for (at, car) in train.cars.iter().enumerate() {
        let known = train.known(at, &ahead);
        match (car.stand, known) {
            // Its turn tries the gate as well.
            (Stand::Queued, _) if at == 0 => plan.withdraw.push(car.id),
            (Stand::Queued | Stand::Checks, Some(_)) => busy += 1,
            (Stand::Queued, None) => {
                plan.withdraw.push(car.id);
                wanted.push((car.id, ahead.clone()));
            }
            (Stand::Checks, None) => {
                plan.abort.push(car.id);
                wanted.push((car.id, ahead.clone()));
            }
            (Stand::Waits, None | Some(None)) if at > 0 => wanted.push((car.id, ahead.clone())),
            (Stand::Waits | Stand::Lands, _) => {}
        }
        // Nobody waits for what leaves, and nobody else may land in its place.
        if !matches!(known, Some(Some(CheckResult::Failed | CheckResult::Conflict))) {
            ahead.push(car.id);
        }
    }
    wanted.retain(|(car, _)| train.cars.first().is_none_or(|first| first.id != *car));
    wanted.truncate(train.max_checks.saturating_sub(busy));
    plan.checks = wanted;
    plan
}

/// The last of several is checked. When it fails there, the middle of those that may be to blame is next. Of the last
/// two that may be, one stands aside: a pass of all others lands them, and says which of the two it was.
fn batch(train: &Train) -> Plan {
    let mut plan = Plan::default();
    // The cars that may land, by their places in the train.
    let mut chain = train.chain();
    for at in (0..train.cars.len()).filter(|at| !chain.contains(at)) {
        let before: Vec<usize> = chain.iter().copied().take_while(|other| *other < at).collect();
        if matches!(train.known(at, &train.ids(&before)), Some(Some(_))) {
            // It is to blame, and its turn says so.
            plan.cleared.push(train.cars[at].id);
        }
    }
    let target = loop {
        let ids = train.ids(&chain);
        let results = train.results(&chain);
        let is = |n: &usize, wanted: &[CheckResult]| results[*n].is_some_and(|found| wanted.contains(&found));
        let fit = (0..chain.len())
            .rfind(|n| is(n, &[CheckResult::Passed]))
            .map_or(0, |n| n + 1);
        if let Some(n) = (fit..chain.len()).find(|n| is(n, &[CheckResult::Conflict])) {
            plan.cleared.push(ids[n]);
            chain.remove(n);
            continue;
        }
        let unfit = (fit..chain.len()).find(|n| is(n, &[CheckResult::Failed, CheckResult::Lost]));
        if unfit == Some(fit) {
            // It alone is to blame, and its turn says so.
            plan.cleared.push(ids[fit]);
            chain.remove(fit);
            continue;
        }
        plan.cleared.extend(&ids[..fit]);
        if fit == chain.len() {
            break None;
        }
        let target = match unfit {
            Some(unfit) if unfit == fit + 1 => match without_one(train, &chain, fit) {
                Some(others) => {
                    chain = others;
                    train.end_of_batch(&chain, fit)
                }
                None => fit,
            },
            Some(unfit) => fit + (unfit - fit - 1) / 2,
            None => train.end_of_batch(&chain, fit),
        };
        let ids = train.ids(&chain[..=target]);
        break ids.split_last().map(|(target, ahead)| (*target, ahead.to_vec()));
    };
    let mut waits = false;
    for (at, car) in train.cars.iter().enumerate() {
        let is_target = target
            .as_ref()
            .is_some_and(|(id, ahead)| *id == car.id && train.known(at, ahead) == Some(None));
        match car.stand {
            Stand::Queued | Stand::Checks if is_target => waits = true,
            Stand::Queued => plan.withdraw.push(car.id),
            // What it says of those before it counts, whatever came behind it since.
            Stand::Checks if still_true(train, at, &chain) => waits = true,
            Stand::Checks => plan.abort.push(car.id),
            Stand::Waits | Stand::Lands => {}
        }
    }
    plan.checks = target.into_iter().filter(|_| !waits).collect();
    plan
}

/// All but one of the two at `fit`, of which the second failed behind the first; `None` when there is nothing behind
/// them, or all but the first failed as well: then more than one is to blame.
fn without_one(train: &Train, chain: &[usize], fit: usize) -> Option<Vec<usize>> {
    let without = |n: usize| {
        let mut others = chain.to_vec();
        others.remove(n);
        let is_known = train.results(&others)[fit + 1..].iter().any(Option::is_some);
        (others, is_known)
    };
    let (second, is_first_suspected) = without(fit + 1);
    let (first, are_both) = without(fit);
    if are_both || train.end_of_batch(&second, fit) == fit {
        return None;
    }
    Some(if is_first_suspected { first } else { second })
}

fn still_true(train: &Train, at: usize, chain: &[usize]) -> bool {
    let ahead: Vec<Uuid> = chain
        .iter()
        .take_while(|other| **other < at)
        .map(|other| train.cars[*other].id)
        .collect();
    train.known(at, &ahead).is_some()
}

#[cfg(test)]
mod tests;
