use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::routing::get;
use futures::StreamExt as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;

use super::*;

const ASKED: &[u8] = b"GET /here HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// A server for one test, to be shut down with `stop`.
struct TestServer {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl TestServer {
    async fn start(router: Router, bounds: ConnectionLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let serving = tokio::spawn(serve_until_stopped(listener, None, router, bounds, stop.clone()));
        Self { address, stop, serving }
    }

    /// Sends these bytes and returns everything received until the server closes the connection.
    async fn send_bytes(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may close before it has read everything; its response still counts.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn stop(self) {
        self.stop.cancel();
        self.serving.await.unwrap();
    }
}

fn test_router() -> Router {
    Router::new().route("/here", get(|| async { "here" }))
}

#[tokio::test]
async fn a_head_that_is_not_complete_in_time_gets_408_and_is_closed() {
    let bounds = ConnectionLimits {
        head_timeout: Duration::from_millis(200),
        idle_timeout: Duration::from_secs(3600),
        ..ConnectionLimits::HTTP
    };
    let served = TestServer::start(test_router(), bounds).await;
    assert!(served.send_bytes(ASKED).await.starts_with("HTTP/1.1 200"), "positive control");
    for said in [&b"GET /here HTTP/1.1\r\nhost: loc"[..], &ASKED[..ASKED.len() - 2]] {
        let answer = served.send_bytes(said).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    // The second request on a connection has the same timeout as the first.
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /here HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"here") {
        stream.read_buf(&mut answer).await.unwrap();
    }
    stream.write_all(b"GET /he").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    served.stop().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let time = Duration::from_millis(200);
    let bounds = ConnectionLimits { head_timeout: time, idle_timeout: time, ..ConnectionLimits::HTTP };
    let served = TestServer::start(test_router(), bounds).await;
    assert_eq!(served.send_bytes(b"").await, "");
    let kept = served.send_bytes(b"GET /here HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(kept.ends_with("here"), "answered, and closed once idle: {kept}");
    served.stop().await;
}

#[tokio::test]
async fn endless_headers_are_refused() {
    let served = TestServer::start(test_router(), ConnectionLimits::HTTP).await;
    let mut endless = b"GET /here HTTP/1.1\r\nhost: localhost\r\nx-long: ".to_vec();
    endless.resize(endless.len() + 1024 * 1024, b'a');
    // The server may close the connection while the client is still sending, so the response may be lost.
    let answer = served.send_bytes(&endless).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let long = "a".repeat(ConnectionLimits::HTTP.head_bytes_max);
    let answer = served.send_bytes(format!("GET /here HTTP/1.1\r\nx-long: {long}").as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many: String = (0..200).map(|nth| format!("x-{nth}: 1\r\n")).collect();
    let answer = served.send_bytes(format!("GET /here HTTP/1.1\r\n{many}\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert!(served.send_bytes(ASKED).await.ends_with("here"), "the next connection is answered");
    served.stop().await;
}

#[tokio::test]
async fn connections_stay_within_the_limit_and_waiting_ones_are_answered() {
    let (inside, most, entered) = (AtomicUsize::new(0), AtomicUsize::new(0), Notify::new());
    let counts = Arc::new((inside, most, entered));
    let (open, gate) = watch::channel(false);
    let handler = {
        let counts = counts.clone();
        move || {
            let (counts, mut gate) = (counts.clone(), gate.clone());
            async move {
                let now = counts.0.fetch_add(1, Ordering::SeqCst) + 1;
                counts.1.fetch_max(now, Ordering::SeqCst);
                counts.2.notify_one();
                gate.wait_for(|open| *open).await.unwrap();
                counts.0.fetch_sub(1, Ordering::SeqCst);
                "here"
            }
        }
    };
    let bounds = ConnectionLimits { connections_max: 2, ..ConnectionLimits::HTTP };
    let served = Arc::new(TestServer::start(Router::new().route("/here", get(handler)), bounds).await);
    let ask = |_| {
        let served = served.clone();
        tokio::spawn(async move { served.send_bytes(ASKED).await })
    };
    let asking: Vec<_> = (0..6).map(ask).collect();
    while counts.0.load(Ordering::SeqCst) < 2 {
        counts.2.notified().await;
    }
    // Everything runs on one thread, so the other connections have had every chance to be admitted.
    for _ in 0..2000 {
        tokio::task::yield_now().await;
    }
    open.send(true).unwrap();
    for one in asking {
        assert!(one.await.unwrap().ends_with("here"));
    }
    assert_eq!(counts.1.load(Ordering::SeqCst), 2);
    Arc::into_inner(served).expect("no request is left").stop().await;
}

/// Returns a router that signals when it processes a request and finishes one request per permit.
fn blocking_router() -> (Router, Arc<Semaphore>, Arc<Semaphore>) {
    let (entered, go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handler = {
        let (entered, go_on) = (entered.clone(), go_on.clone());
        move || async move {
            entered.add_permits(1);
            go_on.acquire().await.unwrap().forget();
            "here"
        }
    };
    (Router::new().route("/here", get(handler)), entered, go_on)
}

/// Otherwise a client that reuses its connection would keep the slot forever.
#[tokio::test]
async fn while_a_connection_waits_each_answer_frees_its_slot() {
    const KEPT: &[u8] = b"GET /here HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let bounds = ConnectionLimits {
        connections_max: 1,
        idle_timeout: Duration::from_secs(3600),
        head_timeout: Duration::from_secs(3600),
        ..ConnectionLimits::HTTP
    };
    let (router, entered, go_on) = blocking_router();
    let served = Arc::new(TestServer::start(router, bounds).await);
    let ask = || {
        let served = served.clone();
        tokio::spawn(async move { served.send_bytes(KEPT).await })
    };
    let first = ask();
    entered.acquire().await.unwrap().forget();
    let second = ask();
    // Everything runs on one thread, so the second connection has had every chance to be accepted; it waits.
    for _ in 0..2000 {
        tokio::task::yield_now().await;
    }
    go_on.add_permits(2);
    let said = first.await.unwrap();
    assert!(said.contains("connection: close") && said.ends_with("here"), "{said}");
    entered.acquire().await.unwrap().forget();
    // No connection waits behind the second one, so it stays open until another arrives.
    go_on.add_permits(1);
    assert!(served.send_bytes(ASKED).await.ends_with("here"));
    assert!(second.await.unwrap().ends_with("here"), "its slot was given away, and its answer was complete");
    Arc::into_inner(served).expect("no request is left").stop().await;
}

#[tokio::test]
async fn slow_heads_slow_bodies_and_idle_connections_block_nobody() {
    let bounds = ConnectionLimits {
        connections_max: 3,
        idle_timeout: Duration::from_secs(3600),
        head_timeout: Duration::from_secs(3600),
        ..ConnectionLimits::HTTP
    };
    let router =
        test_router().route("/body", axum::routing::post(|body: axum::body::Bytes| async move { body }));
    let served = TestServer::start(router, bounds).await;
    let mut idle = Vec::new();
    for said in [
        &b""[..],
        b"GET /here HTTP/1.1\r\nhost: loc",
        b"POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n1",
        b"POST /body HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n",
        b"GET /here HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(said).await.unwrap();
        idle.push(stream);
    }
    // These connections have a timeout of an hour: if they kept their slots, no other connection would get
    // one.
    for _ in 0..3 {
        assert!(served.send_bytes(ASKED).await.ends_with("here"));
    }
    drop(idle);
    served.stop().await;
}

#[tokio::test]
async fn a_client_that_never_reads_its_answer_loses_its_connection() {
    let bounds = ConnectionLimits {
        connections_max: 1,
        write_timeout: Duration::from_millis(200),
        ..ConnectionLimits::HTTP
    };
    let endless = || async {
        let piece = axum::body::Bytes::from(vec![b'x'; 1 << 20]);
        Body::from_stream(futures::stream::repeat(piece).map(Ok::<_, Infallible>))
    };
    let served = TestServer::start(test_router().route("/endless", get(endless)), bounds).await;
    let mut deaf = TcpStream::connect(served.address).await.unwrap();
    deaf.write_all(b"GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(served.send_bytes(ASKED).await.ends_with("here"), "its slot is free again");
    served.stop().await;
}

#[tokio::test]
async fn a_request_names_one_host() {
    let server = TestServer::start(test_router(), ConnectionLimits::HTTP).await;
    for (hosts, status) in [("", "400"), ("host: a\r\nhost: a\r\n", "400"), ("host: a\r\n", "200")] {
        let request = format!("GET /here HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        let answer = server.send_bytes(request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{hosts:?}: {answer}");
    }
    let old = server.send_bytes(b"GET /here HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 200"), "no host is needed there: {old}");
    server.stop().await;
}
