#![doc = include_str!("../README.md")]

mod address;
mod network;
mod request;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use retro_core::canonical::sha256_hex;
use retro_core::run::HttpsRef;
use retro_events::hosts::{Allowed, DatarefHosts};
use retro_events::{Https, ObjectError, atif};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub use address::is_public;
pub use network::{MachineNetwork, Network};

use request::Answer;

/// Redirects that are followed: one to a host's canonical name, one to where it keeps its files, one to spare.
pub const REDIRECTS_MAX: usize = 3;

/// Bounds of one fetch; the defaults suit production, tests shorten them.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The largest body, in bytes.
    pub body_bytes_max: usize,
    /// How long everything may take, redirects included.
    pub whole: Duration,
    /// How long one connection may take to come about, TLS included.
    pub connect: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            body_bytes_max: atif::BODY_BYTES_MAX,
            whole: Duration::from_secs(60),
            connect: Duration::from_secs(10),
        }
    }
}

/// Fetches bodies from allowed hosts.
pub struct Fetcher {
    hosts: DatarefHosts,
    network: Arc<dyn Network>,
    tls: TlsConnector,
    bounds: Bounds,
}

impl Fetcher {
    /// A fetcher over the machine's network that trusts the roots of Mozilla.
    pub fn new(hosts: DatarefHosts) -> Self {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        Self::over(Arc::new(MachineNetwork), roots, hosts, Bounds::default())
    }

    /// A fetcher over another network, with other roots and bounds. Every gate stands as it is.
    pub fn over(
        network: Arc<dyn Network>,
        roots: RootCertStore,
        hosts: DatarefHosts,
        bounds: Bounds,
    ) -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring speaks the versions of TLS that are safe")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { hosts, network, tls: TlsConnector::from(Arc::new(config)), bounds }
    }

    async fn fetch(&self, body: &HttpsRef) -> Result<Bytes, Problem> {
        let mut address =
            self.hosts.check(&body.url).map_err(|problem| Problem::gone(format!("its address {problem}")))?;
        for _ in 0..=REDIRECTS_MAX {
            match self.ask(&address).await? {
                Answer::Body(bytes) => return checked(bytes, body),
                Answer::Elsewhere(location) => address = self.redirected(&address, &location)?,
            }
        }
        Err(Problem::gone(format!("it was redirected more than {REDIRECTS_MAX} times")))
    }

    fn redirected(&self, from: &Allowed, location: &str) -> Result<Allowed, Problem> {
        let to = self.hosts.check_redirect(from, location);
        to.map_err(|problem| Problem::gone(format!("it was redirected to what {problem}")))
    }
}

#[async_trait]
impl Https for Fetcher {
    async fn get(&self, body: &HttpsRef) -> Result<Bytes, ObjectError> {
        let late = || Problem::Away(format!("no whole answer within {} ms", self.bounds.whole.as_millis()));
        let fetched =
            tokio::time::timeout(self.bounds.whole, self.fetch(body)).await.unwrap_or_else(|_| Err(late()));
        fetched.map_err(|problem| match problem {
            Problem::Gone(problem) => ObjectError::Gone { name: body.shown().to_owned(), problem },
            Problem::Away(problem) => ObjectError::Unavailable(format!("{}: {problem}", body.shown())),
        })
    }
}

/// Why there is no body.
#[derive(Debug)]
enum Problem {
    /// Asking again does not help.
    Gone(String),
    /// It may.
    Away(String),
}

impl Problem {
    fn gone(problem: impl Into<String>) -> Self {
        Self::Gone(problem.into())
    }

    fn away(problem: impl std::fmt::Display) -> Self {
        Self::Away(problem.to_string())
    }
}

fn checked(bytes: Bytes, body: &HttpsRef) -> Result<Bytes, Problem> {
    let found = sha256_hex(&bytes);
    if found == body.sha256 {
        return Ok(bytes);
    }
    Err(Problem::gone(format!("its bytes have the hash {found}, {} was promised", body.sha256)))
}
