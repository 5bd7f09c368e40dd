//! Tasks and memories for tests.

use ralph_shared::kind::SessionKind;
use time::OffsetDateTime;

use super::super::*;

pub(super) const TASK: &str = "t-9f2c41aa07be";

pub(super) fn task(title: &str, description: &str) -> TaskContext {
    TaskContext {
        id: TASK.to_owned(),
        title: title.to_owned(),
        description: description.to_owned(),
        feature: "iteration-memory".to_owned(),
        ..TaskContext::default()
    }
}

pub(super) fn work(task: &TaskContext, memory: &Memory) -> Rendered {
    work_within(&Budgets::default(), task, memory)
}

pub(super) fn work_within(budgets: &Budgets, task: &TaskContext, memory: &Memory) -> Rendered {
    render(
        &Templates::built_in(),
        budgets,
        SessionKind::Work,
        task,
        Some(memory),
        None,
    )
}

pub(super) fn attempt(number: i32, model: &str, tried: &str, why: &str, category: &str) -> Attempt {
    Attempt {
        number,
        model: Some(model.to_owned()),
        outcome: "failed".to_owned(),
        was_tried: true,
        report: Some(Report {
            tried: tried.to_owned(),
            why: why.to_owned(),
            category: category.to_owned(),
            files: Some(".ralph/specs/iteration-memory.md".to_owned()),
            ..Report::default()
        }),
        ..Attempt::default()
    }
}

pub(super) fn learning(category: &str, text: &str) -> Learning {
    Learning {
        provenance: Provenance {
            id: "l-00000000f00d".to_owned(),
            task: Some("t-00000000cafe".to_owned()),
            days: 3,
            ..Provenance::default()
        },
        category: category.to_owned(),
        text: text.to_owned(),
    }
}

pub(super) fn status(iteration: i32, failures: i16, model: &str, why: &str) -> Option<LoopStatus> {
    Some(LoopStatus {
        iteration,
        limit: Some(20),
        failures,
        model: Some(model.to_owned()),
        model_reason: Some(why.to_owned()),
        stuck: failures >= 3,
        same_again: false,
    })
}

pub(super) fn prerequisite(id: &str, title: &str, summary: &str) -> Prerequisite {
    Prerequisite {
        id: id.to_owned(),
        title: title.to_owned(),
        skipped: false,
        summary: Some(summary.to_owned()),
    }
}

pub(super) fn everything() -> Memory {
    Memory {
        attempt: 5,
        older_attempts: 0,
        attempts: vec![
            Attempt {
                number: 1,
                outcome: "error".to_owned(),
                ended_at: OffsetDateTime::from_unix_timestamp(1_767_312_000).ok(),
                ..Attempt::default()
            },
            Attempt {
                number: 2,
                outcome: "failed verification".to_owned(),
                model: Some("sonnet".to_owned()),
                reason: Some("The error has no line number.".to_owned()),
                verified: true,
                branch: Some("refs/ralph/attempts/parser/t-1/2-d-2".to_owned()),
                strays: ["branches/other", "stashes/0"]
                    .map(|name| format!("refs/ralph/attempts/parser/t-1/2-d-2-strays/{name}"))
                    .to_vec(),
                ..Attempt::default()
            },
            Attempt {
                number: 3,
                outcome: "interrupted".to_owned(),
                feedback: Some("Use the existing error type.".to_owned()),
                ..Attempt::default()
            },
            Attempt {
                number: 4,
                outcome: "no_sigil".to_owned(),
                report: Some(Report {
                    extracted: true,
                    why: "error[E0308]: mismatched types".to_owned(),
                    error: Some("error[E0308]\n```\n## Memory".to_owned()),
                    ..Report::default()
                }),
                ..Attempt::default()
            },
        ],
        siblings: vec![SiblingFailure {
            task: "t-00000000beef".to_owned(),
            title: "Read numbers".to_owned(),
            category: "logic_error".to_owned(),
            error: "overflow in `parse`".to_owned(),
            attempted: "u8 for lengths".to_owned(),
            files: Some("src/number.rs".to_owned()),
            context: Some("300 digits".to_owned()),
            ended_at: OffsetDateTime::from_unix_timestamp(1_767_308_400).ok(),
        }],
        session: SessionMemory {
            feature: "parser".to_owned(),
            phase: "work".to_owned(),
            branch: Some("ralph/parser".to_owned()),
            pull_request: None,
            completed: vec!["Added the error type".to_owned()],
            pending: vec!["Run the full suite".to_owned()],
            blocked: None,
            files_modified: vec!["src/parse.rs".to_owned(), "src/error.rs".to_owned()],
            errors: vec![UnresolvedError {
                iteration: Some(2),
                phase: "work".to_owned(),
                task: "t-00000000beef".to_owned(),
                category: "test_failure".to_owned(),
                text: "expected ErrExpired, got nil".to_owned(),
            }],
            decisions: vec![Decision {
                text: "One error type for all".to_owned(),
                rationale: Some("callers match on it".to_owned()),
            }],
            key_facts: vec!["No dependency may be added".to_owned()],
        },
        learnings: vec![learning("pitfall", "Spans are byte offsets.")],
        status: status(
            7,
            4,
            "opus",
            "strongest after 2 consecutive failures of this task",
        ),
        journal: vec![
            JournalEntry {
                iteration: Some(6),
                outcome: "retried".to_owned(),
                task: "t-00000000beef".to_owned(),
                title: "Read numbers".to_owned(),
                model: Some("opus".to_owned()),
                files: vec!["src/number.rs".to_owned()],
                notes: "Fails on edge cases.".to_owned(),
                ..JournalEntry::default()
            }
            .into(),
            JournalEntry {
                outcome: "done".to_owned(),
                task: "t-00000000cafe".to_owned(),
                title: "Say where".to_owned(),
                notes: "Lines are counted from 1.".to_owned(),
                ..JournalEntry::default()
            }
            .into(),
        ],
        knowledge: vec![Knowledge {
            title: "Benchmarks need nightly".to_owned(),
            provenance: Provenance {
                id: "k-00000000f00d".to_owned(),
                ..Provenance::default()
            },
            body: "Use `rustup run nightly`.\n\n# Not a heading".to_owned(),
        }],
    }
}
