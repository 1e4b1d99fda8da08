//! Logs in with a credentials file (JWT and seed) or an nkey's seed. The seed signs the server's nonce and never leaves
//! this process.

use std::path::{Path, PathBuf};

use async_nats::{Auth, AuthError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use nkeys::{KeyPair, KeyPairType};
use serde_json::Value;

/// Begin of a user's seed. Operators and accounts have other seeds, with which nobody can log in.
const SEED_PREFIX: &str = "SU";
/// Begin of every JWT: the base64 of `{"`.
const JWT_PREFIX: &str = "eyJ";

/// A file with which a connection logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialFile {
    /// A credentials file (`.creds`): a user's JWT and its seed.
    Creds(PathBuf),
    /// A file with the seed of a user's nkey.
    Nkey(PathBuf),
}

/// Content of a credential file. Has no `Debug`, because the key pair is a secret.
struct Credential {
    key_pair: KeyPair,
    jwt: Option<String>,
}

impl CredentialFile {
    /// Returns the configuration key of the file.
    pub(super) const fn key(&self) -> &'static str {
        match self {
            Self::Creds(_) => "nats_creds_file",
            Self::Nkey(_) => "nats_nkey_file",
        }
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Creds(path) | Self::Nkey(path) => path,
        }
    }

    /// Reads the file and signs the server's nonce. Fails with a sentence that never contains the file's content.
    pub(super) async fn sign_nonce(&self, nonce: &[u8]) -> Result<Auth, AuthError> {
        let text = tokio::fs::read_to_string(self.path()).await;
        let text =
            text.map_err(|error| AuthError::new(self.describe(&format!("cannot be read: {error}"))))?;
        let Credential { key_pair, jwt } = self.parse(&text).map_err(AuthError::new)?;
        let mut auth = Auth::new();
        let signature = key_pair.sign(nonce);
        auth.signature =
            Some(signature.map_err(|_| AuthError::new(self.describe("has a seed that cannot sign")))?);
        // A JWT contains the public key already.
        auth.nkey = jwt.is_none().then(|| key_pair.public_key());
        auth.jwt = jwt;
        Ok(auth)
    }

    /// Returns the user for logs and errors: the name in the JWT, or the public key; `(none)` if the file cannot be used.
    pub(super) fn read_user(&self) -> String {
        let credential = std::fs::read_to_string(self.path()).ok().and_then(|text| self.parse(&text).ok());
        let Some(Credential { key_pair, jwt }) = credential else { return "(none)".to_owned() };
        let claims = jwt.as_deref().and_then(decode_claims);
        let name = claims.as_ref().and_then(|claims| claims["name"].as_str());
        name.map_or_else(|| key_pair.public_key(), str::to_owned)
    }

    /// Explains that the broker refused this credential.
    pub(super) fn describe_refusal(&self) -> String {
        let user = self.read_user();
        let file = format!("{} ({})", self.key(), self.path().display());
        match self {
            Self::Creds(path) => {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                let claims = find_line(&text, JWT_PREFIX).and_then(decode_claims);
                let end = claims.and_then(|claims| Timestamp::from_second(claims["exp"].as_i64()?).ok());
                let end =
                    end.map_or("it does not expire".to_owned(), |end| format!("it is valid until {end}"));
                format!(
                    "the broker refuses the user {user} of {file}: it is unknown, revoked or expired ({end}); issue new \
                     credentials or set another file"
                )
            }
            Self::Nkey(_) => format!(
                "the broker refuses the user {user} of {file}: no user of its configuration has this nkey; add it there or \
                 set another file"
            ),
        }
    }

    fn parse(&self, text: &str) -> Result<Credential, String> {
        let seed = find_line(text, SEED_PREFIX)
            .ok_or_else(|| self.describe("has no line with a user's seed, which begins with SU"))?;
        let key_pair = KeyPair::from_seed(seed).map_err(|_| self.describe("has a damaged seed"))?;
        if key_pair.key_pair_type() != KeyPairType::User {
            return Err(self.describe("has the seed of another kind of key; a user's is needed"));
        }
        let jwt =
            match self {
                Self::Nkey(_) => None,
                Self::Creds(_) => Some(find_line(text, JWT_PREFIX).map(str::to_owned).ok_or_else(|| {
                    self.describe("has no JWT; for a seed alone, set nats_nkey_file instead")
                })?),
            };
        Ok(Credential { key_pair, jwt })
    }

    fn describe(&self, problem: &str) -> String {
        format!("the login of {} ({}) {problem}", self.key(), self.path().display())
    }
}

/// Returns the first line that begins with this text.
fn find_line<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.lines().map(str::trim).find(|line| line.starts_with(prefix))
}

/// Decodes the claims of a JWT without verifying them, which only the server can do.
fn decode_claims(jwt: &str) -> Option<Value> {
    let claims = URL_SAFE_NO_PAD.decode(jwt.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&claims).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("login");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[tokio::test]
    async fn an_unusable_file_is_described_without_its_content() {
        let account = KeyPair::new_account().seed().unwrap();
        let user = KeyPair::new_user().seed().unwrap();
        let damaged = format!("{}X", &user[..user.len() - 1]);
        for (text, problem) in [
            (account.as_str(), "has no line with a user's seed, which begins with SU"),
            (damaged.as_str(), "has a damaged seed"),
            (user.as_str(), "has no JWT; for a seed alone, set nats_nkey_file instead"),
        ] {
            let (_folder, path) = write_file(text);
            let error =
                CredentialFile::Creds(path.clone()).sign_nonce(b"nonce").await.err().unwrap().to_string();
            assert_eq!(
                error,
                format!("AuthError(the login of nats_creds_file ({}) {problem})", path.display())
            );
            assert!(!error.contains(text));
        }
    }

    #[tokio::test]
    async fn a_seed_signs_the_nonce_whether_or_not_comments_surround_it() {
        let pair = KeyPair::new_user();
        let (_folder, path) = write_file(&format!("# made by hand\n\n  {}\r\n", pair.seed().unwrap()));
        let file = CredentialFile::Nkey(path);
        let auth = file.sign_nonce(b"nonce").await.unwrap();
        assert_eq!(auth.nkey, Some(pair.public_key()));
        pair.verify(b"nonce", &auth.signature.unwrap()).unwrap();
        assert_eq!(file.read_user(), pair.public_key());
    }
}
