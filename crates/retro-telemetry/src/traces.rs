//! Spans, on their way to the collector.

use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};

use crate::told::Told;
use crate::{ANSWER_MAX, TelemetryError};

/// Sends spans in batches from a thread of its own. A trace is recorded when its sender's was, or by
/// `OTEL_TRACES_SAMPLER` when it begins here.
pub(crate) fn provider(resource: Resource, endpoint: &str) -> Result<SdkTracerProvider, TelemetryError> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(ANSWER_MAX)
        .build()
        .map_err(|problem| TelemetryError::SetUp(problem.to_string()))?;
    let exporter = Telling { exporter, told: Told::of("spans") };
    Ok(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())
}

/// The exporter, and what was said of it in the log.
#[derive(Debug)]
struct Telling {
    exporter: SpanExporter,
    told: Told,
}

impl opentelemetry_sdk::trace::SpanExporter for Telling {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = opentelemetry_sdk::trace::SpanExporter::export(&self.exporter, batch).await;
        self.told.of_result(sent)
    }

    fn shutdown_with_timeout(&self, timeout: std::time::Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
