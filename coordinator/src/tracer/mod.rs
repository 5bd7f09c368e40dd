//! Sends traces of what ended to whoever collects them: OTLP over HTTP (DESIGN 8). Off unless an address is given.
//!
//! The steps of [`crate::flow`] only tell, after their commit, what ended ([`crate::bus::Signals`]); what is kept here is ids. The
//! spans are built from the database when they are sent ([`crate::services`]): nothing that is stored or claimed waits for a
//! collector, and one that is away for hours costs nothing but these ids and the spans of one batch.

mod otlp;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use ralph_shared::ids::{DispatchId, RunId};

use crate::domain::trace::Span;
pub use otlp::ENDPOINT_VARIABLES;
use otlp::Exporter;
pub use queue::Ended;
use queue::Queue;

/// Where spans go.
#[derive(Debug, Clone)]
pub struct Tracer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queue: Queue,
    exporter: Exporter,
}

impl Tracer {
    /// A tracer for the collector at `endpoint`: the address of its OTLP receiver, such as `http://127.0.0.1:4318`. The variables of
    /// OpenTelemetry (`OTEL_EXPORTER_OTLP_*`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`) count as well, and win.
    ///
    /// # Errors
    /// When an address is none, or HTTP can't be set up.
    pub fn new(endpoint: &str) -> anyhow::Result<Self> {
        Ok(Self(Arc::new(Inner {
            queue: Queue::default(),
            exporter: Exporter::new(endpoint)?,
        })))
    }

    /// Notes what ended.
    pub fn ended(&self, dispatches: Vec<DispatchId>, runs: Vec<RunId>) {
        self.0.queue.push(dispatches, runs);
    }

    /// The oldest of what ended, as soon as there is something; it stays until [`Self::told`].
    pub async fn next(&self) -> Ended {
        self.0.queue.next().await
    }

    /// Lets go of what was told.
    pub fn told(&self, ended: &Ended) {
        self.0.queue.forget(ended);
    }

    /// What could not be kept since nobody took it, since the last call.
    pub fn dropped(&self) -> u64 {
        self.0.queue.dropped()
    }

    /// Sends spans.
    ///
    /// # Errors
    /// When the collector can't be reached or doesn't take them.
    pub async fn send(&self, spans: Vec<Span>, within: Duration) -> anyhow::Result<()> {
        self.0.exporter.send(spans, within).await
    }
}
