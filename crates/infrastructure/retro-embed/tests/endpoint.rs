//! Tests of the endpoint embedder, against a local server with the OpenAI embeddings API.

#![expect(clippy::unwrap_used, reason = "clippy does not recognise shared test helpers as test code")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Redirect;
use axum::routing::post;
use rcgen::{CertificateParams, KeyPair};
use retro_config::Secret;
use retro_core::similarity::SimilarityScale;
use retro_embed::{EndpointBounds, EndpointEmbedder, EndpointError};
use retro_outgoing_http::OutgoingHttp;
use retro_store::{EmbeddingSource as _, EmbeddingSourceError};
use retro_testkit::{Concepts, EmbeddingServer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

const CONCEPTS: Concepts = &[&["list", "show"], &["tables", "relations"]];
const SCALE: SimilarityScale = SimilarityScale { contradiction: 400, tombstone: 500, merge: 600 };
const KEY: &str = "sk-never-shown";

fn build_endpoint(url: &str, dimensions: usize, whole: Duration) -> Result<EndpointEmbedder, EndpointError> {
    EndpointEmbedder::new(
        url,
        "small".into(),
        dimensions,
        SCALE,
        Some(Secret::new(KEY)),
        EndpointBounds { total_timeout: whole },
        &OutgoingHttp::default(),
    )
}

fn endpoint(server: &EmbeddingServer) -> EndpointEmbedder {
    build_endpoint(server.url(), 2, Duration::from_secs(30)).unwrap()
}

async fn embed_error(endpoint: &EndpointEmbedder) -> String {
    let error = endpoint.embed(&["list".to_owned()]).await.unwrap_err().to_string();
    assert!(!error.contains(KEY), "{error}");
    error
}

#[tokio::test]
async fn each_text_gets_its_own_vector_in_as_many_requests_as_it_takes() {
    let server = EmbeddingServer::start(CONCEPTS).await;
    let endpoint = endpoint(&server);
    let texts: Vec<String> = (0..150_usize)
        .map(|nth| if nth.is_multiple_of(2) { "List".to_owned() } else { format!("tables {nth}") })
        .collect();
    let vectors = endpoint.embed(&texts).await.unwrap();
    let right = |nth: usize| if nth.is_multiple_of(2) { [10_000, 0] } else { [0, 10_000] };
    assert!(vectors.iter().enumerate().all(|(nth, vector)| *vector == right(nth)), "{vectors:?}");
    assert_eq!(server.embedded_texts(), texts);
    assert_eq!(server.last_authorization().as_deref(), Some("Bearer sk-never-shown"));
    assert_eq!(endpoint.name(), "small@2");
}

#[tokio::test]
async fn a_transient_error_is_retried_once() {
    let server = EmbeddingServer::start(CONCEPTS).await;
    let endpoint = endpoint(&server);
    server.fail_first_requests(&[503]);
    endpoint.embed(&["list".to_owned()]).await.unwrap();
    server.fail_first_requests(&[429, 500, 200]);
    let error = embed_error(&endpoint).await;
    assert!(error.contains("it answers 500"), "two attempts at most: {error}");
    server.fail_first_requests(&[401]);
    let error = embed_error(&endpoint).await;
    assert!(error.contains("401") && error.contains("is embedder_key right?"), "{error}");
    assert_eq!(server.embedded_texts(), ["list"], "a permanent error is not retried");
}

#[tokio::test]
async fn vectors_of_another_length_are_refused() {
    let server = EmbeddingServer::start(CONCEPTS).await;
    let error = embed_error(&build_endpoint(server.url(), 384, Duration::from_secs(30)).unwrap()).await;
    assert!(error.contains("2 components, embedder_dimensions says 384"), "{error}");
}

/// Calls a server that accepts connections but never responds.
#[tokio::test]
async fn a_call_without_an_answer_times_out() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = silent.local_addr().unwrap();
    let whole = Duration::from_millis(100);
    let error = embed_error(&build_endpoint(&format!("http://{address}/v1"), 2, whole).unwrap()).await;
    assert_eq!(error, format!("the embedder at {address}: no complete response within 100 ms"));
    drop(silent);
    let error =
        embed_error(&build_endpoint(&format!("http://{address}/v1"), 2, Duration::from_secs(30)).unwrap())
            .await;
    assert!(error.starts_with(&format!("the embedder at {address}: ")), "{error}");
}

/// Serves the routes on a free loopback port and returns the base URL.
async fn serve_routes(routes: Router) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    url
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = EmbeddingServer::start(CONCEPTS).await;
    let target = format!("{}/embeddings", elsewhere.url());
    let redirect = post(move || async move { Redirect::temporary(&target) });
    let url = serve_routes(Router::new().route("/v1/embeddings", redirect)).await;
    let error = embed_error(&build_endpoint(&url, 2, Duration::from_secs(30)).unwrap()).await;
    assert!(error.contains("it answers 307"), "{error}");
    assert_eq!(elsewhere.request_count(), 0, "neither the key nor a text is sent elsewhere");
}

#[tokio::test]
async fn a_response_is_left_at_the_maximum_size() {
    let large = post(|| async { "x".repeat(16 * 1024 * 1024 + 1) });
    let url = serve_routes(Router::new().route("/v1/embeddings", large)).await;
    let error = embed_error(&build_endpoint(&url, 2, Duration::from_secs(30)).unwrap()).await;
    assert!(error.ends_with("its response was cut off: length limit exceeded"), "{error}");
}

/// Starts a TLS server with a certificate that it signed itself, and returns its port.
async fn start_self_signed_server() -> u16 {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Fails, because the client refuses the certificate.
            let _ = acceptor.accept(stream).await;
        }
    });
    port
}

/// No TLS provider is installed for the process, so this also holds that the client brings its own.
#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let url = format!("https://localhost:{}/v1", start_self_signed_server().await);
    let error = embed_error(&build_endpoint(&url, 2, Duration::from_secs(30)).unwrap()).await;
    assert!(error.contains("invalid peer certificate"), "{error}");
}

#[tokio::test]
async fn a_host_without_a_possible_certificate_is_a_wrong_configuration() {
    let endpoint = build_endpoint("https://a..b/v1", 2, Duration::from_secs(30)).unwrap();
    let error = embed_error(&endpoint).await;
    assert!(error.ends_with("its host is not a valid TLS server name"), "{error}");
}

/// Advances a paused clock while no call is in flight, so no test sleeps and no call times out.
async fn advance_clock(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

async fn is_circuit_open(endpoint: &EndpointEmbedder) -> bool {
    matches!(endpoint.embed(&["list".to_owned()]).await, Err(EmbeddingSourceError::CircuitOpen(_)))
}

#[tokio::test]
async fn a_dead_server_is_probed_less_often_and_used_again_when_it_returns() {
    let server = EmbeddingServer::start(CONCEPTS).await;
    let endpoint = endpoint(&server);
    server.set_unavailable(true);
    for _ in 0..3 {
        assert!(embed_error(&endpoint).await.contains("it answers 503"));
    }
    assert_eq!(server.request_count(), 6, "two attempts for each call");
    // No request is sent, so the clock can be paused, however slow the machine is.
    tokio::time::pause();
    for _ in 0..100 {
        assert!(is_circuit_open(&endpoint).await);
    }
    tokio::time::advance(Duration::from_secs(3)).await;
    assert!(is_circuit_open(&endpoint).await);
    tokio::time::resume();
    assert_eq!(server.request_count(), 6, "an open circuit sends no request");

    for wait_s in [5, 10, 20] {
        advance_clock(Duration::from_secs(wait_s)).await;
        assert!(embed_error(&endpoint).await.contains("it answers 503"));
        assert!(is_circuit_open(&endpoint).await);
    }
    assert_eq!(server.request_count(), 9, "one probe after each waiting time, without a retry");

    server.set_unavailable(false);
    assert!(is_circuit_open(&endpoint).await, "the waiting time is not over yet");
    advance_clock(Duration::from_secs(40)).await;
    endpoint.embed(&["list".to_owned()]).await.unwrap();
    server.fail_first_requests(&[503, 503]);
    embed_error(&endpoint).await;
    endpoint.embed(&["list".to_owned()]).await.unwrap();
}

#[tokio::test]
async fn a_refused_text_does_not_open_the_circuit() {
    let server = EmbeddingServer::start(CONCEPTS).await;
    let endpoint = endpoint(&server);
    server.fail_first_requests(&[400, 422, 413, 400]);
    for _ in 0..4 {
        embed_error(&endpoint).await;
    }
    endpoint.embed(&["list".to_owned()]).await.unwrap();
    server.fail_first_requests(&[401, 401, 404, 200]);
    for _ in 0..3 {
        embed_error(&endpoint).await;
    }
    assert!(is_circuit_open(&endpoint).await, "a wrong configuration fails for every text");
}

#[test]
fn an_address_is_validated_before_any_request() {
    let refused = |url: &str| build_endpoint(url, 2, Duration::from_secs(1)).err();
    for wrong in ["", "api.example.com", "ftp://api.example.com/v1", "https://"] {
        assert_eq!(refused(wrong), Some(EndpointError::InvalidAddress(wrong.to_owned())), "{wrong}");
    }
    assert_eq!(refused("https://me:word@api.example.com/v1"), Some(EndpointError::CredentialsInAddress));
    assert_eq!(refused("https://api.example.com/v1/"), None);
}
