//! Storage port of access tokens, the credentials of the HTTP API.

use std::time::Duration;

use async_trait::async_trait;
use retro_core::access::{AccessScopes, AccessToken, TokenDigest, TokenId, TokenName};
use retro_core::attribution::Attribution;
use retro_core::id::Tenant;

use crate::Result;

/// A token to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccessToken {
    /// Public part of the token.
    pub id: TokenId,
    /// SHA-256 of the whole token.
    pub digest: TokenDigest,
    /// Tenant that the token speaks for.
    pub tenant: Tenant,
    /// Name, unique among the tokens of the tenant that are not revoked.
    pub name: TokenName,
    /// What the token allows.
    pub scopes: AccessScopes,
    /// Time for which the token is valid, from now on by the database's clock; `None` for ever.
    pub valid_for: Option<Duration>,
    /// Who creates the token, when and why.
    pub created: Attribution,
}

/// Outcome of creating a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateTokenResult {
    /// The token was created.
    Created(Box<AccessToken>),
    /// Another token of the tenant has the name and is not revoked.
    NameTaken,
    /// The tenant has [`retro_core::access::TENANT_TOKENS_MAX`] tokens that are not revoked.
    TooMany,
}

/// A token that is neither revoked nor expired, as a server checks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsableToken {
    /// Public part of the token.
    pub id: TokenId,
    /// Name of the token.
    pub name: TokenName,
    /// SHA-256 of the whole token.
    pub digest: TokenDigest,
    /// Tenant that the token speaks for.
    pub tenant: Tenant,
    /// What the token allows.
    pub scopes: AccessScopes,
    /// Time until the token expires, by the database's clock; `None` if it never does.
    pub valid_for: Option<Duration>,
}

/// Stores access tokens. A row is never deleted, so it says for ever who created and revoked the token.
#[async_trait]
pub trait AccessTokenStore: Send + Sync {
    /// Creates a token.
    async fn create_access_token(&self, token: &NewAccessToken) -> Result<CreateTokenResult>;

    /// Lists the tokens of a tenant, also revoked and expired ones: the newest first, at most `limit`.
    async fn list_access_tokens(&self, tenant: &Tenant, limit: u32) -> Result<Vec<AccessToken>>;

    /// Revokes a token. Returns `false` if the tenant has no token with this id, or it is revoked already.
    async fn revoke_access_token(&self, tenant: &Tenant, id: &TokenId, act: &Attribution) -> Result<bool>;

    /// Loads the tokens of all tenants that are neither revoked nor expired.
    async fn load_usable_tokens(&self) -> Result<Vec<UsableToken>>;

    /// Records that tokens have been used about now.
    async fn record_token_use(&self, used: &[TokenId]) -> Result<()>;
}
