//! The worked examples of memory in a prompt (SPEC 6.1): first attempts and later ones.

#![allow(clippy::unwrap_used)]

use insta::assert_snapshot;

use super::super::*;
use super::scene::*;

#[test]
fn first_attempt_with_nothing_remembered() {
    let task = TaskContext {
        parent: Some(Parent {
            id: "t-000000000001".to_owned(),
            title: "Write the skeleton of the memory spec".to_owned(),
            description: "The specification of iteration memory.".to_owned(),
        }),
        prerequisites: vec![
            prerequisite("t-0000000eb603", "Write the data model", "Defined all new tables"),
            prerequisite("t-0000000dfebf", "Write the sigils", "Specified all new sigils"),
        ],
        spec: Some("Memory carries over.".to_owned()),
        ..task(
            "Write the section on context injection",
            "Fill in the section. Read the prompt's code first.",
        )
    };
    let memory = Memory {
        attempt: 1,
        status: status(1, 0, "sonnet", "middle tier by default"),
        ..Memory::default()
    };
    assert_snapshot!(work(&task, &memory).prompt.whole());
}

#[test]
fn second_attempt_after_a_failure() {
    let mut failed = attempt(
        1,
        "sonnet",
        "Tried to write all four phases at once",
        "Ran out of output tokens after the second phase",
        "timeout",
    );
    let report = failed.report.as_mut().unwrap();
    report.error = Some("Output truncated at 25000 tokens".to_owned());
    report.suggestion = Some("Write the first two phases, then say that the task is done.".to_owned());
    let memory = Memory {
        attempt: 2,
        attempts: vec![failed],
        status: status(6, 1, "sonnet", "middle tier by default"),
        ..Memory::default()
    };
    let task = task("Write the migration path", "Write the plan in phases.");
    assert_snapshot!(work(&task, &memory).prompt.body);
}

#[test]
fn fourth_attempt_with_learnings_and_the_stuck_warning() {
    let mut last = attempt(
        3,
        "opus",
        "Section by section, with cross-references",
        "The examples in the text have syntax errors",
        "test_failure",
    );
    let report = last.report.as_mut().unwrap();
    report.error = Some("cargo test -- --test spec_validation\ncode_blocks_are_valid ... FAILED".to_owned());
    report.suggestion = Some("Look only at the examples; run `cargo check` on each block.".to_owned());
    let memory = Memory {
        attempt: 4,
        attempts: vec![
            attempt(
                1,
                "sonnet",
                "Everything in one pass",
                "Contradicted the data model",
                "logic_error",
            ),
            attempt(
                2,
                "sonnet",
                "Read all, then fixed single places",
                "Missed cross-references",
                "logic_error",
            ),
            last,
        ],
        learnings: vec![
            learning("success_pattern", "Switch foreign keys on for each connection."),
            learning(
                "pitfall",
                "Examples in specs must be valid, a test compiles them.",
            ),
            learning("testing_strategy", "Run the tests after each edit of a spec."),
        ],
        status: status(
            12,
            3,
            "opus",
            "strongest after 2 consecutive failures of this task",
        ),
        ..Memory::default()
    };
    let task = task("Polish the memory spec", "Review it for consistency.");
    assert_snapshot!(work(&task, &memory).prompt.body);
}

#[test]
fn first_attempt_with_learnings_only() {
    let memory = Memory {
        attempt: 1,
        learnings: vec![
            learning("code_structure", "Each section starts with an overview."),
            learning("tool_usage", "`cargo test --test NAME` runs one file of tests."),
        ],
        status: status(8, 0, "sonnet", "middle tier by default"),
        ..Memory::default()
    };
    assert_snapshot!(
        work(
            &task("Write the section on lifecycle", "Growth and pruning."),
            &memory
        )
        .prompt
        .body
    );
}

#[test]
fn every_section_at_once() {
    let memory = everything();
    assert_snapshot!(
        work(&task("Return the cause", "Make the parser say why."), &memory)
            .prompt
            .body
    );
}
