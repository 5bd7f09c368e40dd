use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn ids(of: &[u128]) -> Vec<Uuid> {
    of.iter().copied().map(id).collect()
}

fn car(n: u128, stand: Stand, check: Option<(&[u128], Option<CheckResult>)>) -> Car {
    Car {
        id: id(n),
        stand,
        check: check.map(|(ahead, result)| Check {
            ahead: ids(ahead),
            since: None,
            result,
        }),
        failed_before: false,
    }
}

fn train(landing: Landing, cars: Vec<Car>) -> Train {
    Train {
        landing,
        max_checks: 8,
        cars,
        landed: Vec::new(),
        from_the_start: true,
    }
}

const PASSED: Option<CheckResult> = Some(CheckResult::Passed);
const FAILED: Option<CheckResult> = Some(CheckResult::Failed);

#[test]
fn each_car_is_checked_behind_the_cars_before_it() {
    use Stand::{Checks, Lands, Queued, Waits};
    let check = |cars: Vec<Car>, checks: &[(u128, &[u128])], withdraw: &[u128], abort: &[u128]| {
        let expected = Plan {
            checks: checks.iter().map(|(of, ahead)| (id(*of), ids(ahead))).collect(),
            withdraw: ids(withdraw),
            abort: ids(abort),
            cleared: Vec::new(),
        };
        assert_eq!(plan(&train(Landing::Each, cars)), expected);
    };
    // A single car has its turn, which tries the gate.
    check(vec![car(1, Waits, None)], &[], &[], &[]);
    check(
        vec![car(1, Lands, None), car(2, Waits, None), car(3, Waits, None)],
        &[(2, &[1]), (3, &[1, 2])],
        &[],
        &[],
    );
    // Running checks that are still valid continue.
    check(
        vec![
            car(1, Lands, None),
            car(2, Checks, Some((&[1], None))),
            car(3, Queued, Some((&[1, 2], None))),
        ],
        &[],
        &[],
        &[],
    );
    // The second car left: the checks behind it start again.
    check(
        vec![
            car(1, Lands, None),
            car(3, Checks, Some((&[1, 2], None))),
            car(4, Queued, Some((&[1, 2, 3], None))),
            car(5, Waits, Some((&[1, 2, 3, 4], PASSED))),
        ],
        &[(3, &[1]), (4, &[1, 3]), (5, &[1, 3, 4])],
        &[4],
        &[3],
    );
    // Cars behind a failed one are checked without it; one that failed only behind it is tried again.
    check(
        vec![
            car(1, Lands, None),
            car(2, Waits, Some((&[1], FAILED))),
            car(3, Waits, Some((&[1], PASSED))),
            car(4, Waits, Some((&[1, 2, 3], FAILED))),
        ],
        &[(4, &[1, 3])],
        &[],
        &[],
    );
    // The car is the first now: its turn tries the gate.
    check(vec![car(2, Queued, Some((&[1], None)))], &[], &[2], &[]);
}

#[test]
fn no_more_checks_than_allowed_run_at_once() {
    let cars = (1..=20).map(|n| car(n, Stand::Waits, None)).collect();
    let plan = plan(&Train {
        max_checks: 3,
        ..train(Landing::Each, cars)
    });
    let checked: Vec<Uuid> = plan.checks.iter().map(|(car, _)| *car).collect();
    assert_eq!(checked, ids(&[2, 3, 4]));
}

#[test]
fn a_check_is_valid_while_the_cars_ahead_land_in_order() {
    let landed = |n: u128, follows: bool| Landed { id: id(n), follows };
    let check = |landed: Vec<Landed>, since: Option<u128>, ahead: &[u128], now: &[u128]| {
        let train = Train {
            landed,
            ..train(Landing::Each, Vec::new())
        };
        let check = Check {
            ahead: ids(ahead),
            since: since.map(id),
            result: PASSED,
        };
        train.holds(&check, &ids(now))
    };
    assert!(check(vec![], None, &[1, 2], &[1, 2]));
    assert!(check(vec![landed(1, false)], None, &[1, 2], &[2]));
    assert!(check(vec![landed(1, false), landed(2, true)], None, &[1, 2], &[]));
    assert!(check(
        vec![landed(9, false), landed(1, true)],
        Some(9),
        &[1, 2],
        &[2]
    ));
    // Something else landed, or nothing yet, or a person pushed in between, or the history is unknown.
    assert!(!check(vec![landed(3, false)], None, &[1, 2], &[2]));
    assert!(!check(vec![], None, &[1, 2], &[2]));
    assert!(!check(
        vec![landed(9, false), landed(1, false)],
        Some(9),
        &[1, 2],
        &[2]
    ));
    assert!(!check(vec![landed(1, true)], Some(9), &[1, 2], &[2]));
}

#[test]
fn a_lost_check_is_valid_only_until_the_next_landing() {
    let checked = |n: u128, ahead: &[u128], result| car(n, Stand::Waits, Some((ahead, result)));
    let lost = Some(CheckResult::Lost);
    let cars = vec![
        checked(2, &[1], PASSED),
        checked(3, &[1, 2], lost),
        car(4, Stand::Waits, None),
        checked(5, &[1, 2, 3, 4], FAILED),
    ];
    let after = |landed: Vec<Landed>, cars: &[Car]| {
        plan(&Train {
            landed,
            ..train(Landing::Batch, cars.to_vec())
        })
        .checks
    };
    let first = Landed {
        id: id(1),
        follows: false,
    };
    // The failure behind it is still known, so the middle is next, and not the one car of unknown state.
    assert_eq!(after(vec![first], &cars), [(id(3), ids(&[2]))]);
    let mut at_once = cars;
    at_once.insert(0, checked(1, &[], PASSED));
    assert_eq!(after(Vec::new(), &at_once), [(id(5), ids(&[1, 2, 4]))]);
}

#[test]
fn a_batch_is_bisected_when_it_fails() {
    let check = |cars: Vec<Car>, checked: Option<(u128, &[u128])>, cleared: &[u128]| {
        let plan = plan(&train(Landing::Batch, cars));
        let expected: Vec<_> = checked.iter().map(|(of, ahead)| (id(*of), ids(ahead))).collect();
        assert_eq!(plan.checks, expected);
        assert_eq!(plan.cleared, ids(cleared));
    };
    let waits = |n| car(n, Stand::Waits, None);
    let checked = |n: u128, ahead: &[u128], result| car(n, Stand::Waits, Some((ahead, result)));
    let all = |cars: Vec<Car>| {
        (1..=4)
            .map(|n| {
                cars.iter()
                    .find(|car| car.id == id(n))
                    .cloned()
                    .unwrap_or_else(|| waits(n))
            })
            .collect::<Vec<_>>()
    };
    check(all(vec![]), Some((4, &[1, 2, 3])), &[]);
    check(all(vec![checked(4, &[1, 2, 3], PASSED)]), None, &[1, 2, 3, 4]);
    let last = checked(4, &[1, 2, 3], FAILED);
    check(all(vec![last.clone()]), Some((2, &[1])), &[]);
    check(
        all(vec![last.clone(), checked(2, &[1], PASSED)]),
        Some((3, &[1, 2])),
        &[1, 2],
    );
    // The third is to blame: its turn will show that, and the fourth is tried without it.
    check(
        all(vec![
            last.clone(),
            checked(2, &[1], PASSED),
            checked(3, &[1, 2], FAILED),
        ]),
        Some((4, &[1, 2])),
        &[3, 1, 2],
    );
    check(
        all(vec![last, checked(2, &[1], FAILED), checked(1, &[], FAILED)]),
        Some((4, &[2, 3])),
        &[1],
    );
}

#[test]
fn a_car_that_failed_before_is_in_no_batch() {
    let failed = |n| Car {
        failed_before: true,
        ..car(n, Stand::Waits, None)
    };
    let waits = |n| car(n, Stand::Waits, None);
    let first = |cars: Vec<Car>| plan(&train(Landing::Batch, cars)).checks;
    assert_eq!(
        first(vec![waits(1), waits(2), failed(3), waits(4)]),
        [(id(2), ids(&[1]))]
    );
    assert_eq!(first(vec![failed(1), waits(2), waits(3)]), [(id(1), ids(&[]))]);
    let passed = car(2, Stand::Waits, Some((&[1], PASSED)));
    assert_eq!(
        first(vec![waits(1), passed, failed(3), waits(4)]),
        [(id(3), ids(&[1, 2]))]
    );
}

/// A branch, its train, and a gate that some attempts fail, alone or together.
#[derive(Debug)]
struct World {
    landing: Landing,
    cars: Vec<Car>,
    branch: Vec<Uuid>,
    landed: Vec<Landed>,
    /// Whether somebody pushed since the last landing.
    pushed: bool,
    bad: BTreeSet<Uuid>,
    /// Two attempts that fail only together.
    pair: (Uuid, Uuid),
    /// Two attempts that conflict.
    clash: (Uuid, Uuid),
    passed: BTreeSet<Vec<Uuid>>,
    left: Vec<Uuid>,
    pushes: u128,
    runs: usize,
    cleared: BTreeSet<Uuid>,
}

impl World {
    fn new(landing: Landing, cars: u128, bad: &[u128], pair: (u128, u128), clash: (u128, u128)) -> Self {
        Self {
            landing,
            cars: (1..=cars).map(|n| car(n, Stand::Waits, None)).collect(),
            branch: Vec::new(),
            landed: Vec::new(),
            pushed: false,
            bad: bad.iter().copied().map(id).collect(),
            pair: (id(pair.0), id(pair.1)),
            clash: (id(clash.0), id(clash.1)),
            passed: BTreeSet::new(),
            left: Vec::new(),
            pushes: 1_000,
            runs: 0,
            cleared: BTreeSet::new(),
        }
    }

    fn train(&self) -> Train {
        Train {
            landing: self.landing,
            max_checks: 3,
            cars: self.cars.clone(),
            landed: self.landed.clone(),
            from_the_start: true,
        }
    }

    fn passes(&self, tree: &[Uuid]) -> bool {
        let has = |one: &Uuid| tree.contains(one);
        !(tree.iter().any(|one| self.bad.contains(one)) || has(&self.pair.0) && has(&self.pair.1))
    }

    fn clashes(&self, tree: &[Uuid], with: Uuid) -> bool {
        let (a, b) = self.clash;
        (with == b && tree.contains(&a)) || (with == a && tree.contains(&b))
    }

    /// Executes a plan like the flow.
    fn plan(&mut self) {
        let Plan {
            checks,
            withdraw,
            abort,
            cleared,
        } = plan(&self.train());
        for car in &mut self.cars {
            if withdraw.contains(&car.id) || abort.contains(&car.id) {
                assert!(matches!(car.stand, Stand::Queued | Stand::Checks));
                car.stand = Stand::Waits;
                car.check = None;
            }
        }
        self.cleared = cleared.into_iter().collect();
        let since = self.landed.last().map(|landed| landed.id);
        for (of, ahead) in checks {
            let car = self.cars.iter_mut().find(|car| car.id == of).unwrap();
            assert_eq!(car.stand, Stand::Waits);
            car.stand = Stand::Queued;
            car.check = Some(Check {
                ahead,
                since,
                result: None,
            });
        }
        let running = self
            .cars
            .iter()
            .filter(|car| matches!(car.stand, Stand::Queued | Stand::Checks));
        assert!(running.count() <= 3);
    }

    /// A worker makes the tree of a check and tries the gate there.
    fn check(&mut self, at: usize) {
        let of = self.cars[at].id;
        let mut tree = self.branch.clone();
        let ahead = self.cars[at].check.clone().unwrap().ahead;
        let mut result = None;
        let mut trees = Vec::new();
        for other in ahead {
            if tree.contains(&other) {
                continue;
            }
            if self.clashes(&tree, other) {
                result = Some(CheckResult::Lost);
                break;
            }
            tree.push(other);
            trees.push(tree.clone());
        }
        if result.is_none() && self.clashes(&tree, of) {
            result = Some(CheckResult::Conflict);
        }
        let result = result.unwrap_or_else(|| {
            tree.push(of);
            self.runs += 1;
            match self.passes(&tree) {
                true => {
                    self.passed.insert(tree.clone());
                    if self.landing == Landing::Batch {
                        self.passed.extend(trees);
                    }
                    CheckResult::Passed
                }
                false => CheckResult::Failed,
            }
        });
        let car = &mut self.cars[at];
        car.stand = Stand::Waits;
        car.check.as_mut().unwrap().result = Some(result);
    }

    /// Gives the first car its turn, on the branch as it is. Returns whether it had one.
    fn turn(&mut self) -> bool {
        let Some(first) = self.cars.first() else {
            return false;
        };
        let is_free = matches!(first.stand, Stand::Waits);
        if !is_free || (self.landing == Landing::Batch && !self.cleared.contains(&first.id)) {
            return false;
        }
        let first = self.cars.remove(0).id;
        let mut tree = self.branch.clone();
        let clashes = self.clashes(&tree, first);
        tree.push(first);
        if !self.passed.contains(&tree) {
            self.runs += usize::from(!clashes);
        }
        let lands = !clashes && (self.passed.contains(&tree) || self.passes(&tree));
        if lands {
            // A covered part of a batch can fail by itself only where two attempts fail together.
            self.branch = tree;
            self.landed.push(Landed {
                id: first,
                follows: !self.pushed,
            });
            self.pushed = false;
        } else {
            self.left.push(first);
        }
        true
    }
}

fn landings() -> impl Strategy<Value = Landing> {
    prop_oneof![Just(Landing::Each), Just(Landing::Batch), Just(Landing::Serial)]
}

proptest! {
    /// In any order of events, every car that can land does, and none that its gate refuses.
    #[test]
    fn every_car_of_a_train_lands_or_leaves(
        landing in landings(),
        cars in 1_u128..12,
        bad in proptest::collection::vec(1_u128..12, 0..3),
        pair in (1_u128..12, 1_u128..12),
        clash in (1_u128..12, 1_u128..12),
        events in proptest::collection::vec((0_u8..10, 0_usize..12), 0..60),
    ) {
        prop_assume!(pair.0 != pair.1 && clash.0 != clash.1);
        let mut world = World::new(landing, cars, &bad, pair, clash);
        let mut cancelled = BTreeSet::new();
        world.plan();
        for (event, at) in events {
            match event {
                // A worker takes a check, ends one, or dies with it.
                0..=1 => if let Some(car) = world.cars.iter_mut().filter(|car| car.stand == Stand::Queued).nth(at % 3) {
                    car.stand = Stand::Checks;
                },
                2..=4 => {
                    let running: Vec<usize> = (0..world.cars.len()).filter(|n| world.cars[*n].stand == Stand::Checks).collect();
                    if let Some(n) = running.get(at % running.len().max(1)) {
                        world.check(*n);
                    }
                }
                5 => if let Some(car) = world.cars.iter_mut().find(|car| car.stand == Stand::Checks) {
                    car.stand = Stand::Waits;
                },
                6..=7 => { world.turn(); }
                // A person pushes, or cancels what waits.
                8 => {
                    world.pushes += 1;
                    world.branch.push(id(world.pushes));
                    world.pushed = true;
                }
                _ => if !world.cars.is_empty() {
                    let n = at % world.cars.len();
                    cancelled.insert(world.cars.remove(n).id);
                },
            }
            world.plan();
        }
        // Without further events, the train ends.
        for _ in 0..400 {
            if world.cars.is_empty() {
                break;
            }
            for n in 0..world.cars.len() {
                if world.cars[n].stand == Stand::Queued {
                    world.cars[n].stand = Stand::Checks;
                }
            }
            // A running check continues, whatever else happens meanwhile.
            let running = |world: &World| world.cars.iter().position(|car| car.stand == Stand::Checks);
            let before = running(&world);
            world.plan();
            prop_assert!(running(&world) == before, "{:?}", world);
            if let Some(n) = before {
                world.check(n);
            }
            world.plan();
            while world.turn() {
                world.plan();
            }
        }
        prop_assert!(world.cars.is_empty(), "{:?}", world);
        prop_assert!(world.passes(&world.branch), "{:?}", world);
        for n in 1..=cars {
            let one = id(n);
            if cancelled.contains(&one) || world.bad.contains(&one) {
                prop_assert!(!world.branch.contains(&one) || cancelled.contains(&one));
                continue;
            }
            let other = [world.pair, world.clash].iter().any(|(a, b)| {
                let against = if *a == one { *b } else if *b == one { *a } else { return false };
                world.branch.contains(&against)
            });
            prop_assert!(world.branch.contains(&one) || other, "{} is missing: {:?}", n, world);
        }
    }

    /// With enough slots, a train without a fault costs one gate run a car, or one for all in batches.
    #[test]
    fn a_train_without_a_fault_runs_no_gate_twice(cars in 2_u128..12, landing in landings()) {
        let mut world = World::new(landing, cars, &[], (100, 101), (100, 101));
        world.plan();
        while !world.cars.is_empty() {
            for n in 0..world.cars.len() {
                if world.cars[n].stand == Stand::Queued {
                    world.check(n);
                }
            }
            world.plan();
            while world.turn() {
                world.plan();
            }
        }
        let most = if landing == Landing::Batch { 1 } else { usize::try_from(cars).unwrap() };
        prop_assert_eq!(world.runs, most);
    }
}
