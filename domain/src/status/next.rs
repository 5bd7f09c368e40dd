//! The next command for a feature, one for each condition; pasting it changes something.

use serde::{Deserialize, Serialize};

use super::condition::{Condition, Word};
use crate::budget::levels::Hold;
use crate::budget::limit::Reached;

/// Facts on a feature besides its condition.
#[derive(Debug, Clone, Default)]
pub struct Facts<'a> {
    /// Its name or id.
    pub feature: &'a str,
    /// Whether a run would start or end something.
    pub needs_run: bool,
    /// Whether it has texts that sessions can start from.
    pub has_texts: bool,
    /// The limit that its last run reached.
    pub reached: Option<&'a Reached>,
    /// The limit, other than its run's, that prevents any start.
    pub hold: Option<&'a Hold>,
    /// The command that decides on the first task that waits for a person, failed, or was cancelled while
    /// others wait for it.
    pub decision: Option<&'a str>,
}

/// The next command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Next {
    /// The effect of the command.
    pub why: String,
    /// The command, as a person types it.
    pub command: String,
}

/// The command; `None` when the feature continues by itself, or has ended.
pub fn of(condition: &Condition, facts: &Facts<'_>) -> Option<Next> {
    let feature = facts.feature;
    let command = |verb: &str| format!("ralph feature {verb}");
    let next = |why: &str, command: String| {
        Some(Next {
            why: why.to_owned(),
            command,
        })
    };
    let decide = || {
        let decision = facts.decision?;
        next(
            "decides on the first task that waits for you",
            decision.to_owned(),
        )
    };
    match condition.word {
        Word::Scheduled | Word::Running => decide(),
        Word::Done | Word::Cancelled => None,
        Word::Draft if facts.decision.is_some() => decide(),
        Word::Draft if facts.needs_run || facts.has_texts => {
            next("starts it", command(&format!("run {feature}")))
        }
        Word::Draft => next("describes it", command(&format!("plan {feature} --edit"))),
        Word::Paused => next("continues it", command(&format!("resume {feature}"))),
        Word::Limit => match (facts.reached, facts.hold) {
            (Some(reached), _) => next(
                "continues it with the same amount again",
                command(&format!("edit {feature} {}", reached.raised())),
            ),
            (None, Some(hold)) => next("continues it with the same amount again", hold.raises.clone()),
            (None, None) => next("continues it", command(&format!("run {feature}"))),
        },
        Word::Stopped if !facts.needs_run => decide(),
        Word::Ready | Word::Stopped => next("continues it", command(&format!("run {feature}"))),
        Word::Failed if facts.decision.is_none() && facts.needs_run => {
            next("tries again anyway", command(&format!("run {feature}")))
        }
        Word::Blocked | Word::Failed => decide(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/front/next.rs` runs each of these commands, and checks that it changes something.
    #[test]
    fn each_condition_has_its_command() {
        let facts = Facts {
            feature: "todo",
            ..Facts::default()
        };
        let decides = Facts {
            decision: Some("ralph task approve todo/plan"),
            ..facts.clone()
        };
        let runs = Facts {
            needs_run: true,
            ..facts.clone()
        };
        let reached = Reached::Iterations { used: 20, max: 20 };
        let limited = Facts {
            reached: Some(&reached),
            ..runs.clone()
        };
        let hold = Hold {
            words: String::new(),
            raises: "ralph budget set day --max-cost 2.00".to_owned(),
        };
        let held = Facts {
            hold: Some(&hold),
            ..runs.clone()
        };
        let check = |word, facts: &Facts<'_>, expected: Option<&str>| {
            let condition = Condition {
                word,
                reason: None,
                until: None,
            };
            let command = of(&condition, facts).map(|next| next.command);
            let expected = expected.map(|rest| format!("ralph {rest}"));
            assert_eq!(command, expected, "{word:?} {facts:?}");
        };
        check(Word::Draft, &facts, Some("feature plan todo --edit"));
        check(Word::Draft, &runs, Some("feature run todo"));
        check(Word::Draft, &decides, Some("task approve todo/plan"));
        let described = Facts {
            has_texts: true,
            ..facts.clone()
        };
        check(Word::Draft, &described, Some("feature run todo"));
        check(Word::Scheduled, &runs, None);
        check(Word::Running, &facts, None);
        check(Word::Running, &decides, Some("task approve todo/plan"));
        check(Word::Done, &facts, None);
        check(Word::Cancelled, &facts, None);
        check(Word::Paused, &decides, Some("feature resume todo"));
        check(Word::Limit, &limited, Some("feature edit todo --limit 40"));
        check(Word::Limit, &held, Some("budget set day --max-cost 2.00"));
        check(Word::Stopped, &runs, Some("feature run todo"));
        check(Word::Stopped, &decides, Some("task approve todo/plan"));
        check(Word::Ready, &runs, Some("feature run todo"));
        check(Word::Blocked, &decides, Some("task approve todo/plan"));
        check(Word::Failed, &decides, Some("task approve todo/plan"));
        check(Word::Failed, &runs, Some("feature run todo"));
    }
}
