#![doc = include_str!("../README.md")]

mod metrics;
mod told;
mod traces;

use std::sync::mpsc;
use std::time::Duration;

use opentelemetry::{KeyValue, global};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{info, warn};

use metrics::Metrics;

/// How long the end of the process may wait for the last spans. Whoever starts processes waits ten seconds beyond
/// `finish_s` before killing one, and stopping in order may take eight of them.
const FLUSH_MAX: Duration = Duration::from_secs(2);
/// How long the collector may take to answer; it stands nearby.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Who speaks.
#[derive(Debug, Clone)]
pub struct Origin {
    /// `service.name`: the program and its role, the same for every process that does this work.
    pub service: String,
    /// `service.instance.id`: this process among them.
    pub instance: String,
}

/// Why nothing is sent.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The address is none that is spoken to.
    #[error("`otlp_endpoint` is {0}: it must begin with http://; for TLS put a collector beside the process")]
    Endpoint(String),
    /// The SDK cannot be set up.
    #[error("telemetry cannot be set up: {0}")]
    SetUp(String),
}

/// Traces and metrics of this process, for as long as it works.
#[derive(Clone)]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Metrics,
}

impl Telemetry {
    /// Sets up what the API crate speaks to, in the whole process. Without an endpoint nothing is sent. To be called outside
    /// of an async runtime, once.
    pub fn start(origin: &Origin, endpoint: Option<&str>) -> Result<Self, TelemetryError> {
        if let Some(endpoint) = endpoint.filter(|endpoint| !endpoint.starts_with("http://")) {
            return Err(TelemetryError::Endpoint(endpoint.to_owned()));
        }
        let resource = resource(origin);
        let metrics = Metrics::start(resource.clone(), endpoint)?;
        let traces = endpoint.map(|endpoint| traces::provider(resource, endpoint)).transpose()?;
        if let (Some(traces), Some(endpoint)) = (&traces, endpoint) {
            global::set_tracer_provider(traces.clone());
            info!(endpoint, "traces and metrics go to {endpoint}");
        }
        Ok(Self { traces, metrics })
    }

    /// The metrics as they stand now, in the text format of Prometheus.
    pub fn metrics_text(&self) -> String {
        self.metrics.text()
    }

    /// Sends what is still waiting, for two seconds at most; what is not taken by then is dropped.
    pub fn flush(&self) {
        let (done, waiting) = mpsc::channel();
        let Self { traces, metrics } = self.clone();
        // A thread, since a collector that does not answer would hold the end of the process up.
        std::thread::spawn(move || {
            let sent = traces.map_or(Ok(()), |traces| traces.shutdown_with_timeout(FLUSH_MAX));
            // The other end has gone when this took too long.
            let _ = done.send(metrics.shutdown().and(sent));
        });
        match waiting.recv_timeout(FLUSH_MAX) {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => warn!("the last spans and metrics were not sent: {problem}"),
            Err(_) => warn!("the last spans and metrics were not sent within {} s", FLUSH_MAX.as_secs()),
        }
    }
}

/// What every span and metric says of its sender. `OTEL_RESOURCE_ATTRIBUTES` adds to it and `OTEL_SERVICE_NAME` wins.
fn resource(origin: &Origin) -> Resource {
    let attribute = |name, value: &str| KeyValue::new(name, value.to_owned());
    let ours = Resource::builder_empty().with_attributes([
        attribute("service.name", &origin.service),
        attribute("service.namespace", "retrospect"),
        attribute("service.version", env!("CARGO_PKG_VERSION")),
        attribute("service.instance.id", &origin.instance),
    ]);
    let given = Resource::builder().build();
    // Where nobody named the service, the SDK says so in a name of its own.
    let given = given.iter().filter(|(_, value)| !value.as_str().starts_with("unknown_service"));
    ours.with_attributes(given.map(|(key, value)| KeyValue::new(key.clone(), value.clone()))).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin { service: "retro-counter".to_owned(), instance: "host-7".to_owned() }
    }

    #[test]
    fn a_process_says_who_it_is() {
        let resource = resource(&origin());
        let said = |key: &'static str| resource.get(&key.into()).map(|value| value.to_string());
        assert_eq!(said("service.name").as_deref(), Some("retro-counter"));
        assert_eq!(said("service.instance.id").as_deref(), Some("host-7"));
        assert_eq!(said("service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn an_endpoint_that_is_not_spoken_to_is_refused_by_name() {
        let refused = Telemetry::start(&origin(), Some("https://collector.example.com"));
        let problem = refused.err().map(|problem| problem.to_string()).unwrap_or_default();
        assert!(
            problem.contains("https://collector.example.com") && problem.contains("http://"),
            "{problem}"
        );
    }
}
