//! Sends traces over OTLP and HTTP (DESIGN 8). Off unless an address is configured.
//!
//! The steps of [`crate::flow`] only announce ended dispatches and runs after their commit
//! ([`crate::bus::Signals`]). This module queues their ids. The spans are built from the database when they
//! are sent ([`crate::services`]). So nothing that is stored or claimed waits for a collector, and an outage
//! of hours costs only these ids and the spans of one batch.

mod otlp;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use ralph_shared::ids::{DispatchId, RunId};

use crate::domain::trace::Span;
pub use otlp::ENDPOINT_VARIABLES;
use otlp::Exporter;
pub use queue::EndedWork;
use queue::Queue;

/// Queues and sends spans.
#[derive(Debug, Clone)]
pub struct Tracer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queue: Queue,
    exporter: Exporter,
}

impl Tracer {
    /// A tracer for the collector at `endpoint`: the address of its OTLP receiver, such as
    /// `http://127.0.0.1:4318`. The variables of OpenTelemetry (`OTEL_EXPORTER_OTLP_*`,
    /// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`) take precedence.
    ///
    /// # Errors
    /// When an address is invalid, or HTTP cannot be set up.
    pub fn new(endpoint: &str) -> anyhow::Result<Self> {
        Ok(Self(Arc::new(Inner {
            queue: Queue::default(),
            exporter: Exporter::new(endpoint)?,
        })))
    }

    /// Queues ended dispatches and runs.
    pub fn ended(&self, dispatches: Vec<DispatchId>, runs: Vec<RunId>) {
        self.0.queue.push(dispatches, runs);
    }

    /// The oldest ended attempts and runs, as soon as there are any; they stay until [`Self::forget`].
    pub async fn next(&self) -> EndedWork {
        self.0.queue.next().await
    }

    /// Removes sent entries from the queue.
    pub fn forget(&self, ended: &EndedWork) {
        self.0.queue.forget(ended);
    }

    /// Number of entries dropped for lack of room since the last call.
    pub fn dropped(&self) -> u64 {
        self.0.queue.dropped()
    }

    /// Sends spans, at most for the time `within`.
    ///
    /// # Errors
    /// When the collector is away or refuses them.
    pub async fn send(&self, spans: Vec<Span>, within: Duration) -> anyhow::Result<()> {
        self.0.exporter.send(spans, within).await
    }
}
