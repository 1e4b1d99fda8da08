//! A server that the tests start, which answers as OpenAI's does.

#![expect(
    clippy::unwrap_used,
    reason = "clippy takes only the tests themselves for tests, not what they share"
)]

use std::time::Duration;

use retro_config::Secret;
use retro_core::similar::Scale;
use retro_embed::{Bounds, Endpoint, EndpointError};
use retro_store::{SourceError, VectorSource as _};
use retro_testkit::{Concepts, Embeddings};
use tokio::net::TcpListener;

const CONCEPTS: Concepts = &[&["list", "show"], &["tables", "relations"]];
const SCALE: Scale = Scale { contradiction: 400, tombstone: 500, merge: 600 };
const KEY: &str = "sk-never-shown";

fn of(url: &str, dimensions: usize, whole: Duration) -> Result<Endpoint, EndpointError> {
    Endpoint::new(url, "small".into(), dimensions, SCALE, Some(Secret::new(KEY)), Bounds { whole })
}

fn endpoint(server: &Embeddings) -> Endpoint {
    of(server.url(), 2, Duration::from_secs(30)).unwrap()
}

async fn refused(endpoint: &Endpoint) -> String {
    let told = endpoint.embed(&["list".to_owned()]).await.unwrap_err().to_string();
    assert!(!told.contains(KEY), "{told}");
    told
}

#[tokio::test]
async fn each_text_gets_its_own_vector_in_as_many_requests_as_it_takes() {
    let server = Embeddings::start(CONCEPTS).await;
    let endpoint = endpoint(&server);
    let texts: Vec<String> = (0..150_usize)
        .map(|nth| if nth.is_multiple_of(2) { "List".to_owned() } else { format!("tables {nth}") })
        .collect();
    let vectors = endpoint.embed(&texts).await.unwrap();
    let right = |nth: usize| if nth.is_multiple_of(2) { [10_000, 0] } else { [0, 10_000] };
    assert!(vectors.iter().enumerate().all(|(nth, vector)| *vector == right(nth)), "{vectors:?}");
    assert_eq!(server.texts(), texts);
    assert_eq!(server.key().as_deref(), Some("Bearer sk-never-shown"));
    assert_eq!(endpoint.name(), "small@2");
}

#[tokio::test]
async fn it_is_asked_once_more_when_that_may_help() {
    let server = Embeddings::start(CONCEPTS).await;
    let endpoint = endpoint(&server);
    server.refuse_first(&[503]);
    endpoint.embed(&["list".to_owned()]).await.unwrap();
    server.refuse_first(&[429, 500, 200]);
    let told = refused(&endpoint).await;
    assert!(told.contains("it answers 500"), "twice at most: {told}");
    server.refuse_first(&[401]);
    let told = refused(&endpoint).await;
    assert!(told.contains("401") && told.contains("is embedder_key right?"), "{told}");
    assert_eq!(server.texts(), ["list"], "what is wrong is not asked again");
}

#[tokio::test]
async fn vectors_of_another_length_are_refused_with_both() {
    let server = Embeddings::start(CONCEPTS).await;
    let told = refused(&of(server.url(), 384, Duration::from_secs(30)).unwrap()).await;
    assert!(told.contains("2 components, embedder_dimensions says 384"), "{told}");
}

/// It takes connections and never says a word.
#[tokio::test]
async fn who_does_not_answer_is_left_in_time() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = silent.local_addr().unwrap();
    let whole = Duration::from_millis(100);
    let told = refused(&of(&format!("http://{address}/v1"), 2, whole).unwrap()).await;
    assert_eq!(told, format!("the embedder at {address}: no whole answer within 100 ms"));
    drop(silent);
    let told = refused(&of(&format!("http://{address}/v1"), 2, Duration::from_secs(30)).unwrap()).await;
    assert!(told.starts_with(&format!("the embedder at {address}: ")), "{told}");
}

/// The clock moves by hand while nothing is under way, so that no test sleeps and no call runs out of time.
async fn later(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

async fn left_alone(endpoint: &Endpoint) -> bool {
    matches!(endpoint.embed(&["list".to_owned()]).await, Err(SourceError::LeftAlone(_)))
}

#[tokio::test]
async fn who_died_is_asked_less_and_less_and_used_again_when_it_is_back() {
    let server = Embeddings::start(CONCEPTS).await;
    let endpoint = endpoint(&server);
    server.be_away(true);
    for _ in 0..3 {
        assert!(refused(&endpoint).await.contains("it answers 503"));
    }
    assert_eq!(server.requests(), 6, "each of them twice");
    // Nobody is asked, so the clock may stand still, however slow the machine is with a hundred calls.
    tokio::time::pause();
    for _ in 0..100 {
        assert!(left_alone(&endpoint).await);
    }
    tokio::time::advance(Duration::from_secs(3)).await;
    assert!(left_alone(&endpoint).await);
    tokio::time::resume();
    assert_eq!(server.requests(), 6, "nobody waits for it");

    for wait_s in [5, 10, 20] {
        later(Duration::from_secs(wait_s)).await;
        assert!(refused(&endpoint).await.contains("it answers 503"));
        assert!(left_alone(&endpoint).await);
    }
    assert_eq!(server.requests(), 9, "one request finds out, and a longer time begins");

    server.be_away(false);
    assert!(left_alone(&endpoint).await, "nobody knows yet");
    later(Duration::from_secs(40)).await;
    endpoint.embed(&["list".to_owned()]).await.unwrap();
    server.refuse_first(&[503, 503]);
    refused(&endpoint).await;
    endpoint.embed(&["list".to_owned()]).await.unwrap();
}

#[tokio::test]
async fn a_text_that_it_does_not_like_does_not_make_it_dead() {
    let server = Embeddings::start(CONCEPTS).await;
    let endpoint = endpoint(&server);
    server.refuse_first(&[400, 422, 413, 400]);
    for _ in 0..4 {
        refused(&endpoint).await;
    }
    endpoint.embed(&["list".to_owned()]).await.unwrap();
    server.refuse_first(&[401, 401, 404, 200]);
    for _ in 0..3 {
        refused(&endpoint).await;
    }
    assert!(left_alone(&endpoint).await, "what is wrong for every text");
}

#[test]
fn an_address_is_looked_at_before_anybody_is_asked() {
    let refused = |url: &str| of(url, 2, Duration::from_secs(1)).err();
    for wrong in ["", "api.example.com", "ftp://api.example.com/v1", "https://"] {
        assert_eq!(refused(wrong), Some(EndpointError::NoAddress(wrong.to_owned())), "{wrong}");
    }
    assert_eq!(refused("https://me:word@api.example.com/v1"), Some(EndpointError::Credentials));
    assert_eq!(refused("https://api.example.com/v1/"), None);
}
