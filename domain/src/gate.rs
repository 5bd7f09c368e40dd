//! Plans checks of the gate, and judges its failures: either the attempt failed, or the environment did.
//!
//! The gate runs on a feature's base commit first. Nothing lands before it passes there, or a person allows
//! it to fail. Later failures that look the same on several tasks cast doubt on that pass.

use std::collections::BTreeSet;

use ralph_shared::ids::TaskId;

use crate::failure::signature::signature;

/// Tasks in a row with the same gate failure, after which the base is tried again before the last failure
/// counts.
pub const SAME_FAILURES: usize = 3;
/// Length of the shown end of a gate's output. Bytes.
const SHOWN_BYTES: usize = 3 * 1024;

/// Facts for the decision whether to try the gate on the base.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Whether there is a gate that must pass on the base.
    pub wanted: bool,
    /// Whether the gate is known to pass on the base.
    pub passes: bool,
    pub open: Option<PendingCheck>,
    /// Whether a person wants to retry a failed check.
    pub again: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct PendingCheck {
    /// Whether it tries these commands on this commit.
    pub same: bool,
    /// Whether a worker runs it.
    pub runs: bool,
    /// Whether it waits for a person.
    pub waits: bool,
}

/// The next step towards a known gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    Leave,
    /// Create a check, in place of one with other commands or another commit.
    Make,
    /// Queue the check that waits for a person again.
    Again,
    /// End the open check, since another feature's check passed.
    Pass,
    /// End the open check, since it is not needed.
    Skip,
}

pub fn plan(facts: &Facts) -> Plan {
    match facts.open {
        Some(_) if !facts.wanted => Plan::Skip,
        Some(open) if !open.same && facts.passes => Plan::Skip,
        Some(open) if !open.same => Plan::Make,
        Some(open) if facts.passes && !open.runs => Plan::Pass,
        Some(open) if open.waits && facts.again => Plan::Again,
        None if facts.wanted && !facts.passes => Plan::Make,
        _ => Plan::Leave,
    }
}

/// Facts for a refused attempt.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Whether the gate's check on the base is unfinished.
    pub checking: bool,
    /// Files that the task's attempts changed.
    pub changed: Vec<String>,
    /// Other failures of the feature's gate since the last landing or check: the task, and the failure's
    /// signature.
    pub before: Vec<(TaskId, String)>,
}

/// The meaning of a gate's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The attempt failed; the signature is for later ones.
    Counts(Option<String>),
    /// Unknown until the check on the base ends.
    Waits,
    /// The environment may have failed: the gate refused these tasks in the same way, the judged one last.
    Environment(Vec<TaskId>),
}

pub fn judge(task: TaskId, command: &str, output: &str, history: &History) -> Failure {
    if history.checking {
        return Failure::Waits;
    }
    if names_any(output, &history.changed) {
        return Failure::Counts(None);
    }
    let signature = signature(command, output);
    let same = history.before.iter().filter(|(_, other)| *other == signature);
    let others: BTreeSet<TaskId> = same
        .map(|(other, _)| *other)
        .filter(|other| *other != task)
        .collect();
    if others.len() + 1 < SAME_FAILURES {
        return Failure::Counts(Some(signature));
    }
    Failure::Environment(others.into_iter().chain([task]).collect())
}

/// A message that the gate failed on these tasks in the same way.
pub fn same_way(tasks: &[TaskId], command: &str) -> String {
    let names: Vec<String> = tasks.iter().map(TaskId::short).collect();
    format!(
        "the gate failed the same way on {} tasks: {} (`{command}`)",
        tasks.len(),
        names.join(", ")
    )
}

/// A commit's short id, for people.
pub fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// Why the check of a feature waits for a person.
pub fn fails_on_base(
    feature: &str,
    commit: &str,
    command: &str,
    output: &str,
    because: Option<&str>,
) -> String {
    let because = because.map(|because| format!("; {because}")).unwrap_or_default();
    format!(
        "the gate fails on the base commit {}{because}. Nothing lands before a person decides: `feature run {feature}` retries it once \
         the environment is repaired, `feature update {feature}` merges a repaired base, `--gate COMMAND` (of `feature edit`, or of \
         `feature run` while no run is active) names another gate, and `--gate-may-fail-on-base` there lets work land that passes \
         it\n`{command}` failed:\n{}",
        short(commit),
        end_of(output)
    )
}

/// The shown end of an output.
pub fn end_of(output: &str) -> &str {
    let from = output.len().saturating_sub(SHOWN_BYTES);
    output
        .get(output.ceil_char_boundary(from)..)
        .unwrap_or(output)
        .trim()
}

/// Whether a text names any of these paths: the whole path, its end, or the path below some other folder.
fn names_any(text: &str, paths: &[String]) -> bool {
    let is_of_path = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@');
    let words: BTreeSet<&str> = text
        .split(|c| !is_of_path(c))
        .map(|word| word.trim_start_matches("./").trim_end_matches('.'))
        .filter(|word| word.contains('.') || word.contains('/'))
        .collect();
    let ends = |whole: &str, end: &str| {
        whole
            .strip_suffix(end)
            .is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    words
        .iter()
        .any(|word| paths.iter().any(|path| ends(word, path) || ends(path, word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_is_tried_on_the_base_until_it_is_known() {
        let check = |wanted, passes, open: Option<(bool, &str)>, again, expected| {
            let open = open.map(|(same, state)| PendingCheck {
                same,
                runs: state == "runs",
                waits: state == "waits",
            });
            let facts = Facts {
                wanted,
                passes,
                open,
                again,
            };
            assert_eq!(plan(&facts), expected, "{facts:?}");
        };
        check(true, false, None, false, Plan::Make);
        check(true, true, None, false, Plan::Leave);
        check(false, false, None, true, Plan::Leave);
        for state in ["queued", "runs"] {
            check(true, false, Some((true, state)), true, Plan::Leave);
        }
        // A failed check is retried only when a person wants it.
        check(true, false, Some((true, "waits")), false, Plan::Leave);
        check(true, false, Some((true, "waits")), true, Plan::Again);
        // Another feature's check passed.
        check(true, true, Some((true, "queued")), false, Plan::Pass);
        check(true, true, Some((true, "waits")), false, Plan::Pass);
        check(true, true, Some((true, "runs")), false, Plan::Leave);
        // The gate or the base has changed, or may fail.
        for state in ["queued", "runs", "waits"] {
            check(true, false, Some((false, state)), false, Plan::Make);
            check(true, true, Some((false, state)), false, Plan::Skip);
            check(false, false, Some((true, state)), false, Plan::Skip);
        }
    }

    #[test]
    fn a_failed_check_asks_a_person_and_an_unfinished_one_is_retried() {
        use ralph_shared::wire::{EndReason, IntegrationEnd};

        use crate::outcome::{self, Step};
        use crate::states::Outcome;
        let failed = |retry, away| IntegrationEnd::Failed {
            message: "no".to_owned(),
            retry,
            away,
        };
        let ended = IntegrationEnd::Told {
            reason: EndReason::Drain,
        };
        let refused = IntegrationEnd::GateFailed {
            command: "make".to_owned(),
            output: "no".to_owned(),
        };
        for (end, outcome, step, away) in [
            (IntegrationEnd::Checked, Outcome::Passed, Step::Landed, false),
            (refused, Outcome::Failed, Step::Ask, false),
            (failed(true, true), Outcome::Error, Step::Retry, true),
            (failed(false, false), Outcome::Error, Step::Retry, true),
            (ended, Outcome::Interrupted, Step::Retry, false),
        ] {
            let judged = outcome::check(&end);
            assert_eq!(
                (judged.outcome, judged.step, judged.is_away()),
                (outcome, step, away),
                "{end:?}"
            );
        }
    }

    #[test]
    fn gate_failures_of_different_runs_have_one_signature() {
        let same = [
            (
                "thread 'a' panicked at /home/x/1/src/db.rs:12:5: connect 127.0.0.1:5432 refused after 1.25s",
                "thread 'a' panicked at /tmp/y/2/src/db.rs:99:1: connect 127.0.0.1:5433 refused after 31.07s",
            ),
            ("ok at 2026-01-02T03:04:05Z", "ok at 2027-11-12T13:14:15Z"),
            ("commit 0123abcd9 is missing", "commit ffee001 is missing"),
            ("[exit status: 127]\n", "\n[exit status: 1]"),
            ("a failed\nb failed", "b failed\na failed\nb failed"),
        ];
        for (one, other) in same {
            assert_eq!(
                signature("make", one),
                signature("make", other),
                "{one} / {other}"
            );
        }
        let different = [
            ("test store::saves failed", "test store::loads failed"),
            ("cargo: not found", "npm: not found"),
        ];
        for (one, other) in different {
            assert_ne!(
                signature("make", one),
                signature("make", other),
                "{one} / {other}"
            );
        }
        assert_ne!(signature("make", "x"), signature("make test", "x"));
    }

    #[test]
    fn a_failure_that_names_a_changed_file_is_the_tasks_own() {
        let check = |output: &str, changed: &str, expected| {
            assert_eq!(
                names_any(output, &[changed.to_owned()]),
                expected,
                "{output} / {changed}"
            );
        };
        check("error in src/store/db.rs:12:5", "src/store/db.rs", true);
        check("at /work/tree/src/store/db.rs.", "src/store/db.rs", true);
        check("./db.rs: no", "src/store/db.rs", true);
        check("(store/db.rs)", "src/store/db.rs", true);
        check("b.rs: no", "src/store/db.rs", false);
        check("src/store/db.rs2", "src/store/db.rs", false);
        check("cargo: not found [exit status: 127]", "src/store/db.rs", false);
        check("failed in README", "README", false);
    }

    #[test]
    fn three_tasks_that_fail_the_same_way_blame_the_environment() {
        let ids: Vec<TaskId> = (0..4).map(|_| TaskId::new()).collect();
        let output = "cargo: not found\n[exit status: 127]";
        let known = signature("make", output);
        let before = |tasks: &[usize]| {
            tasks
                .iter()
                .map(|&at| (ids[at], known.clone()))
                .collect::<Vec<_>>()
        };
        let check = |history: &History, expected| {
            assert_eq!(judge(ids[0], "make", output, history), expected, "{history:?}");
        };
        let with = |before| History {
            before,
            ..History::default()
        };
        let counts = Failure::Counts(Some(known.clone()));
        check(&with(before(&[])), counts.clone());
        check(&with(before(&[1])), counts.clone());
        check(&with(before(&[1, 1, 0])), counts.clone());
        check(
            &with(vec![(ids[1], known.clone()), (ids[2], "another".into())]),
            counts,
        );
        check(
            &with(before(&[1, 2])),
            Failure::Environment(vec![ids[1], ids[2], ids[0]]),
        );
        let waits = History {
            checking: true,
            ..with(before(&[1, 2]))
        };
        check(&waits, Failure::Waits);
        let own = History {
            changed: vec!["bin/cargo.rs".into()],
            ..with(before(&[1, 2]))
        };
        let named = judge(ids[0], "make", "bin/cargo.rs: cargo: not found", &own);
        assert_eq!(named, Failure::Counts(None));
        let text = same_way(&[ids[1], ids[2], ids[0]], "make");
        assert!(
            text.starts_with("the gate failed the same way on 3 tasks: "),
            "{text}"
        );
    }

    #[test]
    fn the_reason_names_the_remedies_and_then_the_end_of_the_output() {
        let output = format!("{}é\nlast line\n", "x".repeat(10_000));
        let reason = fails_on_base("todo", &"a".repeat(40), "make test", &output, None);
        assert!(
            reason.starts_with("the gate fails on the base commit aaaaaaaaaaaa. "),
            "{reason}"
        );
        assert!(reason.ends_with("last line"), "{reason}");
        assert!(reason.len() < 4_200, "{}", reason.len());
    }
}
