//! The train of a branch: attempts that passed and wait to land, in their order (DESIGN 6).
//!
//! A car's check tries the gate on the tree that the branch will have once the cars before it have landed.
//! Only the turn lands a car, on the tree that it finds; a check merely saves the gate's time there. So a
//! wrong guess costs a check, and never lets anything land that its gate did not pass.
//!
//! ```text
//! waits ─► queued ─► checks ─► passed │ failed │ conflict │ lost ─► (first in the train) its turn
//!            └── withdrawn ◄───┴── aborted: the cars ahead of it have changed
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Maximum number of cars that one check of a batch covers.
pub const MAX_BATCH: usize = 32;
/// Default maximum of a feature's simultaneous checks.
pub const DEFAULT_SPECULATION: i32 = 8;

/// The way in which the attempts of a feature land.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
// The name `Landing` belongs to another schema.
#[schema(as = LandingMode)]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Landing {
    /// The gate runs on every commit that lands; waiting attempts are checked ahead of their turn.
    #[default]
    Each,
    /// The gate runs on the last of several commits, and on parts of them if it fails there.
    Batch,
    /// The gate runs on one commit after the other, each in its turn.
    Serial,
}

impl fmt::Display for Landing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into_str())
    }
}

/// A word that is not a way to land.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a way to land: use each, batch or serial")]
pub struct NoLanding(String);

impl FromStr for Landing {
    type Err = NoLanding;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Each, Self::Batch, Self::Serial]
            .into_iter()
            .find(|landing| landing.into_str() == text)
            .ok_or_else(|| NoLanding(text.to_owned()))
    }
}

/// The state of a car.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    Waits,
    /// Its check waits for a slot.
    Queued,
    /// A worker runs its check.
    Checks,
    /// It has the turn, or is queued for it.
    Lands,
}

/// The result of a check.
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
    /// It conflicts with the cars ahead of it.
    Conflict,
    /// Unknown: its worker died, or the cars ahead of it conflict.
    Lost,
}

/// The present or last check of a car.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The cars that were to land before it, in order.
    pub ahead: Vec<Uuid>,
    /// The newest landing at that time.
    pub since: Option<Uuid>,
    pub result: Option<CheckResult>,
}

/// An attempt that waits to land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Car {
    /// Id of its integration.
    pub id: Uuid,
    pub stand: Stand,
    pub check: Option<Check>,
    /// Whether an earlier attempt of its task failed, so that a batch would likely fail because of it.
    pub failed_before: bool,
}

/// A past landing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landed {
    pub id: Uuid,
    /// Whether it was built on the landing before it, with nothing in between.
    pub follows: bool,
}

/// The known state of a train.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Train {
    pub landing: Landing,
    /// Maximum number of simultaneous checks.
    pub max_checks: usize,
    /// The cars in order; the first one lands next.
    pub cars: Vec<Car>,
    /// The newest landings of the branch, oldest first.
    pub landed: Vec<Landed>,
    /// Whether `landed` has all landings of the branch.
    pub from_the_start: bool,
}

/// The next steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Cars to check, each with the cars ahead of it.
    pub checks: Vec<(Uuid, Vec<Uuid>)>,
    /// Queued checks that are useless now.
    pub withdraw: Vec<Uuid>,
    /// Running checks that are useless now.
    pub abort: Vec<Uuid>,
    /// Cars that may have their turn, in a train with batches.
    pub cleared: Vec<Uuid>,
}

impl Train {
    /// Whether a check is still valid for the car behind `ahead`: everything that landed since was ahead of
    /// it, in that order, and the other cars ahead are the same.
    ///
    /// A lost check is valid only until the next landing. If a landing was pushed while the check was handed
    /// out, its worker took that for somebody else's change of the branch.
    fn holds(&self, check: &Check, ahead: &[Uuid]) -> bool {
        let since = match check.since {
            None if self.from_the_start => 0,
            None => return false,
            Some(since) => match self.landed.iter().rposition(|landed| landed.id == since) {
                Some(at) => at + 1,
                None => return false,
            },
        };
        let landed = &self.landed[since..];
        if check.result == Some(CheckResult::Lost) && !landed.is_empty() {
            return false;
        }
        // The first landing of a branch follows nothing.
        let first = usize::from(since == 0);
        landed.iter().skip(first).all(|landed| landed.follows)
            && check.ahead.len() == landed.len() + ahead.len()
            && landed
                .iter()
                .map(|landed| &landed.id)
                .eq(&check.ahead[..landed.len()])
            && check.ahead[landed.len()..] == *ahead
    }

    /// The result of the valid check of the car at `at` behind `ahead`; `None` without a valid check.
    fn known(&self, at: usize, ahead: &[Uuid]) -> Option<Option<CheckResult>> {
        let check = self.cars[at].check.as_ref()?;
        self.holds(check, ahead).then_some(check.result)
    }
}

/// Decides which cars to check.
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

/// Each car behind the first is checked behind all cars before it that may land.
fn each(train: &Train) -> Plan {
    let mut plan = Plan::default();
    let mut ahead: Vec<Uuid> = Vec::new();
    let mut wanted = Vec::new();
    let mut busy = 0;
    for (at, car) in train.cars.iter().enumerate() {
        let known = train.known(at, &ahead);
        match (car.stand, known) {
            // The turn tries the gate as well.
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
        // Nobody waits for a car that leaves, and no other car lands in its place.
        if !matches!(known, Some(Some(CheckResult::Failed | CheckResult::Conflict))) {
            ahead.push(car.id);
        }
    }
    wanted.retain(|(car, _)| train.cars.first().is_none_or(|first| first.id != *car));
    wanted.truncate(train.max_checks.saturating_sub(busy));
    plan.checks = wanted;
    plan
}

/// Checks the last of several cars. If it fails there, the middle of the cars that may be to blame is next.
fn batch(train: &Train) -> Plan {
    let mut plan = Plan::default();
    // The cars that may land, by their positions in the train.
    let mut chain: Vec<usize> = (0..train.cars.len()).collect();
    let target = loop {
        let ids: Vec<Uuid> = chain.iter().map(|at| train.cars[*at].id).collect();
        let results: Vec<Option<CheckResult>> = (0..chain.len())
            .map(|n| train.known(chain[n], &ids[..n]).flatten())
            .collect();
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
            // This car alone is to blame, and its turn will show that.
            plan.cleared.push(ids[fit]);
            chain.remove(fit);
            continue;
        }
        plan.cleared.extend(&ids[..fit]);
        let target = match unfit {
            Some(unfit) => fit + (unfit - fit - 1) / 2,
            None => {
                let likely = |n: &usize| !train.cars[chain[*n]].failed_before;
                let batch = (fit + 1..chain.len()).take_while(likely).take(MAX_BATCH - 1);
                match chain.get(fit) {
                    Some(first) if !train.cars[*first].failed_before => fit + batch.count(),
                    // Alone, so that no other car is checked again because of it.
                    _ => fit,
                }
            }
        };
        break (fit < chain.len()).then(|| (ids[target], ids[..target].to_vec()));
    };
    let mut waits = false;
    for (at, car) in train.cars.iter().enumerate() {
        let is_target = target
            .as_ref()
            .is_some_and(|(id, ahead)| *id == car.id && train.known(at, ahead) == Some(None));
        match car.stand {
            Stand::Queued | Stand::Checks if is_target => waits = true,
            Stand::Queued => plan.withdraw.push(car.id),
            // Its result on the cars before it counts, even if others have joined behind it.
            Stand::Checks if still_true(train, at, &chain) => waits = true,
            Stand::Checks => plan.abort.push(car.id),
            Stand::Waits | Stand::Lands => {}
        }
    }
    plan.checks = target.into_iter().filter(|_| !waits).collect();
    plan
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
