//! Wraps secrets so they cannot appear in output or logs.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

/// Placeholder shown instead of a secret.
const MASK: &str = "***";

/// A secret, or an address that may contain one. `Debug`, `Display` and JSON show it masked; only
/// [`expose`](Self::expose) returns it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a string as a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the secret in plain text. Call it only where the secret is used, never for output.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Shows a URL without its password and masks any other string completely.
impl fmt::Display for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&if self.0.contains("://") { mask_password(&self.0) } else { MASK.to_owned() })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "x-secret": true})
    }
}

/// Masks the passwords and tokens in a URL or in several URLs separated by commas. If the end of a password
/// is ambiguous, as with a comma in it, more than necessary is masked.
pub fn mask_password(address: &str) -> String {
    match address.split_once("://") {
        // The text before a further `://` is the next URL's scheme, so it cannot be a login.
        Some((scheme, rest)) => {
            let rest: Vec<_> = rest.split("://").map(mask_login).collect();
            format!("{scheme}://{}", rest.join("://"))
        }
        None => mask_login(address),
    }
}

fn mask_login(text: &str) -> String {
    // Split at the last `@`, because the password may contain one.
    let Some((login, host)) = text.rsplit_once('@') else { return mask_parameters(text) };
    let host = mask_parameters(host);
    match login.split_once(':') {
        Some((user, _)) => format!("{user}:{MASK}@{host}"),
        None => format!("{MASK}@{host}"),
    }
}

/// Masks passwords in the query string of a URL, where Postgres also accepts them.
fn mask_parameters(text: &str) -> String {
    let Some((host, parameters)) = text.split_once('?') else { return text.to_owned() };
    let shown = parameters.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) if name.contains("password") => format!("{name}={MASK}"),
        _ => parameter.to_owned(),
    });
    format!("{host}?{}", shown.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_or_token_in_an_address_is_not_shown() {
        for (address, shown) in [
            ("nats://host:4222", "nats://host:4222"),
            ("nats://me:hunter2@host:4222", "nats://me:***@host:4222"),
            ("nats://token@host:4222", "nats://***@host:4222"),
            ("me:hunter2@host", "me:***@host"),
            ("nats://me:a@b@c@host", "nats://me:***@host"),
            ("nats://me:one@a,nats://me:two@b", "nats://me:***@a,nats://me:***@b"),
            ("nats://me:one@a,me:two@b", "nats://me:***@b"),
            (
                "postgres://host/db?user=me&password=x&sslmode=require",
                "postgres://host/db?user=me&password=***&sslmode=require",
            ),
        ] {
            assert_eq!(mask_password(address), shown);
        }
    }

    #[test]
    fn a_secret_is_masked_in_every_format() {
        for (secret, shown) in
            [("postgres://me:hunter2@host/db", "postgres://me:***@host/db"), ("hunter2", "***")]
        {
            let secret = Secret::new(secret);
            assert_eq!((format!("{secret}"), format!("{secret:?}")), (shown.to_owned(), shown.to_owned()));
            assert_eq!(serde_json::to_value(&secret).unwrap(), shown);
        }
    }
}
