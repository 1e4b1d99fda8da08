#![doc = include_str!("../README.md")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::{ClientBuilder, Proxy, redirect, retry};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::Url;

/// Maximum size of a file of authorities, in bytes. The public ones together have a quarter of it.
const CA_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Configuration of the clients for requests that leave. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OutgoingHttp {
    tls: ClientConfig,
    proxy: Option<Proxy>,
}

/// Reason why the configuration cannot be used. Its text continues a sentence that begins with the [key](Self::key).
#[derive(Debug, thiserror::Error)]
pub enum OutgoingHttpError {
    /// The file of authorities cannot be read.
    #[error("names {}, which cannot be read: {problem}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A certificate of the file cannot be used.
    #[error("names {}, whose certificate {number} cannot be used: {problem}", file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// 1-based number of the certificate in the file.
        number: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The file has no certificate.
    #[error("names {}, which holds no certificate in PEM format (-----BEGIN CERTIFICATE-----)", .0.display())]
    NoCertificate(PathBuf),
    /// The address of the proxy cannot be used. Does not repeat it, because it may hold a password.
    #[error(
        "{0}; it must be http://host:port or https://host:port, with user:password@ before the host if the proxy asks for them"
    )]
    Proxy(&'static str),
}

impl OutgoingHttpError {
    /// Returns the configuration key whose value cannot be used.
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } | Self::Certificate { .. } | Self::NoCertificate(_) => "outgoing_ca_file",
            Self::Proxy(_) => "outgoing_proxy",
        }
    }
}

impl Default for OutgoingHttp {
    /// Trusts the public authorities alone, and uses no proxy.
    fn default() -> Self {
        Self { tls: build_tls(public_authorities()), proxy: None }
    }
}

impl OutgoingHttp {
    /// Trusts the public authorities and those of a file in PEM format, and sends requests of `https` through a proxy. Fails
    /// if the file or the address cannot be used. Sends no request.
    pub fn new(ca_file: Option<&Path>, proxy: Option<&str>) -> Result<Self, OutgoingHttpError> {
        let mut authorities = public_authorities();
        if let Some(file) = ca_file {
            add_authorities(&mut authorities, file)?;
        }
        Ok(Self { tls: build_tls(authorities), proxy: proxy.map(parse_proxy).transpose()? })
    }

    /// Returns the configuration of a client without timeouts. It follows no redirect and repeats no request.
    pub fn configure_client(&self) -> ClientBuilder {
        let builder = ClientBuilder::new()
            // Otherwise the client panics without a TLS provider of the whole process, and fails without root
            // certificates on the machine.
            .tls_backend_preconfigured(self.tls.clone())
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .http1_only()
            // Before the proxy, because it also drops those that were set.
            .no_proxy();
        match &self.proxy {
            Some(proxy) => builder.proxy(proxy.clone()),
            None => builder,
        }
    }
}

fn public_authorities() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

fn build_tls(authorities: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the safe TLS versions")
        .with_root_certificates(authorities)
        .with_no_client_auth()
}

fn add_authorities(authorities: &mut RootCertStore, file: &Path) -> Result<(), OutgoingHttpError> {
    let unreadable = |problem: String| OutgoingHttpError::Unreadable { file: file.to_owned(), problem };
    let metadata = std::fs::metadata(file).map_err(|problem| unreadable(problem.to_string()))?;
    // A pipe or a device would be read without an end.
    if !metadata.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    if metadata.len() > CA_FILE_BYTES_MAX {
        return Err(unreadable(format!("it is longer than {CA_FILE_BYTES_MAX} bytes")));
    }
    let pem = std::fs::read(file).map_err(|problem| unreadable(problem.to_string()))?;
    let mut added = 0;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let unusable = |problem: String| OutgoingHttpError::Certificate {
            file: file.to_owned(),
            number: added + 1,
            problem,
        };
        let certificate = certificate.map_err(|problem| unusable(problem.to_string()))?;
        authorities.add(certificate).map_err(|problem| unusable(problem.to_string()))?;
        added += 1;
    }
    if added == 0 { Err(OutgoingHttpError::NoCertificate(file.to_owned())) } else { Ok(()) }
}

fn parse_proxy(address: &str) -> Result<Proxy, OutgoingHttpError> {
    let url = Url::parse(address.trim()).map_err(|_| OutgoingHttpError::Proxy("is not an address"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(OutgoingHttpError::Proxy("is not the address of an HTTP proxy"));
    }
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return Err(OutgoingHttpError::Proxy("has a path"));
    }
    Proxy::https(url).map_err(|_| OutgoingHttpError::Proxy("cannot be used"))
}

/// Returns the message of the innermost cause of a failed request, such as `Connection refused`, and what to do about a
/// certificate of an unknown authority. The errors around it say only that a request failed, and quote its address.
pub fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    // The outermost error alone would quote the address.
    let message = if error.source().is_none() { "the request failed".to_owned() } else { cause.to_string() };
    if message.contains("UnknownIssuer") {
        return format!("{message}; name the file of its authority in outgoing_ca_file");
    }
    message
}

#[cfg(test)]
mod tests;
