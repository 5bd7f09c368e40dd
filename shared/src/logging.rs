//! Sets up the log of every binary: to standard error, filtered by `RALPH_LOG`, as text or JSON lines.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people; coloured at a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts the log. `RALPH_LOG` (else `default_filter`) selects what is logged, in `tracing`'s filter syntax;
/// `RALPH_LOG_FORMAT=json` overrides `format`. A second call does nothing.
pub fn init(default_filter: &str, format: LogFormat) {
    let filter = std::env::var("RALPH_LOG")
        .ok()
        .filter(|text| !text.is_empty())
        .and_then(|text| EnvFilter::try_new(text).ok())
        .unwrap_or_else(|| EnvFilter::new(default_filter));
    let json = format == LogFormat::Json || std::env::var("RALPH_LOG_FORMAT").is_ok_and(|f| f == "json");
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE);
    if json {
        let _ = builder.json().try_init();
    } else {
        let colour = std::io::stderr().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let _ = builder.with_ansi(colour).with_target(false).try_init();
    }
}
