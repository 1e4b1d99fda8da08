//! Connects over TLS to a server of this program, which is usually on the same machine.
//!
//! A probe asks an address, and a certificate names hosts. So the certificate that the configuration names is trusted as
//! it stands in its file, whichever names it has. Any other has to be signed for the address by a public authority, or
//! by one of a file.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::tls::{TlsError, read_certificates};

/// Connects to servers of this program, and checks their certificates.
pub struct TlsProbe {
    connector: TlsConnector,
}

impl TlsProbe {
    /// Creates a probe that trusts the first certificate in `certificate_file`, and what a public authority or one in
    /// `authority_file` has signed. Fails if a file cannot be used.
    pub fn new(certificate_file: Option<&Path>, authority_file: Option<&Path>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let own =
            certificate_file.map(read_certificates).transpose()?.and_then(|chain| chain.into_iter().next());
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(file) = authority_file {
            for certificate in read_certificates(file)? {
                let added = roots.add(certificate);
                added.map_err(|error| TlsError::new(file, format!("holds no usable authority: {error}")))?;
            }
        }
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .expect("there are public authorities");
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(KnownServer { own, authorities }))
            .with_no_client_auth();
        Ok(Self { connector: Arc::new(config).into() })
    }

    /// Begins TLS on a connection to this address. Fails if the server's certificate is not trusted.
    pub async fn connect(&self, address: IpAddr, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.connector.connect(ServerName::IpAddress(address.into()), stream).await
    }
}

/// Trusts one certificate as it is, and else what authorities have signed. Either way the server has to prove that it has
/// the private key.
struct KnownServer {
    own: Option<CertificateDer<'static>>,
    authorities: Arc<WebPkiServerVerifier>,
}

impl fmt::Debug for KnownServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownServer").field("knows_own", &self.own.is_some()).finish_non_exhaustive()
    }
}

impl ServerCertVerifier for KnownServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.own.as_ref() == Some(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::PathBuf;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use tempfile::TempDir;

    use super::*;
    use crate::tls::ServerCertificate;

    /// Writes a certificate for a name that an authority signs. Returns its file, the file of its key and that of the
    /// authority.
    fn write_signed(folder: &TempDir, name: &str) -> [PathBuf; 3] {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = Issuer::new(params.clone(), KeyPair::generate().unwrap());
        let authority = params.self_signed(issuer.key()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let texts = [leaf.pem(), key.serialize_pem(), authority.pem()];
        let files = ["pem", "key", "authority"].map(|kind| folder.path().join(format!("{name}.{kind}")));
        for (file, text) in files.iter().zip(texts) {
            std::fs::write(file, text).unwrap();
        }
        files
    }

    /// Connects with a probe to a server that has this certificate. Returns the problem.
    async fn connect(
        server: &[PathBuf; 3],
        certificate: Option<&PathBuf>,
        authority: Option<&PathBuf>,
    ) -> Result<(), String> {
        let probe =
            TlsProbe::new(certificate.map(PathBuf::as_path), authority.map(PathBuf::as_path)).unwrap();
        let acceptor = ServerCertificate::load(&server[0], &server[1]).unwrap().acceptor();
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accept = async { acceptor.accept(listener.accept().await.unwrap().0).await };
        let connect = async { probe.connect(address.ip(), TcpStream::connect(address).await.unwrap()).await };
        let (_, connected) = tokio::join!(accept, connect);
        connected.map(|_| ()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_own_certificate_is_trusted_and_another_needs_an_authority_and_the_address() {
        let folder = tempfile::tempdir().unwrap();
        let named = write_signed(&folder, "retro.example");
        let addressed = write_signed(&folder, "127.0.0.1");
        assert_eq!(connect(&named, Some(&named[0]), None).await, Ok(()), "whichever name it has");
        let unknown = connect(&named, Some(&addressed[0]), None).await.unwrap_err();
        assert!(unknown.contains("UnknownIssuer"), "{unknown}");
        let misnamed = connect(&named, None, Some(&named[2])).await.unwrap_err();
        assert!(misnamed.contains("not valid for name"), "{misnamed}");
        assert_eq!(connect(&addressed, None, Some(&addressed[2])).await, Ok(()));
        assert!(connect(&addressed, None, Some(&named[2])).await.is_err(), "another authority's");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let [_, key, _] = write_signed(&folder, "retro.example");
        let problem = TlsProbe::new(None, Some(&key)).err().unwrap().to_string();
        assert!(problem.contains("retro.example.key: holds no certificate"), "{problem}");
    }
}
