//! `[telemetry]` of `.ralph.toml` (SPEC 8, DESIGN 8).

use serde::Deserialize;

#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// A collector that takes traces: the address of its OTLP receiver over HTTP, such as `http://127.0.0.1:4318`; none are sent when
    /// it isn't given. The variables of OpenTelemetry win.
    pub endpoint: Option<String>,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An address may hold a password.
        f.debug_struct("Telemetry")
            .field("is_on", &self.endpoint.is_some())
            .finish()
    }
}
