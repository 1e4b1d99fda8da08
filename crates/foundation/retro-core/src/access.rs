//! Access tokens: what a credential of the HTTP API looks like, whom it speaks for and what it allows.
//!
//! A token is `retro_<id>_<secret>`. The id finds the token and may be shown; the secret is 256 random bits, and only
//! a SHA-256 of the whole token is stored. A slow password hash would add nothing: nobody guesses 256 bits, and every
//! request of an agent is checked.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use strum::{EnumIter, EnumString, IntoEnumIterator as _, IntoStaticStr};

use crate::attribution::Attribution;
use crate::id::Tenant;

/// Maximum length of a token's name, in bytes.
pub const TOKEN_NAME_BYTES_MAX: usize = 64;
/// Maximum number of usable tokens of a tenant. More are a mistake of a script that creates one for each run.
pub const TENANT_TOKENS_MAX: u32 = 1000;
/// Number of random bytes from which a token is made.
pub const TOKEN_RANDOM_BYTES: usize = ID_BYTES + SECRET_BYTES;

const PREFIX: &str = "retro_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// What a token allows.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    EnumIter,
    EnumString,
    IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AccessScope {
    /// Sends finished runs.
    Emit,
    /// Gets the memories for a run, and opens them.
    Context,
    /// Reads whatever people read: memories, reports, runs and dead letters, without secrets.
    Read,
    /// Changes memories, replays dead letters and decides. Includes `read`.
    Operate,
}

impl AccessScope {
    /// Returns the scope as it is written, such as `emit`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A set of scopes that is not empty. Written as names separated by commas, in the order of [`AccessScope`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AccessScopes(BTreeSet<AccessScope>);

impl AccessScopes {
    /// Returns `true` if a token with these scopes may do what needs `scope`.
    pub fn allows(&self, scope: AccessScope) -> bool {
        self.0.contains(&scope) || (scope == AccessScope::Read && self.0.contains(&AccessScope::Operate))
    }
}

impl FromIterator<AccessScope> for AccessScopes {
    fn from_iter<I: IntoIterator<Item = AccessScope>>(scopes: I) -> Self {
        Self(scopes.into_iter().collect())
    }
}

impl fmt::Display for AccessScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|scope| scope.as_str()).collect();
        f.write_str(&names.join(","))
    }
}

/// Error for a text that does not list scopes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no scope; the scopes are {names}", names = all_scope_names())]
pub struct UnknownScope(String);

impl FromStr for AccessScopes {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let names = text.split(',').map(str::trim);
        names.map(|name| name.parse().map_err(|_| UnknownScope(name.to_owned()))).collect()
    }
}

fn all_scope_names() -> String {
    AccessScope::iter().map(AccessScope::as_str).collect::<Vec<_>>().join(", ")
}

/// Name of a token, which people chose to recognise it: letters, digits, `.`, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenName(String);

/// Error for a text that is no name of a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a token's name has 1 to {TOKEN_NAME_BYTES_MAX} letters, digits, `.`, `_` or `-`")]
pub struct InvalidTokenName;

impl TokenName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenName {
    type Err = InvalidTokenName;

    fn from_str(text: &str) -> Result<Self, InvalidTokenName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=TOKEN_NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed);
        fits.then(|| Self(text.to_owned())).ok_or(InvalidTokenName)
    }
}

impl TryFrom<String> for TokenName {
    type Error = InvalidTokenName;

    fn try_from(text: String) -> Result<Self, InvalidTokenName> {
        text.parse()
    }
}

impl From<TokenName> for String {
    fn from(name: TokenName) -> Self {
        name.0
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Public part of a token: 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(String);

/// Error for a text that is no id of a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a token's id has 16 hexadecimal digits")]
pub struct InvalidTokenId;

impl TokenId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenId {
    type Err = InvalidTokenId;

    fn from_str(text: &str) -> Result<Self, InvalidTokenId> {
        is_lower_hex(text, ID_BYTES).then(|| Self(text.to_owned())).ok_or(InvalidTokenId)
    }
}

impl TryFrom<String> for TokenId {
    type Error = InvalidTokenId;

    fn try_from(text: String) -> Result<Self, InvalidTokenId> {
        text.parse()
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_lower_hex(text: &str, bytes: usize) -> bool {
    text.len() == 2 * bytes && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// SHA-256 of a whole token.
pub type TokenDigest = [u8; 32];

/// A token with its secret, as whoever uses it holds it. Its `Debug` form leaves the secret out.
#[derive(Clone)]
pub struct SecretToken {
    id: TokenId,
    text: String,
}

impl SecretToken {
    /// Makes a token from random bytes. The caller has to draw them from a cryptographic source.
    pub fn from_random(random: [u8; TOKEN_RANDOM_BYTES]) -> Self {
        use fmt::Write as _;
        let hex = |bytes: &[u8]| {
            bytes.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").expect("writing to a string never fails");
                hex
            })
        };
        let (id, secret) = random.split_at(ID_BYTES);
        let id = hex(id);
        Self { text: format!("{PREFIX}{id}_{}", hex(secret)), id: TokenId(id) }
    }

    /// Reads a token as a client sent it, or returns `None` if the text cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let id = id.parse().ok()?;
        is_lower_hex(secret, SECRET_BYTES).then(|| Self { id, text: text.to_owned() })
    }

    /// Returns the public part.
    pub const fn id(&self) -> &TokenId {
        &self.id
    }

    /// Returns the whole token, which must never be logged or stored.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Returns what is stored of the token.
    pub fn digest(&self) -> TokenDigest {
        Sha256::digest(self.text.as_bytes()).into()
    }
}

impl fmt::Debug for SecretToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretToken").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A token as it is stored, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// Public part of the token.
    pub id: TokenId,
    /// Name, unique among the tokens of the tenant that are not revoked.
    pub name: TokenName,
    /// Tenant that the token speaks for.
    pub tenant: Tenant,
    /// What the token allows.
    pub scopes: AccessScopes,
    /// Who created the token, when and why.
    pub created: Attribution,
    /// Time by the database's clock from which the token is refused; `None` if it never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Last use of the token by the database's clock, exact to about a minute; `None` if it was never used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// Who revoked the token, when and why; `None` if it is not revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Attribution>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(byte: u8) -> SecretToken {
        SecretToken::from_random([byte; TOKEN_RANDOM_BYTES])
    }

    #[test]
    fn a_token_is_read_as_it_was_made_and_shows_no_secret() {
        let made = token(0xa7);
        let read = SecretToken::parse(made.expose()).expect("it was just made");
        assert_eq!((read.id(), read.digest()), (made.id(), made.digest()));
        assert_eq!(made.id().as_str(), "a7a7a7a7a7a7a7a7");
        let shown = format!("{made:?}");
        assert!(shown.contains("a7a7a7a7a7a7a7a7") && !shown.contains(&"a7".repeat(9)), "{shown}");
        assert_ne!(token(1).digest(), token(2).digest());
    }

    #[test]
    fn what_is_no_token_is_not_read_as_one() {
        let good = token(3).expose().to_owned();
        for bad in [
            "",
            "retro_",
            "retro_03",
            &good[1..],
            &good[..good.len() - 1],
            &format!("{good}0"),
            &good.to_uppercase(),
            &good.replace('3', "g"),
        ] {
            assert!(SecretToken::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn scopes_are_read_in_any_order_and_operate_includes_read() {
        let scopes: AccessScopes = " operate,emit, emit".parse().unwrap();
        assert_eq!(scopes.to_string(), "emit,operate");
        let allowed: Vec<_> = AccessScope::iter().filter(|scope| scopes.allows(*scope)).collect();
        assert_eq!(allowed, [AccessScope::Emit, AccessScope::Read, AccessScope::Operate]);
        let read: AccessScopes = "read".parse().unwrap();
        assert!(read.allows(AccessScope::Read) && !read.allows(AccessScope::Operate));
        let refused = "emit,write".parse::<AccessScopes>().unwrap_err().to_string();
        assert_eq!(refused, r#""write" is no scope; the scopes are emit, context, read, operate"#);
        assert!("".parse::<AccessScopes>().is_err(), "a token without a scope is of no use");
    }

    #[test]
    fn a_name_is_short_and_plain() {
        for good in ["ci", "build-7.eu_west"] {
            assert_eq!(good.parse::<TokenName>().unwrap().as_str(), good);
        }
        for bad in ["", "a b", "ä", "a\n", &"x".repeat(65)] {
            assert!(bad.parse::<TokenName>().is_err(), "{bad:?}");
        }
    }
}
