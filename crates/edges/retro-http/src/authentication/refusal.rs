//! Answers a request that is not answered for the principal that it claims.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use retro_core::access::AccessScope;
use retro_telemetry::metrics::HTTP_REFUSED;
use tracing::debug;

use crate::problem::Problem;

/// Credentials that a client may send.
const CHALLENGE: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"retrospect\", Basic realm=\"retrospect\"");
/// `Retry-After` in seconds of a token that has sent too many requests.
const RETRY_SOON_S: u32 = 1;

/// Reason why a request is not answered for the principal that it claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The request has no token, and one is required.
    MissingToken,
    /// The token is unknown, revoked or expired, or the header cannot be read.
    InvalidToken,
    /// The header `Retro-Tenant` names another tenant than the token's.
    OtherTenant,
    /// The token does not allow the route.
    InsufficientScope(&'static [AccessScope]),
    /// The token has sent too many requests.
    TooManyRequests,
    /// The database cannot be asked about the token.
    Unavailable,
    /// The request cannot be read.
    Unreadable(Problem),
}

impl Refusal {
    /// Returns the value of the metric's label.
    const fn reason(&self) -> &'static str {
        match self {
            Self::MissingToken => "missing_token",
            Self::InvalidToken => "invalid_token",
            Self::OtherTenant => "other_tenant",
            Self::InsufficientScope(_) => "insufficient_scope",
            Self::TooManyRequests => "too_many_requests",
            Self::Unavailable => "unavailable",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let reason = self.reason();
        HTTP_REFUSED.add(1, [reason]);
        debug!(reason, "a request was refused: {reason}");
        let unauthorized = |detail: &str| {
            let problem = Problem::new(StatusCode::UNAUTHORIZED, "the request is not authenticated", detail);
            let mut response = problem.with_code(reason).into_response();
            response.headers_mut().insert(header::WWW_AUTHENTICATE, CHALLENGE);
            response
        };
        match self {
            Self::MissingToken => unauthorized(
                "send an access token as `Authorization: Bearer retro_…`; `retro tokens create` makes one",
            ),
            // The same for each reason, so nobody learns which tokens exist.
            Self::InvalidToken => unauthorized(
                "the access token is unknown, revoked or expired; `retro tokens list` shows those of a tenant",
            ),
            Self::OtherTenant => Problem::new(
                StatusCode::FORBIDDEN,
                "the token is of another tenant",
                "the access token decides the tenant: leave out `Retro-Tenant`",
            )
            .with_code(reason)
            .into_response(),
            Self::InsufficientScope(scopes) => {
                let names: Vec<_> = scopes.iter().map(|scope| format!("`{}`", scope.as_str())).collect();
                let detail = match names.as_slice() {
                    [] => "no access token allows this address".to_owned(),
                    names => format!("the access token needs the scope {}", names.join(" or ")),
                };
                Problem::new(StatusCode::FORBIDDEN, "the token does not allow it", detail)
                    .with_code(reason)
                    .into_response()
            }
            Self::TooManyRequests => Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too many requests",
                "the access token has sent more requests than `token_requests_per_s` allows",
            )
            .with_code(reason)
            .with_retry_after(RETRY_SOON_S)
            .into_response(),
            Self::Unavailable => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the token cannot be checked",
                "the database does not answer, and this process has not seen the access token before",
            )
            .with_code(reason)
            .with_retry_after(RETRY_SOON_S)
            .into_response(),
            Self::Unreadable(problem) => problem.into_response(),
        }
    }
}
