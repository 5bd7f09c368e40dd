//! Why a task that is queued isn't begun, as far as the queue tells.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What is known of a queued task.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Nothing of its feature begins before.
    pub feature_opens: Option<OffsetDateTime>,
    /// It isn't begun before.
    pub opens: Option<OffsetDateTime>,
    /// Its concurrency key, with the key's limit and the sessions that are live.
    pub key: Option<(String, i32, i64)>,
}

/// Says why, in words; `None` when nothing of this keeps it.
pub fn why(facts: &Facts, now: OffsetDateTime) -> Option<String> {
    let later = |at: Option<OffsetDateTime>| {
        let at = at.filter(|at| *at > now)?.replace_nanosecond(0).ok()?;
        at.format(&Rfc3339).ok()
    };
    if let Some(at) = later(facts.feature_opens) {
        return Some(format!("its feature begins nothing before {at}"));
    }
    if let Some(at) = later(facts.opens) {
        return Some(format!("it begins no sooner than {at}"));
    }
    let (key, limit, live) = facts.key.as_ref()?;
    (*live >= i64::from(*limit)).then(|| full(key, *live, *limit))
}

/// Says that a concurrency key lets nothing more begin.
pub fn full(key: &str, live: i64, limit: i32) -> String {
    format!("the concurrency key `{key}` has {live} of {limit} sessions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_named() {
        let now = OffsetDateTime::UNIX_EPOCH;
        let later = Some(now + time::Duration::HOUR);
        let check = |facts: Facts, expected: Option<&str>| assert_eq!(why(&facts, now).as_deref(), expected);
        check(Facts::default(), None);
        let full = Facts {
            key: Some(("db".to_owned(), 2, 2)),
            opens: Some(now),
            ..Facts::default()
        };
        check(full.clone(), Some("the concurrency key `db` has 2 of 2 sessions"));
        let opens = Facts { opens: later, ..full };
        check(
            opens.clone(),
            Some("it begins no sooner than 1970-01-01T01:00:00Z"),
        );
        let feature_opens = Facts {
            feature_opens: later,
            ..opens
        };
        check(
            feature_opens,
            Some("its feature begins nothing before 1970-01-01T01:00:00Z"),
        );
        let room = Facts {
            key: Some(("db".to_owned(), 2, 1)),
            ..Facts::default()
        };
        check(room, None);
    }
}
