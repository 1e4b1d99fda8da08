//! Listens for connections, serves routes and shuts down gracefully.

mod connections;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::api::Api;
use crate::authentication::{Authenticator, authenticate_requests};
use crate::extract::BODY_BYTES_MAX;
use crate::guard::guard_requests;
use crate::health::{Probes, Readiness, ReadyCheck, health_routes};
use crate::problem::Problem;
use crate::tls::ServerCertificate;
pub(crate) use connections::GuardedBody;
pub use connections::SHUTDOWN_S_MAX;
use connections::{ConnectionLimits, serve_until_stopped};

/// `Retry-After` of a process that is not ready, in seconds: about the interval at which the process itself
/// retries.
const NOT_READY_RETRY_S: u32 = 5;

/// Reason why an HTTP server failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not a loopback address.
    #[error(
        "refusing to listen on {0}: requests without an access token are answered, and the tenant is whatever \
         `Retro-Tenant` says, so only loopback is allowed; use 127.0.0.1 or [::1], or require tokens"
    )]
    NotLoopback(SocketAddr),
    /// The address could not be bound.
    #[error("cannot listen on {address}: {source}; is another process using the port?")]
    Bind {
        /// Requested address.
        address: SocketAddr,
        /// Error from the operating system.
        source: std::io::Error,
    },
    /// The listener failed.
    #[error("serving HTTP failed: {0}")]
    Io(#[from] std::io::Error),
}

/// Listens on a loopback address; port 0 chooses a free port. Fails for any other address without opening a
/// socket.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    require_loopback(address)?;
    listen_anywhere(address).await
}

/// Listens on any address; port 0 chooses a free port. For [`serve_health`], for [`serve_signed`], and for an
/// [`HttpServer`] that requires tokens.
pub async fn listen_anywhere(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })
}

/// Serves the API to whom it authenticates, with TLS if there is a certificate.
#[derive(Clone)]
pub struct HttpServer {
    /// Authenticates requests.
    pub authenticator: Authenticator,
    /// Certificate; `None` serves plain HTTP.
    pub certificate: Option<Arc<ServerCertificate>>,
}

impl HttpServer {
    /// Serves until `stop` is cancelled, then gives requests in progress [`SHUTDOWN_S_MAX`] seconds to finish.
    /// Fails immediately if the listener is not on loopback and requests without a token are answered.
    pub async fn serve(
        self,
        listener: TcpListener,
        api: Api,
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        let address = self.check_address(&listener)?;
        let scheme = url_scheme(self.certificate.as_deref()).to_uppercase();
        info!(http.address = %address, "serving {scheme} on {address}");
        let router = finish_router_for(api, self.authenticator);
        let acceptor = self.certificate.map(|certificate| certificate.acceptor());
        serve_until_stopped(listener, acceptor, router, ConnectionLimits::HTTP, stop).await;
        Ok(())
    }

    /// Serves the routes of `api` until `stop` is cancelled, for a process that is not ready yet. Any other path
    /// gets 503 with the parts that `ready` reports as missing.
    pub async fn serve_not_ready(
        self,
        listener: TcpListener,
        api: Api,
        ready: ReadyCheck,
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        self.check_address(&listener)?;
        let respond = move || {
            let missing = match ready() {
                Readiness::NotReady(missing) => missing,
                Readiness::Ready => "the process is starting".to_owned(),
            };
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not ready", missing);
            std::future::ready(problem.with_retry_after(NOT_READY_RETRY_S))
        };
        let router = guard_router(api.into_bare_router().fallback(respond), self.authenticator);
        let acceptor = self.certificate.map(|certificate| certificate.acceptor());
        serve_until_stopped(listener, acceptor, router, ConnectionLimits::HTTP, stop).await;
        Ok(())
    }

    fn check_address(&self, listener: &TcpListener) -> Result<SocketAddr, ServeError> {
        let address = listener.local_addr()?;
        if !self.authenticator.requires_token() {
            require_loopback(address)?;
        }
        Ok(address)
    }
}

/// Serves only `/livez`, `/readyz` and `/metrics`, on any address, until `stop` is cancelled.
pub async fn serve_health(
    listener: TcpListener,
    probes: Probes,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let address = listener.local_addr()?;
    info!(http.address = %address, "serving /livez, /readyz and /metrics on {address}");
    // Whoever reaches the address may read the metrics.
    let router = with_fallbacks(health_routes(probes).into_bare_router());
    let router = router.layer(from_fn_with_state(Authenticator::trusting_header(), authenticate_requests));
    serve_until_stopped(listener, None, router, ConnectionLimits::HEALTH, stop).await;
    Ok(())
}

/// Serves only routes that verify a signature on every request, on any address and under any host name, until
/// `stop` is cancelled.
pub async fn serve_signed(
    listener: TcpListener,
    api: Api,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let address = listener.local_addr()?;
    info!(http.address = %address, "serving signed requests on {address}");
    let router = with_fallbacks(api.into_bare_router());
    serve_until_stopped(listener, None, router, ConnectionLimits::SIGNED, stop).await;
    Ok(())
}

/// Returns the scheme of the addresses that are served with this certificate, `https`, or without one, `http`.
pub const fn url_scheme(certificate: Option<&ServerCertificate>) -> &'static str {
    if certificate.is_some() { "https" } else { "http" }
}

/// Returns the router as an [`HttpServer`] serves it that trusts `Retro-Tenant` and knows no token. Tests use it to
/// call routes without a socket.
pub fn finish_router(api: Api) -> Router {
    finish_router_for(api, Authenticator::trusting_header())
}

/// Returns the router as an [`HttpServer`] serves it: with the OpenAPI document, problems for unknown paths and
/// methods, authentication, the body limit, and the checks of `Host` and of cross-site requests.
pub fn finish_router_for(api: Api, authenticator: Authenticator) -> Router {
    guard_router(with_fallbacks(api.into_router()), authenticator)
}

fn guard_router(router: Router, authenticator: Authenticator) -> Router {
    let router = router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    // Outside of everything else, so a foreign page learns nothing, not even which routes exist.
    router.layer(from_fn_with_state(authenticator, guard_requests))
}

fn with_fallbacks(router: Router) -> Router {
    router.fallback(answer_not_found).method_not_allowed_fallback(answer_method_not_allowed)
}

fn require_loopback(address: SocketAddr) -> Result<(), ServeError> {
    if address.ip().is_loopback() { Ok(()) } else { Err(ServeError::NotLoopback(address)) }
}

async fn answer_not_found(uri: Uri) -> Problem {
    let detail = format!("nothing is served at {}", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "there is no such address", detail)
}

async fn answer_method_not_allowed(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not allow {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the method is not allowed", detail)
}

#[cfg(test)]
mod tests;
