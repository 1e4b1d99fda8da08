//! Connections, of which there are never more than so many, each with a bounded time and room to say what it wants.
//!
//! **The need.** Whoever can reach the port can open connections and say nothing, or a byte now and then, or headers
//! without end. Each is a file and a task of this process, and the files that are left for the database and the broker
//! are the same ones.
//!
//! **The design.** A place is taken before a connection is: whoever comes when there is none waits with the system, where
//! it costs nothing here, and gives up when it likes. A connection that has not brought a whole head in time is closed,
//! and one that says nothing between two requests as well, so that places come back whatever clients do. While none is left, each
//! answer ends its connection: whoever keeps connections and uses them all the time, as a proxy does, would hold every place for
//! ever, and whoever waits behind them would be answered by nobody. What a request's
//! body may take in time and room is the handler's to say, who knows what it is.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use tracing::{debug, warn};

use super::STOP_S_MAX;

/// How long to wait when the system has no connection to give, such as when too many files are open.
const NO_CONNECTION_WAIT: Duration = Duration::from_secs(1);

/// What connections may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How many there are at once.
    pub(crate) connections: usize,
    /// How long a head may take to arrive, and how long nothing may be said between two requests.
    pub(crate) head_read: Duration,
    /// The largest head, in bytes; above it the answer is 431.
    pub(crate) head_bytes: usize,
}

impl Default for Bounds {
    /// Half of the 1,024 files that a process may commonly have open; longer than any client needs for a head, which GitHub
    /// sends at once and is to be answered within 10 s; and eight times what the usual servers take as headers.
    fn default() -> Self {
        Self { connections: 512, head_read: Duration::from_secs(15), head_bytes: 64 * 1024 }
    }
}

/// Serves until `stop`, then lets requests under way end, for at most [`STOP_S_MAX`] seconds.
pub(super) async fn until_stopped(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: CancellationToken,
) {
    let (room, open) = (Arc::new(Semaphore::new(bounds.connections)), TaskTracker::new());
    let gone = CancellationToken::new();
    // Whatever is still open when this ends is dropped with it.
    let _ends = gone.clone().drop_guard();
    let next = async || {
        if room.available_permits() == 0 {
            debug!("{} connections are open: the next one waits", bounds.connections);
        }
        let place = room.clone().acquire_owned().await.expect("it is never closed");
        (place, accept(&listener).await)
    };
    while let Some((place, stream)) = stop.run_until_cancelled(next()).await {
        let (router, room) = (router.clone(), room.clone());
        let (stop, gone) = (stop.clone(), gone.clone());
        open.spawn(async move {
            gone.run_until_cancelled(converse(stream, router, room, bounds, stop)).await;
            drop(place);
        });
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

/// Answers one request after the other until either side has enough.
async fn converse(
    stream: TcpStream,
    router: Router,
    room: Arc<Semaphore>,
    bounds: Bounds,
    stop: CancellationToken,
) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let (router, room) = (router.clone(), room.clone());
        async move {
            let mut response = router.oneshot(request.map(Body::new)).await?;
            if room.available_permits() == 0 {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(bounds.head_read).max_buf_size(bounds.head_bytes);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(problem) = ended {
        debug!("an HTTP connection ended: {problem}");
    }
}

#[cfg(test)]
mod tests;
