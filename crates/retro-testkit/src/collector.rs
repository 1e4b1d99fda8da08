//! A collector of OpenTelemetry's, as small as a test needs it: it takes OTLP over HTTP and keeps what it was sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::PATIENCE;

/// Requests are at most this large here, bytes; a batch has 512 spans.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A collector of one test, on a free port of loopback, gone with the test.
#[derive(Debug)]
pub struct Collector {
    url: String,
    inner: Arc<Inner>,
    serving: JoinHandle<()>,
}

/// A span as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenSpan {
    /// Trace id, hex.
    pub trace: String,
    /// Span id, hex.
    pub id: String,
    /// The parent's span id, hex; empty for the first of its trace.
    pub parent: String,
    /// Its name.
    pub name: String,
    /// OTLP's number: 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
    pub kind: i32,
    /// Whether its status says that it failed.
    pub failed: bool,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// Nanoseconds since 1970.
    pub end: u64,
    /// `service.name` of who sent it.
    pub service: String,
    /// Attributes as text.
    pub attributes: BTreeMap<String, String>,
    /// What it is linked to.
    pub links: Vec<SeenLink>,
}

/// A link of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenLink {
    /// Trace id, hex.
    pub trace: String,
    /// Span id, hex.
    pub id: String,
    /// Attributes as text.
    pub attributes: BTreeMap<String, String>,
}

/// A metric as it was received.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenMetric {
    /// `service.name` of who sent it.
    pub service: String,
    /// Name, unit and points.
    pub metric: Metric,
}

#[derive(Debug, Default)]
struct Inner {
    seen: Mutex<Seen>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Seen {
    spans: Vec<SeenSpan>,
    metrics: Vec<SeenMetric>,
}

impl Collector {
    /// Starts one.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let url = format!("http://{}", listener.local_addr().expect("it listens"));
        let inner = Arc::new(Inner::default());
        let router = Router::new()
            .route("/v1/traces", post(take_spans))
            .route("/v1/metrics", post(take_metrics))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(Arc::clone(&inner));
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("loopback can be served");
        });
        Self { url, inner, serving }
    }

    /// What `otlp_endpoint` is to be.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The spans received so far, as soon as they are as wanted. Panics with their names when they never are.
    pub async fn spans_once(&self, wanted: impl Fn(&[SeenSpan]) -> bool) -> Vec<SeenSpan> {
        let found = self.once(|seen| wanted(&seen.spans).then(|| seen.spans.clone())).await;
        found.unwrap_or_else(|| {
            let names: Vec<_> = self.inner.seen().spans.iter().map(|span| span.name.clone()).collect();
            panic!("these spans are not what was waited for: {names:#?}")
        })
    }

    /// The metrics received so far, every sending of each, as soon as they are as wanted. Panics with their names when
    /// they never are.
    pub async fn metrics_once(&self, wanted: impl Fn(&[SeenMetric]) -> bool) -> Vec<SeenMetric> {
        let found = self.once(|seen| wanted(&seen.metrics).then(|| seen.metrics.clone())).await;
        found.unwrap_or_else(|| {
            let names: Vec<_> =
                self.inner.seen().metrics.iter().map(|seen| seen.metric.name.clone()).collect();
            panic!("these metrics are not what was waited for: {names:#?}")
        })
    }

    async fn once<T>(&self, look: impl Fn(&Seen) -> Option<T>) -> Option<T> {
        let looking = async {
            loop {
                let arrived = self.inner.arrived.notified();
                let found = look(&self.inner.seen());
                match found {
                    Some(found) => return found,
                    None => arrived.await,
                }
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.ok()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Inner {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("nobody panics while holding it")
    }
}

async fn take_spans(State(inner): State<Arc<Inner>>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    for sent in request.resource_spans {
        let service = service(sent.resource.as_ref());
        let spans = sent.scope_spans.into_iter().flat_map(|scope| scope.spans);
        inner.seen().spans.extend(spans.map(|span| seen_span(&service, span)));
    }
    inner.arrived.notify_waiters();
    StatusCode::OK
}

async fn take_metrics(State(inner): State<Arc<Inner>>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportMetricsServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    for sent in request.resource_metrics {
        let service = service(sent.resource.as_ref());
        let metrics = sent.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
        let seen = metrics.map(|metric| SeenMetric { service: service.clone(), metric });
        inner.seen().metrics.extend(seen);
    }
    inner.arrived.notify_waiters();
    StatusCode::OK
}

fn service(resource: Option<&Resource>) -> String {
    let attributes = resource.map(|resource| texts(&resource.attributes)).unwrap_or_default();
    attributes.get("service.name").cloned().unwrap_or_default()
}

fn seen_span(service: &str, span: Span) -> SeenSpan {
    let links = span.links.iter().map(|link| SeenLink {
        trace: hex(&link.trace_id),
        id: hex(&link.span_id),
        attributes: texts(&link.attributes),
    });
    SeenSpan {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        kind: span.kind,
        failed: span.status.as_ref().is_some_and(|status| status.code == 2),
        start: span.start_time_unix_nano,
        end: span.end_time_unix_nano,
        service: service.to_owned(),
        attributes: texts(&span.attributes),
        links: links.collect(),
        name: span.name,
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |one: &KeyValue| match one.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|one| (one.key.clone(), text(one))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
