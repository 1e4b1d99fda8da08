//! A network for tests: a certificate authority, one TLS server for every host, and configurable name
//! resolution.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use retro_core::canonical::sha256_hex;
use retro_core::run::HttpsRef;
use retro_events::hosts::DatarefHosts;
use retro_events::{BodyFetcher as _, ObjectError};
use retro_fetch::{FetchBounds, Fetcher, Network};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Address of every host unless a test sets another one. It is public but never connected to, because all
/// connections of this network end at its own server.
pub(crate) const PUBLIC_ADDRESS: &str = "1.2.3.4";
pub(crate) const BODY: &[u8] = br#"{"schema_version":"ATIF-v1.7","steps":[]}"#;
/// Host names of the test network.
const HOSTS: [&str; 2] = ["runs.example.com", "files.example.com"];

/// Response of the server to a request for one path.
#[derive(Clone)]
pub(crate) enum Page {
    /// Sends these bytes as a complete body.
    Whole(String),
    /// Sends these bytes and then stalls.
    Stuck(String),
}

pub(crate) struct World {
    pages: Arc<Mutex<HashMap<String, Page>>>,
    roots: RootCertStore,
    network: Arc<TestNetwork>,
}

/// Network that resolves names as configured and connects everything to one server.
pub(crate) struct TestNetwork {
    server: SocketAddr,
    /// Addresses for each name, one list per resolution. The last list is used for all further resolutions.
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) requested_hosts: Mutex<Vec<String>>,
    pub(crate) connected: Mutex<Vec<SocketAddr>>,
}

#[async_trait]
impl Network for TestNetwork {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.requested_hosts.lock().expect("the lock is not poisoned").push(host.to_owned());
        let mut answers = self.answers.lock().expect("the lock is not poisoned");
        let Some(answers) = answers.get_mut(host) else {
            return Ok(vec![(parse_address(PUBLIC_ADDRESS), port).into()]);
        };
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Ok(answer.into_iter().map(|address| (address, port).into()).collect())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.connected.lock().expect("the lock is not poisoned").push(address);
        TcpStream::connect(self.server).await
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        let (roots, acceptor) = create_authority(&HOSTS);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("the test network can be built");
        let network = Arc::new(TestNetwork {
            server: listener.local_addr().expect("the test network can be built"),
            answers: Mutex::default(),
            requested_hosts: Mutex::default(),
            connected: Mutex::default(),
        });
        let pages: Arc<Mutex<HashMap<String, Page>>> = Arc::default();
        let world = Self { pages: Arc::clone(&pages), roots, network };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_request(acceptor.clone(), stream, Arc::clone(&pages)));
            }
        });
        world
    }

    /// Serves a page at `https://host/path`.
    pub(crate) fn serve_page(&self, at: &str, page: Page) {
        self.pages.lock().expect("the lock is not poisoned").insert(at.to_owned(), page);
    }

    pub(crate) fn serve_body(&self, at: &str, body: &[u8]) {
        let body = std::str::from_utf8(body).expect("the test network can be built");
        self.serve_response(at, "200 OK", &format!("content-length: {}\r\n", body.len()), body);
    }

    pub(crate) fn serve_redirect(&self, at: &str, to: &str) {
        self.serve_response(at, "302 Found", &format!("location: {to}\r\ncontent-length: 0\r\n"), "");
    }

    pub(crate) fn serve_response(&self, at: &str, status: &str, headers: &str, body: &str) {
        self.serve_page(at, Page::Whole(format!("HTTP/1.1 {status}\r\n{headers}\r\n{body}")));
    }

    /// Sets the addresses of a name. Each further call sets those of the next resolution.
    pub(crate) fn add_resolution(&self, host: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| parse_address(address)).collect();
        self.network
            .answers
            .lock()
            .expect("the lock is not poisoned")
            .entry(host.to_owned())
            .or_default()
            .push(addresses);
    }

    pub(crate) fn network(&self) -> &TestNetwork {
        &self.network
    }

    /// Fetches this URL with the hash of [`BODY`].
    pub(crate) async fn fetch_body(&self, url: &str) -> Result<Bytes, ObjectError> {
        self.fetch(url, self.roots.clone(), FetchBounds::default().total_timeout).await
    }

    pub(crate) async fn fetch_body_trusting(
        &self,
        url: &str,
        roots: RootCertStore,
    ) -> Result<Bytes, ObjectError> {
        self.fetch(url, roots, FetchBounds::default().total_timeout).await
    }

    pub(crate) async fn fetch_body_within(&self, url: &str, whole: Duration) -> Result<Bytes, ObjectError> {
        self.fetch(url, self.roots.clone(), whole).await
    }

    async fn fetch(&self, url: &str, roots: RootCertStore, whole: Duration) -> Result<Bytes, ObjectError> {
        let bounds = FetchBounds { body_bytes_max: 1024, total_timeout: whole, ..FetchBounds::default() };
        let hosts = DatarefHosts::parse(&HOSTS).expect("the test network can be built");
        let fetcher = Fetcher::with_network(self.network.clone(), roots, hosts, bounds);
        fetcher.fetch_body(&HttpsRef { url: url.to_owned(), sha256: sha256_hex(BODY) }).await
    }

    /// Fetches a URL that must be gone, and returns the reason.
    #[track_caller]
    pub(crate) fn fetch_gone(&self, url: &str) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        async move {
            match self.fetch_body(url).await {
                Err(ObjectError::Gone { problem, .. }) => problem,
                other => panic!("{caller}: {url} is not gone: {other:?}"),
            }
        }
    }

    /// Fetches a URL that must be unavailable, and returns the reason.
    pub(crate) async fn fetch_unavailable(&self, url: &str) -> String {
        match self.fetch_body(url).await {
            Err(ObjectError::Unavailable(problem)) => problem,
            other => panic!("{url} is not unavailable: {other:?}"),
        }
    }
}

/// Creates a certificate authority, and a TLS server with a certificate for these names.
pub(crate) fn create_authority(names: &[&str]) -> (RootCertStore, TlsAcceptor) {
    let mut params = CertificateParams::new(Vec::new()).expect("the test network can be built");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(params.clone(), KeyPair::generate().expect("the test network can be built"));
    let root = params.self_signed(issuer.key()).expect("the test network can be built");
    let key = KeyPair::generate().expect("the test network can be built");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names)
        .expect("the test network can be built")
        .signed_by(&key, &issuer)
        .expect("the test network can be built");
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone()).expect("the test network can be built");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the test network can be built")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("the test network can be built");
    (roots, TlsAcceptor::from(Arc::new(config)))
}

/// Responds to one request. A client that disconnects early is not an error.
async fn answer_request(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    pages: Arc<Mutex<HashMap<String, Page>>>,
) -> Option<()> {
    let mut stream = acceptor.accept(stream).await.ok()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let path = head.split(' ').nth(1)?;
    let host = head.lines().find_map(|line| line.strip_prefix("host: "))?;
    assert!(!head.contains("cookie:") && !head.contains("authorization:") && !head.contains("referer:"));
    let page = pages.lock().expect("the lock is not poisoned").get(&format!("https://{host}{path}")).cloned();
    let nothing = || Page::Whole("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned());
    match page.unwrap_or_else(nothing) {
        Page::Whole(text) => {
            stream.write_all(text.as_bytes()).await.ok()?;
            stream.shutdown().await.ok()
        }
        Page::Stuck(text) => {
            stream.write_all(text.as_bytes()).await.ok()?;
            stream.flush().await.ok()?;
            // Waits until the client disconnects.
            stream.read_u8().await.ok().map(|_| ())
        }
    }
}

pub(crate) fn parse_address(address: &str) -> IpAddr {
    address.parse().expect("a numeric address")
}
