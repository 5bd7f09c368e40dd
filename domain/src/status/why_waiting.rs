//! Explains why a task does not run now, and until when.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Facts on a task without a session.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The state of its feature, if that does not run.
    pub feature: Option<String>,
    /// The only task of its feature's run, if that is another one.
    pub apart: Option<String>,
    /// Whether it waits for a person, or has ended: no other reason applies.
    pub is_over: bool,
    /// Keys of its blockers, and their number.
    pub blockers: (Vec<String>, i32),
    /// Whether an ancestor failed or was cancelled, or a failed sibling stops it.
    pub held: bool,
    /// The task with the same paths, and those paths.
    pub paths: Option<(String, String)>,
    /// Whether it conflicted several times, and waits until others have ended.
    pub collided: bool,
    /// Whether it passed, and waits until others have landed.
    pub lands_later: bool,
    /// No session of its feature starts before this time.
    pub feature_opens: Option<OffsetDateTime>,
    /// It does not start before this time.
    pub opens: Option<OffsetDateTime>,
    /// Its last attempt, if that failed: the number, and the reason.
    pub failed: Option<(i32, Option<String>)>,
    /// The limit that prevents any start.
    pub limit: Option<String>,
    /// Its concurrency key, with the limit and the number of live sessions.
    pub key: Option<(String, i32, i64)>,
    /// The reason why no worker can start it.
    pub lacks: Option<String>,
    /// Live sessions of its feature, and their limit.
    pub parallel: (i64, i32),
    /// Its place among the claimable tasks of its pool.
    pub place: Option<QueuePosition>,
}

/// The position of a task in the queue of its pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueuePosition {
    /// The pool.
    pub pool: String,
    /// From 1. Features take turns, so another feature's task may start earlier.
    pub position: i64,
    /// Number of tasks that could start, counted up to 10,000.
    pub of: i64,
    /// Slots of the pool's workers.
    pub slots: i64,
    /// Number of busy slots.
    pub busy: i64,
}

/// The reason why a task waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitReason {
    /// In words, without the time.
    pub words: String,
    /// The end of the wait, if known.
    pub until: Option<OffsetDateTime>,
}

impl fmt::Display for QueuePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pool,
            position,
            of,
            slots,
            busy,
        } = self;
        write!(
            f,
            "queued: {position} of {of} in pool {pool}, {busy} of {slots} slots busy"
        )
    }
}

/// Returns the reason; `None` if the task has ended, or no reason is known.
pub fn why_waiting(facts: &Facts, now: OffsetDateTime) -> Option<WaitReason> {
    let because = |words: String| Some(WaitReason { words, until: None });
    let later = |at: Option<OffsetDateTime>, words: String| {
        let until = at.filter(|at| *at > now);
        until.map(|_| WaitReason { words, until })
    };
    if facts.is_over {
        return None;
    }
    if let (named, n @ 1..) = &facts.blockers {
        return because(blocked_by(named, *n));
    }
    if facts.held {
        return because("held: an ancestor or sibling failed or was cancelled".to_owned());
    }
    if let Some(feature) = &facts.feature {
        return because(format!("its feature is {feature}"));
    }
    if let Some(task) = &facts.apart {
        return because(format!("its feature's run works only on {task}"));
    }
    if let Some((task, path)) = &facts.paths {
        return because(format!("held: {task} changes {path} too"));
    }
    if facts.collided {
        return because("held: it conflicted twice, so it runs when others have ended".to_owned());
    }
    if facts.lands_later {
        return because("passed: others land before it".to_owned());
    }
    let words = "its feature starts nothing yet".to_owned();
    if let Some(why) = later(facts.feature_opens, words) {
        return Some(why);
    }
    if let Some(why) = later(facts.opens, begins_later(facts.failed.as_ref())) {
        return Some(why);
    }
    // A task that is not queued starts for another reason.
    facts.opens?;
    if let Some(limit) = &facts.limit {
        return because(format!("limit: {limit}"));
    }
    if let Some((key, limit, live)) = &facts.key
        && *live >= i64::from(*limit)
    {
        return because(full(key, *live, *limit));
    }
    if let Some(lacks) = &facts.lacks {
        return because(line(lacks));
    }
    let (live, most) = facts.parallel;
    if live >= i64::from(most) && most > 0 {
        return because(format!("its feature has {live} of {most} sessions"));
    }
    because(facts.place.as_ref()?.to_string())
}

fn begins_later(failed: Option<&(i32, Option<String>)>) -> String {
    match failed {
        Some((attempt, Some(reason))) => format!("attempt {attempt} failed, tried again: {}", line(reason)),
        Some((attempt, None)) => format!("attempt {attempt} failed, tried again"),
        None => "it begins later".to_owned(),
    }
}

fn blocked_by(named: &[String], n: i32) -> String {
    let more = usize::try_from(n).unwrap_or(0).saturating_sub(named.len());
    match (named.len(), more) {
        (0, n) => format!("waits for {n}"),
        (_, 0) => format!("waits for {}", named.join(", ")),
        (_, more) => format!("waits for {} and {more} more", named.join(", ")),
    }
}

/// A message that a concurrency key allows no further session.
pub fn full(key: &str, live: i64, limit: i32) -> String {
    format!("the concurrency key `{key}` has {live} of {limit} sessions")
}

pub fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_that_holds_longest_is_named() {
        let now = OffsetDateTime::UNIX_EPOCH;
        let later = Some(now + time::Duration::HOUR);
        let check = |facts: &Facts, expected: Option<&str>, until| {
            let why = why_waiting(facts, now);
            let actual = why.as_ref().map(|why| (why.words.as_str(), why.until));
            assert_eq!(actual, expected.map(|words| (words, until)), "{facts:?}");
        };
        check(&Facts::default(), None, None);
        // From the reason that passes first to the one that holds longest: each precedes those above it.
        let mut facts = Facts {
            opens: Some(now),
            place: Some(QueuePosition {
                pool: "default".to_owned(),
                position: 3,
                of: 14,
                slots: 2,
                busy: 2,
            }),
            ..Facts::default()
        };
        check(
            &facts,
            Some("queued: 3 of 14 in pool default, 2 of 2 slots busy"),
            None,
        );
        facts.parallel = (4, 4);
        check(&facts, Some("its feature has 4 of 4 sessions"), None);
        facts.lacks = Some("no worker serves\npool gpu".to_owned());
        check(&facts, Some("no worker serves pool gpu"), None);
        facts.key = Some(("db".to_owned(), 2, 1));
        check(&facts, Some("no worker serves pool gpu"), None);
        facts.key = Some(("db".to_owned(), 2, 2));
        check(&facts, Some("the concurrency key `db` has 2 of 2 sessions"), None);
        facts.limit = Some("day 50.00 USD of 50.00".to_owned());
        check(&facts, Some("limit: day 50.00 USD of 50.00"), None);
        facts.opens = later;
        check(&facts, Some("it begins later"), later);
        facts.failed = Some((1, None));
        check(&facts, Some("attempt 1 failed, tried again"), later);
        facts.failed = Some((1, Some("no\ntest".to_owned())));
        check(&facts, Some("attempt 1 failed, tried again: no test"), later);
        facts.feature_opens = later;
        check(&facts, Some("its feature starts nothing yet"), later);
        facts.lands_later = true;
        check(&facts, Some("passed: others land before it"), None);
        facts.collided = true;
        let collided = "held: it conflicted twice, so it runs when others have ended";
        check(&facts, Some(collided), None);
        facts.paths = Some(("t-1".to_owned(), "src/**".to_owned()));
        check(&facts, Some("held: t-1 changes src/** too"), None);
        facts.apart = Some("t-2".to_owned());
        check(&facts, Some("its feature's run works only on t-2"), None);
        facts.feature = Some("paused".to_owned());
        check(&facts, Some("its feature is paused"), None);
        facts.held = true;
        let held = "held: an ancestor or sibling failed or was cancelled";
        check(&facts, Some(held), None);
        for (named, n, expected) in [
            (vec![], 2, "waits for 2"),
            (vec!["api"], 1, "waits for api"),
            (vec!["api", "db"], 5, "waits for api, db and 3 more"),
        ] {
            facts.blockers = (named.into_iter().map(str::to_owned).collect(), n);
            check(&facts, Some(expected), None);
        }
        facts.is_over = true;
        check(&facts, None, None);
    }
}
