//! Counts in words.

use ralph_api::view::TaskCounts;
use ralph_shared::terminal::counted;

/// Counts of done, skipped and cancelled tasks.
pub fn done_of(tasks: &TaskCounts) -> String {
    let of = counted(tasks.total, "task", "tasks");
    format!("{} of {of} done{}", tasks.done, skipped_and_cancelled(tasks))
}

/// Counts of skipped and cancelled tasks, each after a comma; empty when there are none.
pub fn skipped_and_cancelled(tasks: &TaskCounts) -> String {
    let counts = [(tasks.skipped, "skipped"), (tasks.cancelled, "cancelled")];
    let some = counts.iter().filter(|(n, _)| *n > 0);
    some.map(|(n, word)| format!(", {n} {word}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn done_and_removed_tasks_are_counted_separately() {
        let check = |total, done, skipped, cancelled, expected: &str| {
            let tasks = TaskCounts {
                total,
                done,
                skipped,
                cancelled,
                ..TaskCounts::default()
            };
            assert_eq!(done_of(&tasks), expected);
        };
        check(2, 0, 0, 0, "0 of 2 tasks done");
        check(1, 1, 0, 0, "1 of 1 task done");
        check(5, 3, 0, 2, "3 of 5 tasks done, 2 cancelled");
        check(5, 1, 1, 2, "1 of 5 tasks done, 1 skipped, 2 cancelled");
    }
}
