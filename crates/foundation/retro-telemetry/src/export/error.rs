//! Defines the failures to start telemetry.

/// Failure to start telemetry.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The endpoint does not begin with `http://`; contains the endpoint.
    #[error("`otlp_endpoint` is {0}: it must begin with http://; for TLS run a collector beside the process")]
    UnsupportedEndpoint(String),
    /// The OpenTelemetry SDK could not be set up.
    #[error("telemetry cannot be set up: {0}")]
    SetUp(String),
}
