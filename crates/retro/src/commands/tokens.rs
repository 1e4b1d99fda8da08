//! Runs `retro tokens`: creates, lists and revokes the access tokens of a tenant. It needs the database, so nobody can
//! make a token for himself through the API.

use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use retro_core::access::{
    AccessToken, SecretToken, TENANT_TOKENS_MAX, TOKEN_RANDOM_BYTES, TokenId, TokenName,
};
use retro_core::attribution::Attribution;
use retro_core::time::Clock as _;
use retro_http::REVOKED_WITHIN_S;
use retro_operator::{TokenState, TokenView, render_tokens};
use retro_store::{AccessTokenStore, CreateTokenResult, NewAccessToken, Store};
use serde_json::json;

use super::command_context::CommandContext;
use super::dead_letters::redact_text;
use crate::cli::{AuditArgs, CreateToken, ListTokens, Noun, Tokens};
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::output;

/// Maximum number of tokens that are listed or searched for a name.
const LISTED_MAX: u32 = 10_000;

/// Runs a subcommand of `retro tokens`.
pub(crate) async fn run_command(
    context: &CommandContext<'_>,
    store: Arc<dyn Store>,
    noun: &Noun<Tokens, ListTokens>,
) -> anyhow::Result<Exit> {
    let Some(command) = &noun.command else { return list_tokens(context, &*store, &noun.list).await };
    match command {
        Tokens::List(list) => list_tokens(context, &*store, list).await,
        Tokens::Create(create) => create_token(context, &*store, create).await,
        Tokens::Revoke { tokens, act } => revoke_tokens(context, &*store, tokens, act).await,
    }
}

async fn list_tokens<S: AccessTokenStore + ?Sized>(
    context: &CommandContext<'_>,
    store: &S,
    list: &ListTokens,
) -> anyhow::Result<Exit> {
    let now = SystemClock.now();
    let tokens = store.list_access_tokens(context.tenant, LISTED_MAX).await?;
    let tokens = tokens.into_iter().map(|token| TokenView::new(token, now));
    let tokens: Vec<_> = tokens.filter(|token| list.all || token.state == TokenState::Usable).collect();
    output::print_list(context.output, &tokens, |layout| render_tokens(&tokens, layout))?;
    Ok(Exit::Done)
}

async fn create_token<S: AccessTokenStore + ?Sized>(
    context: &CommandContext<'_>,
    store: &S,
    create: &CreateToken,
) -> anyhow::Result<Exit> {
    let created = attribute(&create.act)?;
    if create.replace
        && let Some(earlier) = find_token(context, store, create.name.as_str()).await?
    {
        store.revoke_access_token(context.tenant, &earlier.id, &created).await?;
    }
    let mut random = [0; TOKEN_RANDOM_BYTES];
    getrandom::fill(&mut random).context("the operating system has no random numbers")?;
    let secret = SecretToken::from_random(random);
    let token = NewAccessToken {
        id: secret.id().clone(),
        digest: secret.digest(),
        tenant: context.tenant.clone(),
        name: create.name.clone(),
        scopes: create.scopes.clone(),
        valid_for: create.expires_in,
        created,
    };
    let token = match store.create_access_token(&token).await? {
        CreateTokenResult::Created(token) => token,
        CreateTokenResult::NameTaken => return refuse_name(context, &create.name),
        CreateTokenResult::TooMany => {
            output::print_notice(&format!(
                "tenant {} has {TENANT_TOKENS_MAX} access tokens; revoke some that nobody uses",
                context.tenant
            ));
            return Ok(Exit::ProblemFound);
        }
    };
    let expires = token.expires_at.map_or_else(|| "never".to_owned(), |time| format!("at {time:.0}"));
    output::print_notice(&format!(
        "token {} of tenant {} allows {} and expires {expires}; it is not shown again",
        token.name, token.tenant, token.scopes
    ));
    output::print_data(
        context.output,
        &json!({"token": secret.expose(), "id": token.id, "expires_at": token.expires_at}),
        || secret.expose().to_owned(),
    )?;
    Ok(Exit::Done)
}

fn refuse_name(context: &CommandContext<'_>, name: &TokenName) -> anyhow::Result<Exit> {
    output::print_notice(&format!(
        "tenant {} has an access token named {name}; choose another name, or replace it with --replace",
        context.tenant
    ));
    Ok(Exit::ProblemFound)
}

async fn revoke_tokens<S: AccessTokenStore + ?Sized>(
    context: &CommandContext<'_>,
    store: &S,
    names: &[String],
    act: &AuditArgs,
) -> anyhow::Result<Exit> {
    let act = attribute(act)?;
    let mut revoked = Vec::new();
    for name in names {
        let Some(token) = find_token(context, store, name).await? else {
            output::print_notice(&format!(
                "tenant {} has no access token {name}; `retro tokens list --all` lists all",
                context.tenant
            ));
            continue;
        };
        if !store.revoke_access_token(context.tenant, &token.id, &act).await? {
            output::print_notice(&format!("{name} was revoked before"));
        }
        revoked.push(name);
    }
    output::print_data(context.output, &revoked, || {
        let line =
            |name: &&String| format!("{name} is revoked; each server refuses it within {REVOKED_WITHIN_S} s");
        revoked.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(if revoked.len() == names.len() { Exit::Done } else { Exit::NotFound })
}

/// Returns the token with this name or id: the one that is not revoked, or else the one that was created last.
async fn find_token<S: AccessTokenStore + ?Sized>(
    context: &CommandContext<'_>,
    store: &S,
    name: &str,
) -> anyhow::Result<Option<AccessToken>> {
    let id: Option<TokenId> = name.parse().ok();
    let tokens = store.list_access_tokens(context.tenant, LISTED_MAX).await?;
    let is_meant = |token: &AccessToken| token.name.as_str() == name || Some(&token.id) == id.as_ref();
    let mut meant: Vec<_> = tokens.into_iter().filter(is_meant).collect();
    let usable = meant.iter().position(|token| token.revoked.is_none()).unwrap_or(0);
    Ok((!meant.is_empty()).then(|| meant.swap_remove(usable)))
}

fn attribute(act: &AuditArgs) -> anyhow::Result<Attribution> {
    Ok(Attribution::new(&redact_text(&act.by), &redact_text(&act.reason), now())?)
}

fn now() -> Timestamp {
    SystemClock.now()
}
