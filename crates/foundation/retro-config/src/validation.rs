//! Finds configuration values that have the right type but cannot be used.

use retro_events::github::api_url::parse_api_url;
use retro_events::github::tenants::is_host;

use crate::config::Config;
use crate::github::GITHUB_SECRET_BYTES_MIN;
use crate::secret::Secret;

/// Maximum number of webhook secrets: enough for the old and the new secret of a few webhooks. Each secret
/// costs an HMAC over the whole body.
const GITHUB_SECRETS_MAX: usize = 8;
/// Maximum number of tenants' webhook secrets. Each secret costs an HMAC over the whole body, which takes 20
/// ms for the largest body.
const GITHUB_TENANT_SECRETS_MAX: usize = 32;

/// URL schemes accepted in `database_url`.
const DATABASE_SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

impl Config {
    /// Returns the values that have the right type but cannot be used, each as a key and a sentence with the
    /// reason. The sentences never contain a secret.
    pub(crate) fn find_problems(&self) -> Vec<(&'static str, String)> {
        let mut refused = Vec::new();
        refused.extend(self.find_http_problem());
        let is_postgres =
            |url: &Secret| DATABASE_SCHEMES.iter().any(|scheme| url.expose().starts_with(scheme));
        if self.database_url.as_ref().is_some_and(|url| !is_postgres(url)) {
            let wanted = format!("must begin with {}", DATABASE_SCHEMES.join(" or "));
            refused.push(("database_url", format!("{wanted}; leave it out to use SQLite under `data_dir`")));
        }
        if let Err(error) = self.allowed_hosts() {
            refused.push(("dataref_hosts", format!("has an invalid host: {error}")));
        }
        if let Err(error) = self.github_tenants() {
            refused.push(("github_tenants", format!("has an invalid entry: {error}")));
        }
        refused.extend(self.find_nats_problems());
        refused.extend(self.find_github_api_problem());
        refused.extend(self.embedder().err());
        refused.extend(self.language_model().err());
        refused.extend(self.find_secret_problems());
        refused.extend(self.find_tenant_secret_problem().map(|why| ("github_tenant_secrets", why)));
        refused
    }

    /// Returns what prevents the HTTP API from being served as configured: a key and a sentence with the reason. Ask
    /// again after the address has been replaced.
    pub fn find_http_problem(&self) -> Option<(&'static str, String)> {
        match (&self.http_cert_file, &self.http_key_file) {
            (Some(_), None) => {
                Some(("http_cert_file", "needs the private key: set `http_key_file`".to_owned()))
            }
            (None, Some(_)) => {
                Some(("http_key_file", "needs the certificate: set `http_cert_file`".to_owned()))
            }
            (Some(_), Some(_)) => None,
            (None, None) if self.http_listen.ip().is_loopback() || self.http_allow_plaintext => None,
            (None, None) => Some((
                "http_listen",
                format!(
                    "is {}, where anybody on the way could read the access tokens: set `http_cert_file` and \
                     `http_key_file`, or `http_allow_plaintext` if a proxy terminates TLS, or listen on 127.0.0.1:{}",
                    self.http_listen,
                    self.http_listen.port()
                ),
            )),
        }
    }

    fn find_github_api_problem(&self) -> Option<(&'static str, String)> {
        if !is_host(&self.github_host) {
            return Some(("github_host", "is not the name of a host, such as github.com".to_owned()));
        }
        if self.github_token.as_ref().is_some_and(|token| !is_header_word(token.expose().trim())) {
            return Some(("github_token", "is blank, or has blanks or control characters in it".to_owned()));
        }
        parse_api_url(&self.github_api_url()).err().map(|why| ("github_api", why))
    }

    fn find_secret_problems(&self) -> Vec<(&'static str, String)> {
        let mut refused = Vec::new();
        let secrets = self.github_secrets();
        if self.github_secret.is_some() && secrets.is_empty() {
            refused.push(("github_secret", "is blank; it must hold a secret".to_owned()));
        }
        if secrets.iter().any(|secret| secret.expose().len() < GITHUB_SECRET_BYTES_MIN) {
            let wanted = format!("has a line of fewer than {GITHUB_SECRET_BYTES_MIN} bytes");
            refused.push((
                "github_secret",
                format!("{wanted}, which can be guessed; write one secret per line"),
            ));
        }
        if secrets.len() > GITHUB_SECRETS_MAX {
            let found = secrets.len();
            refused.push((
                "github_secret",
                format!("has {found} lines; at most {GITHUB_SECRETS_MAX} are allowed"),
            ));
        }
        refused
    }

    fn find_tenant_secret_problem(&self) -> Option<String> {
        let given = self.github_tenant_secrets.as_ref()?;
        let secrets = match self.github_tenant_secrets() {
            Err(why) => return Some(why),
            Ok(secrets) => secrets,
        };
        if secrets.len() > GITHUB_TENANT_SECRETS_MAX {
            return Some(format!(
                "has {} lines; at most {GITHUB_TENANT_SECRETS_MAX} are allowed",
                secrets.len()
            ));
        }
        if given.expose().trim().is_empty() {
            return Some("is blank; it must hold a secret".to_owned());
        }
        let tenants = self.github_tenants().ok()?;
        let idle =
            secrets.iter().map(|(tenant, _)| tenant).find(|tenant| !tenants.contains_tenant(tenant))?;
        Some(format!(
            "has a secret of the tenant {idle}, to whom `github_tenants` assigns no repository, so the secret would never apply"
        ))
    }
}

/// Returns `true` if a token can be sent in a header.
fn is_header_word(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}
