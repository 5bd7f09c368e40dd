//! Judges empty turns: turns that ended normally without a word, a tool call, a change or usage.
//!
//! An agent whose provider is down may end every turn like this within seconds. One task's empty turn may be
//! its own fault. Empty turns of several tasks in a row, without an answer between them, are an outage of the
//! account.

use std::collections::BTreeSet;

use ralph_shared::ids::TaskId;
use ralph_shared::wire::{SessionReport, Usage};

/// Tasks in a row with an empty turn that make an outage.
pub const OUTAGE_TASKS: usize = 3;

/// Recent empty turns of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Silence {
    /// Tasks with an empty turn since its last answer.
    pub tasks: BTreeSet<TaskId>,
    /// Whether the account is already unavailable: its last session failed.
    pub closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The account has an outage; this says nothing about the task.
    Outage,
    /// The task's first one since the account's last answer. It may be the start of an outage, so it does not
    /// count.
    Forgiven,
    /// The task got an empty answer again.
    Counts,
}

impl Silence {
    /// Adds an empty turn of this task.
    pub fn met(&mut self, task: TaskId) -> Meaning {
        let is_first = self.tasks.insert(task);
        if self.closed || self.tasks.len() >= OUTAGE_TASKS {
            Meaning::Outage
        } else if is_first {
            Meaning::Forgiven
        } else {
            Meaning::Counts
        }
    }
}

/// Whether a session was one empty turn.
pub fn is_empty(session: &SessionReport, text: &str) -> bool {
    session.ended.is_in_order()
        && text.trim().is_empty()
        && session.tool_calls == 0
        && session.attempted.is_empty()
        && session.questions.is_empty()
        && session.snapshot.files_changed_count == 0
        && session.snapshot.left.is_none()
        && !is_used(&session.usage)
}

fn is_used(usage: &Usage) -> bool {
    let tokens = [usage.input_tokens, usage.output_tokens, usage.cached_tokens];
    tokens.into_iter().flatten().any(|tokens| tokens > 0) || usage.cost_usd.is_some_and(|usd| usd > 0.0)
}

#[cfg(test)]
mod tests {
    use ralph_shared::wire::Ended;

    use super::*;

    #[test]
    fn empty_turns_of_several_tasks_are_an_outage() {
        let tasks: Vec<TaskId> = (0..4).map(|_| TaskId::new()).collect();
        let check = |closed, met: &[usize], expected: &[Meaning]| {
            let mut silence = Silence {
                closed,
                ..Silence::default()
            };
            let meanings: Vec<Meaning> = met.iter().map(|task| silence.met(tasks[*task])).collect();
            assert_eq!(meanings, expected, "{met:?}");
        };
        use Meaning::*;
        check(false, &[0, 0, 0], &[Forgiven, Counts, Counts]);
        check(
            false,
            &[0, 1, 0, 2, 0, 3],
            &[Forgiven, Forgiven, Counts, Outage, Outage, Outage],
        );
        check(true, &[0, 0], &[Outage, Outage]);
    }

    #[test]
    fn a_turn_with_text_actions_or_usage_is_not_empty() {
        let empty = || {
            SessionReport::new(Ended::Turn {
                stop_reason: "end_turn".to_owned(),
            })
        };
        assert!(is_empty(&empty(), " \n"));
        assert!(!is_empty(&empty(), "hm"));
        let check = |change: fn(&mut SessionReport)| {
            let mut session = empty();
            change(&mut session);
            assert!(!is_empty(&session, ""), "{session:?}");
        };
        check(|session| session.tool_calls = 1);
        check(|session| session.snapshot.files_changed_count = 1);
        check(|session| session.usage.output_tokens = Some(1));
        check(|session| session.questions = vec!["which?".to_owned()]);
        check(|session| {
            session.ended = Ended::Turn {
                stop_reason: "refusal".to_owned(),
            };
        });
    }
}
