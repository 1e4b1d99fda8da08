//! Serves TLS with a certificate from files, which are read again when they change.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Interval at which the files are read again. Whoever renews certificates does it days before the old one expires.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum size of a file, in bytes. A chain of certificates takes a few kilobytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Reason why a certificate cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct TlsError {
    path: PathBuf,
    problem: String,
}

impl TlsError {
    pub(crate) fn new(path: &Path, problem: String) -> Self {
        Self { path: path.to_owned(), problem }
    }
}

/// Certificate and private key of a server, from two PEM files.
pub struct ServerCertificate {
    certificate_file: PathBuf,
    key_file: PathBuf,
    provider: Arc<CryptoProvider>,
    current: RwLock<CurrentKey>,
}

struct CurrentKey {
    /// Content of the two files.
    files: (Vec<u8>, Vec<u8>),
    key: Arc<CertifiedKey>,
}

impl ServerCertificate {
    /// Reads the certificate, followed by those of the authorities that issued it, and its private key. Fails if a
    /// file cannot be read or the key is not that of the certificate.
    pub fn load(certificate_file: &Path, key_file: &Path) -> Result<Arc<Self>, TlsError> {
        let (provider, files) = (Arc::new(ring::default_provider()), read_files(certificate_file, key_file)?);
        let key = parse_key(&provider, certificate_file, key_file, &files)?;
        Ok(Arc::new(Self {
            certificate_file: certificate_file.to_owned(),
            key_file: key_file.to_owned(),
            provider,
            current: RwLock::new(CurrentKey { files, key: Arc::new(key) }),
        }))
    }

    /// Reads the files again and again until `stop` is cancelled. A pair that cannot be used is logged, and the
    /// earlier one stays in use.
    pub async fn reload_when_changed(self: Arc<Self>, stop: CancellationToken) {
        let mut refused = None;
        while stop.run_until_cancelled(tokio::time::sleep(RELOAD_INTERVAL)).await.is_some() {
            match self.reload() {
                Ok(true) => {
                    info!("serving TLS with the new certificate in {}", self.certificate_file.display());
                    refused = None;
                }
                Ok(false) => refused = None,
                // Not once more every ten seconds.
                Err(error) if refused.as_ref() == Some(&error) => {}
                Err(error) => {
                    warn!("the earlier certificate stays in use: {error}");
                    refused = Some(error);
                }
            }
        }
    }

    /// Returns `true` if the files have changed and are in use now.
    fn reload(&self) -> Result<bool, TlsError> {
        let files = read_files(&self.certificate_file, &self.key_file)?;
        if self.current.read().unwrap_or_else(PoisonError::into_inner).files == files {
            return Ok(false);
        }
        let key = parse_key(&self.provider, &self.certificate_file, &self.key_file, &files)?;
        let current = CurrentKey { files, key: Arc::new(key) };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        Ok(true)
    }

    /// Returns what accepts connections with the current certificate: TLS 1.2 or 1.3, and HTTP/1.1.
    pub(crate) fn acceptor(self: &Arc<Self>) -> TlsAcceptor {
        let config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default versions");
        let mut config = config.with_no_client_auth().with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config).into()
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).key.clone())
    }
}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCertificate").field("file", &self.certificate_file).finish_non_exhaustive()
    }
}

fn read_files(certificate_file: &Path, key_file: &Path) -> Result<(Vec<u8>, Vec<u8>), TlsError> {
    Ok((read_file(certificate_file)?, read_file(key_file)?))
}

fn read_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    let describe = |problem: String| TlsError::new(path, problem);
    let bytes = std::fs::metadata(path).map_err(|error| describe(format!("cannot be read: {error}")))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(describe(format!("has {bytes} bytes; at most {FILE_BYTES_MAX} are read")));
    }
    std::fs::read(path).map_err(|error| describe(format!("cannot be read: {error}")))
}

/// Reads the certificates of a PEM file. Fails if it holds none.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    parse_certificates(path, &read_file(path)?)
}

fn parse_certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::new(path, format!("is no PEM file of certificates: {error}")))?;
    if chain.is_empty() {
        return Err(TlsError::new(path, "holds no certificate (`BEGIN CERTIFICATE`)".to_owned()));
    }
    Ok(chain)
}

fn parse_key(
    provider: &CryptoProvider,
    certificate_file: &Path,
    key_file: &Path,
    (certificate, key): &(Vec<u8>, Vec<u8>),
) -> Result<CertifiedKey, TlsError> {
    let describe = TlsError::new;
    let chain = parse_certificates(certificate_file, certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        describe(key_file, format!("holds no private key (`BEGIN PRIVATE KEY`): {error}"))
    })?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        describe(key_file, format!("is not the key of {}: {error}", certificate_file.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_pair(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let pair = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let (certificate, key) = (folder.join("server.pem"), folder.join("server.key"));
        std::fs::write(&certificate, pair.cert.pem()).unwrap();
        std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
        (certificate, key)
    }

    #[test]
    fn a_changed_pair_is_used_and_one_that_does_not_fit_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = write_pair(folder.path(), "one.example");
        let server = ServerCertificate::load(&certificate, &key).unwrap();
        let shown = || server.current.read().unwrap().key.cert[0].clone();
        let first = shown();
        assert_eq!(server.reload(), Ok(false));
        let old_key = std::fs::read(&key).unwrap();
        write_pair(folder.path(), "two.example");
        let new_key = std::fs::read(&key).unwrap();
        std::fs::write(&key, old_key).unwrap();
        let error = server.reload().unwrap_err().to_string();
        assert!(error.contains("server.key: is not the key of") && shown() == first, "{error}");
        std::fs::write(&key, new_key).unwrap();
        assert_eq!(server.reload(), Ok(true));
        assert_ne!(shown(), first);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = write_pair(folder.path(), "one.example");
        let missing = folder.path().join("missing.pem");
        for (certificate, key, expected) in [
            (&missing, &key, "missing.pem: cannot be read: No such file"),
            (&certificate, &missing, "missing.pem: cannot be read"),
            (&key, &key, "server.key: holds no certificate"),
            (&certificate, &certificate, "server.pem: holds no private key"),
        ] {
            let error = ServerCertificate::load(certificate, key).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
