//! Draws a graph: signs and colours show states, and each box links to its task.

use maud::{Markup, html};

use super::layers::{BoxContent, Layers, layout};
use crate::page::words::{cut_line, sign};
use crate::store::view::GraphNode;

// Sizes in pixels.
const WIDTH: usize = 184;
const HEIGHT: usize = 30;
const GAP_X: usize = 44;
const GAP_Y: usize = 10;
const EDGE: usize = 6;
/// Longest title. Characters.
const TITLE: usize = 20;
/// Most drawn edges; more would be unreadable.
const MOST_EDGES: usize = 3_000;

pub fn draw(
    nodes: &[GraphNode],
    edges: &[(ralph_shared::ids::TaskId, ralph_shared::ids::TaskId)],
    feature: &str,
) -> Markup {
    let layers = layout(nodes, edges);
    let width = layers.boxes.iter().map(|one| one.layer + 1).max().unwrap_or(0) * (WIDTH + GAP_X) + 2 * EDGE;
    let height = layers.boxes.iter().map(|one| one.row + 1).max().unwrap_or(0) * (HEIGHT + GAP_Y) + 2 * EDGE;
    html! {
        div.graph tabindex="0" role="region" aria-label="The graph, from left to right" {
            svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                @for (from, to) in layers.edges.iter().take(MOST_EDGES) { (edge(&layers, *from, *to)) }
                @for one in &layers.boxes {
                    @let (x, y) = position(one.layer, one.row);
                    @match &one.what {
                        BoxContent::One(n) => {
                            @let node = &nodes[*n];
                            @let word = if node.live { "running" } else { node.state.into_str() };
                            a href={ "/tasks/" (node.id.short()) } {
                                title { (cut_line(&node.key, 60)) ": " (cut_line(&node.title, 120)) " (" (word.replace('_', " ")) ")" }
                                (shape(x, y, word, &cut_line(&node.title, TITLE)))
                            }
                        }
                        BoxContent::Several(state, count) => {
                            a href={ "/features/" (feature) "/tasks?status=" (state.into_str()) } {
                                title { (count) " tasks: " (state.into_str().replace('_', " ")) }
                                (shape(x, y, state.into_str(), &format!("{count} {}", state.into_str().replace('_', " "))))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn position(layer: usize, row: usize) -> (usize, usize) {
    (EDGE + layer * (WIDTH + GAP_X), EDGE + row * (HEIGHT + GAP_Y))
}

fn shape(x: usize, y: usize, word: &str, text: &str) -> Markup {
    html! {
        g.node.{ "n-" (word) } {
            rect x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="6" {}
            text.sign x=(x + 10) y=(y + 20) { (sign(word)) }
            text x=(x + 27) y=(y + 20) { (text) }
        }
    }
}

fn edge(layers: &Layers, from: usize, to: usize) -> Markup {
    let (from, to) = (&layers.boxes[from], &layers.boxes[to]);
    let (x, y) = position(from.layer, from.row);
    let (x, y) = (x + WIDTH, y + HEIGHT / 2);
    let (to_x, to_y) = position(to.layer, to.row);
    let to_y = to_y + HEIGHT / 2;
    let half = (to_x - x) / 2;
    html! { path.edge d={ "M" (x) " " (y) "C" (x + half) " " (y) " " (to_x - half) " " (to_y) " " (to_x) " " (to_y) } {} }
}
