//! Text that must never be seen.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

/// What stands where a secret would.
const HIDDEN: &str = "***";

/// A secret, or an address that may hold one. Debug, Display and JSON show it without the password; only
/// [`expose`](Self::expose) gives it away.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself: for whoever connects with it, and nobody else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// An address without its password; what is no address is not shown at all.
impl fmt::Display for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&if self.0.contains("://") { without_password(&self.0) } else { HIDDEN.to_owned() })
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

/// An address, or several separated by commas, as people may see it: passwords and tokens are blanked. In doubt, such
/// as with a comma within a password, more is blanked than needed.
pub fn without_password(address: &str) -> String {
    match address.split_once("://") {
        // What stands before a further `://` is the next scheme, and cannot be a login.
        Some((scheme, rest)) => {
            let rest: Vec<_> = rest.split("://").map(without_login).collect();
            format!("{scheme}://{}", rest.join("://"))
        }
        None => without_login(address),
    }
}

fn without_login(text: &str) -> String {
    let Some((login, host)) = text.rsplit_once('@') else { return without_parameters(text) };
    let host = without_parameters(host);
    match login.split_once(':') {
        Some((user, _)) => format!("{user}:{HIDDEN}@{host}"),
        None => format!("{HIDDEN}@{host}"),
    }
}

/// Postgres takes a password as a parameter too.
fn without_parameters(text: &str) -> String {
    let Some((host, parameters)) = text.split_once('?') else { return text.to_owned() };
    let shown = parameters.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) if name.contains("password") => format!("{name}={HIDDEN}"),
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
            assert_eq!(without_password(address), shown);
        }
    }

    #[test]
    fn a_secret_shows_itself_in_no_form() {
        for (secret, shown) in
            [("postgres://me:hunter2@host/db", "postgres://me:***@host/db"), ("hunter2", "***")]
        {
            let secret = Secret::new(secret);
            assert_eq!((format!("{secret}"), format!("{secret:?}")), (shown.to_owned(), shown.to_owned()));
            assert_eq!(serde_json::to_value(&secret).unwrap(), shown);
        }
    }
}
