//! Listening on loopback, and stopping in order.

mod connections;

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header, uri::Authority};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::api::Api;
use crate::extract::BODY_BYTES_MAX;
use crate::health::{Probes, Readiness, ReadyCheck, health};
use crate::problem::Problem;
pub(crate) use connections::HeldBody;
use connections::{Bounds, until_stopped};

/// How long requests under way may take after the stop, seconds; then their connections are dropped. An answer here
/// takes milliseconds, so only a client that does not read is still there.
pub const STOP_S_MAX: u64 = 5;

/// When a client may ask again that met a process which still waits, seconds: as often as it looks itself, or nearly.
const WAITING_RETRY_S: u32 = 5;

/// Why the server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not on loopback.
    #[error(
        "refusing to listen on {0}: there are no credentials yet and the tenant is whatever `Retro-Tenant` says, so \
         only loopback is served; use 127.0.0.1 or [::1]"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}; is another process using the port?")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The listener broke.
    #[error("serving HTTP failed: {0}")]
    Io(#[from] std::io::Error),
}

/// Listens on a loopback address; port 0 takes a free one. Fails on any other address before it opens a socket.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    loopback_only(address)?;
    listen_anywhere(address).await
}

/// Listens on any address, for [`serve_health`] and [`serve_signed`] alone; port 0 takes a free one.
pub async fn listen_anywhere(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })
}

/// Serves until `stop`, then lets requests under way end, for at most [`STOP_S_MAX`] seconds. Fails at once when the
/// listener is not on loopback.
pub async fn serve(listener: TcpListener, api: Api, stop: CancellationToken) -> Result<(), ServeError> {
    let address = listener.local_addr()?;
    loopback_only(address)?;
    info!(http.address = %address, "serving HTTP on {address}");
    until_stopped(listener, finished(api), Bounds::HTTP, stop).await;
    Ok(())
}

/// Serves `/livez`, `/readyz` and `/metrics` until `stop`, on whatever address, and nothing else.
pub async fn serve_health(
    listener: TcpListener,
    probes: Probes,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let address = listener.local_addr()?;
    info!(http.address = %address, "serving /livez, /readyz and /metrics on {address}");
    until_stopped(listener, with_problems(health(probes).only_routes()), Bounds::HEALTH, stop).await;
    Ok(())
}

/// Serves some routes until `stop`, and answers every other address by 503 with what `ready` says is missing: for a
/// process that is not put together yet.
pub async fn serve_waiting(listener: TcpListener, api: Api, ready: ReadyCheck, stop: CancellationToken) {
    let waiting = move || {
        let missing = match ready() {
            Readiness::NotReady(missing) => missing,
            Readiness::Ready => "the process is starting".to_owned(),
        };
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not ready", missing);
        std::future::ready(problem.retry_after(WAITING_RETRY_S))
    };
    let router = api.only_routes().fallback(waiting);
    let router = router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).layer(from_fn(local_names_only));
    until_stopped(listener, router, Bounds::HTTP, stop).await;
}

/// Serves routes of which each asks for a credential of its own with every request, until `stop`, on whatever address and under
/// whatever name, and nothing else.
pub async fn serve_signed(
    listener: TcpListener,
    api: Api,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let address = listener.local_addr()?;
    info!(http.address = %address, "serving signed requests on {address}");
    until_stopped(listener, with_problems(api.only_routes()), Bounds::SIGNED, stop).await;
    Ok(())
}

/// The routes as they are served: with their own description, problems for unknown addresses and methods, the body
/// limit, and the check of `Host`. For tests that call a router without a socket; [`serve`] does it by itself.
pub fn finished(api: Api) -> Router {
    let router = with_problems(api.into_router());
    router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).layer(from_fn(local_names_only))
}

fn with_problems(router: Router) -> Router {
    router.fallback(unknown_address).method_not_allowed_fallback(unknown_method)
}

fn loopback_only(address: SocketAddr) -> Result<(), ServeError> {
    if address.ip().is_loopback() { Ok(()) } else { Err(ServeError::NotLoopback(address)) }
}

async fn unknown_address(uri: Uri) -> Problem {
    let detail = format!("nothing is served at {}", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "there is no such address", detail)
}

async fn unknown_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not take {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the method is not taken here", detail)
}

/// A browser sends the name it was told: a page of another site that had its own name resolve to loopback is
/// recognised by it.
async fn local_names_only(request: Request, next: Next) -> Response {
    match named_host(request.headers(), request.uri()) {
        Some(host) if !is_local(&host) => Problem::new(
            StatusCode::FORBIDDEN,
            "the host is not local",
            "only requests for localhost, 127.0.0.1 or [::1] are answered",
        )
        .into_response(),
        _ => next.run(request).await,
    }
}

fn named_host(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    if let Some(host) = uri.host() {
        return Some(host.to_owned());
    }
    let value = headers.get(header::HOST)?;
    // A host that cannot be read is no local one.
    let authority = value.to_str().ok().and_then(|text| text.parse::<Authority>().ok());
    Some(authority.map_or_else(String::new, |authority| authority.host().to_owned()))
}

fn is_local(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests;
