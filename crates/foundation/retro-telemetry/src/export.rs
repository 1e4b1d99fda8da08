//! Installs the OpenTelemetry SDK and exports traces and metrics.

mod error;
mod failure_log;
mod http_client;
mod metrics;
mod traces;

use std::sync::mpsc;
use std::time::Duration;

use opentelemetry::{KeyValue, global};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{info, warn};

pub use error::TelemetryError;
use metrics::Metrics;

/// Timeout for sending the last spans when the process ends. Process managers wait ten seconds beyond
/// `shutdown_grace_s` before they kill a process, and a graceful shutdown may take eight of those.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Resource attributes that identify this process.
#[derive(Debug, Clone)]
pub struct ServiceIdentity {
    /// Value of `service.name`, which names the program and its role. All processes of a role have the same
    /// value.
    pub service: String,
    /// Value of `service.instance.id`, which is unique to this process.
    pub instance: String,
}

/// Telemetry pipelines of this process: traces and metrics.
#[derive(Clone)]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Metrics,
}

impl Telemetry {
    /// Installs the global tracer and meter providers. Without an endpoint nothing is exported. Must be
    /// called once, outside an async runtime. Fails if the endpoint is not plain HTTP or if the SDK cannot be
    /// set up.
    pub fn start(origin: &ServiceIdentity, endpoint: Option<&str>) -> Result<Self, TelemetryError> {
        if let Some(endpoint) = endpoint.filter(|endpoint| !endpoint.starts_with("http://")) {
            return Err(TelemetryError::UnsupportedEndpoint(endpoint.to_owned()));
        }
        let resource = build_resource(origin);
        let metrics = Metrics::start(resource.clone(), endpoint)?;
        let traces = endpoint.map(|endpoint| traces::build_provider(resource, endpoint)).transpose()?;
        if let (Some(traces), Some(endpoint)) = (&traces, endpoint) {
            // Without an endpoint the no-op provider stays, so that spans cost nothing.
            global::set_tracer_provider(traces.clone());
            info!(endpoint, "traces and metrics go to {endpoint}");
        }
        Ok(Self { traces, metrics })
    }

    /// Returns the current metrics in the Prometheus text format.
    pub fn metrics_text(&self) -> String {
        self.metrics.render_text()
    }

    /// Exports the queued data and shuts the pipelines down. Waits at most two seconds; data that is not
    /// exported by then is dropped.
    pub fn shutdown(&self) {
        let (done, waiting) = mpsc::channel();
        let Self { traces, metrics } = self.clone();
        // In its own thread, because a collector that does not respond would otherwise delay the end of the
        // process.
        std::thread::spawn(move || {
            let sent = traces.map_or(Ok(()), |traces| traces.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
            // Fails if the receiver has timed out and is gone.
            let _ = done.send(metrics.shutdown().and(sent));
        });
        match waiting.recv_timeout(SHUTDOWN_TIMEOUT) {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => warn!("the last spans and metrics were not sent: {problem}"),
            Err(_) => {
                warn!("the last spans and metrics were not sent within {} s", SHUTDOWN_TIMEOUT.as_secs())
            }
        }
    }
}

/// Builds the resource attributes of every span and metric. `OTEL_RESOURCE_ATTRIBUTES` adds attributes, and
/// `OTEL_SERVICE_NAME` overrides `service.name`.
fn build_resource(origin: &ServiceIdentity) -> Resource {
    let attribute = |name, value: &str| KeyValue::new(name, value.to_owned());
    let ours = Resource::builder_empty().with_attributes([
        attribute("service.name", &origin.service),
        attribute("service.namespace", "retrospect"),
        attribute("service.version", env!("CARGO_PKG_VERSION")),
        attribute("service.instance.id", &origin.instance),
    ]);
    let given = Resource::builder().build();
    // The SDK's default service name would otherwise override ours.
    let given = given.iter().filter(|(_, value)| !value.as_str().starts_with("unknown_service"));
    ours.with_attributes(given.map(|(key, value)| KeyValue::new(key.clone(), value.clone()))).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    // No test here starts telemetry: the providers are global, and the tests of `trace` and `metrics` in the same
    // process need them absent. Tests that start it are in `tests/`.
    fn origin() -> ServiceIdentity {
        ServiceIdentity { service: "retro-counter".to_owned(), instance: "host-7".to_owned() }
    }

    #[test]
    fn the_resource_identifies_the_process() {
        let resource = build_resource(&origin());
        let said = |key: &'static str| resource.get(&key.into()).map(|value| value.to_string());
        assert_eq!(said("service.name").as_deref(), Some("retro-counter"));
        assert_eq!(said("service.instance.id").as_deref(), Some("host-7"));
        assert_eq!(said("service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn an_unsupported_endpoint_is_named_in_the_error() {
        let refused = Telemetry::start(&origin(), Some("https://collector.example.com"));
        let problem = refused.err().map(|problem| problem.to_string()).unwrap_or_default();
        assert!(
            problem.contains("https://collector.example.com") && problem.contains("http://"),
            "{problem}"
        );
    }
}
