//! Whether a webhook comes from somebody who knows the secret.
//!
//! The bytes as they came are signed, never JSON that was written anew. A signature is 32 bytes; it is spelt in hex, and both cases
//! of a digit are the same digit, so upper case is taken. The older header `X-Hub-Signature` (SHA-1) is not looked at.

use hmac::{Hmac, KeyInit as _, Mac as _};
use retro_core::id::Tenant;
use sha2::Sha256;

/// The header that holds the signature.
pub(crate) const HEADER: &str = "x-hub-signature-256";
/// How it begins.
const PREFIX: &str = "sha256=";

/// The secrets of which one has signed whatever is taken: more than one while they are changed, and those that speak for one
/// tenant alone.
#[derive(Clone)]
pub struct Secrets(Vec<Known>);

#[derive(Clone)]
struct Known {
    keyed: Hmac<Sha256>,
    /// Whom it may speak for; `None` for everybody.
    of: Option<Tenant>,
}

/// For whom a webhook may speak that was believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker(Option<Vec<Tenant>>);

impl Speaker {
    /// Whether it may say anything of this tenant's repositories.
    pub fn may_speak_for(&self, tenant: &Tenant) -> bool {
        self.0.as_ref().is_none_or(|tenants| tenants.contains(tenant))
    }
}

/// Why a webhook is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// There is no signature.
    #[error(
        "the header X-Hub-Signature-256 is missing: give the webhook a secret at GitHub, and the bridge the same one; \
         X-Hub-Signature (SHA-1) is not read"
    )]
    Missing,
    /// It is not a signature.
    #[error("the header X-Hub-Signature-256 is not `sha256=` and 64 hex digits")]
    Malformed,
    /// None of the secrets made it over these bytes.
    #[error(
        "the signature is not that of any secret here over this body: compare the secret at GitHub with `github_secret`"
    )]
    Wrong,
}

impl Secrets {
    /// Takes the secrets as they were agreed upon, byte for byte; each speaks for every tenant.
    pub fn new<T: AsRef<[u8]>>(secrets: &[T]) -> Self {
        Self(secrets.iter().map(|secret| known(secret.as_ref(), None)).collect())
    }

    /// With one more, which speaks for this tenant alone.
    #[must_use]
    pub fn and_of(mut self, tenant: &Tenant, secret: impl AsRef<[u8]>) -> Self {
        self.0.push(known(secret.as_ref(), Some(tenant.clone())));
        self
    }

    /// A body's signature by the first of them, as GitHub writes it; nothing when there is none. For whoever plays GitHub.
    pub fn sign(&self, body: &[u8]) -> String {
        let Some(secret) = self.0.first() else { return String::new() };
        let signature = secret.keyed.clone().chain_update(body).finalize().into_bytes();
        signature.iter().fold(PREFIX.to_owned(), |text, byte| format!("{text}{byte:02x}"))
    }

    /// Whether one of them signed this body, and for whom it speaks. Each is tried, and compared in constant time.
    pub fn check(&self, header: Option<&[u8]>, body: &[u8]) -> Result<Speaker, Unsigned> {
        let signature = signature(header.ok_or(Unsigned::Missing)?).ok_or(Unsigned::Malformed)?;
        let signed =
            |secret: &&Known| secret.keyed.clone().chain_update(body).verify_slice(&signature).is_ok();
        // All of them: how long it takes does not tell which one is in use.
        let signers: Vec<&Known> = self.0.iter().filter(signed).collect();
        if signers.is_empty() {
            return Err(Unsigned::Wrong);
        }
        Ok(Speaker(signers.into_iter().map(|signer| signer.of.clone()).collect()))
    }
}

fn known(secret: &[u8], of: Option<Tenant>) -> Known {
    let keyed = Hmac::new_from_slice(secret).expect("a key of any length makes an HMAC");
    Known { keyed, of }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} secrets", self.0.len())
    }
}

fn signature(header: &[u8]) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = header.strip_prefix(PREFIX.as_bytes())?.try_into().ok()?;
    let mut signature = [0; 32];
    for (byte, pair) in signature.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(signature)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "It's a Secret to Everybody";
    const BODY: &[u8] = b"Hello, World!";
    /// As GitHub's documentation prints it for these two.
    const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn a_signature_is_believed_from_any_of_the_secrets_and_from_no_other() {
        let check = |secrets: &[&str], header: &str, body: &[u8]| {
            Secrets::new(secrets).check(Some(header.as_bytes()), body).map(drop)
        };
        assert_eq!(Secrets::new(&[SECRET]).sign(BODY), SIGNATURE);
        assert_eq!(check(&[SECRET], SIGNATURE, BODY), Ok(()));
        assert_eq!(
            check(&["another one", SECRET], SIGNATURE, BODY),
            Ok(()),
            "the old secret holds until it is gone"
        );
        assert_eq!(check(&["another one"], SIGNATURE, BODY), Err(Unsigned::Wrong));
        assert_eq!(check(&[], SIGNATURE, BODY), Err(Unsigned::Wrong));
        assert_eq!(check(&[SECRET], SIGNATURE, b"Hello, World"), Err(Unsigned::Wrong));
        let upper = SIGNATURE.to_uppercase().replace("SHA256", "sha256");
        assert_eq!(check(&[SECRET], &upper, BODY), Ok(()), "a digit is the same in both cases");
    }

    #[test]
    fn a_tenants_secret_speaks_for_that_tenant_alone() {
        let [acme, other] = ["acme", "other"].map(|name| Tenant::new(name).unwrap());
        let speaks = |secrets: Secrets| {
            let speaker = secrets.check(Some(SIGNATURE.as_bytes()), BODY).unwrap();
            [&acme, &other].map(|tenant| speaker.may_speak_for(tenant))
        };
        let none: [&str; 0] = [];
        assert_eq!(speaks(Secrets::new(&[SECRET])), [true, true]);
        assert_eq!(speaks(Secrets::new(&none).and_of(&acme, SECRET)), [true, false]);
        assert_eq!(
            speaks(Secrets::new(&["another"]).and_of(&acme, SECRET)),
            [true, false],
            "and not for whom the others do"
        );
        assert_eq!(speaks(Secrets::new(&none).and_of(&acme, SECRET).and_of(&other, SECRET)), [true, true]);
        assert_eq!(speaks(Secrets::new(&[SECRET]).and_of(&acme, SECRET)), [true, true]);
        let others = Secrets::new(&none).and_of(&acme, "another");
        assert_eq!(others.check(Some(SIGNATURE.as_bytes()), BODY), Err(Unsigned::Wrong));
    }

    #[test]
    fn what_is_no_signature_is_told_apart_from_a_wrong_one() {
        let secrets = Secrets::new(&[SECRET]);
        assert_eq!(secrets.check(None, BODY), Err(Unsigned::Missing));
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
            assert_eq!(secrets.check(Some(header.as_bytes()), BODY), Err(Unsigned::Malformed), "{header}");
        }
        assert!(!format!("{secrets:?}").contains("Everybody"));
    }
}
