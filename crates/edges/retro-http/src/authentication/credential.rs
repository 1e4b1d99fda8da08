//! Finds the access token of a request.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use retro_core::access::SecretToken;

/// Credential of a request.
#[derive(Debug)]
pub(super) enum Credential {
    /// The request has none.
    None,
    /// The request has one that cannot be an access token.
    Unreadable,
    /// The request has one that may be an access token.
    Token(SecretToken),
}

/// Returns the credential in the `Authorization` header. Two headers are unreadable, because a proxy might have
/// checked the other one.
pub(super) fn find_credential(headers: &HeaderMap) -> Credential {
    let mut named = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = named.next() else { return Credential::None };
    let value = value.to_str().ok().filter(|_| named.next().is_none());
    value.and_then(parse_authorization).map_or(Credential::Unreadable, Credential::Token)
}

fn parse_authorization(value: &str) -> Option<SecretToken> {
    let (scheme, rest) = value.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return SecretToken::parse(rest);
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    // The user name is whatever the browser's person typed; the password is the token.
    let decoded = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
    SecretToken::parse(decoded.split_once(':')?.1)
}
