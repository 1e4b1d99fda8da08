//! Builds the HTTP client of the exporters.

use std::sync::Arc;
use std::time::Duration;

use reqwest::blocking::Client;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::error::TelemetryError;

/// Timeout for the collector's response. Short, because the collector runs on the same machine or in the same
/// pod.
pub(super) const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Builds the HTTP client of an exporter. It trusts no certificate, because an endpoint is plain HTTP.
pub(super) fn build_http_client() -> Result<Client, TelemetryError> {
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the safe TLS versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    // The client that the exporter would build panics without a TLS provider of the whole process, and fails
    // without root certificates on the machine.
    let builder = Client::builder().tls_backend_preconfigured(tls).timeout(EXPORT_TIMEOUT);
    // In a thread of its own, because the blocking client panics when it is built inside an async runtime.
    let built = std::thread::spawn(|| builder.build()).join();
    let built = built.map_err(|_| TelemetryError::SetUp("the HTTP client cannot be built".to_owned()))?;
    built.map_err(|problem| TelemetryError::SetUp(problem.to_string()))
}
