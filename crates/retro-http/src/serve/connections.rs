//! Connections, of which there are never more than so many, each with a bounded time and room to say what it wants.
//!
//! **The need.** Whoever can reach the port can open connections and say nothing, or a byte now and then, or headers
//! without end. Each is a file and a task of this process, and the files that are left for the database and the broker
//! are the same ones.
//!
//! **The design.** There are never more connections than so many. Whoever comes when there is no place is given that of the
//! connection that has been without a whole request longest ([`table`]); so slow heads, bodies that come by the byte, clients that do not read and connections that are kept and
//! not used keep nobody waiting, and a body or an answer that makes progress is not among them. While every connection is being answered the next one waits,
//! and each answer ends its connection: whoever keeps connections and uses them all the time, as a proxy does, would hold every place for
//! ever. A head that is not whole in time, a silence between two requests, and a client that takes nothing of its answer end their
//! connection as well. What a request's body may take in time and room is the handler's to say, who knows what it is.
//!
//! **A race that is accepted.** A kept connection may be given away just when its client sends the next request. It is told as
//! any server tells that a kept connection is over, and clients send again.

mod table;
mod watched;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use tracing::{debug, warn};

use super::STOP_S_MAX;
use table::{ConnectionTable, Place};
pub(crate) use watched::HeldBody;
use watched::{Progress, WatchedStream};

/// How long to wait when the system has no connection to give, such as when too many files are open.
const NO_CONNECTION_WAIT: Duration = Duration::from_secs(1);

/// What connections may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How many there are at once.
    pub(crate) connections: usize,
    /// How long a head may take to arrive, from its first byte on.
    pub(crate) head: Duration,
    /// How long nothing may be said before a head.
    pub(crate) silence: Duration,
    /// The largest head, in bytes; above it the answer is 431.
    pub(crate) head_bytes: usize,
    /// How long a client may take nothing of its answer.
    pub(crate) write: Duration,
}

impl Bounds {
    /// Agents and people: half of the 1,024 files that a process may commonly have open. A head comes in one piece from every usual client, and
    /// 64 KiB is eight times what the usual servers take; an agent that asks every few seconds keeps its connection.
    pub(crate) const HTTP: Self = Self {
        connections: 512,
        head: Duration::from_secs(5),
        silence: Duration::from_secs(15),
        head_bytes: 64 * 1024,
        write: Duration::from_secs(10),
    };
    /// Webhooks: GitHub sends few at once.
    pub(crate) const SIGNED: Self = Self { connections: 128, ..Self::HTTP };
    /// A probe and a scraper.
    pub(crate) const HEALTH: Self = Self { connections: 32, ..Self::HTTP };
}

/// Serves until `stop`, then lets requests under way end, for at most [`STOP_S_MAX`] seconds.
pub(super) async fn until_stopped(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: CancellationToken,
) {
    let (table, open) = (ConnectionTable::new(bounds.connections), TaskTracker::new());
    let gone = CancellationToken::new();
    // Whatever is still open when this ends is dropped with it.
    let _ends = gone.clone().drop_guard();
    let next = async || {
        let stream = accept(&listener).await;
        (table.admit().await, stream)
    };
    while let Some((place, stream)) = stop.run_until_cancelled(next()).await {
        let (router, stop, gone) = (router.clone(), stop.clone(), gone.clone());
        open.spawn(gone.run_until_cancelled_owned(converse(stream, router, place, bounds, stop)));
    }
    drop(listener);
    open.close();
    if tokio::time::timeout(Duration::from_secs(STOP_S_MAX), open.wait()).await.is_err() {
        warn!("HTTP connections were still open {STOP_S_MAX} s after the stop and are dropped");
    }
}

/// The next connection, however long it takes.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Its client has changed its mind.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => {
                warn!("no connection can be taken: {error}");
                tokio::time::sleep(NO_CONNECTION_WAIT).await;
            }
        }
    }
}

/// Answers one request after the other until either side has enough, or the place is another's.
async fn converse(stream: TcpStream, router: Router, place: Place, bounds: Bounds, stop: CancellationToken) {
    let evicted = place.evicted.clone();
    let progress = Progress::new(place);
    let stream = WatchedStream::new(stream, progress.clone(), bounds);
    let answer = service_fn(move |request: Request<Incoming>| {
        let (router, progress) = (router.clone(), progress.clone());
        async move {
            let request = request.map(|body| progress.begin_request(Body::new(body)));
            let mut response = router.oneshot(request).await?;
            if is_last(response.status()) || progress.place.is_waited_for() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| progress.watch_answer(body)))
        }
    });
    let mut http = http1::Builder::new();
    // Its own time for a head counts the silence before it as well.
    let head_read = bounds.silence + bounds.head;
    http.timer(TokioTimer::new()).header_read_timeout(head_read).max_buf_size(bounds.head_bytes);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = evicted.cancelled() => {
            debug!("a connection without a whole request made place for the next one");
            return;
        }
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(problem) = ended {
        debug!("an HTTP connection ended: {problem}");
    }
}

/// Whether what is left of the request's body is not waited for.
fn is_last(status: StatusCode) -> bool {
    [StatusCode::REQUEST_TIMEOUT, StatusCode::PAYLOAD_TOO_LARGE].contains(&status)
}

#[cfg(test)]
mod tests;
