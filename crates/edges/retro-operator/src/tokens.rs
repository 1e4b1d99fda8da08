//! Shows access tokens.

use jiff::Timestamp;
use retro_core::access::AccessToken;
use serde::Serialize;

use crate::text_table::{Layout, render_table};

/// Whether a token is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenState {
    /// The token is accepted.
    Usable,
    /// The time of the token is over.
    Expired,
    /// A person revoked the token.
    Revoked,
}

/// An access token, prepared for output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenView {
    /// Whether the token is accepted.
    pub state: TokenState,
    /// The token without its secret.
    #[serde(flatten)]
    pub token: AccessToken,
}

impl TokenView {
    /// Creates the view of a token at a time by this machine's clock. The database's clock decides whether a token is
    /// accepted, so the view may differ from it for as long as the clocks do.
    pub fn new(token: AccessToken, now: Timestamp) -> Self {
        let state = match (&token.revoked, token.expires_at) {
            (Some(_), _) => TokenState::Revoked,
            (None, Some(expires)) if expires <= now => TokenState::Expired,
            (None, _) => TokenState::Usable,
        };
        Self { state, token }
    }

    fn table_row(&self) -> [String; 7] {
        let token = &self.token;
        let state = match (&token.revoked, token.expires_at) {
            // Typed by a person: escaped, so it cannot control the terminal.
            (Some(act), _) => {
                format!("revoked by {}: {}", act.by.escape_debug(), act.reason.escape_debug())
            }
            (None, Some(expires)) if self.state == TokenState::Expired => format!("expired {expires:.0}"),
            (None, Some(expires)) => format!("until {expires:.0}"),
            (None, None) => "never expires".to_owned(),
        };
        [
            token.name.to_string(),
            token.id.to_string(),
            token.scopes.to_string(),
            state,
            token.last_used_at.map_or_else(|| "never".to_owned(), |used| format!("{used:.0}")),
            token.created.by.escape_debug().to_string(),
            token.created.reason.escape_debug().to_string(),
        ]
    }
}

/// Renders access tokens as a table.
pub fn render_tokens(tokens: &[TokenView], layout: Layout) -> String {
    if tokens.is_empty() {
        return "no access tokens\n".to_owned();
    }
    let head = ["name", "id", "scopes", "state", "last used", "created by", "reason"];
    render_table(layout, head, tokens.iter().map(TokenView::table_row).collect())
}

#[cfg(test)]
mod tests {
    use retro_core::access::{SecretToken, TOKEN_RANDOM_BYTES};
    use retro_core::attribution::Attribution;
    use retro_core::id::Tenant;

    use super::*;

    #[test]
    fn a_token_is_shown_with_its_state() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let act = |by: &str| Attribution::new(by, "it was\u{1b}[2J in a log", now).unwrap();
        let token = AccessToken {
            id: SecretToken::from_random([7; TOKEN_RANDOM_BYTES]).id().clone(),
            name: "ci".parse().unwrap(),
            tenant: Tenant::default_tenant(),
            scopes: "emit,context".parse().unwrap(),
            created: act("ada"),
            expires_at: None,
            last_used_at: None,
            revoked: None,
        };
        let expiring = AccessToken { expires_at: Some(now), ..token.clone() };
        let revoked = AccessToken { revoked: Some(act("bob")), ..expiring.clone() };
        let shown = |token: &AccessToken, at| {
            let view = TokenView::new(token.clone(), at);
            (view.state, view.table_row()[3].clone())
        };
        let before = now - jiff::SignedDuration::from_secs(1);
        assert_eq!(shown(&token, now), (TokenState::Usable, "never expires".to_owned()));
        assert_eq!(shown(&expiring, before), (TokenState::Usable, "until 1970-01-12T13:46:40Z".to_owned()));
        assert_eq!(shown(&expiring, now), (TokenState::Expired, "expired 1970-01-12T13:46:40Z".to_owned()));
        let (state, text) = shown(&revoked, before);
        assert_eq!(
            (state, text.as_str()),
            (TokenState::Revoked, r"revoked by bob: it was\u{1b}[2J in a log")
        );
    }
}
