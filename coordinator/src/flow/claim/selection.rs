//! Chooses ready tasks for free slots: verifications and integrations first, the rest divided fairly between
//! features (SPEC 2.3), and checks ahead of their turn for slots that nobody needs.
//!
//! It does not count a feature's ready tasks. Slots that a feature cannot use are divided again between the
//! others.

use std::collections::{BTreeMap, HashMap, HashSet};

use parking_lot::Mutex;
use ralph_shared::ids::{FeatureId, RunId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::budget::levels::Levels;
use crate::domain::budget::{Purse, Usual};
use crate::domain::scheduling::capability::Capability;
use crate::domain::scheduling::fairness::{Share, Turns, Unserved, divide};
use crate::flow::claim::path_holds;
use crate::store;
use crate::store::queue::features::Claimable;
use crate::store::queue::ready::{Dequeued, ReadyFilter};

/// Result of [`take`].
#[derive(Debug)]
pub(in crate::flow) struct Took {
    pub tasks: Vec<(Dequeued, RunId)>,
    /// The rest of their runs' limits.
    pub budgets: HashMap<RunId, Budget>,
    /// Why some slots got no task.
    pub unserved: Unserved,
}

/// The rest of a run's limits for new sessions.
#[derive(Debug, Clone, Copy)]
pub(in crate::flow) struct Budget {
    /// Limits of cost and tokens.
    pub purse: Purse,
    pub usual: Usual,
    /// Number of further sessions that may run at once.
    pub sessions: i64,
}

impl From<&Claimable> for Budget {
    fn from(feature: &Claimable) -> Self {
        Self {
            purse: feature.purse,
            usual: feature.usual,
            sessions: i64::from(feature.max_parallel - feature.running),
        }
    }
}

/// Takes up to `slots` ready tasks for one offer. `before` are the tasks that this transaction took already:
/// their dispatches are opened later, so the rows do not count them yet.
pub(in crate::flow) async fn take(
    conn: &mut PgConnection,
    offer: &Capability,
    slots: usize,
    before: &[Dequeued],
    turns: &Mutex<Turns>,
    levels: &Levels,
) -> sqlx::Result<Took> {
    let mut features: BTreeMap<FeatureId, Claimable> = store::queue::features::claimable(conn, offer)
        .await?
        .into_iter()
        .map(|feature| (feature.feature, feature))
        .collect();
    count(&mut features, before);
    omit_unstartable(&mut features);
    let mut left = u32::try_from(slots).unwrap_or(u32::MAX);
    let shares = divide(left, &shares_of(&features, |feature| feature.follow_ups));
    let budgets = features.values().map(|f| (f.run, Budget::from(f))).collect();
    for feature in features.values_mut() {
        feature.purse = levels.least_of_feature(feature.purse, feature.feature);
    }
    let mut taken = Vec::new();
    if !shares.is_empty() {
        taken = store::queue::ready::take(conn, offer, &shares, ReadyFilter::FollowUps).await?;
        left = left.saturating_sub(u32::try_from(taken.len()).unwrap_or(u32::MAX));
        count(&mut features, &taken);
    }
    let mut shares: Vec<Share> = features.values().map(share).collect();
    let turns = || turns.lock();
    turns().fill_in(&mut shares);
    let mut exhausted = HashSet::new();
    loop {
        let given = divide(left, &shares);
        if given.is_empty() {
            break;
        }
        let got = take_shares(conn, offer, &features, &given, before, &taken).await?;
        left = left.saturating_sub(u32::try_from(got.len()).unwrap_or(u32::MAX));
        exhausted.extend(settle(&mut shares, &given, &got));
        taken.extend(got);
    }
    turns().note(&shares);
    // Slots that nobody else needs.
    let shares = divide(left, &shares_of(&features, |feature| feature.speculation));
    if !shares.is_empty() {
        taken.extend(store::queue::ready::take(conn, offer, &shares, ReadyFilter::Speculation).await?);
    }
    // A task that waits for a concurrency key may start when a session ends, like one that waits for room.
    let is_over = |feature: &Claimable| exhausted.contains(&feature.feature) && !feature.keyed;
    let unserved = match features.values().all(is_over) {
        true => Unserved::Nothing,
        false => Unserved::NoRoom,
    };
    let with_run = |task: Dequeued| features.get(&task.feature).map(|f| f.run).map(|run| (task, run));
    Ok(Took {
        tasks: taken.into_iter().filter_map(with_run).collect(),
        budgets,
        unserved,
    })
}

/// Omits features in which nothing may start now, however much room there is.
pub(in crate::flow) fn omit_unstartable(features: &mut BTreeMap<FeatureId, Claimable>) {
    // Above a limit a run ends as soon as no dispatch is live. A new session would be ended at once, again
    // and again.
    for feature in features.values_mut().filter(|feature| feature.over_limit) {
        feature.follow_ups = 0;
        feature.speculation = 0;
    }
    one_a_folder(features);
}

/// Of the features with the same folder, keeps the one that may start a session in it: none while a session
/// runs there, else the one with a verification or integration, else the oldest. Another session would hold a
/// slot and wait for the folder.
fn one_a_folder(features: &mut BTreeMap<FeatureId, Claimable>) {
    let mut chosen: HashMap<String, (bool, FeatureId)> = HashMap::new();
    let taken: HashSet<String> = features
        .values()
        .filter(|feature| feature.dir_taken || feature.running > 0)
        .filter_map(|feature| feature.dir.clone())
        .collect();
    for feature in features.values() {
        let Some(dir) = feature.dir.as_ref().filter(|dir| !taken.contains(*dir)) else {
            continue;
        };
        let first = (feature.follow_ups == 0, feature.feature);
        let best = chosen.entry(dir.clone()).or_insert(first);
        *best = first.min(*best);
    }
    for feature in features.values_mut() {
        let Some(dir) = &feature.dir else { continue };
        if chosen.get(dir).is_none_or(|(_, id)| *id != feature.feature) {
            feature.follow_ups = 0;
            feature.max_parallel = 0;
        } else {
            feature.follow_ups = feature.follow_ups.min(1);
        }
    }
}

/// Counts taken tasks like the dispatches that they become.
fn count(features: &mut BTreeMap<FeatureId, Claimable>, taken: &[Dequeued]) {
    for one in taken {
        if let Some(feature) = features.get_mut(&one.feature) {
            let needs_room = !matches!(one.kind, SessionKind::Integrate | SessionKind::Check);
            feature.running += i32::from(needs_room);
            feature.working += i32::from(one.kind == SessionKind::Work);
        }
    }
}

/// Shares of tasks that need no room of their feature.
fn shares_of(features: &BTreeMap<FeatureId, Claimable>, ready: impl Fn(&Claimable) -> i32) -> Vec<Share> {
    let shares = features.values().map(|feature| Share {
        running: 0,
        room: u32::try_from(ready(feature)).unwrap_or(0),
        ..share(feature)
    });
    shares.collect()
}

async fn take_shares(
    conn: &mut PgConnection,
    offer: &Capability,
    features: &BTreeMap<FeatureId, Claimable>,
    given: &[(FeatureId, u32)],
    before: &[Dequeued],
    taken: &[Dequeued],
) -> sqlx::Result<Vec<Dequeued>> {
    let (apart, shares): (Vec<_>, Vec<_>) = given
        .iter()
        .copied()
        .partition(|(feature, _)| features.get(feature).is_some_and(|f| f.avoid_conflicts));
    let mut got = Vec::new();
    if !shares.is_empty() {
        got = store::queue::ready::take(conn, offer, &shares, ReadyFilter::Work).await?;
    }
    for (feature, n) in apart {
        let took: Vec<Uuid> = before
            .iter()
            .chain(taken)
            .filter(|one| one.feature == feature)
            .map(|one| one.task.0)
            .collect();
        got.extend(path_holds::take(conn, offer, feature, n, &took).await?);
    }
    Ok(got)
}

/// Subtracts given slots from the features' room. Returns features that gave less than they were asked for:
/// they have no more ready tasks.
fn settle(shares: &mut [Share], given: &[(FeatureId, u32)], got: &[Dequeued]) -> Vec<FeatureId> {
    let mut counts: HashMap<FeatureId, u32> = HashMap::new();
    for one in got {
        *counts.entry(one.feature).or_default() += 1;
    }
    let given: HashMap<FeatureId, u32> = given.iter().copied().collect();
    let mut exhausted = Vec::new();
    for share in shares {
        let Some(asked) = given.get(&share.feature) else {
            continue;
        };
        let gave = counts.get(&share.feature).copied().unwrap_or(0);
        share.running += gave;
        share.turn += f64::from(gave) / f64::from(share.weight);
        share.room = if gave < *asked {
            exhausted.push(share.feature);
            0
        } else {
            share.room.saturating_sub(gave)
        };
    }
    exhausted
}

/// Number of sessions that a feature may start now, by `max_parallel` and its run's limits.
pub(in crate::flow) fn share(feature: &Claimable) -> Share {
    let parallel = feature.max_parallel - feature.running;
    let iterations = feature
        .iterations_left
        .map_or(i32::MAX, |left| left - feature.working);
    let room = if feature.over_limit {
        0
    } else {
        let funded = i32::try_from(feature.purse.sessions()).unwrap_or(i32::MAX);
        parallel.min(iterations).min(funded)
    };
    Share {
        feature: feature.feature,
        running: u32::try_from(feature.running).unwrap_or(0),
        room: u32::try_from(room).unwrap_or(0),
        weight: u32::try_from(feature.weight).unwrap_or(1),
        deadline: feature.deadline,
        turn: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_feature_at_a_time_uses_a_folder() {
        let feature =
            |n: u128, dir: Option<&str>, dir_taken: bool, running: i32, follow_ups: i32| Claimable {
                feature: FeatureId(Uuid::from_u128(n)),
                run: RunId(Uuid::nil()),
                max_parallel: 1,
                running,
                working: running,
                follow_ups,
                speculation: 0,
                iterations_left: None,
                over_limit: false,
                purse: Purse::default(),
                usual: Usual::default(),
                weight: 1,
                deadline: None,
                keyed: false,
                avoid_conflicts: false,
                dir: dir.map(str::to_owned),
                dir_taken,
            };
        let check = |rows: Vec<Claimable>, expected: &[u32]| {
            let mut features = rows.into_iter().map(|row| (row.feature, row)).collect();
            one_a_folder(&mut features);
            let room = |f: &Claimable| share(f).room + u32::try_from(f.follow_ups).unwrap();
            assert_eq!(features.values().map(room).collect::<Vec<_>>(), expected);
        };
        let (a, b) = (Some("/a"), Some("/b"));
        // The oldest of the features that share a folder; all others are unaffected.
        check(
            vec![
                feature(1, a, false, 0, 0),
                feature(2, a, false, 0, 0),
                feature(3, b, false, 0, 0),
                feature(4, None, false, 0, 0),
            ],
            &[1, 0, 1, 1],
        );
        // Verifications and integrations go first.
        check(
            vec![feature(1, a, false, 0, 0), feature(2, a, false, 0, 1)],
            &[0, 2],
        );
        // A session works there, of a feature without ready tasks, or taken by the same claims.
        check(
            vec![feature(1, a, true, 0, 1), feature(2, b, false, 0, 0)],
            &[0, 1],
        );
        check(
            vec![feature(1, a, false, 1, 0), feature(2, a, false, 0, 0)],
            &[0, 0],
        );
    }
}
