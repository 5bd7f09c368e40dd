//! A night in minutes: two hundred tasks whose agents fail, crash, hang, loop, report false usage and meet
//! their provider's limits. The run ends by itself within its budget and reports the end, the reason and the
//! cost of every task, even if everything is killed midway.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nix::sys::signal::Signal;
use ralph_tests::harness::until_blocking;
use serde_json::Value;

use crate::cli::machine::Machine;

/// Budgets of the run and of one task. US dollars.
const BUDGET: f64 = 20.0;
const TASK_BUDGET: &str = "0.5";

/// Spends without end. The wait between two updates leaves time for a cancel.
const LOOP: &str = "@usage 10 2 0.1\n@wait 300";

/// Name, number of tasks, agent script, final status, and a part of the reason.
const FAMILIES: &[(&str, usize, &str, &str, &str)] = &[
    ("plain", 125, "@usage 100 20 0.01\n@done", "done", ""),
    (
        "again",
        20,
        "@on-attempt 1 @fail not yet\n@usage 100 20 0.01\n@done",
        "done",
        "",
    ),
    (
        "crash",
        15,
        "@usage 10 2 0.01\n@on-attempt 1 @crash\n@done",
        "done",
        "",
    ),
    (
        "never",
        10,
        "@usage 10 2 0.01\n@fail it has no solution",
        "failed",
        "it has no solution",
    ),
    ("hang", 4, "@hang", "failed", "silent for longer"),
    (
        "long",
        3,
        "@spend 100000 1 1 0",
        "failed",
        "longer than its limit",
    ),
    (
        "liar",
        10,
        "@usage 5 5 -3\n@usage 0 0 NaN\n@usage 1099511627776 0 0.01\n@done",
        "done",
        "",
    ),
    (
        "rate",
        5,
        "@on-attempt 1 @error -32603 API Error: 429 too many requests\n@done",
        "done",
        "",
    ),
    (
        "quota",
        5,
        "@on-attempt 1 @error -32603 You exceeded your current quota, try again in 2s\n@done",
        "done",
        "",
    ),
    ("loop", 3, LOOP, "failed", "the limit of task"),
];

fn graph() -> String {
    let mut graph = String::new();
    for (name, count, script, ..) in FAMILIES {
        for n in 0..*count {
            let times = if *script == LOOP { 100 } else { 1 };
            let script = vec![*script; times].join("\n").replace('\n', "\n    ");
            writeln!(
                graph,
                "- key: {name}-{n}\n  title: {name}\n  description: |\n    {script}"
            )
            .unwrap();
        }
    }
    graph
}

fn json(machine: &Machine, args: &[&str]) -> Value {
    let output = machine.run(&[args, &["--output", "json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {stderr}"))
}

fn done(machine: &Machine) -> u64 {
    json(machine, &["feature", "show", "night"])["feature"]["tasks"]["done"]
        .as_u64()
        .unwrap()
}

fn night(is_killed: bool) {
    let machine = Machine::new();
    std::fs::write(machine.at("tasks.yaml"), graph()).unwrap();
    let up = |log: &str| {
        machine.up_with(log, |command| {
            command.env("RALPH_SLOTS", "6");
        })
    };
    let mut running = up("up-1.log");
    let budget = machine.run(&["budget", "set", "task", "--max-cost", TASK_BUDGET]);
    assert!(
        budget.status.success(),
        "{}",
        String::from_utf8_lossy(&budget.stderr)
    );
    let max_cost = BUDGET.to_string();
    let submit = machine.run(&[
        "submit",
        "feature",
        "night",
        "--tasks",
        "tasks.yaml",
        "--no-repo",
        "--no-verify",
        "--no-review",
        "--max-retries",
        "1",
        "--backoff",
        "0",
        "--idle-time",
        "3s",
        "--session-time",
        "5s",
        "--max-parallel",
        "6",
        "--limit",
        "1000",
        "--max-cost",
        &max_cost,
    ]);
    assert!(
        submit.status.success(),
        "{}",
        String::from_utf8_lossy(&submit.stderr)
    );
    if is_killed {
        until_blocking("some of the work", || done(&machine) > 40);
        running.kill();
        running = up("up-2.log");
        assert!(done(&machine) < 178, "the kill came too late");
    }
    let waited = machine.run(&["feature", "wait", "night"]);
    let stdout = String::from_utf8_lossy(&waited.stdout).into_owned();

    let tasks = json(&machine, &["task", "list", "night", "--limit", "1000"]);
    let mut ends: BTreeMap<(String, String), usize> = BTreeMap::new();
    for task in tasks["items"].as_array().unwrap() {
        let (name, _) = task["key"].as_str().unwrap().rsplit_once('-').unwrap();
        let (.., status, why) = FAMILIES.iter().find(|family| family.0 == name).unwrap();
        let reason = [&task["reason"], &task["waits"]]
            .map(|text| text.as_str().unwrap_or_default())
            .concat();
        assert!(
            task["status"] == *status && reason.contains(why),
            "{task}\n{stdout}"
        );
        *ends.entry((name.to_owned(), (*status).to_owned())).or_default() += 1;
    }
    let counts: BTreeMap<(String, String), usize> = FAMILIES
        .iter()
        .map(|(name, count, _, status, _)| (((*name).to_owned(), (*status).to_owned()), *count))
        .collect();
    assert_eq!(ends, counts, "{stdout}");

    let costs = json(&machine, &["cost", "--by", "task"]);
    let costs = costs["items"].as_array().unwrap();
    let usd = |row: &Value| row["cost_usd"].as_f64().unwrap();
    let spent: f64 = costs.iter().map(usd).sum();
    assert!(
        costs.len() >= 180 && spent > 2.5 && spent < BUDGET,
        "{spent} USD of {} tasks",
        costs.len()
    );
    for row in costs {
        // Each session may report one update beyond its share.
        assert!(usd(row) < 1.0, "{row}");
    }
    assert!(
        stdout.contains("night: Failure") && stdout.contains("180 of 200 tasks done"),
        "{stdout}"
    );
    running.signal(Signal::SIGTERM);
    until_blocking("`up` to end", || running.try_wait().is_some());
}

#[test]
fn a_night_ends_by_itself_within_its_budget() {
    night(false);
}

#[test]
fn a_night_that_is_killed_in_the_middle_ends_the_same_way() {
    night(true);
}
