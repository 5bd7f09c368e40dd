//! `[telemetry]` of `.ralph.toml` (SPEC 8, DESIGN 8).

use ralph_shared::config::words;
use ralph_shared::config_table;
use serde::Deserialize;

config_table! {
    #[derive(Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["telemetry", Coordinator]
    pub struct Telemetry {
        /// Collector that takes traces: address of its OTLP receiver, over HTTP
        endpoint: Option<String> = words("no traces are sent").var("OTEL_EXPORTER_OTLP_ENDPOINT").secret(),
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An address may hold a password.
        f.debug_struct("Telemetry")
            .field("is_on", &self.endpoint.is_some())
            .finish()
    }
}
