//! Arranges a task graph in layers from left to right: each task is to the right of all its blockers. In a
//! large graph, tasks of a layer with the same state share a box.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ralph_shared::ids::TaskId;

use crate::domain::states::TaskState;
use crate::store::view::GraphNode;

/// Largest graph with a box for each task.
const SINGLE: usize = 200;
/// Most separate boxes per layer of a larger graph, for tasks that run, failed or need a person.
const SINGLE_IN_LAYER: usize = 20;

/// Most layers of a larger graph; beyond that, adjacent layers are merged.
const LAYERS: usize = 120;

/// A box with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    pub what: BoxContent,
    /// Counted from the left.
    pub layer: usize,
    /// Counted from the top.
    pub row: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum BoxContent {
    /// The task at this index of the nodes.
    One(usize),
    /// A number of tasks in a state.
    Several(TaskState, usize),
}

/// The layout of a graph.
#[derive(Debug, Default, PartialEq)]
pub struct Layers {
    pub boxes: Vec<Placed>,
    /// Indexes of the connected boxes, from left to right.
    pub edges: BTreeSet<(usize, usize)>,
}

pub fn layout(nodes: &[GraphNode], edges: &[(TaskId, TaskId)]) -> Layers {
    let at: HashMap<TaskId, usize> = nodes.iter().enumerate().map(|(n, node)| (node.id, n)).collect();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (later, earlier) in edges {
        if let (Some(later), Some(earlier)) = (at.get(later), at.get(earlier)) {
            before[*later].push(*earlier);
        }
    }
    // A parent is done when its subtasks are.
    for (n, node) in nodes.iter().enumerate() {
        if let Some(parent) = node.parent.and_then(|parent| at.get(&TaskId(parent))) {
            before[*parent].push(n);
        }
    }
    let depth = depths(&before);
    let order = ordered(&before, &depth);
    boxed(nodes, &before, &depth, &order)
}

/// The length of the longest chain of tasks before each task.
fn depths(before: &[Vec<usize>]) -> Vec<usize> {
    let mut open: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); before.len()];
    for (later, earlier) in before.iter().enumerate() {
        for one in earlier {
            after[*one].push(later);
        }
    }
    let mut depth = vec![0; before.len()];
    let mut free: Vec<usize> = (0..before.len()).filter(|n| open[*n] == 0).collect();
    while let Some(n) = free.pop() {
        for later in &after[n] {
            depth[*later] = depth[*later].max(depth[n] + 1);
            open[*later] -= 1;
            if open[*later] == 0 {
                free.push(*later);
            }
        }
    }
    depth
}

/// The tasks of each layer, ordered to be near their blockers.
fn ordered(before: &[Vec<usize>], depth: &[usize]) -> Vec<Vec<usize>> {
    let mut layers: Vec<Vec<usize>> = vec![Vec::new(); depth.iter().max().map_or(0, |most| most + 1)];
    for (n, layer) in depth.iter().enumerate() {
        layers[*layer].push(n);
    }
    let mut row = vec![0.0; depth.len()];
    for layer in &mut layers {
        #[allow(clippy::cast_precision_loss)]
        let middle = |n: usize| {
            let earlier = &before[n];
            let sum: f64 = earlier.iter().map(|one| row[*one]).sum();
            if earlier.is_empty() {
                n as f64
            } else {
                sum / earlier.len() as f64
            }
        };
        let mut placed: Vec<(f64, usize)> = layer.iter().map(|n| (middle(*n), *n)).collect();
        placed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        *layer = placed.iter().map(|(_, n)| *n).collect();
        for (place, n) in layer.iter().enumerate() {
            #[allow(clippy::cast_precision_loss)]
            let place = place as f64;
            row[*n] = place;
        }
    }
    layers
}

fn boxed(nodes: &[GraphNode], before: &[Vec<usize>], depth: &[usize], order: &[Vec<usize>]) -> Layers {
    let mut drawn = Layers::default();
    let mut box_of = vec![0; nodes.len()];
    let is_large = nodes.len() > SINGLE;
    let as_one = if is_large {
        order.len().div_ceil(LAYERS).max(1)
    } else {
        1
    };
    for (layer, of_layer) in order.chunks(as_one).enumerate() {
        let mut several: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut row, mut single) = (0, 0);
        for n in of_layer.iter().flatten() {
            let state = nodes[*n].state;
            let stands_out = matches!(
                state,
                TaskState::InProgress | TaskState::NeedsReview | TaskState::Failed
            );
            if is_large && !(stands_out && single < SINGLE_IN_LAYER) {
                let known = several.get(state.into_str()).copied();
                let place = known.unwrap_or(drawn.boxes.len());
                if known.is_none() {
                    several.insert(state.into_str(), place);
                    drawn.boxes.push(Placed {
                        what: BoxContent::Several(state, 0),
                        layer,
                        row,
                    });
                    row += 1;
                }
                if let BoxContent::Several(_, count) = &mut drawn.boxes[place].what {
                    *count += 1;
                }
                box_of[*n] = place;
                continue;
            }
            single += 1;
            box_of[*n] = drawn.boxes.len();
            drawn.boxes.push(Placed {
                what: BoxContent::One(*n),
                layer,
                row,
            });
            row += 1;
        }
    }
    for (later, earlier) in before.iter().enumerate() {
        let layer = |n: usize| depth[n] / as_one;
        for one in earlier.iter().filter(|one| layer(**one) < layer(later)) {
            drawn.edges.insert((box_of[*one], box_of[later]));
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn node(n: u128, state: TaskState) -> GraphNode {
        GraphNode {
            id: TaskId(Uuid::from_u128(n)),
            parent: None,
            key: format!("k{n}"),
            title: format!("T{n}"),
            state,
            live: false,
        }
    }

    fn id(n: u128) -> TaskId {
        TaskId(Uuid::from_u128(n))
    }

    #[test]
    fn each_task_is_to_the_right_of_its_blockers() {
        let nodes: Vec<_> = (0..4).map(|n| node(n, TaskState::Pending)).collect();
        // 0 → 1 → 3, and 0 → 3; 2 is alone.
        let drawn = layout(&nodes, &[(id(1), id(0)), (id(3), id(1)), (id(3), id(0))]);
        let layers: Vec<_> = drawn
            .boxes
            .iter()
            .map(|one| (one.what.clone(), one.layer))
            .collect();
        assert_eq!(
            layers,
            [
                (BoxContent::One(0), 0),
                (BoxContent::One(2), 0),
                (BoxContent::One(1), 1),
                (BoxContent::One(3), 2)
            ]
        );
        assert_eq!(drawn.edges.len(), 3);
        assert_eq!(layout(&[], &[]), Layers::default());
    }

    #[test]
    fn subtasks_are_to_the_left_of_their_parent() {
        let mut nodes = vec![node(1, TaskState::Pending), node(2, TaskState::Done)];
        nodes[1].parent = Some(Uuid::from_u128(1));
        let drawn = layout(&nodes, &[]);
        assert_eq!(drawn.boxes[1].what, BoxContent::One(0));
        assert_eq!(drawn.boxes[1].layer, 1);
    }

    #[test]
    fn a_long_chain_has_a_bounded_number_of_layers() {
        let nodes: Vec<_> = (0..10_000).map(|n| node(n, TaskState::Pending)).collect();
        let edges: Vec<_> = (1..10_000).map(|n| (id(n), id(n - 1))).collect();
        let drawn = layout(&nodes, &edges);
        assert_eq!((drawn.boxes.len(), drawn.edges.len()), (120, 119));
        assert_eq!(drawn.boxes[0].what, BoxContent::Several(TaskState::Pending, 84));
    }

    #[test]
    fn a_large_graph_has_boxes_for_tasks_in_need_and_sums_up_others() {
        let mut nodes: Vec<_> = (0..5_000).map(|n| node(n, TaskState::Done)).collect();
        nodes[7].state = TaskState::Failed;
        let edges: Vec<_> = (2_500..5_000).map(|n| (id(n), id(n - 2_500))).collect();
        let drawn = layout(&nodes, &edges);
        assert_eq!(drawn.boxes.len(), 3, "{:?}", drawn.boxes);
        assert!(drawn.boxes.iter().any(|one| one.what == BoxContent::One(7)));
        assert!(
            drawn
                .boxes
                .iter()
                .any(|one| one.what == BoxContent::Several(TaskState::Done, 2_500))
        );
    }
}
