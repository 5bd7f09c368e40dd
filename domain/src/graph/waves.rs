//! Computes which tasks of a graph can run in parallel, for `--dry-run`.

use super::node::Graph;

/// The wave in which each task can run, if every task takes the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waves {
    /// The wave of each task, from 1; for a parent, the last wave of its children.
    pub of_task: Vec<u32>,
    /// Number of tasks in each wave, from wave 1 on.
    pub widths: Vec<usize>,
}

impl Waves {
    /// Computes the waves in one pass, since blockers, parents and descendants of blockers come before a
    /// node.
    pub fn of(graph: &Graph) -> Self {
        let nodes = &graph.nodes;
        let mut waves = Self {
            of_task: vec![0; nodes.len()],
            widths: Vec::new(),
        };
        let mut held_until = vec![0; nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            let parent = node.parent.map_or(0, |parent| held_until[parent as usize]);
            let blockers = node.after.iter().map(|blocker| waves.of_task[*blocker as usize]);
            held_until[index] = blockers.fold(parent, u32::max);
            if node.open_children > 0 {
                continue;
            }
            let wave = held_until[index] + 1;
            waves.widths.resize(waves.widths.len().max(wave as usize), 0);
            waves.widths[wave as usize - 1] += 1;
            let mut done = Some(index);
            while let Some(task) = done.filter(|task| waves.of_task[*task] < wave) {
                waves.of_task[task] = wave;
                done = nodes[task].parent.map(|parent| parent as usize);
            }
        }
        waves
    }

    /// Number of tasks that can start at once.
    pub fn first(&self) -> usize {
        self.widths.first().copied().unwrap_or(0)
    }

    /// Maximum number of tasks that can run in parallel.
    pub fn widest(&self) -> usize {
        self.widths.iter().copied().max().unwrap_or(0)
    }
}
