use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::*;

/// Server of `https` whose certificate is signed by an authority of its own.
struct PrivateServer {
    address: String,
    authority_file: PathBuf,
    _folder: TempDir,
}

async fn start_server() -> PrivateServer {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let leaf =
        CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(mut stream) = acceptor.accept(connection).await {
                    let mut request = [0; 1024];
                    let _ = stream.read(&mut request).await;
                    let _ = stream
                        .write_all(
                            b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 2\r\n\r\nok",
                        )
                        .await;
                }
            });
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let authority_file = folder.path().join("authorities.pem");
    std::fs::write(&authority_file, authority_certificate.pem()).unwrap();
    PrivateServer { address, authority_file, _folder: folder }
}

/// Starts a proxy that asks for a password, and returns its address and the number of connections it has made.
async fn start_proxy() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let connected = Arc::<AtomicUsize>::default();
    let counter = connected.clone();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let counter = counter.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(connection.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                // `retro:secret`
                if !head.to_lowercase().contains("proxy-authorization: basic cmv0cm86c2vjcmv0") {
                    let _ = connection.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
                    return;
                }
                let target = head.split(' ').nth(1).unwrap().to_owned();
                let mut server = TcpStream::connect(target).await.unwrap();
                connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                let _ = copy_bidirectional(&mut connection, &mut server).await;
            });
        }
    });
    (address, connected)
}

async fn get(http: &OutgoingHttp, address: &str) -> Result<u16, String> {
    let client = http.configure_client().build().unwrap();
    client
        .get(address)
        .send()
        .await
        .map(|answer| answer.status().as_u16())
        .map_err(|error| root_cause(&error))
}

#[tokio::test]
async fn a_private_authority_is_trusted_if_its_file_is_named_and_redirects_are_not_followed() {
    let server = start_server().await;
    let refused = get(&OutgoingHttp::default(), &server.address).await.unwrap_err();
    assert!(refused.contains("outgoing_ca_file") && !refused.contains("127.0.0.1"), "{refused}");
    let trusting = OutgoingHttp::new(Some(&server.authority_file), None).unwrap();
    assert_eq!(get(&trusting, &server.address).await, Ok(302));
}

#[tokio::test]
async fn only_https_goes_through_the_proxy() {
    let (server, (proxy, connected)) = (start_server().await, start_proxy().await);
    let through = |user: &str| {
        OutgoingHttp::new(Some(&server.authority_file), Some(&format!("http://{user}@{proxy}"))).unwrap()
    };
    assert_eq!(get(&through("retro:secret"), &server.address).await, Ok(302));
    assert_eq!(connected.load(Ordering::SeqCst), 1);
    let refused = get(&through("retro:wrong"), &server.address).await.unwrap_err();
    assert!(!refused.contains("wrong"), "{refused}");
    // The server speaks TLS only, so it ends a plain connection; through the proxy this would be 407.
    let plain = server.address.replace("https:", "http:");
    assert!(get(&through("retro:wrong"), &plain).await.is_err());
    assert_eq!(connected.load(Ordering::SeqCst), 1);
}

#[test]
fn an_unusable_file_says_what_is_wrong_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = |content: &str| {
        let file = folder.path().join("authorities.pem");
        std::fs::write(&file, content).unwrap();
        OutgoingHttp::new(Some(&file), None).unwrap_err().to_string()
    };
    assert!(refuse("").contains("holds no certificate"));
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(refuse(broken).contains("whose certificate 1 cannot be used"), "{}", refuse(broken));
    let missing = OutgoingHttp::new(Some(&folder.path().join("none.pem")), None).unwrap_err();
    assert_eq!(missing.key(), "outgoing_ca_file");
    assert!(missing.to_string().contains("none.pem"), "{missing}");
    let device = OutgoingHttp::new(Some(Path::new("/dev/zero")), None).unwrap_err().to_string();
    assert!(device.contains("not a regular file"), "{device}");
}

#[test]
fn an_unusable_proxy_is_refused_without_repeating_its_password() {
    for address in
        ["", "proxy.example.com", "socks5://a:secret@proxy:1080", "http://a:secret@proxy:3128/path"]
    {
        let problem = OutgoingHttp::new(None, Some(address)).unwrap_err();
        assert_eq!(problem.key(), "outgoing_proxy");
        assert!(!problem.to_string().contains("secret"), "{problem}");
    }
    assert!(OutgoingHttp::new(None, Some("https://a:secret@proxy.example.com:3128/")).is_ok());
}
