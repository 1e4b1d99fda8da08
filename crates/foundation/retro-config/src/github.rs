//! Reads the keys about GitHub: webhook secrets, tenants and the address of the API.

use retro_core::id::Tenant;
use retro_events::github::api_url::default_api_url;
use retro_events::github::tenants::{EntryError, GithubTenants};

use crate::config::Config;
use crate::secret::Secret;

/// Minimum length of a webhook secret, in bytes. A shorter one could be guessed by brute force.
pub(crate) const GITHUB_SECRET_BYTES_MIN: usize = 8;

impl Config {
    /// Returns the secrets of `github_secret`, in file order. If there are none, only `github_tenant_secrets`
    /// can enable the bridge.
    pub fn github_secrets(&self) -> Vec<Secret> {
        let text = self.github_secret.as_ref().map(Secret::expose).unwrap_or_default();
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(Secret::new).collect()
    }

    /// Returns the secrets of `github_tenant_secrets`, each with its tenant. Fails with the first invalid
    /// line, which cannot happen after [`load_config`](crate::load_config). The error never contains a secret.
    pub fn github_tenant_secrets(&self) -> Result<Vec<(Tenant, Secret)>, String> {
        let text = self.github_tenant_secrets.as_ref().map(Secret::expose).unwrap_or_default();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(nth, line)| parse_tenant_secret(line).map_err(|why| format!("line {} {why}", nth + 1)))
            .collect()
    }

    /// Returns `true` if any webhook secret is set. The bridge does not run without one.
    pub const fn has_bridge_secret(&self) -> bool {
        self.github_secret.is_some() || self.github_tenant_secrets.is_some()
    }

    /// Returns the entries of `github_tenants`. Fails with the first invalid entry, which cannot happen after
    /// [`load_config`](crate::load_config).
    pub fn github_tenants(&self) -> Result<GithubTenants, EntryError> {
        GithubTenants::parse(&self.github_tenants)
    }

    /// Returns the address of GitHub's REST API: `github_api`, or the usual one of `github_host`.
    pub fn github_api_url(&self) -> String {
        self.github_api.clone().unwrap_or_else(|| default_api_url(&self.github_host))
    }
}

/// Parses a line of `github_tenant_secrets` into its tenant and secret.
fn parse_tenant_secret(line: &str) -> Result<(Tenant, Secret), String> {
    // Both a secret and a tenant name may contain `=`, so only a `=` between blanks separates them.
    let (tenant, secret) =
        line.split_once(" = ").ok_or("is not `tenant = secret` with blanks around the `=`")?;
    let tenant = Tenant::new(tenant.trim()).map_err(|error| format!("has no valid tenant: {error}"))?;
    let secret = secret.trim();
    if secret.len() < GITHUB_SECRET_BYTES_MIN {
        return Err(format!(
            "has a secret of fewer than {GITHUB_SECRET_BYTES_MIN} bytes, which can be guessed"
        ));
    }
    Ok((tenant, Secret::new(secret)))
}
