//! Metrics: to the collector every so often, and as text whenever somebody asks.

use std::time::Duration;

use opentelemetry::global;
use opentelemetry_otlp::{MetricExporter, Protocol, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use prometheus::{Registry, TextEncoder};

use crate::told::Told;
use crate::{ANSWER_MAX, TelemetryError};

/// What measures, and where its text is read.
#[derive(Clone)]
pub(crate) struct Metrics {
    provider: SdkMeterProvider,
    registry: Registry,
}

impl Metrics {
    /// Sets up the process's meters. With an endpoint they are sent there too, every minute unless
    /// `OTEL_METRIC_EXPORT_INTERVAL` says otherwise.
    pub(crate) fn start(resource: Resource, endpoint: Option<&str>) -> Result<Self, TelemetryError> {
        let registry = Registry::new();
        // There is one scope, ours: a label that says so on every line would only be read past.
        let text =
            opentelemetry_prometheus::exporter().with_registry(registry.clone()).scope_info_enabled(false);
        let text = text.build().map_err(|problem| TelemetryError::SetUp(problem.to_string()))?;
        let builder = SdkMeterProvider::builder().with_resource(resource).with_reader(text);
        let provider = match endpoint {
            None => builder.build(),
            Some(endpoint) => builder.with_periodic_exporter(exporter(endpoint)?).build(),
        };
        global::set_meter_provider(provider.clone());
        Ok(Self { provider, registry })
    }

    /// All of them in the text format of Prometheus.
    pub(crate) fn text(&self) -> String {
        let families = self.registry.gather();
        TextEncoder::new().encode_to_string(&families).expect("families that were gathered are complete")
    }

    /// Sends them a last time.
    pub(crate) fn shutdown(&self) -> OTelSdkResult {
        self.provider.shutdown()
    }
}

fn exporter(endpoint: &str) -> Result<Telling, TelemetryError> {
    let exporter = MetricExporter::builder()
        .with_http()
        .with_endpoint(format!("{}/v1/metrics", endpoint.trim_end_matches('/')))
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(ANSWER_MAX)
        .build()
        .map_err(|problem| TelemetryError::SetUp(problem.to_string()))?;
    Ok(Telling { exporter, told: Told::of("metrics") })
}

/// The exporter, and what was said of it in the log.
struct Telling {
    exporter: MetricExporter,
    told: Told,
}

impl PushMetricExporter for Telling {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.told.of_result(self.exporter.export(metrics).await)
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
