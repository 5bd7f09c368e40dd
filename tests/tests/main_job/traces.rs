//! Attempts are exported to a collector of traces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::control::CommandOutcome;
use ralph_coordinator::flow::{Settings, edit};
use ralph_coordinator::tracer::Tracer;
use ralph_tests::harness::{FeatureOptions, Repository, Stub, WorkerOptions, World, until};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A collector of traces that refuses the first request.
struct Collector {
    address: String,
    received: Arc<Mutex<Received>>,
    server: JoinHandle<std::io::Result<()>>,
}

#[derive(Default)]
struct Received {
    refused: bool,
    services: BTreeSet<String>,
    spans: Vec<Span>,
}

async fn receive(State(received): State<Arc<Mutex<Received>>>, body: Bytes) -> StatusCode {
    let mut received = received.lock().unwrap();
    if !std::mem::replace(&mut received.refused, true) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    for of_resource in request.resource_spans {
        let about = of_resource.resource.unwrap().attributes;
        let service = about.iter().find(|one| one.key == "service.name").unwrap();
        received.services.insert(text(service.value.as_ref()));
        let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        received.spans.extend(spans);
    }
    StatusCode::OK
}

fn text(value: Option<&opentelemetry_proto::tonic::common::v1::AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(n)) => n.to_string(),
        Some(Value::DoubleValue(n)) => n.to_string(),
        other => panic!("{other:?}"),
    }
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|one| one.key == name)?;
    Some(text(found.value.as_ref()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Received::default()));
        let app = Router::new()
            .route("/v1/traces", post(receive))
            .with_state(received.clone());
        Self {
            address,
            received,
            server: tokio::spawn(async move { axum::serve(listener, app).await }),
        }
    }

    /// A world whose coordinators export to this collector.
    async fn world(&self) -> World {
        let mut world = World::start_with(Settings {
            tracer: Some(Tracer::new(&self.address).unwrap()),
            heartbeat: Duration::from_millis(200),
            lease: Duration::from_millis(3_000),
            grace: Duration::from_millis(300),
            ..Settings::default()
        })
        .await
        .unwrap();
        world.coordinator().await.unwrap();
        world
    }

    /// Waits for a span of this name; gives all spans.
    async fn spans_with(&self, name: &str) -> Vec<Span> {
        until("a span", async || {
            let received = self.received.lock().unwrap();
            let names: Vec<_> = received.spans.iter().map(|span| span.name.clone()).collect();
            match names.iter().any(|one| one == name) {
                true => Ok(received.spans.clone()),
                false => Err(names.join("\n")),
            }
        })
        .await
    }

    fn stop(self) {
        self.server.abort();
    }
}

/// Spans of one trace as `PARENT > NAME`.
fn tree(spans: &[Span], trace: &[u8]) -> BTreeSet<String> {
    let of_trace: Vec<&Span> = spans.iter().filter(|span| span.trace_id == trace).collect();
    let names: BTreeMap<&[u8], &str> = of_trace
        .iter()
        .map(|span| (span.span_id.as_slice(), span.name.as_str()))
        .collect();
    of_trace
        .iter()
        .map(|span| match span.parent_span_id.is_empty() {
            true => span.name.clone(),
            false => format!("{} > {}", names[span.parent_span_id.as_slice()], span.name),
        })
        .collect()
}

const GRAPH: &str = r#"
- key: pot
  title: Fetch the pot
  description: |
    @on-attempt 1 @fail it is too heavy
    @on-attempt 2 @run printf %s "$TRACEPARENT" > parent.txt
    @on-attempt 2 @usage 1200 34 0.5
    @on-attempt 2 @done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_and_its_attempts_are_traced_from_start_to_landing() {
    let collector = Collector::start().await;
    let world = collector.world().await;
    let repository = Repository::create(world.dir(), &[("README", "hello\n")]).unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let options = FeatureOptions {
        verify: true,
        ..FeatureOptions::default()
    };
    let (_, run, ids) = world
        .submit("soup", Some(&repository), GRAPH, &options)
        .await
        .unwrap();
    assert_eq!(
        world.ended(run).await.unwrap(),
        RunOutcome::Complete,
        "{}",
        world.tell().await
    );
    let spans = collector.spans_with("feature soup").await;

    let of_run = tree(&spans, run.0.as_bytes());
    let expected = [
        "feature soup",
        "feature soup > pot work",
        "feature soup > pot verify",
        "feature soup > pot integrate",
    ];
    assert_eq!(of_run, expected.map(str::to_owned).into());

    let attempt = |n: u128| (ids[0].0.as_u128() + n).to_be_bytes();
    let second = tree(&spans, &attempt(2));
    for expected in [
        "work pot",
        "work pot > wait",
        "work pot > prepare",
        "work pot > hand in",
        "work pot > verify pot",
        "work pot > integrate pot",
        "integrate pot > wait",
    ] {
        assert!(second.contains(expected), "{expected}: {second:#?}");
    }
    let tool = |span: &&Span| span.name.starts_with("execute_tool ") && span.trace_id == attempt(2);
    let tool = spans.iter().find(tool).unwrap();
    let session = spans
        .iter()
        .find(|span| span.span_id == tool.parent_span_id)
        .unwrap();
    assert!(session.name.starts_with("invoke_agent "), "{}", session.name);
    assert_eq!(
        attribute(session, "gen_ai.usage.input_tokens").as_deref(),
        Some("1200")
    );
    assert_eq!(attribute(session, "ralph.outcome").as_deref(), Some("done"));
    // The agent got the session's span as the parent of its own spans.
    let parent = repository.file("ralph/soup", "parent.txt").unwrap();
    assert_eq!(
        parent,
        format!("00-{}-{}-01", hex(&attempt(2)), hex(&session.span_id))
    );

    // A failed attempt shows its error; the run's trace links to the attempt's trace.
    let failed = spans
        .iter()
        .find(|span| span.trace_id == attempt(1) && span.name == "work pot")
        .unwrap();
    let status = failed.status.as_ref().unwrap();
    assert_eq!(
        (status.code, status.message.as_str()),
        (2, "The agent reports that it failed.")
    );
    let in_run = spans
        .iter()
        .find(|span| span.links.iter().any(|link| link.trace_id == attempt(1)))
        .unwrap();
    assert_eq!(
        (in_run.name.as_str(), in_run.trace_id.as_slice()),
        ("pot work", run.0.as_bytes().as_slice())
    );
    for span in &spans {
        assert!(
            !format!("{span:?}").contains("it is too heavy"),
            "agent output must not be exported: {span:?}"
        );
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
    }
    assert_eq!(
        collector.received.lock().unwrap().services,
        BTreeSet::from(["ralph".to_owned()])
    );
    drop(worker);
    collector.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_attempt_is_traced_too() {
    let collector = Collector::start().await;
    let world = collector.world().await;
    let stub = Stub::hello(&world, "kettle").await.unwrap();
    let options = FeatureOptions {
        pool: "kettle".to_owned(),
        ..FeatureOptions::default()
    };
    let graph = "- key: boil\n  title: Boil\n  description: \"@done\"\n";
    world.submit("tea", None, graph, &options).await.unwrap();
    let assigned = stub.claim().await.unwrap();
    // The stub sends nothing more.
    let spans = collector.spans_with("work boil").await;
    let lost = spans.iter().find(|span| span.name == "work boil").unwrap();
    assert_eq!(attribute(lost, "ralph.outcome").as_deref(), Some("lost"));
    assert_eq!(
        attribute(lost, "ralph.dispatch"),
        Some(assigned.dispatch.0.to_string())
    );
    collector.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_spans_are_sent_again_without_a_second_read() {
    let collector = Collector::start().await;
    let world = collector.world().await;
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let graph = "- key: boil\n  title: Boil\n  description: \"@done\"\n";
    let (feature, run, _) = world
        .submit("tea", None, graph, &FeatureOptions::default())
        .await
        .unwrap();
    assert_eq!(
        world.ended(run).await.unwrap(),
        RunOutcome::Complete,
        "{}",
        world.tell().await
    );
    until("the first try", async || {
        collector.received.lock().unwrap().refused
    })
    .await;
    // A second read would find nothing.
    let deleted = edit::delete_feature(&world.db, feature).await.unwrap();
    assert_eq!(deleted, CommandOutcome::Done(1));
    let spans = collector.spans_with("work boil").await;
    assert!(
        spans.iter().any(|span| span.name.starts_with("invoke_agent ")),
        "{spans:#?}"
    );
    drop(worker);
    collector.stop();
}
