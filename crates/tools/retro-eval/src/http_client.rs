//! Configures the HTTP client that talks to a `retro` process on the same machine.

use std::sync::Arc;

use reqwest::{Client, ClientBuilder};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Returns the configuration of a client for plain HTTP. The client trusts no certificate.
pub fn configure_client() -> ClientBuilder {
    configure_client_with(RootCertStore::empty())
}

/// Returns the configuration of a client that trusts one certificate, in DER. Fails if it cannot be read.
pub fn configure_trusting_client(certificate: &[u8]) -> Result<ClientBuilder, tokio_rustls::rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.to_vec().into())?;
    Ok(configure_client_with(roots))
}

fn configure_client_with(roots: RootCertStore) -> ClientBuilder {
    // Without a TLS configuration, the client panics unless the process has a TLS provider, and fails without
    // root certificates on the machine.
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the safe TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client::builder().tls_backend_preconfigured(tls)
}
