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

/// A server of its own, which is stopped at the end of its test.
struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Served {
    async fn start(router: Router, bounds: Bounds) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let serving = tokio::spawn(until_stopped(listener, router, bounds, stop.clone()));
        Self { address, stop, serving }
    }

    /// Says these bytes, and returns everything that comes until the server closes the connection.
    async fn say(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // It may close before it has taken everything, and its answer counts all the same.
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

fn here() -> Router {
    Router::new().route("/here", get(|| async { "here" }))
}

#[tokio::test]
async fn a_head_that_is_not_whole_in_time_is_told_so_and_its_connection_ends() {
    let bounds =
        Bounds { head: Duration::from_millis(200), silence: Duration::from_secs(3600), ..Bounds::HTTP };
    let served = Served::start(here(), bounds).await;
    assert!(served.say(ASKED).await.starts_with("HTTP/1.1 200"), "positive control");
    for said in [&b"GET /here HTTP/1.1\r\nhost: loc"[..], &ASKED[..ASKED.len() - 2]] {
        let answer = served.say(said).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    // A second request of a connection has as long as the first.
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
async fn a_silence_ends_its_connection() {
    let time = Duration::from_millis(200);
    let bounds = Bounds { head: time, silence: time, ..Bounds::HTTP };
    let served = Served::start(here(), bounds).await;
    assert_eq!(served.say(b"").await, "");
    let kept = served.say(b"GET /here HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(kept.ends_with("here"), "answered, and closed once nothing more was said: {kept}");
    served.stop().await;
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let served = Served::start(here(), Bounds::HTTP).await;
    let mut endless = b"GET /here HTTP/1.1\r\nhost: localhost\r\nx-long: ".to_vec();
    endless.resize(endless.len() + 1024 * 1024, b'a');
    // One that does not fit what the sockets hold may find them closed before it reads why.
    let answer = served.say(&endless).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let long = "a".repeat(Bounds::HTTP.head_bytes);
    let answer = served.say(format!("GET /here HTTP/1.1\r\nx-long: {long}").as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many: String = (0..200).map(|nth| format!("x-{nth}: 1\r\n")).collect();
    let answer = served.say(format!("GET /here HTTP/1.1\r\n{many}\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert!(served.say(ASKED).await.ends_with("here"), "whoever comes after is answered");
    served.stop().await;
}

#[tokio::test]
async fn there_are_never_more_connections_than_there_may_be_and_who_waits_is_answered() {
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
    let bounds = Bounds { connections: 2, ..Bounds::HTTP };
    let served = Arc::new(Served::start(Router::new().route("/here", get(handler)), bounds).await);
    let ask = |_| {
        let served = served.clone();
        tokio::spawn(async move { served.say(ASKED).await })
    };
    let asking: Vec<_> = (0..6).map(ask).collect();
    while counts.0.load(Ordering::SeqCst) < 2 {
        counts.2.notified().await;
    }
    // Everything here runs in one thread: the others have every chance to come in, too.
    for _ in 0..2000 {
        tokio::task::yield_now().await;
    }
    open.send(true).unwrap();
    for one in asking {
        assert!(one.await.unwrap().ends_with("here"));
    }
    assert_eq!(counts.1.load(Ordering::SeqCst), 2);
    Arc::into_inner(served).expect("nobody asks any more").stop().await;
}

/// A router that says when a request is at work, and goes on with each for one permit.
fn held() -> (Router, Arc<Semaphore>, Arc<Semaphore>) {
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

/// Who keeps a connection would otherwise hold the place for as long as it is used.
#[tokio::test]
async fn while_somebody_waits_each_answer_gives_its_own_place_back() {
    const KEPT: &[u8] = b"GET /here HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let bounds = Bounds {
        connections: 1,
        silence: Duration::from_secs(3600),
        head: Duration::from_secs(3600),
        ..Bounds::HTTP
    };
    let (router, entered, go_on) = held();
    let served = Arc::new(Served::start(router, bounds).await);
    let ask = || {
        let served = served.clone();
        tokio::spawn(async move { served.say(KEPT).await })
    };
    let first = ask();
    entered.acquire().await.unwrap().forget();
    let second = ask();
    // Everything here runs in one thread: the second has every chance to be accepted, and waits.
    for _ in 0..2000 {
        tokio::task::yield_now().await;
    }
    go_on.add_permits(2);
    let said = first.await.unwrap();
    assert!(said.contains("connection: close") && said.ends_with("here"), "{said}");
    entered.acquire().await.unwrap().forget();
    // Nobody waits behind the second: it may be kept, until somebody comes.
    go_on.add_permits(1);
    assert!(served.say(ASKED).await.ends_with("here"));
    assert!(second.await.unwrap().ends_with("here"), "its place was another's, and its answer was whole");
    Arc::into_inner(served).expect("nobody asks any more").stop().await;
}

#[tokio::test]
async fn heads_and_bodies_that_come_by_the_byte_and_silence_keep_nobody_waiting() {
    let bounds = Bounds {
        connections: 3,
        silence: Duration::from_secs(3600),
        head: Duration::from_secs(3600),
        ..Bounds::HTTP
    };
    let router = here().route("/body", axum::routing::post(|body: axum::body::Bytes| async move { body }));
    let served = Served::start(router, bounds).await;
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
    // Without a place of theirs nobody else would ever have one: they have an hour.
    for _ in 0..3 {
        assert!(served.say(ASKED).await.ends_with("here"));
    }
    drop(idle);
    served.stop().await;
}

#[tokio::test]
async fn a_client_that_never_reads_its_answer_loses_its_connection() {
    let bounds = Bounds { connections: 1, write: Duration::from_millis(200), ..Bounds::HTTP };
    let endless = || async {
        let piece = axum::body::Bytes::from(vec![b'x'; 1 << 20]);
        Body::from_stream(futures::stream::repeat(piece).map(Ok::<_, Infallible>))
    };
    let served = Served::start(here().route("/endless", get(endless)), bounds).await;
    let mut deaf = TcpStream::connect(served.address).await.unwrap();
    deaf.write_all(b"GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(served.say(ASKED).await.ends_with("here"), "its place is free again");
    served.stop().await;
}
