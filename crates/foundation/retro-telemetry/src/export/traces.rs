//! Exports spans to the collector.

use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};

use super::error::TelemetryError;
use super::failure_log::ExportFailureLog;
use super::http_client::{EXPORT_TIMEOUT, build_http_client};

/// Builds a tracer provider that exports spans in batches from a thread of its own. By default, new traces
/// are sampled, and continued traces if their remote parent was; `OTEL_TRACES_SAMPLER` selects another
/// sampler.
pub(crate) fn build_provider(
    resource: Resource,
    endpoint: &str,
) -> Result<SdkTracerProvider, TelemetryError> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(build_http_client()?)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(|problem| TelemetryError::SetUp(problem.to_string()))?;
    let exporter = LoggingSpanExporter { exporter, failure_log: ExportFailureLog::new("spans") };
    Ok(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())
}

/// A span exporter that logs when exports begin to fail and when they succeed again.
#[derive(Debug)]
struct LoggingSpanExporter {
    exporter: SpanExporter,
    failure_log: ExportFailureLog,
}

impl opentelemetry_sdk::trace::SpanExporter for LoggingSpanExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = opentelemetry_sdk::trace::SpanExporter::export(&self.exporter, batch).await;
        self.failure_log.log_result(sent)
    }

    fn shutdown_with_timeout(&self, timeout: std::time::Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
