//! Collects telemetry in tests: a minimal OpenTelemetry collector accepts OTLP over HTTP and keeps everything
//! that it receives.

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

use crate::TEST_TIMEOUT;

/// Maximum size of a request body, in bytes. A batch contains up to 512 spans.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// OTLP collector for one test, on a free loopback port. Stops when dropped.
#[derive(Debug)]
pub struct Collector {
    url: String,
    inner: Arc<Inner>,
    serving: JoinHandle<()>,
}

/// A span that the collector received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedSpan {
    /// Trace ID in hexadecimal.
    pub trace: String,
    /// Span ID in hexadecimal.
    pub id: String,
    /// ID of the parent span in hexadecimal; empty for a root span.
    pub parent: String,
    /// Name of the span.
    pub name: String,
    /// OTLP span kind: 1 is internal, 2 server, 3 client, 4 producer and 5 consumer.
    pub kind: i32,
    /// `true` if the status of the span is an error.
    pub failed: bool,
    /// Start time in nanoseconds since the Unix epoch.
    pub start: u64,
    /// End time in nanoseconds since the Unix epoch.
    pub end: u64,
    /// Resource attribute `service.name` of the process that sent the span.
    pub service: String,
    /// Attributes of the span, with their values converted to strings.
    pub attributes: BTreeMap<String, String>,
    /// Links from this span to other spans.
    pub links: Vec<ReceivedLink>,
}

/// A link from one span to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedLink {
    /// Trace ID of the linked span in hexadecimal.
    pub trace: String,
    /// ID of the linked span in hexadecimal.
    pub id: String,
    /// Attributes of the link, with their values converted to strings.
    pub attributes: BTreeMap<String, String>,
}

/// A metric that the collector received.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedMetric {
    /// Resource attribute `service.name` of the process that sent the metric.
    pub service: String,
    /// Name, unit and data points of the metric.
    pub metric: Metric,
}

#[derive(Debug, Default)]
struct Inner {
    received: Mutex<Received>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Received {
    spans: Vec<ReceivedSpan>,
    metrics: Vec<ReceivedMetric>,
}

impl Collector {
    /// Starts a collector on a free loopback port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
        let inner = Arc::new(Inner::default());
        let router = Router::new()
            .route("/v1/traces", post(receive_spans))
            .route("/v1/metrics", post(receive_metrics))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(Arc::clone(&inner));
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("loopback can be served");
        });
        Self { url, inner, serving }
    }

    /// Returns the URL of the collector, for use as `otlp_endpoint`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits until the received spans satisfy `wanted`, and returns them. Panics after [`TEST_TIMEOUT`] with
    /// the names of the received spans.
    pub async fn wait_for_spans(&self, wanted: impl Fn(&[ReceivedSpan]) -> bool) -> Vec<ReceivedSpan> {
        let found = self.wait_for(|seen| wanted(&seen.spans).then(|| seen.spans.clone())).await;
        found.unwrap_or_else(|| {
            let names: Vec<_> =
                self.inner.lock_received().spans.iter().map(|span| span.name.clone()).collect();
            panic!("the expected spans did not arrive; received: {names:#?}")
        })
    }

    /// Waits until the received metrics satisfy `wanted`, and returns them. A metric occurs once per export.
    /// Panics after [`TEST_TIMEOUT`] with the names of the received metrics.
    pub async fn wait_for_metrics(&self, wanted: impl Fn(&[ReceivedMetric]) -> bool) -> Vec<ReceivedMetric> {
        let found = self.wait_for(|seen| wanted(&seen.metrics).then(|| seen.metrics.clone())).await;
        found.unwrap_or_else(|| {
            let names: Vec<_> =
                self.inner.lock_received().metrics.iter().map(|seen| seen.metric.name.clone()).collect();
            panic!("the expected metrics did not arrive; received: {names:#?}")
        })
    }

    async fn wait_for<T>(&self, look: impl Fn(&Received) -> Option<T>) -> Option<T> {
        let looking = async {
            loop {
                // Registered before the check, because a notification between the check and `await` would be
                // lost otherwise.
                let arrived = self.inner.arrived.notified();
                let found = look(&self.inner.lock_received());
                match found {
                    Some(found) => return found,
                    None => arrived.await,
                }
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, looking).await.ok()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Inner {
    fn lock_received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().expect("no thread panics while holding the lock")
    }
}

async fn receive_spans(State(inner): State<Arc<Inner>>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    for sent in request.resource_spans {
        let service = service_name(sent.resource.as_ref());
        let spans = sent.scope_spans.into_iter().flat_map(|scope| scope.spans);
        inner.lock_received().spans.extend(spans.map(|span| convert_span(&service, span)));
    }
    inner.arrived.notify_waiters();
    StatusCode::OK
}

async fn receive_metrics(State(inner): State<Arc<Inner>>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportMetricsServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    for sent in request.resource_metrics {
        let service = service_name(sent.resource.as_ref());
        let metrics = sent.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
        let seen = metrics.map(|metric| ReceivedMetric { service: service.clone(), metric });
        inner.lock_received().metrics.extend(seen);
    }
    inner.arrived.notify_waiters();
    StatusCode::OK
}

fn service_name(resource: Option<&Resource>) -> String {
    let attributes = resource.map(|resource| attribute_texts(&resource.attributes)).unwrap_or_default();
    attributes.get("service.name").cloned().unwrap_or_default()
}

fn convert_span(service: &str, span: Span) -> ReceivedSpan {
    let links = span.links.iter().map(|link| ReceivedLink {
        trace: to_hex(&link.trace_id),
        id: to_hex(&link.span_id),
        attributes: attribute_texts(&link.attributes),
    });
    ReceivedSpan {
        trace: to_hex(&span.trace_id),
        id: to_hex(&span.span_id),
        parent: to_hex(&span.parent_span_id),
        kind: span.kind,
        failed: span.status.as_ref().is_some_and(|status| status.code == 2),
        start: span.start_time_unix_nano,
        end: span.end_time_unix_nano,
        service: service.to_owned(),
        attributes: attribute_texts(&span.attributes),
        links: links.collect(),
        name: span.name,
    }
}

fn attribute_texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |one: &KeyValue| match one.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|one| (one.key.clone(), text(one))).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
