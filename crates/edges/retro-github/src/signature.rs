//! Verifies the signatures of webhooks.
//!
//! The signature covers the bytes as received, never re-encoded JSON. It is 32 bytes in hex, in upper or
//! lower case. The older header `X-Hub-Signature` (SHA-1) is ignored.

use hmac::{Hmac, KeyInit as _, Mac as _};
use retro_core::canonical::encode_hex;
use retro_core::id::Tenant;
use sha2::Sha256;

/// Header that contains the signature.
pub(crate) const SIGNATURE_HEADER: &str = "x-hub-signature-256";
/// Prefix of the header's value, which names the algorithm.
const SIGNATURE_PREFIX: &str = "sha256=";

/// The accepted webhook secrets. There are several during a rotation, and some may act for only one tenant.
#[derive(Clone)]
pub struct WebhookSecrets(Vec<KeyedSecret>);

#[derive(Clone)]
struct KeyedSecret {
    mac: Hmac<Sha256>,
    /// Tenant that the secret may act for; `None` for all tenants.
    tenant: Option<Tenant>,
}

/// The tenants that an authentic webhook may act for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedTenants(Option<Vec<Tenant>>);

impl AllowedTenants {
    /// Returns `true` if the webhook may report events of this tenant's repositories.
    pub fn allows(&self, tenant: &Tenant) -> bool {
        self.0.as_ref().is_none_or(|tenants| tenants.contains(tenant))
    }
}

/// Reason why a signature is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The signature is missing.
    #[error(
        "the header X-Hub-Signature-256 is missing: give the webhook a secret at GitHub, and the bridge the same one; \
         X-Hub-Signature (SHA-1) is not supported"
    )]
    Missing,
    /// The header does not contain a signature.
    #[error("the header X-Hub-Signature-256 is not `sha256=` and 64 hex digits")]
    Malformed,
    /// No secret matches the signature of the body.
    #[error(
        "no configured secret matches the signature of this body: compare the secret at GitHub with `github_secret`"
    )]
    Wrong,
}

impl WebhookSecrets {
    /// Creates a set of secrets that may act for every tenant. Their bytes are used unchanged.
    pub fn new<T: AsRef<[u8]>>(secrets: &[T]) -> Self {
        Self(secrets.iter().map(|secret| keyed_secret(secret.as_ref(), None)).collect())
    }

    /// Adds a secret that may act for this tenant only.
    #[must_use]
    pub fn with_tenant_secret(mut self, tenant: &Tenant, secret: impl AsRef<[u8]>) -> Self {
        self.0.push(keyed_secret(secret.as_ref(), Some(tenant.clone())));
        self
    }

    /// Signs a body with the first secret and returns the value of the signature header, or an empty string
    /// if there is no secret. For tests and demos that send webhooks.
    pub fn sign(&self, body: &[u8]) -> String {
        let Some(secret) = self.0.first() else { return String::new() };
        let signature = secret.mac.clone().chain_update(body).finalize().into_bytes();
        format!("{SIGNATURE_PREFIX}{}", encode_hex(&signature))
    }

    /// Verifies the signature of a body and returns the tenants that the webhook may act for. Tries every
    /// secret and compares in constant time.
    pub fn verify_signature(
        &self,
        header: Option<&[u8]>,
        body: &[u8],
    ) -> Result<AllowedTenants, SignatureError> {
        let signature =
            parse_signature(header.ok_or(SignatureError::Missing)?).ok_or(SignatureError::Malformed)?;
        let signed =
            |secret: &&KeyedSecret| secret.mac.clone().chain_update(body).verify_slice(&signature).is_ok();
        // Check every secret even after a match, so the timing does not reveal which one is in use.
        let signers: Vec<&KeyedSecret> = self.0.iter().filter(signed).collect();
        if signers.is_empty() {
            return Err(SignatureError::Wrong);
        }
        // Collects into `None`, which allows every tenant, if any of the signers is not bound to a tenant.
        Ok(AllowedTenants(signers.into_iter().map(|signer| signer.tenant.clone()).collect()))
    }
}

fn keyed_secret(secret: &[u8], of: Option<Tenant>) -> KeyedSecret {
    let keyed = Hmac::new_from_slice(secret).expect("a key of any length makes an HMAC");
    KeyedSecret { mac: keyed, tenant: of }
}

impl std::fmt::Debug for WebhookSecrets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} secrets", self.0.len())
    }
}

fn parse_signature(header: &[u8]) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = header.strip_prefix(SIGNATURE_PREFIX.as_bytes())?.try_into().ok()?;
    let mut signature = [0; 32];
    for (byte, pair) in signature.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_value(pair[0])? << 4 | hex_value(pair[1])?;
    }
    Some(signature)
}

fn hex_value(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "It's a Secret to Everybody";
    const BODY: &[u8] = b"Hello, World!";
    /// Example from GitHub's documentation, for this secret and body.
    const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn a_signature_is_accepted_from_any_configured_secret_only() {
        let check = |secrets: &[&str], header: &str, body: &[u8]| {
            WebhookSecrets::new(secrets).verify_signature(Some(header.as_bytes()), body).map(drop)
        };
        assert_eq!(WebhookSecrets::new(&[SECRET]).sign(BODY), SIGNATURE);
        assert_eq!(check(&[SECRET], SIGNATURE, BODY), Ok(()));
        assert_eq!(
            check(&["another one", SECRET], SIGNATURE, BODY),
            Ok(()),
            "the old secret holds until it is gone"
        );
        assert_eq!(check(&["another one"], SIGNATURE, BODY), Err(SignatureError::Wrong));
        assert_eq!(check(&[], SIGNATURE, BODY), Err(SignatureError::Wrong));
        assert_eq!(check(&[SECRET], SIGNATURE, b"Hello, World"), Err(SignatureError::Wrong));
        let upper = SIGNATURE.to_uppercase().replace("SHA256", "sha256");
        assert_eq!(check(&[SECRET], &upper, BODY), Ok(()), "a digit is the same in both cases");
    }

    #[test]
    fn a_tenants_secret_acts_for_that_tenant_only() {
        let [acme, other] = ["acme", "other"].map(|name| Tenant::new(name).unwrap());
        let speaks = |secrets: WebhookSecrets| {
            let speaker = secrets.verify_signature(Some(SIGNATURE.as_bytes()), BODY).unwrap();
            [&acme, &other].map(|tenant| speaker.allows(tenant))
        };
        let none: [&str; 0] = [];
        assert_eq!(speaks(WebhookSecrets::new(&[SECRET])), [true, true]);
        assert_eq!(speaks(WebhookSecrets::new(&none).with_tenant_secret(&acme, SECRET)), [true, false]);
        assert_eq!(
            speaks(WebhookSecrets::new(&["another"]).with_tenant_secret(&acme, SECRET)),
            [true, false],
            "and not for whom the others do"
        );
        assert_eq!(
            speaks(
                WebhookSecrets::new(&none)
                    .with_tenant_secret(&acme, SECRET)
                    .with_tenant_secret(&other, SECRET)
            ),
            [true, true]
        );
        assert_eq!(speaks(WebhookSecrets::new(&[SECRET]).with_tenant_secret(&acme, SECRET)), [true, true]);
        let others = WebhookSecrets::new(&none).with_tenant_secret(&acme, "another");
        assert_eq!(others.verify_signature(Some(SIGNATURE.as_bytes()), BODY), Err(SignatureError::Wrong));
    }

    #[test]
    fn a_malformed_signature_differs_from_a_wrong_one() {
        let secrets = WebhookSecrets::new(&[SECRET]);
        assert_eq!(secrets.verify_signature(None, BODY), Err(SignatureError::Missing));
        let short = &SIGNATURE[..SIGNATURE.len() - 2];
        for header in [
            "",
            "foo",
            "sha256=",
            short,
            "sha1=757107ea",
            &SIGNATURE.to_uppercase(),
            &SIGNATURE.replace('7', "x"),
        ] {
            assert_eq!(
                secrets.verify_signature(Some(header.as_bytes()), BODY),
                Err(SignatureError::Malformed),
                "{header}"
            );
        }
        assert!(!format!("{secrets:?}").contains("Everybody"));
    }
}
