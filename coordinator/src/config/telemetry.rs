//! `[telemetry]` of `.ralph.toml` (SPEC 8, DESIGN 8).

use crate::config::{Telemetry, chosen};
use crate::tracer::{ENDPOINT_VARIABLES, Tracer};

/// Default port of OTLP over gRPC.
const GRPC_PORT: u16 = 4317;

/// The tracer, unless tracing is off.
pub(super) fn tracer(telemetry: &Telemetry) -> anyhow::Result<Option<Tracer>> {
    let variable = |name: &str| std::env::var(name).ok();
    let off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
    if off {
        return Ok(None);
    }
    let named = ENDPOINT_VARIABLES
        .iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()));
    let is_by_variable = named.is_some();
    let Some(endpoint) = chosen(named, telemetry.endpoint.as_deref()).filter(|address| !address.is_empty())
    else {
        return Ok(None);
    };
    let url = reqwest::Url::parse(&endpoint).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
    if is_by_variable && url.is_none() {
        // The variable may be meant for other programs, which speak gRPC. It must not stop the coordinator.
        tracing::warn!(
            "no traces are sent: OTEL_EXPORTER_OTLP_ENDPOINT is not an address of an OTLP receiver over HTTP"
        );
        return Ok(None);
    }
    anyhow::ensure!(
        url.is_some(),
        "telemetry.endpoint is not an address; expected the address of an OTLP receiver over HTTP, such as http://127.0.0.1:4318"
    );
    if url.and_then(|url| url.port()) == Some(GRPC_PORT) {
        tracing::warn!("traces are sent over HTTP; port {GRPC_PORT} is usually for gRPC, and 4318 for HTTP");
    }
    Tracer::new(&endpoint).map(Some)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::config::{Config, settings_of};

    #[test]
    fn tracing_is_off_without_an_address_and_refuses_an_invalid_one() {
        let settings = |text: &str| settings_of(&Config::parse(text).unwrap().0);
        assert!(settings("").unwrap().tracer.is_none());
        assert!(settings("[telemetry]\nendpoint = ''").unwrap().tracer.is_none());
        let on = settings("[telemetry]\nendpoint = 'http://127.0.0.1:4318'");
        assert!(on.unwrap().tracer.is_some());
        let error = settings("[telemetry]\nendpoint = 'localhost:4317'").unwrap_err();
        assert!(error.to_string().contains("http://127.0.0.1:4318"), "{error}");
    }
}
