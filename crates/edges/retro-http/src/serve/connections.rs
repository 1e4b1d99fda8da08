//! Serves a limited number of connections, each with limited time and memory for its request.
//!
//! **The need.** Anyone who can reach the port can open connections and send nothing, a byte now and then, or
//! endless headers. Each connection takes a task and a file descriptor, which the database and the broker
//! also need.
//!
//! **The design.** A listener has a fixed number of connection slots. If all are taken, a new connection gets
//! the slot of the connection that has gone longest without a complete request ([`table`]). Slow heads,
//! trickling bodies, clients that do not read and idle keep-alive connections therefore block nobody, while a
//! body or a response that makes progress is not evicted. While every connection is being answered, the next
//! one waits and each response closes its connection; otherwise a client that keeps its connections busy, as
//! a proxy does, would keep every slot forever. A connection also ends if a head is not complete in time, if
//! the pause between two requests is too long, or if the client reads nothing of its response. Handlers limit
//! the time and size of a request's body, because they know what the body is.
//!
//! **An accepted race.** A keep-alive connection may be evicted just as its client sends the next request.
//! The client sees a closed keep-alive connection, as with any server, and retries.

mod limits;
mod table;
mod watched;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{CONNECTION, HOST};
use axum::http::{HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse as _, Response};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use tracing::{debug, warn};

use crate::problem::Problem;
pub(crate) use limits::ConnectionLimits;
use table::{ConnectionTable, Slot};
pub(crate) use watched::GuardedBody;
use watched::{RequestProgress, Transport, WatchedStream};

/// Grace period for requests in progress after the stop signal, in seconds; then their connections are
/// dropped. Responses take milliseconds, so only clients that do not read are left by then.
pub const SHUTDOWN_S_MAX: u64 = 5;

/// Delay after a failed accept, such as one caused by too many open files.
const ACCEPT_RETRY_WAIT: Duration = Duration::from_secs(1);

/// Serves until `stop` is cancelled, then gives requests in progress [`SHUTDOWN_S_MAX`] seconds to finish.
pub(super) async fn serve_until_stopped(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    bounds: ConnectionLimits,
    stop: CancellationToken,
) {
    let (table, open) = (ConnectionTable::new(bounds.connections_max), TaskTracker::new());
    let cancel = CancellationToken::new();
    // Drops the connections that are still open when this function returns.
    let _ends = cancel.clone().drop_guard();
    let next = async || {
        // Accept first: an open connection must not lose its slot before there is a new one to take it.
        let stream = accept_connection(&listener).await;
        (table.wait_for_slot().await, stream)
    };
    while let Some((slot, stream)) = stop.run_until_cancelled(next()).await {
        let (acceptor, router, stop) = (acceptor.clone(), router.clone(), stop.clone());
        let serving = async move {
            let evicted = slot.evicted.clone();
            let accepting = accept_transport(stream, acceptor, bounds);
            match evicted.run_until_cancelled(accepting).await.flatten() {
                Some(stream) => serve_connection(stream, router, slot, bounds, stop).await,
                None => debug!("a connection ended before its first request"),
            }
        };
        open.spawn(cancel.clone().run_until_cancelled_owned(serving));
    }
    // Closed before the wait, so new connections are refused instead of hanging.
    drop(listener);
    open.close();
    if tokio::time::timeout(Duration::from_secs(SHUTDOWN_S_MAX), open.wait()).await.is_err() {
        warn!("HTTP connections were still open {SHUTDOWN_S_MAX} s after the shutdown began and are dropped");
    }
}

/// Waits for the next connection and retries failed accepts.
async fn accept_connection(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The client has already closed the connection, so there is nothing to report.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => {
                warn!("no connection can be accepted: {error}");
                tokio::time::sleep(ACCEPT_RETRY_WAIT).await;
            }
        }
    }
}

/// Shakes hands with a client that speaks TLS, within the time of a request's head.
async fn accept_transport(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    bounds: ConnectionLimits,
) -> Option<Transport> {
    let Some(acceptor) = acceptor else { return Some(Transport::Left(stream)) };
    match tokio::time::timeout(bounds.head_timeout, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(Transport::Right(Box::new(stream))),
        Ok(Err(problem)) => {
            debug!("a TLS handshake failed: {problem}");
            None
        }
        Err(_) => None,
    }
}

/// Serves the requests of a connection until either side closes it or its slot is given to another
/// connection.
async fn serve_connection(
    stream: Transport,
    router: Router,
    slot: Slot,
    bounds: ConnectionLimits,
    stop: CancellationToken,
) {
    let evicted = slot.evicted.clone();
    let progress = RequestProgress::new(slot);
    let stream = WatchedStream::new(stream, progress.clone(), bounds);
    let answer = service_fn(move |request: Request<Incoming>| {
        let (router, progress) = (router.clone(), progress.clone());
        async move {
            let names_host = names_one_host(&request);
            let request = request.map(|body| progress.begin_request(Body::new(body)));
            let mut response = match names_host {
                true => router.oneshot(request).await?,
                false => refuse_unclear_host(),
            };
            // While others wait, a keep-alive connection would keep its slot forever.
            if !names_host || closes_connection(response.status()) || progress.slot.has_waiter() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| progress.watch_answer(body)))
        }
    });
    let mut http = http1::Builder::new();
    // hyper's head timeout includes the pause before the head.
    let head_read = bounds.idle_timeout + bounds.head_timeout;
    http.timer(TokioTimer::new()).header_read_timeout(head_read).max_buf_size(bounds.head_bytes_max);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = evicted.cancelled() => {
            debug!("a connection without a complete request was closed for a new one");
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

/// Returns `true` unless a request of HTTP/1.1 names no host or several ones: a proxy before the server may have read
/// another one (RFC 9112, section 3.2).
fn names_one_host<B>(request: &Request<B>) -> bool {
    request.version() != Version::HTTP_11 || request.headers().get_all(HOST).iter().count() == 1
}

fn refuse_unclear_host() -> Response {
    let detail = "a request of HTTP/1.1 names its host in one `Host` header";
    Problem::new(StatusCode::BAD_REQUEST, "the host is unclear", detail).into_response()
}

/// Returns `true` if the connection must close after this response because the request's body was not read to
/// its end.
fn closes_connection(status: StatusCode) -> bool {
    [StatusCode::REQUEST_TIMEOUT, StatusCode::PAYLOAD_TOO_LARGE].contains(&status)
}

#[cfg(test)]
mod tests;
