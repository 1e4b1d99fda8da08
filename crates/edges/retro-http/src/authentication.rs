//! Decides for whom a request speaks and what it may do.
//!
//! **The need.** A tenant must see nothing of another one, from wherever its agents call. On a laptop, nobody wants
//! to set up credentials first.
//!
//! **The design.** A middleware before all routes turns the credential of a request into a [`Principal`]: an access
//! token as `Authorization: Bearer`, or as the password of `Authorization: Basic`, which a browser asks for. A token
//! alone decides the tenant; a `Retro-Tenant` that differs is refused. Without a token, `Retro-Tenant` names the
//! tenant, but only where no token is required, which is on loopback. A token that is refused is never treated as
//! none.
//!
//! What a route needs is declared where it is registered ([`Api::allow`]). A handler gets its tenant from
//! [`Caller`](crate::Caller), which refuses a token that no declaration has checked: a route that somebody forgot to
//! declare answers 403 instead of everything.
//!
//! **Accepted.** A server knows the tokens from its memory, at most [`REVOKED_WITHIN_S`] old, so that an agent waits
//! for no database. A revoked token is accepted until then, and while the database cannot be reached until
//! [`UNREACHABLE_S_MAX`].

mod credential;
mod deciding_token;
mod principal;
mod rate_limit;
mod refusal;
mod registry;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use retro_core::id::Tenant;

use self::credential::{Credential, find_credential};
pub use self::deciding_token::{decide_with, deciding_token};
pub(crate) use self::principal::Allowed;
pub use self::principal::{Caller, Principal, PrincipalToken};
pub use self::refusal::Refusal;
pub use self::registry::{REVOKED_WITHIN_S, TokenRegistry, UNREACHABLE_S_MAX};
use crate::tenant_header::find_tenant_header;

/// Authenticates requests.
#[derive(Clone)]
pub struct Authenticator {
    tokens: Option<Arc<TokenRegistry>>,
    requires_token: bool,
}

impl Authenticator {
    /// Creates an authenticator that trusts `Retro-Tenant` and knows no token. For tests, and for requests that come
    /// from the machine itself.
    pub const fn trusting_header() -> Self {
        Self { tokens: None, requires_token: false }
    }

    /// Creates an authenticator that trusts `Retro-Tenant` in a request without a token.
    pub const fn with_optional_tokens(tokens: Arc<TokenRegistry>) -> Self {
        Self { tokens: Some(tokens), requires_token: false }
    }

    /// Creates an authenticator that refuses each request without a token, except for health and the description of
    /// the API.
    pub const fn with_required_tokens(tokens: Arc<TokenRegistry>) -> Self {
        Self { tokens: Some(tokens), requires_token: true }
    }

    /// Returns `true` if each request needs a token.
    pub const fn requires_token(&self) -> bool {
        self.requires_token
    }

    /// Returns the principal of a request; `None` if it has no token although one is required.
    async fn authenticate(&self, headers: &HeaderMap) -> Result<Option<Principal>, Refusal> {
        let token = match find_credential(headers) {
            Credential::None if self.requires_token => return Ok(None),
            Credential::None => {
                let tenant = find_tenant_header(headers).map_err(Refusal::Unreadable)?;
                return Ok(Some(Principal {
                    tenant: tenant.unwrap_or_else(Tenant::default_tenant),
                    token: None,
                }));
            }
            Credential::Unreadable => return Err(Refusal::InvalidToken),
            Credential::Token(token) => token,
        };
        let tokens = self.tokens.as_ref().ok_or(Refusal::InvalidToken)?;
        let principal = tokens.verify(&token).await?;
        match find_tenant_header(headers).map_err(Refusal::Unreadable)? {
            Some(named) if named != principal.tenant => Err(Refusal::OtherTenant),
            _ => Ok(Some(principal)),
        }
    }
}

/// Adds the principal to a request. Answers one with a wrong credential itself.
pub(crate) async fn authenticate_requests(
    State(authenticator): State<Authenticator>,
    mut request: Request,
    next: Next,
) -> Response {
    match authenticator.authenticate(request.headers()).await {
        Ok(principal) => {
            let token = principal.as_ref().and_then(Principal::decision_token);
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            decide_with(token, next.run(request)).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

#[cfg(test)]
mod tests;
