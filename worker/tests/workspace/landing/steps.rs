//! The commands of a gate: one after the other, in parallel, and within their time limits.

use ralph_shared::wire::{GateStep, IntegrateOrder, IntegrationEnd, IntegrationReport};

use crate::remote::{Remote, integrate_order};

fn step(name: &str, timeout_ms: Option<u64>, parallel: bool) -> GateStep {
    GateStep {
        name: Some(name.to_owned()),
        timeout_ms,
        parallel,
    }
}

/// Runs a gate on an attempt.
async fn checked(gate: &[&str], steps: Vec<GateStep>) -> IntegrationReport {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let order = IntegrateOrder {
        gate: gate.iter().map(|command| (*command).to_owned()).collect(),
        steps,
        ahead: Some(Vec::new()),
        ..integrate_order("t-1", &commit)
    };
    remote.check_ahead(&workspaces, "t-1", "c-1", &order).await
}

fn times(report: &IntegrationReport) -> Vec<(&str, bool)> {
    let times = report.steps.iter();
    times.map(|step| (step.name.as_str(), step.passed)).collect()
}

/// Each of the two parallel steps waits for the other's file.
#[tokio::test]
async fn parallel_steps_run_together_and_later_ones_wait() {
    let wait = |made: &str, other: &str| format!("touch {made}; until test -e {other}; do sleep 0.05; done");
    let (one, two) = (wait("one", "two"), wait("two", "one"));
    let steps = vec![
        step("one", Some(60_000), false),
        step("two", Some(60_000), true),
        GateStep::default(),
    ];
    let last = "test -e one && test -e two";
    let report = checked(&[&one, &two, last], steps).await;
    assert_eq!(report.end, IntegrationEnd::Checked);
    assert_eq!(times(&report), [("one", true), ("two", true), (last, true)]);
    let [one, two, last] = &report.steps[..] else {
        panic!()
    };
    assert_eq!(one.began_ms, two.began_ms);
    assert!(last.began_ms >= one.began_ms + one.duration_ms.max(two.duration_ms));
}

#[tokio::test]
async fn a_hanging_step_ends_at_its_limit_and_later_steps_do_not_start() {
    let steps = vec![step("hangs", Some(500), false), step("beside", None, true)];
    let gate = ["echo begun; sleep 3600", "true", "touch never"];
    let report = checked(&gate, steps).await;
    let IntegrationEnd::GateFailed { command, output } = &report.end else {
        panic!("{report:?}")
    };
    assert_eq!(command, gate[0]);
    assert!(
        output.contains("begun") && output.contains("was ended after"),
        "{output}"
    );
    assert_eq!(times(&report), [("hangs", false), ("beside", true)]);
    assert!(report.steps[0].duration_ms >= 500, "{:?}", report.steps);
}
