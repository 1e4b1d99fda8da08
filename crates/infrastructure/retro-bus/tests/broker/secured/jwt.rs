//! Issues JWTs and credentials files as an operator of NATS does.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use retro_events::permissions::{ANSWER_EXPIRES_S, Permissions};
use serde_json::{Value, json};

/// An operator with one account for users, and the system account, without which a server has no JetStream.
pub(super) struct Operator {
    operator: KeyPair,
    account: KeyPair,
    system: KeyPair,
}

/// User to whom credentials are issued.
pub(super) struct UserClaims<'a> {
    pub(super) name: &'a str,
    /// `None` permits everything.
    pub(super) permissions: Option<Permissions>,
}

impl Operator {
    pub(super) fn new() -> Self {
        Self {
            operator: KeyPair::new_operator(),
            account: KeyPair::new_account(),
            system: KeyPair::new_account(),
        }
    }

    /// Returns the lines of a server's configuration that trust this operator and know the account.
    pub(super) fn server_lines(&self) -> String {
        let operator = json!({"type": "operator", "version": 2});
        let operator = sign_jwt(&self.operator, &self.operator.public_key(), "operator", None, &operator);
        let unlimited = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
            "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
        });
        let account = json!({"type": "account", "version": 2, "limits": unlimited});
        let without_jetstream = json!({"type": "account", "version": 2, "limits": {"subs": -1, "conn": -1}});
        let (key, system) = (self.account.public_key(), self.system.public_key());
        let accounts = [(&key, &account), (&system, &without_jetstream)].map(|(key, claims)| {
            format!("{key}: {}", sign_jwt(&self.operator, key, "account", None, claims))
        });
        let accounts = accounts.join(", ");
        format!(
            "operator: {operator}\nsystem_account: {system}\nresolver: MEMORY\nresolver_preload: {{ {accounts} }}\n"
        )
    }

    /// Returns a credentials file for a user. `expires` is in seconds since 1970.
    pub(super) fn issue_credentials(&self, user: &UserClaims<'_>, expires: Option<i64>) -> String {
        let pair = KeyPair::new_user();
        let mut claims = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
        if let Some(Permissions { publish, subscribe, answers }) = &user.permissions {
            claims["pub"] = json!({"allow": publish});
            claims["sub"] = json!({"allow": subscribe});
            if *answers {
                claims["resp"] = json!({"max": 1, "ttl": u64::from(ANSWER_EXPIRES_S) * 1_000_000_000});
            }
        }
        let jwt = sign_jwt(&self.account, &pair.public_key(), user.name, expires, &claims);
        let seed = pair.seed().unwrap();
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY \
             SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }
}

fn sign_jwt(issuer: &KeyPair, subject: &str, name: &str, expires: Option<i64>, nats: &Value) -> String {
    let mut claims = json!({"jti": subject, "iat": 1, "iss": issuer.public_key(), "name": name, "sub": subject, "nats": nats});
    if let Some(expires) = expires {
        claims["exp"] = json!(expires);
    }
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&json!({"typ": "JWT", "alg": "ed25519-nkey"})), encode(&claims));
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}
