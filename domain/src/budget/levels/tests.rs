//! Rests at each level, and notices for people.

use super::*;

fn usd(cost_usd: f64) -> Limit {
    Limit {
        cost_usd: Some(cost_usd),
        tokens: None,
    }
}

fn place() -> SessionScope<'static> {
    SessionScope {
        task: TaskId(Uuid::from_u128(1)),
        feature: FeatureId(Uuid::from_u128(2)),
        account: Some("team"),
    }
}

fn spent(usd: f64) -> LevelUsage {
    LevelUsage {
        usd,
        ..LevelUsage::default()
    }
}

#[test]
fn a_session_gets_the_least_that_any_level_leaves() {
    let run = Purse {
        microusd: Some(Pot {
            max: 20_000_000,
            left: 9_000_000,
        }),
        tokens: None,
    };
    let day = || (Level::Day, String::new());
    let account = || (Level::Account, "team".to_owned());
    let check = |levels: &Levels, left| {
        let own = levels.own(&place(), Share::default());
        let purse = levels.shared(run, &place()).least(own);
        assert_eq!(purse.microusd.map(|pot| pot.left), Some(left), "{levels:?}");
    };
    let mut levels = Levels::default();
    assert!(levels.are_none());
    check(&levels, 9_000_000);
    levels.set.insert(day(), usd(10.0));
    levels.used.insert(day(), spent(4.0));
    check(&levels, 6_000_000);
    levels.set.insert((Level::Account, String::new()), usd(8.0));
    levels.used.insert(account(), spent(3.0));
    check(&levels, 5_000_000);
    // The account's own limit replaces the general one, but the configured ceiling still applies.
    levels.set.insert(account(), usd(80.0));
    check(&levels, 6_000_000);
    levels.ceilings.insert(Level::Account, usd(7.0));
    check(&levels, 4_000_000);
    levels.set.insert((Level::Session, String::new()), usd(1.0));
    check(&levels, 1_000_000);
    let share = Share {
        microusd: Some(750_000),
        tokens: None,
    };
    let purse = levels.own(&place(), share);
    assert_eq!(purse.microusd.map(|pot| pot.left), Some(250_000));
    // A share of one session is not available to others.
    levels.set.remove(&(Level::Session, String::new()));
    levels.give(share, &place());
    check(&levels, 3_250_000);
}

#[test]
fn a_tasks_own_limit_precedes_its_features_and_the_general_one() {
    let (task, feature) = (place().task.0.to_string(), place().feature.0.to_string());
    let mut levels = Levels::default();
    let check = |levels: &Levels, left| {
        let own = levels.own(&place(), Share::default());
        assert_eq!(own.microusd.map(|pot| pot.left), Some(left), "{levels:?}");
    };
    levels.set.insert((Level::Task, String::new()), usd(9.0));
    check(&levels, 9_000_000);
    levels.set.insert((Level::Task, feature.clone()), usd(3.0));
    check(&levels, 3_000_000);
    levels.set.insert((Level::Session, feature.clone()), usd(2.0));
    check(&levels, 2_000_000);
    levels.set.insert((Level::Task, task.clone()), usd(1.0));
    check(&levels, 1_000_000);
    levels.set.remove(&(Level::Task, task.clone()));
    levels.used.insert((Level::Task, task.clone()), spent(3.0));
    levels.features.insert(task, feature);
    assert_eq!(levels.holds().len(), 1);
    assert_eq!(levels.passed().len(), 1);
}

#[test]
fn a_limit_holds_and_notifies_once_usage_reaches_it() {
    let day = || (Level::Day, String::new());
    let check = |used: LevelUsage, holds: bool, passed: bool, percent: Option<i32>| {
        let levels = Levels {
            set: [(day(), usd(10.0))].into(),
            used: [(day(), used)].into(),
            ..Levels::default()
        };
        assert_eq!(!levels.holds().is_empty(), holds, "{used:?}");
        assert_eq!(!levels.passed().is_empty(), passed, "{used:?}");
        assert_eq!(
            levels.notices().first().map(|notice| notice.percent),
            percent,
            "{used:?}"
        );
    };
    check(spent(4.9), false, false, None);
    check(spent(5.0), false, false, Some(50));
    check(spent(9.5), false, false, Some(95));
    check(spent(9.96), true, false, Some(95));
    check(spent(10.5), true, true, Some(100));
    // Unused shares of live sessions end no session, and are no reason to wait for long.
    let held = LevelUsage {
        held_usd: 10.0,
        ..LevelUsage::default()
    };
    check(held, false, false, None);
    let levels = Levels {
        set: [(day(), usd(10.0))].into(),
        used: [(day(), spent(10.5))].into(),
        ..Levels::default()
    };
    assert_eq!(
        levels.holds()[0].1,
        "the limit of the day is used up: 10.50 USD of 10.00; `ralph budget set day --max-cost USD` changes it"
    );
    assert_eq!(
        levels.notices()[0].to_string(),
        "100 % of the limit of the day is used: 10.50 USD of 10.00"
    );
}

#[test]
fn a_hold_has_a_short_form_and_a_command_that_raises_the_limit() {
    let mut levels = Levels::default();
    let feature = FeatureId(Uuid::from_u128(2));
    for (key, words, raises) in [
        (
            (Level::Day, String::new()),
            "day 51.00 USD of 50.00",
            "day --max-cost 101.00".to_owned(),
        ),
        (
            (Level::Feature, feature.0.to_string()),
            "feature 51.00 USD of 50.00",
            format!("feature {} --max-cost 101.00", feature.short()),
        ),
        (
            (Level::Account, "team".to_owned()),
            "account team 51.00 USD of 50.00",
            "account team --max-cost 101.00".to_owned(),
        ),
    ] {
        levels.set = BTreeMap::from([(key.clone(), usd(50.0))]);
        levels.used = HashMap::from([(key, spent(51.0))]);
        let (_, reason) = levels.holds().remove(0);
        let hold = Hold {
            words: words.to_owned(),
            raises: format!("ralph budget set {raises}"),
        };
        assert_eq!(Hold::read(&reason), Some(hold), "{reason}");
    }
    assert_eq!(Hold::read("something else"), None);
}
