//! For whom a request speaks.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use retro_core::access::{AccessScope, AccessScopes, TokenId, TokenName};
use retro_core::id::Tenant;

use super::refusal::Refusal;

/// For whom a request speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Tenant that the request may see.
    pub tenant: Tenant,
    /// Token of the request; `None` for a request without one, which may do everything.
    pub token: Option<PrincipalToken>,
}

/// Token by which a request was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrincipalToken {
    /// Public part of the token.
    pub id: TokenId,
    /// Name of the token.
    pub name: TokenName,
    /// What the token allows.
    pub scopes: AccessScopes,
}

/// Marks a request whose principal may use the route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed;

impl Principal {
    /// Returns `true` if the principal may do what needs `scope`.
    pub fn allows(&self, scope: AccessScope) -> bool {
        self.token.as_ref().is_none_or(|token| token.scopes.allows(scope))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Principal {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        match parts.extensions.get::<Self>() {
            None => Err(Refusal::MissingToken),
            // Nobody has declared what the route needs.
            Some(Self { token: Some(_), .. }) if parts.extensions.get::<Allowed>().is_none() => {
                Err(Refusal::InsufficientScope(&[]))
            }
            Some(principal) => Ok(principal.clone()),
        }
    }
}

/// The tenant of a request, once its principal is allowed to use the route: that of the access token, or without one
/// the `Retro-Tenant` header's, or `default`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller(pub Tenant);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        Principal::from_request_parts(parts, state).await.map(|principal| Self(principal.tenant))
    }
}
