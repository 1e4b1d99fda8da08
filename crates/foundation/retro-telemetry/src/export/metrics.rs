//! Pushes metrics to the collector periodically, and renders them as text on request.

use std::time::Duration;

use opentelemetry::global;
use opentelemetry_otlp::{MetricExporter, Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use prometheus::{Registry, TextEncoder};

use super::error::TelemetryError;
use super::failure_log::ExportFailureLog;
use super::http_client::{EXPORT_TIMEOUT, build_http_client};

/// The meter provider, and the registry from which the Prometheus text is rendered.
#[derive(Clone)]
pub(crate) struct Metrics {
    provider: SdkMeterProvider,
    registry: Registry,
}

impl Metrics {
    /// Installs the meter provider. With an endpoint, metrics are also pushed to the collector every minute, or at the
    /// interval in `OTEL_METRIC_EXPORT_INTERVAL`.
    pub(crate) fn start(resource: Resource, endpoint: Option<&str>) -> Result<Self, TelemetryError> {
        let registry = Registry::new();
        // All metrics have the same scope, so a scope label on every line would be noise.
        let text =
            opentelemetry_prometheus::exporter().with_registry(registry.clone()).scope_info_enabled(false);
        let text = text.build().map_err(|problem| TelemetryError::SetUp(problem.to_string()))?;
        let builder = SdkMeterProvider::builder().with_resource(resource).with_reader(text);
        // The Prometheus reader is always installed, so that `/metrics` works without a collector.
        let provider = match endpoint {
            None => builder.build(),
            Some(endpoint) => builder.with_periodic_exporter(build_exporter(endpoint)?).build(),
        };
        global::set_meter_provider(provider.clone());
        Ok(Self { provider, registry })
    }

    /// Renders all metrics in the Prometheus text format.
    pub(crate) fn render_text(&self) -> String {
        let families = self.registry.gather();
        TextEncoder::new().encode_to_string(&families).expect("gathered metric families can be encoded")
    }

    /// Exports the metrics one last time and shuts the provider down.
    pub(crate) fn shutdown(&self) -> OTelSdkResult {
        self.provider.shutdown()
    }
}

fn build_exporter(endpoint: &str) -> Result<LoggingMetricExporter, TelemetryError> {
    let exporter = MetricExporter::builder()
        .with_http()
        .with_http_client(build_http_client()?)
        .with_endpoint(format!("{}/v1/metrics", endpoint.trim_end_matches('/')))
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(|problem| TelemetryError::SetUp(problem.to_string()))?;
    Ok(LoggingMetricExporter { exporter, failure_log: ExportFailureLog::new("metrics") })
}

/// A metric exporter that logs when exports begin to fail and when they succeed again.
struct LoggingMetricExporter {
    exporter: MetricExporter,
    failure_log: ExportFailureLog,
}

impl PushMetricExporter for LoggingMetricExporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.failure_log.log_result(self.exporter.export(metrics).await)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}
