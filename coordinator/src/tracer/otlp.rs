//! Spans in the form of OTLP, and the exporter.

use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use opentelemetry::trace::{
    Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};

use crate::domain::trace::{self, Moment, Span, Value};
use crate::http;

/// Default name of this service.
const SERVICE: &str = "ralph";
/// Path of a collector's HTTP receiver for traces.
const PATH: &str = "v1/traces";
/// Variables that name the collector, in order of precedence: the whole address for traces, or the base of
/// all addresses.
pub const ENDPOINT_VARIABLES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

#[derive(Debug)]
pub(super) struct Exporter {
    exporter: SpanExporter,
    scope: InstrumentationScope,
}

impl Exporter {
    pub(super) fn new(endpoint: &str) -> anyhow::Result<Self> {
        let http = http::builder()?
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .context("failed to set up HTTP")?;
        let mut builder = SpanExporter::builder()
            .with_http()
            .with_http_client(http)
            .with_protocol(Protocol::HttpBinary)
            // The caller retries after a longer pause.
            .with_retry_policy(RetryPolicy::disabled());
        // The builder reads these variables itself.
        let is_set = |name: &&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
        if !ENDPOINT_VARIABLES.iter().any(is_set) {
            builder = builder.with_endpoint(format!("{}/{PATH}", endpoint.trim_end_matches('/')));
        }
        let mut exporter = builder.build().context("failed to set up the OTLP exporter")?;
        let named = is_set(&"OTEL_SERVICE_NAME")
            || std::env::var("OTEL_RESOURCE_ATTRIBUTES")
                .is_ok_and(|attributes| attributes.contains("service.name="));
        let mut resource =
            Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        if !named {
            resource = resource.with_service_name(SERVICE);
        }
        exporter.set_resource(&resource.build());
        let scope = InstrumentationScope::builder("ralph-coordinator")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        Ok(Self { exporter, scope })
    }

    pub(super) async fn send(&self, spans: Vec<Span>, within: Duration) -> anyhow::Result<()> {
        let data = spans.into_iter().map(|span| data(span, &self.scope)).collect();
        tokio::time::timeout(within, self.exporter.export(data))
            .await
            .context("the collector did not answer in time")??;
        Ok(())
    }
}

fn data(span: Span, scope: &InstrumentationScope) -> SpanData {
    let parent = span
        .parent
        .map_or(SpanId::INVALID, |parent| SpanId::from(parent.0));
    let links = span
        .link
        .map(|(trace, id)| Link::with_context(context(trace, id)))
        .into_iter()
        .collect();
    SpanData {
        span_context: context(span.trace, span.id),
        parent_span_id: parent,
        parent_span_is_remote: false,
        span_kind: if span.is_client {
            SpanKind::Client
        } else {
            SpanKind::Internal
        },
        name: span.name.into(),
        start_time: SystemTime::from(span.start),
        end_time: SystemTime::from(span.end),
        attributes: span.attributes.into_iter().map(attribute).collect(),
        dropped_attributes_count: 0,
        events: events(span.moments),
        links: links_of(links),
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope.clone(),
    }
}

fn context(trace: trace::TraceId, span: trace::SpanId) -> SpanContext {
    SpanContext::new(
        TraceId::from(trace.0),
        SpanId::from(span.0),
        TraceFlags::SAMPLED,
        false,
        TraceState::NONE,
    )
}

fn attribute((name, value): (&'static str, Value)) -> KeyValue {
    match value {
        Value::Text(text) => KeyValue::new(name, text),
        Value::Count(n) => KeyValue::new(name, n),
        Value::Number(n) => KeyValue::new(name, n),
    }
}

fn events(moments: Vec<Moment>) -> SpanEvents {
    let mut events = SpanEvents::default();
    events.events = moments
        .into_iter()
        .map(|moment| {
            let text = vec![KeyValue::new("ralph.text", moment.text)];
            Event::new(moment.name, SystemTime::from(moment.at), text, 0)
        })
        .collect();
    events
}

fn links_of(links: Vec<Link>) -> SpanLinks {
    let mut all = SpanLinks::default();
    all.links = links;
    all
}
