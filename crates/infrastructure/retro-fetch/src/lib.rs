#![doc = include_str!("../README.md")]

mod address;
mod network;
mod request;
mod response;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use retro_core::canonical::sha256_hex;
use retro_core::run::HttpsRef;
use retro_events::hosts::{AllowedUrl, DatarefHosts};
use retro_events::{BodyFetcher, ObjectError, atif};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub use address::is_public;
pub use network::{Network, SystemNetwork};

use response::HostResponse;

/// Maximum number of redirects to follow: one to the canonical name of a host, one to its file storage, and a
/// spare.
pub const REDIRECTS_MAX: usize = 3;

/// Bounds of one fetch. The defaults are for production; tests shorten them.
#[derive(Debug, Clone, Copy)]
pub struct FetchBounds {
    /// Maximum size of a body, in bytes.
    pub body_bytes_max: usize,
    /// Timeout of the whole fetch, including redirects.
    pub total_timeout: Duration,
    /// Timeout of one connection attempt, including TLS.
    pub connect_timeout: Duration,
}

impl Default for FetchBounds {
    fn default() -> Self {
        Self {
            body_bytes_max: atif::BODY_BYTES_MAX,
            total_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

/// Fetches trajectories of runs from allowed hosts.
pub struct Fetcher {
    hosts: DatarefHosts,
    network: Arc<dyn Network>,
    tls: TlsConnector,
    bounds: FetchBounds,
}

impl Fetcher {
    /// Creates a fetcher that uses the system's network and trusts Mozilla's root certificates.
    pub fn new(hosts: DatarefHosts) -> Self {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        Self::with_network(Arc::new(SystemNetwork), roots, hosts, FetchBounds::default())
    }

    /// Creates a fetcher with another network, other root certificates and other bounds. All checks still
    /// apply.
    pub fn with_network(
        network: Arc<dyn Network>,
        roots: RootCertStore,
        hosts: DatarefHosts,
        bounds: FetchBounds,
    ) -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring supports the safe TLS versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { hosts, network, tls: TlsConnector::from(Arc::new(config)), bounds }
    }

    async fn fetch_body(&self, body: &HttpsRef) -> Result<Bytes, FetchError> {
        let mut address = self
            .hosts
            .check_address(&body.url)
            .map_err(|problem| FetchError::gone(format!("its address {problem}")))?;
        for _ in 0..=REDIRECTS_MAX {
            // Every redirect target is checked like the first URL, or an allowed host could lead to any
            // other.
            match self.request_once(&address).await? {
                HostResponse::Body(bytes) => return verify_hash(bytes, body),
                HostResponse::Redirect(location) => address = self.check_redirect(&address, &location)?,
            }
        }
        Err(FetchError::gone(format!("it was redirected more than {REDIRECTS_MAX} times")))
    }

    fn check_redirect(&self, from: &AllowedUrl, location: &str) -> Result<AllowedUrl, FetchError> {
        let to = self.hosts.check_redirect(from, location);
        to.map_err(|problem| FetchError::gone(format!("it was redirected to what {problem}")))
    }
}

#[async_trait]
impl BodyFetcher for Fetcher {
    async fn fetch_body(&self, body: &HttpsRef) -> Result<Bytes, ObjectError> {
        let late = || {
            FetchError::Unavailable(format!(
                "no whole answer within {} ms",
                self.bounds.total_timeout.as_millis()
            ))
        };
        let fetched = tokio::time::timeout(self.bounds.total_timeout, self.fetch_body(body))
            .await
            .unwrap_or_else(|_| Err(late()));
        fetched.map_err(|problem| match problem {
            // Errors reach logs, so they contain the URL without its query, which may grant access.
            FetchError::Gone(problem) => ObjectError::Gone { name: body.display_url().to_owned(), problem },
            FetchError::Unavailable(problem) => {
                ObjectError::Unavailable(format!("{}: {problem}", body.display_url()))
            }
        })
    }
}

/// Reason why a body was not fetched.
#[derive(Debug)]
enum FetchError {
    /// The body cannot be fetched, and a retry would not help.
    Gone(String),
    /// The body cannot be fetched now, but a retry may help.
    Unavailable(String),
}

impl FetchError {
    fn gone(problem: impl Into<String>) -> Self {
        Self::Gone(problem.into())
    }

    fn unavailable(problem: impl std::fmt::Display) -> Self {
        Self::Unavailable(problem.to_string())
    }
}

fn verify_hash(bytes: Bytes, body: &HttpsRef) -> Result<Bytes, FetchError> {
    let found = sha256_hex(&bytes);
    if found == body.sha256 {
        return Ok(bytes);
    }
    Err(FetchError::gone(format!("its bytes have the hash {found}, {} was promised", body.sha256)))
}
