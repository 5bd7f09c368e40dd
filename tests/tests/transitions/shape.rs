//! Random graphs of tasks.

use rand::Rng as _;
use rand::rngs::StdRng;

/// A random graph: roots, children, grandchildren, and edges to earlier tasks.
pub fn graph(random: &mut StdRng) -> String {
    let n = random.random_range(5..12);
    let mut text = String::new();
    let mut parents: Vec<Option<usize>> = Vec::new();
    for task in 0..n {
        let parent = (task > 0 && random.random_bool(0.35)).then(|| random.random_range(0..task));
        parents.push(parent);
        let ancestors: Vec<usize> = std::iter::successors(parent, |p| parents[*p]).collect();
        let mut after: Vec<String> = Vec::new();
        for _ in 0..random.random_range(0..3) {
            let blocker = random.random_range(0..n);
            // Only earlier tasks that are no ancestors: a parent of later tasks would make a cycle.
            if blocker < task && !ancestors.contains(&blocker) && parents[blocker] == parent {
                after.push(format!("k{blocker}"));
            }
        }
        after.dedup();
        text.push_str(&format!("- key: k{task}\n  title: Task {task}\n"));
        if let Some(parent) = parent {
            text.push_str(&format!("  parent: k{parent}\n"));
        }
        if random.random_bool(0.6) {
            let first = random.random_range(0..3);
            text.push_str(&format!(
                "  paths: [dir{first}, dir{}/x]\n",
                random.random_range(0..3)
            ));
        }
        if !after.is_empty() {
            text.push_str(&format!("  after: [{}]\n", after.join(", ")));
        }
    }
    text
}
