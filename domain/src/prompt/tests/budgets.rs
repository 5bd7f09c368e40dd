//! Budgets hold for any input (SPEC 6.2), and the least important parts are omitted when space is short.

#![allow(clippy::unwrap_used)]

use insta::assert_snapshot;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{self, Sigils};

use super::super::text::chars;
use super::super::*;
use super::scene::*;

#[test]
fn when_space_is_short_the_newest_attempt_stays_and_the_oldest_go() {
    let attempts = (1..=12)
        .map(|n| {
            attempt(
                n,
                "sonnet",
                &format!("approach {n} {}", "x ".repeat(100)),
                &"why ".repeat(60),
                "unknown",
            )
        })
        .collect();
    let memory = Memory {
        attempt: 13,
        attempts,
        ..Memory::default()
    };
    let body = work(&task("T", "D"), &memory).prompt.body;
    let text = section(&body, "### Previous Attempts").unwrap();
    assert!(chars(&text) <= 3_000);
    assert!(text.contains("#### Attempt 12 (") && !text.contains("#### Attempt 1 ("));
    assert_snapshot!(text);
}

#[test]
fn the_newest_attempt_alone_is_cut_hard() {
    let mut newest = attempt(1, "sonnet", &"tried ".repeat(80), &"why ".repeat(120), "unknown");
    newest.report.as_mut().unwrap().error = Some("line of output\n".repeat(40));
    let memory = Memory {
        attempt: 2,
        attempts: vec![newest],
        ..Memory::default()
    };
    let budgets = Budgets {
        previous_attempts: Share { max: 1_300, min: 500 },
        ..Budgets::default()
    };
    let body = work_within(&budgets, &task("T", "D"), &memory).prompt.body;
    let text = section(&body, "### Previous Attempts").unwrap();
    assert!(chars(&text) <= 1_300);
    assert_snapshot!(text);
}

#[test]
fn a_learning_fits_whole_or_is_left_out() {
    let long = "word ".repeat(250);
    let memory = Memory {
        attempt: 1,
        learnings: vec![
            learning("pitfall", &long),
            learning("pitfall", &long),
            learning("other", "short"),
        ],
        ..Memory::default()
    };
    let rendered = work(&task("T", "D"), &memory);
    assert_eq!(rendered.shown(Section::Learnings), [0, 2]);
    assert!(
        rendered
            .prompt
            .body
            .contains("- **[other]** _(l-00000000f00d, from t-00000000cafe, 3 days old)_ short")
    );
}

#[test]
fn knowledge_and_journal_stay_within_their_budgets() {
    let memory = Memory {
        attempt: 1,
        knowledge: (0..9)
            .map(|n| Knowledge {
                title: format!("Entry {n}"),
                body: "grün ".repeat(380),
                ..Knowledge::default()
            })
            .collect(),
        journal: (1..=10)
            .map(|n| JournalEntry {
                iteration: Some(n),
                outcome: "done".to_owned(),
                task: "t-1".to_owned(),
                title: "T".to_owned(),
                notes: "note ".repeat(500),
                ..JournalEntry::default()
            })
            .map(Into::into)
            .collect(),
        ..Memory::default()
    };
    let rendered = work(&task("T", "D"), &memory);
    assert_eq!(rendered.shown(Section::Knowledge), [0, 1, 2, 3]);
    assert_eq!(rendered.shown(Section::Journal), [0, 1, 2, 3, 4]);
    let huge = Memory {
        knowledge: vec![Knowledge {
            title: "Huge".to_owned(),
            body: "```\ncode line\n".repeat(2_000),
            ..Knowledge::default()
        }],
        ..Memory::default()
    };
    let body = work(&task("T", "D"), &huge).prompt.body;
    let text = section(&body, "## Project Knowledge").unwrap();
    assert!(chars(&text) <= 8_000 && chars(&text) > 7_000);
    assert!(text.contains("_(truncated)_"));
    assert_eq!(text.matches("```").count() % 2, 0, "no fence stays open");
}

#[test]
fn a_section_is_omitted_when_less_than_its_minimum_is_left() {
    let memory = everything();
    let budgets = Budgets {
        total: 1_500,
        ..Budgets::default()
    };
    let rendered = work_within(&budgets, &task("T", "D"), &memory);
    let fates: Vec<_> = rendered.account.iter().map(|a| (a.section, a.fate)).collect();
    assert_eq!(fates[0], (Section::PreviousAttempts, SectionFate::Shown));
    assert!(
        fates.iter().any(|(_, fate)| *fate == SectionFate::NoRoom),
        "{fates:?}"
    );
    assert!(rendered.account.iter().map(|a| a.chars).sum::<usize>() <= 1_500);
}

/// A section of a body, from its heading to the next one.
fn section(body: &str, heading: &str) -> Option<String> {
    let start = if body.starts_with(heading) {
        0
    } else {
        body.find(&format!("\n{heading}\n"))? + 1
    };
    let rest = &body[start..];
    let ends = [
        "### Previous Attempts",
        "## Session Memory",
        "### Learnings from Previous Iterations",
        "### Loop Status",
        "## Run Journal",
        "## Project Knowledge",
    ];
    let end = ends
        .iter()
        .filter_map(|other| rest.find(&format!("\n\n{other}\n")))
        .min()
        .unwrap_or(rest.len());
    Some(rest[..end].to_owned())
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z\\n #`äß漢👩‍🚀]{0,80}",
        1 => "(# |```\\n|<task-done>|漢字 ){0,200}",
        1 => "\\PC{0,600}",
        1 => "[ \\n\\t\\r\\x00]{0,30}",
    ]
}

prop_compose! {
    fn attempts()(tried in words(), why in words(), error in option::of(words()), suggestion in option::of(words()),
                  reason in option::of(words()), report in any::<bool>(), extracted in any::<bool>(), number in 1..60)
                  -> Attempt {
        Attempt {
            number,
            model: Some(why.clone()),
            outcome: "failed".to_owned(),
            report: report.then_some(Report { extracted, tried, why, error, suggestion, ..Report::default() }),
            feedback: reason.clone(),
            reason,
            ..Attempt::default()
        }
    }
}

prop_compose! {
    fn memories()(attempts in vec(attempts(), 0..8), texts in vec(words(), 0..12), n in 0..12_i32) -> Memory {
        let mut memory = Memory { attempt: n + 1, attempts, ..everything() };
        memory.siblings = texts.iter().map(|t| SiblingFailure {
            task: "t-1".to_owned(), title: t.clone(), error: t.clone(), context: Some(t.clone()), ..SiblingFailure::default()
        }).collect();
        memory.session.pending = texts.clone();
        memory.session.key_facts = texts.clone();
        memory.session.decisions = texts.iter().map(|t| Decision { text: t.clone(), rationale: Some(t.clone()) }).collect();
        memory.learnings = texts.iter().map(|t| learning(t, t)).collect();
        memory.knowledge = texts.iter().map(|t| Knowledge {
            title: t.clone(), body: t.repeat(20), ..Knowledge::default()
        }).collect();
        memory.journal = texts.iter().map(|t| JournalEntry {
            iteration: Some(n), outcome: "done".to_owned(), notes: t.repeat(5), feedback: Some(t.clone()), title: t.clone(), ..JournalEntry::default()
        }.into()).collect();
        memory
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn budgets_hold_for_any_input(memory in memories(), total in 0..30_000_usize, max in 0..4_000_usize) {
        let budgets = Budgets {
            previous_attempts: Share { max, min: max / 4 },
            knowledge: Share { max: max * 2, min: 300 },
            total,
            ..Budgets::default()
        };
        let task = task("T", "Make it so.");
        let rendered = work_within(&budgets, &task, &memory);
        let without = work_within(&Budgets { total: 0, ..budgets.clone() }, &task, &memory);
        let mut sum = 0;
        for account in &rendered.account {
            prop_assert!(account.chars <= budgets.of(account.section).max, "{account:?}");
            sum += account.chars;
        }
        prop_assert!(sum <= total);
        let shown = rendered.account.iter().filter(|a| a.fate == SectionFate::Shown).count();
        prop_assert_eq!(chars(&rendered.prompt.body), chars(&without.prompt.body) + sum + 2 * shown);
        for heading in ["## Assigned Task", "## Session Memory", "## Run Journal", "## Project Knowledge"] {
            let found = rendered.prompt.body.lines().filter(|line| line.trim_end() == heading).count();
            prop_assert!(found <= 1, "{heading} occurs {found} times");
        }
        let context = sigil::Context { kind: SessionKind::Work, task_id: TASK, model_tiers: &[] };
        prop_assert_eq!(sigil::parse(&rendered.prompt.whole(), &context), Sigils::default());
    }
}
