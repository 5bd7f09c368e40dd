//! Durations of a gate's commands.

use ralph_shared::terminal::tame;
use ralph_shared::wire::StepTime;

use super::duration::show_ms;

/// Each command with its duration; `None` if none ran.
pub fn words(times: &[StepTime]) -> Option<String> {
    let words: Vec<String> = times.iter().map(step).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn step(step: &StepTime) -> String {
    let name = tame(&step.name).replace('\n', " ");
    let took = show_ms(i64::try_from(step.duration_ms).unwrap_or(i64::MAX));
    let failed = if step.passed { "" } else { " failed" };
    format!("{name} {took}{failed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_listed_with_durations_and_failures() {
        let time = |name: &str, duration_ms, passed| StepTime {
            name: name.to_owned(),
            began_ms: 0,
            duration_ms,
            passed,
        };
        let times = [time("lint", 1_500, true), time("make\ntest", 61_000, false)];
        assert_eq!(
            words(&times).as_deref(),
            Some("lint 1.5s, make test 1m01s failed")
        );
        assert_eq!(words(&[]), None);
    }
}
