//! Conformance cases for access tokens.

use std::time::Duration;

use retro_core::access::{SecretToken, TOKEN_RANDOM_BYTES};

use super::Database;
use super::cancel::new_act;
use super::scenario::test_tenant;
use crate::{CreateTokenResult, NewAccessToken};

fn new_token(byte: u8, tenant: &str, name: &str) -> NewAccessToken {
    let token = SecretToken::from_random([byte; TOKEN_RANDOM_BYTES]);
    NewAccessToken {
        id: token.id().clone(),
        digest: token.digest(),
        tenant: test_tenant(tenant),
        name: name.parse().expect("a name"),
        scopes: "emit,context".parse().expect("scopes"),
        valid_for: None,
        created: new_act("ada"),
    }
}

async fn create(database: &Database, token: &NewAccessToken) -> CreateTokenResult {
    database.one.create_access_token(token).await.expect("writing")
}

/// Returns the names of the tokens that a server accepts, sorted by id.
async fn usable(database: &Database) -> Vec<String> {
    let mut usable = database.two.load_usable_tokens().await.expect("reading");
    usable.sort_by(|a, b| a.id.cmp(&b.id));
    usable.iter().map(|token| token.id.to_string()[..2].to_owned()).collect()
}

/// Checks that a server is handed exactly the tokens that are neither revoked nor expired, as they were created.
pub async fn a_token_is_usable_until_it_is_revoked_or_expires(database: &Database) {
    let kept = new_token(1, "t", "kept");
    let brief = NewAccessToken { valid_for: Some(Duration::ZERO), ..new_token(2, "t", "brief") };
    let lasting = NewAccessToken { valid_for: Some(Duration::from_secs(60)), ..new_token(3, "t", "lasting") };
    let lost = new_token(4, "t", "lost");
    for token in [&kept, &brief, &lasting, &lost] {
        let CreateTokenResult::Created(stored) = create(database, token).await else { panic!("{token:?}") };
        assert_eq!((&stored.id, &stored.name, &stored.scopes), (&token.id, &token.name, &token.scopes));
        assert_eq!((&stored.created, stored.last_used_at, stored.revoked), (&token.created, None, None));
        assert_eq!(stored.expires_at.is_some(), token.valid_for.is_some());
    }
    assert_eq!(usable(database).await, ["01", "03", "04"]);
    let act = new_act("bob");
    let revoke =
        async || database.two.revoke_access_token(&lost.tenant, &lost.id, &act).await.expect("writing");
    assert!(revoke().await);
    assert!(!revoke().await, "it is revoked already");
    assert_eq!(usable(database).await, ["01", "03"]);
    let loaded = database.one.load_usable_tokens().await.expect("reading");
    let found = loaded.iter().find(|token| token.id == kept.id).expect("it is usable");
    assert_eq!((&found.digest, &found.tenant, &found.scopes), (&kept.digest, &kept.tenant, &kept.scopes));
    assert_eq!(found.valid_for, None);
    let found = loaded.iter().find(|token| token.id == lasting.id).expect("it is usable");
    let left = found.valid_for.expect("it expires");
    assert!(left > Duration::from_secs(1) && left <= Duration::from_secs(60), "{left:?}");
    let listed = database.two.list_access_tokens(&test_tenant("t"), 10).await.expect("reading");
    let revoked = listed.iter().find(|token| token.id == lost.id).expect("it is still listed");
    assert_eq!((listed.len(), revoked.revoked.as_ref()), (4, Some(&act)));
    assert_eq!(database.two.list_access_tokens(&test_tenant("t"), 2).await.expect("reading").len(), 2);
}

/// Checks that of the tokens of a tenant that are not revoked, no two have the same name.
pub async fn a_name_is_free_again_once_its_token_is_revoked(database: &Database) {
    let first = new_token(1, "t", "ci");
    assert!(matches!(create(database, &first).await, CreateTokenResult::Created(_)));
    assert_eq!(create(database, &new_token(2, "t", "ci")).await, CreateTokenResult::NameTaken);
    assert!(matches!(create(database, &new_token(3, "other", "ci")).await, CreateTokenResult::Created(_)));
    database.one.revoke_access_token(&first.tenant, &first.id, &new_act("ada")).await.expect("writing");
    assert!(matches!(create(database, &new_token(4, "t", "ci")).await, CreateTokenResult::Created(_)));
    assert_eq!(usable(database).await, ["03", "04"]);
}

/// Checks that the use of tokens is recorded for the used ones only.
pub async fn the_last_use_of_tokens_is_recorded(database: &Database) {
    let (used, idle) = (new_token(1, "t", "used"), new_token(2, "t", "idle"));
    for token in [&used, &idle] {
        create(database, token).await;
    }
    database.one.record_token_use(std::slice::from_ref(&used.id)).await.expect("writing");
    database.one.record_token_use(&[]).await.expect("writing");
    for token in database.two.list_access_tokens(&test_tenant("t"), 10).await.expect("reading") {
        assert_eq!(token.last_used_at.is_some(), token.id == used.id, "{token:?}");
    }
}

/// Checks that a tenant neither lists nor revokes the tokens of another one.
pub async fn tokens_keep_tenants_apart(database: &Database) {
    let token = new_token(1, "t", "ci");
    create(database, &token).await;
    let other = test_tenant("other");
    assert_eq!(database.one.list_access_tokens(&other, 10).await.expect("reading"), []);
    assert!(!database.one.revoke_access_token(&other, &token.id, &new_act("eve")).await.expect("writing"));
    assert_eq!(usable(database).await, ["01"]);
    let own = database.one.list_access_tokens(&token.tenant, 10).await.expect("reading");
    assert_eq!(own.len(), 1, "the owner sees it");
}
