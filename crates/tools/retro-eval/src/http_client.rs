//! Configures the HTTP client that talks to a `retro` process on the same machine.

use std::sync::Arc;

use reqwest::{Client, ClientBuilder};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Returns the configuration of a client for plain HTTP. The client trusts no certificate.
pub fn configure_client() -> ClientBuilder {
    // Without a TLS configuration, the client panics unless the process has a TLS provider, and fails without
    // root certificates on the machine.
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the safe TLS versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    Client::builder().tls_backend_preconfigured(tls)
}
