//! Defines the arguments of `retro tokens`.

use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::{Span, SpanRelativeTo};
use retro_core::access::{AccessScopes, TokenName};

use super::audit::AuditArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum Tokens {
    /// List the access tokens of the tenant, newest first: names, scopes and last uses, never secrets.
    List(ListTokens),
    /// Create an access token of the tenant and print it. It is shown this once only.
    Create(CreateToken),
    /// Revoke access tokens. Each server refuses them within 5 seconds.
    Revoke {
        /// Names or ids of the tokens.
        #[arg(required = true, value_name = "TOKEN")]
        tokens: Vec<String>,
        #[command(flatten)]
        act: AuditArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListTokens {
    /// Include revoked and expired tokens.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CreateToken {
    /// Name by which people recognise the token: letters, digits, `.`, `_` and `-`.
    #[arg(long)]
    pub(crate) name: TokenName,
    /// What the token allows, separated by commas: emit (send runs), context (get memories), read (whatever people
    /// read) and operate (change memories, replay dead letters; includes read).
    #[arg(long)]
    pub(crate) scopes: AccessScopes,
    /// Time after which the token is refused, such as `90d` or `12h`.
    #[arg(long, value_name = "TIME", value_parser = parse_time, required_unless_present = "never_expires")]
    pub(crate) expires_in: Option<Duration>,
    /// Create a token that is valid until somebody revokes it.
    #[arg(long, conflicts_with = "expires_in")]
    pub(crate) never_expires: bool,
    /// Revoke the token that has this name, if there is one. Its holder needs the new one within 5 seconds.
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) act: AuditArgs,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|_| "expected a time such as 90d or 12h".to_owned())?;
    let time = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let time = time.ok().and_then(|time| Duration::try_from(time).ok()).filter(|time| !time.is_zero());
    time.ok_or_else(|| "expected a time of days, hours or minutes that is to come".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_some_days_or_hours_to_come() {
        assert_eq!(parse_time("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(parse_time("12h 30m"), Ok(Duration::from_secs(45_000)));
        for wrong in ["", "0d", "-1d", "soon", "1y"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
