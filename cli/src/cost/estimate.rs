//! Estimates of cost and time in words.

use std::time::Duration;

use ralph_domain::budget::estimate::{Estimate, Range};
use ralph_domain::graph::{Graph, Waves};
use ralph_shared::terminal::counted;

use crate::client::{Client, escape};
use crate::terminal::duration::show_ms;

/// How long to wait for an estimate.
const WAIT: Duration = Duration::from_secs(3);

/// Fetches an estimate; `None` when the coordinator doesn't respond soon.
pub async fn fetch(client: &Client, repo_id: &str, tasks: usize, side_by_side: usize) -> Option<Estimate> {
    let path = format!(
        "/estimate?repo_id={}&tasks={tasks}&side_by_side={side_by_side}",
        escape(repo_id)
    );
    tokio::time::timeout(WAIT, client.get(&path)).await.ok()?.ok()
}

/// Fetches an estimate for a graph; at most `parallel` of its tasks run at once.
pub async fn of_graph(client: &Client, repo_id: &str, graph: &Graph, parallel: usize) -> Option<Estimate> {
    let leaves = graph.nodes.iter().filter(|node| node.open_children == 0).count();
    let side_by_side = Waves::of(graph).widest().min(parallel).max(1);
    fetch(client, repo_id, leaves, side_by_side).await
}

/// The estimate as one line.
pub fn words(estimate: Option<&Estimate>) -> String {
    const UNKNOWN: &str = "unknown yet";
    let Some(estimate) = estimate else {
        return format!("cost and time: {UNKNOWN}, no coordinator tells of earlier tasks");
    };
    let usd = |range: Range| format!("{:.2} to {:.2} USD", range.low, range.high);
    let ms = |range: Range| format!("{} to {}", show_ms(range.low as i64), show_ms(range.high as i64));
    if estimate.cost_usd.is_none() && estimate.time_ms.is_none() {
        return format!("cost and time: {UNKNOWN}, too few tasks of this repository were done");
    }
    let or_unknown = |known: Option<String>| known.unwrap_or_else(|| UNKNOWN.to_owned());
    format!(
        "cost: {}; time: {}; by {} of this repository",
        or_unknown(estimate.cost_usd.map(usd)),
        or_unknown(estimate.time_ms.map(ms)),
        counted(estimate.based_on, "earlier task", "earlier tasks"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_names_its_unknown_parts() {
        let range = |low, high| Some(Range { low, high });
        let check = |cost_usd, time_ms, expected: &str| {
            let estimate = Estimate {
                tasks: 2,
                based_on: 7,
                cost_usd,
                time_ms,
            };
            assert_eq!(words(Some(&estimate)), expected);
        };
        check(
            range(1.0, 4.5),
            range(60_000.0, 600_000.0),
            "cost: 1.00 to 4.50 USD; time: 1m00s to 10m00s; by 7 earlier tasks of this repository",
        );
        check(
            None,
            range(60_000.0, 600_000.0),
            "cost: unknown yet; time: 1m00s to 10m00s; by 7 earlier tasks of this repository",
        );
        check(
            None,
            None,
            "cost and time: unknown yet, too few tasks of this repository were done",
        );
        assert_eq!(
            words(None),
            "cost and time: unknown yet, no coordinator tells of earlier tasks"
        );
    }
}
