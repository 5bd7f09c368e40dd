//! Limits at each level except the run. A session starts with the smallest rest of all levels, and its share
//! is subtracted from each of them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::wire::Share;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::limit::{raised_cost, raised_tokens};
use crate::budget::{Pot, Purse, least};
use crate::run::microusd;

/// Parts of a limit, in percent, at which a notice is written, once each.
pub const NOTICE_AT: [i32; 4] = [50, 80, 95, 100];

const HELD_BY: &str = "the limit of ";
const USED_UP: &str = " is used up: ";

/// An exhausted limit of [`Levels::holds`] in short form, and the command that allows the same amount again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Such as `day 50.00 USD of 50.00`.
    pub words: String,
    pub raises: String,
}

impl Hold {
    /// Parses the reason of a hold; `None` for the text of another release.
    pub fn read(reason: &str) -> Option<Self> {
        let (of, rest) = reason.strip_prefix(HELD_BY)?.split_once(USED_UP)?;
        let of = of.strip_prefix("the ").unwrap_or(of);
        let (amount, _) = rest.split_once(';')?;
        let (used, max) = amount.split_once(" of ")?;
        let (used, unit) = used.split_once(' ')?;
        let flag = match unit {
            "USD" => raised_cost(used.parse().ok()?, max.parse().ok()?),
            _ => raised_tokens(used.parse().ok()?, max.parse().ok()?),
        };
        // The screen shows the feature or task beside it.
        let level = of
            .split(' ')
            .next()
            .filter(|level| *level != "account")
            .unwrap_or(of);
        Some(Self {
            words: format!("{level} {amount}"),
            raises: format!("ralph budget set {of} {flag}"),
        })
    }

    /// The short form, or the unchanged text of another release.
    pub fn words_of(reason: &str) -> String {
        Self::read(reason).map_or_else(|| reason.to_owned(), |hold| hold.words)
    }
}

/// The level that a limit applies to, from narrow to wide.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "budget_level", rename_all = "snake_case")
)]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Level {
    /// Each session.
    Session,
    /// All sessions of a task.
    Task,
    /// All runs of a feature.
    Feature,
    /// A run; its limits are stored with it.
    Run,
    /// All sessions that use an account of a provider.
    Account,
    /// A day, by UTC.
    Day,
    /// All sessions of the installation, ever.
    Installation,
}

impl Level {
    /// All levels except the run.
    pub const ALL: [Self; 6] = [
        Self::Session,
        Self::Task,
        Self::Feature,
        Self::Account,
        Self::Day,
        Self::Installation,
    ];

    /// Parses [`Self::into_str`].
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.into_str() == word)
    }

    /// Whether a limit of this level can apply to one account, task or feature.
    pub const fn is_named(self) -> bool {
        matches!(self, Self::Session | Self::Task | Self::Feature | Self::Account)
    }
}

/// A limit; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limit {
    pub cost_usd: Option<f64>,
    /// Tokens read and written.
    pub tokens: Option<i64>,
}

impl Limit {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The smaller limit, in each unit.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            cost_usd: least(self.cost_usd, other.cost_usd),
            tokens: least(self.tokens, other.tokens),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LevelUsage {
    /// US dollars used by ended sessions.
    pub usd: f64,
    /// Tokens read and written by ended sessions.
    pub tokens: i64,
    /// US dollars used by live sessions so far.
    pub in_flight_usd: f64,
    /// Tokens used by live sessions so far.
    pub in_flight_tokens: i64,
    /// Usage or share of live sessions, whichever is more. US dollars.
    pub held_usd: f64,
    /// The same in tokens.
    pub held_tokens: i64,
}

impl LevelUsage {
    pub fn add(&mut self, other: &Self) {
        self.usd += other.usd;
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.in_flight_usd += other.in_flight_usd;
        self.in_flight_tokens = self.in_flight_tokens.saturating_add(other.in_flight_tokens);
        self.held_usd += other.held_usd;
        self.held_tokens = self.held_tokens.saturating_add(other.held_tokens);
    }
}

#[derive(Debug, Clone, Copy)]
pub struct SessionScope<'a> {
    pub task: TaskId,
    pub feature: FeatureId,
    pub account: Option<&'a str>,
}

/// The key of a limit: the level, and an account's name or an id, empty if the level has only one. With a
/// feature's id, a limit at the level of sessions or tasks applies to each session or task of that feature.
pub type Key = (Level, String);

/// All limits, and their usage.
#[derive(Debug, Clone, Default)]
pub struct Levels {
    /// Configured bounds of the limits of a level.
    pub ceilings: BTreeMap<Level, Limit>,
    /// Limits set by people; an empty name stands for everything at the level without a limit of its own.
    pub set: BTreeMap<Key, Limit>,
    /// Usage under existing limits.
    pub used: HashMap<Key, LevelUsage>,
    /// The features of the tasks in `used`, by their ids.
    pub features: HashMap<String, String>,
}

impl Levels {
    pub fn are_none(&self) -> bool {
        self.ceilings.values().all(Limit::is_none) && self.set.values().all(Limit::is_none)
    }

    pub fn limits(&self, level: Level) -> bool {
        let set = self.set.iter().filter(|((of, _), _)| *of == level);
        let ceiling = self.ceilings.get(&level).into_iter();
        set.map(|(_, limit)| limit)
            .chain(ceiling)
            .any(|limit| !limit.is_none())
    }

    pub fn limit(&self, level: Level, name: &str) -> Limit {
        let feature = self.features.get(name).filter(|_| level == Level::Task);
        self.limit_in(level, name, feature.map(String::as_str))
    }

    fn limit_in(&self, level: Level, name: &str, feature: Option<&str>) -> Limit {
        let of = |name: &str| self.set.get(&(level, name.to_owned())).copied();
        let set = of(name).or_else(|| of(feature?)).or_else(|| of(""));
        set.unwrap_or_default()
            .least(self.ceilings.get(&level).copied().unwrap_or_default())
    }

    /// The rest of a level's limit for sessions.
    pub fn purse(&self, level: Level, name: &str) -> Purse {
        self.purse_of(level, name, self.limit(level, name))
    }

    fn purse_of(&self, level: Level, name: &str, limit: Limit) -> Purse {
        let used = self
            .used
            .get(&(level, name.to_owned()))
            .copied()
            .unwrap_or_default();
        Purse {
            microusd: limit.cost_usd.map(|max| Pot {
                max: microusd(max),
                left: microusd(max - used.usd - used.held_usd),
            }),
            tokens: limit.tokens.map(|max| Pot {
                max,
                left: max.saturating_sub(used.tokens).saturating_sub(used.held_tokens),
            }),
        }
    }

    /// The smallest rest of the run, the feature, the day and the installation.
    #[must_use]
    pub fn least_of_feature(&self, run: Purse, feature: FeatureId) -> Purse {
        let levels = [
            (Level::Feature, feature.0.to_string()),
            (Level::Day, String::new()),
            (Level::Installation, String::new()),
        ];
        levels
            .iter()
            .fold(run, |purse, (level, name)| purse.least(self.purse(*level, name)))
    }

    /// Like [`Self::least_of_feature`], and also within the limit of the session's account.
    #[must_use]
    pub fn shared(&self, run: Purse, place: &SessionScope<'_>) -> Purse {
        let purse = self.least_of_feature(run, place.feature);
        match place.account {
            Some(account) => purse.least(self.purse(Level::Account, account)),
            None => purse,
        }
    }

    /// The rest that no other session shares: of the session's own limit, without its present `share`, and of
    /// its task's limit.
    #[must_use]
    pub fn own(&self, place: &SessionScope<'_>, share: Share) -> Purse {
        let (task, feature) = (place.task.0.to_string(), place.feature.0.to_string());
        let mut session = self.purse(Level::Session, &feature);
        session.give(share);
        let limit = self.limit_in(Level::Task, &task, Some(&feature));
        session.least(self.purse_of(Level::Task, &task, limit))
    }

    /// Subtracts a share from all levels.
    pub fn give(&mut self, share: Share, place: &SessionScope<'_>) {
        let account = place.account.map(|account| (Level::Account, account.to_owned()));
        let keys = [
            (Level::Task, place.task.0.to_string()),
            (Level::Feature, place.feature.0.to_string()),
            (Level::Day, String::new()),
            (Level::Installation, String::new()),
        ];
        for key in keys.into_iter().chain(account) {
            if !self.limits(key.0) {
                continue;
            }
            let used = self.used.entry(key).or_default();
            used.held_usd += share.microusd.unwrap_or(0) as f64 / 1e6;
            used.held_tokens = used
                .held_tokens
                .saturating_add(i64::try_from(share.tokens.unwrap_or(0)).unwrap_or(i64::MAX));
        }
    }

    /// Accounts whose rest is too small for a session.
    pub fn empty_accounts(&self) -> impl Iterator<Item = &String> {
        let accounts = self.used.keys().filter(|(level, _)| *level == Level::Account);
        accounts
            .filter(|(level, name)| self.purse(*level, name).sessions() == 0)
            .map(|(_, name)| name)
    }

    /// Limits whose unused rest is below a first share, with a reason and a remedy. Omits limits that only
    /// live shares exhaust, since those block tasks only briefly.
    pub fn holds(&self) -> Vec<(Key, String)> {
        let mut holds: Vec<_> = self
            .used
            .iter()
            .filter_map(|(key, used)| Some((key.clone(), self.hold(key, used)?)))
            .collect();
        holds.sort();
        holds
    }

    fn hold(&self, key: &Key, used: &LevelUsage) -> Option<String> {
        let (level, name) = key;
        let limit = self.limit(*level, name);
        let (usd, tokens) = (used.usd + used.in_flight_usd, used.tokens + used.in_flight_tokens);
        let is_empty = |microusd, tokens| Purse { microusd, tokens }.sessions() == 0;
        let cost = limit.cost_usd.filter(|max| {
            let pot = Pot {
                max: microusd(*max),
                left: microusd(max - usd),
            };
            is_empty(Some(pot), None)
        });
        let most = limit.tokens.filter(|max| {
            let pot = Pot {
                max: *max,
                left: max.saturating_sub(tokens),
            };
            is_empty(None, Some(pot))
        });
        let (amount, flag) = match (cost, most) {
            (Some(max), _) => (format!("{usd:.2} USD of {max:.2}"), "--max-cost USD"),
            (None, Some(max)) => (format!("{tokens} tokens of {max}"), "--max-tokens N"),
            (None, None) => return None,
        };
        let id = name.parse::<Uuid>().ok();
        let of = match (level, id) {
            (Level::Task, Some(id)) => format!("task {}", TaskId(id).short()),
            (Level::Feature, Some(id)) => format!("feature {}", FeatureId(id).short()),
            (Level::Account, _) => format!("account {name}"),
            (level, _) => level.into_str().to_owned(),
        };
        let the = if of.contains(' ') { "" } else { "the " };
        Some(format!(
            "{HELD_BY}{the}{of}{USED_UP}{amount}; `ralph budget set {of} {flag}` changes it"
        ))
    }

    /// Limits that real usage has reached: their sessions end.
    pub fn passed(&self) -> Vec<Key> {
        let passed = self.used.iter().filter(|((level, name), used)| {
            let limit = self.limit(*level, name);
            limit
                .cost_usd
                .is_some_and(|max| used.usd + used.in_flight_usd >= max)
                || limit
                    .tokens
                    .is_some_and(|max| used.tokens + used.in_flight_tokens >= max)
        });
        passed.map(|(key, _)| key.clone()).collect()
    }

    /// Notices for people: the limit, its unit, its value, and the greatest reached part of [`NOTICE_AT`].
    pub fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        for (key, used) in &self.used {
            let limit = self.limit(key.0, &key.1);
            let cost = limit
                .cost_usd
                .map(|max| (Unit::Usd, max, used.usd + used.in_flight_usd));
            let tokens = limit.tokens.map(|max| {
                (
                    Unit::Tokens,
                    max as f64,
                    (used.tokens + used.in_flight_tokens) as f64,
                )
            });
            for (unit, most, used) in cost.into_iter().chain(tokens) {
                let reached = NOTICE_AT
                    .into_iter()
                    .rev()
                    .find(|part| used * 100.0 >= most * f64::from(*part));
                notices.extend(reached.map(|percent| Notice {
                    key: key.clone(),
                    unit,
                    most,
                    used,
                    percent,
                }));
            }
        }
        notices
    }
}

/// The unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Usd,
    /// Tokens read and written.
    Tokens,
}

impl Unit {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Usd => "USD",
            Self::Tokens => "tokens",
        }
    }
}

/// A reached part of a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    pub key: Key,
    pub unit: Unit,
    pub most: f64,
    pub used: f64,
    pub percent: i32,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key: (level, name),
            unit,
            most,
            used,
            percent,
        } = self;
        let of = match (level, name.as_str()) {
            (Level::Account, name) => format!("account {name}"),
            (level, _) => format!("the {}", level.into_str()),
        };
        match unit {
            Unit::Usd => write!(
                f,
                "{percent} % of the limit of {of} is used: {used:.2} USD of {most:.2}"
            ),
            Unit::Tokens => write!(
                f,
                "{percent} % of the limit of {of} is used: {used} tokens of {most}"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
