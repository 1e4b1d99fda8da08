//! Maps repositories to tenants as configured. A payload names its repository, never its tenant.
//!
//! Anyone who knows the webhook's secret can name any repository, so a repository belongs to no tenant unless
//! an entry says so.

use std::collections::BTreeMap;

use retro_core::id::Tenant;

/// Host of a repository whose entry names none.
pub const DEFAULT_HOST: &str = "github.com";
/// Maximum length of a host name, in bytes, as in the domain name system.
pub const HOST_BYTES_MAX: usize = 253;
/// Maximum length of the name of an owner or a repository, in bytes. GitHub allows 39 for an owner and 100
/// for a repository.
pub const NAME_BYTES_MAX: usize = 100;

/// Tenants of repositories and installations. Names are compared ignoring case, as GitHub does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GithubTenants {
    /// Tenants by `host/owner/name` in lower case. `host/owner/*` covers the other repositories of an owner, and
    /// `*` everything else.
    repositories: BTreeMap<String, Tenant>,
    /// Tenants by the id of a GitHub App installation.
    installations: BTreeMap<u64, Tenant>,
}

/// Error for an entry that cannot be parsed or contradicts an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{entry:?} {problem}; an entry is `owner/name = tenant`, `owner/* = tenant`, `host/owner/name = tenant` for an \
     Enterprise host, an installation's number such as `4242 = tenant`, or `* = tenant` for everything else"
)]
pub struct EntryError {
    entry: String,
    problem: String,
}

impl GithubTenants {
    /// Parses entries separated by commas or lines. Fails with the first entry that cannot be parsed, or that names
    /// a different tenant than an earlier entry.
    pub fn parse(text: &str) -> Result<Self, EntryError> {
        let mut tenants = Self::default();
        for entry in text.split([',', '\n']).map(str::trim).filter(|entry| !entry.is_empty()) {
            tenants.add_entry(entry).map_err(|problem| EntryError { entry: entry.to_owned(), problem })?;
        }
        Ok(tenants)
    }

    /// Returns `true` if no repository or installation is mapped.
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty() && self.installations.is_empty()
    }

    /// Returns `true` if any repository or installation is mapped to the tenant.
    pub fn contains_tenant(&self, tenant: &Tenant) -> bool {
        self.repositories.values().chain(self.installations.values()).any(|owner| owner == tenant)
    }

    /// Returns the tenant of a repository (`owner/name`) at a host. The most specific entry wins, in this order:
    /// the repository, its owner, the installation, everything else.
    pub fn find_tenant(&self, host: &str, repo: &str, installation: Option<u64>) -> Option<&Tenant> {
        let named = self.find_named(host, repo);
        named.or_else(|| self.installations.get(&installation?)).or_else(|| self.repositories.get("*"))
    }

    fn find_named(&self, host: &str, repo: &str) -> Option<&Tenant> {
        let whole = format!("{host}/{repo}").to_lowercase();
        // The owner includes the host, so an entry does not cover an owner of the same name elsewhere.
        let (owner, _) = whole.rsplit_once('/')?;
        self.repositories.get(&whole).or_else(|| self.repositories.get(&format!("{owner}/*")))
    }

    /// Returns the tenant of a repository (`owner/name`) at a host, as far as its name alone decides: the entry of
    /// the repository or its owner, or else of everything, if no installation is mapped. Otherwise the repository
    /// could be that of an installation, which only a webhook names.
    pub fn find_tenant_by_name(&self, host: &str, repo: &str) -> Option<&Tenant> {
        let everything = || self.repositories.get("*").filter(|_| self.installations.is_empty());
        self.find_named(host, repo).or_else(everything)
    }

    fn add_entry(&mut self, entry: &str) -> Result<(), String> {
        let (whose, tenant) = entry.split_once('=').ok_or("has no `=`")?;
        let (whose, tenant) = (whose.trim(), tenant.trim());
        let tenant = Tenant::new(tenant).map_err(|error| format!("names no tenant: {error}"))?;
        // A number is an installation, because every repository contains a slash.
        let before = match whose.parse() {
            Ok(installation) => self.installations.insert(installation, tenant.clone()),
            Err(_) => self.repositories.insert(normalize_repository(whose)?, tenant.clone()),
        };
        match before {
            Some(before) if before != tenant => Err(format!("was given to {before} before")),
            _ => Ok(()),
        }
    }
}

/// Normalizes the left side of an entry by adding the default host and converting it to lower case.
fn normalize_repository(whose: &str) -> Result<String, String> {
    let whose = whose.to_lowercase();
    if whose == "*" {
        return Ok(whose);
    }
    let parts: Vec<&str> = whose.split('/').collect();
    let (host, owner, name) = match parts[..] {
        [owner, name] => (DEFAULT_HOST, owner, name),
        [host, owner, name] => (host, owner, name),
        _ => return Err("names no repository".to_owned()),
    };
    if !is_host(host) || !is_name(owner) || !(name == "*" || is_name(name)) {
        return Err("names no repository".to_owned());
    }
    Ok(format!("{host}/{owner}/{name}"))
}

/// Returns `true` if the text is valid as the name of an owner or a repository.
pub fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(plain)
}

/// Returns `true` if the text is valid as the name of a host, optionally with a port.
pub fn is_host(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':');
    (1..=HOST_BYTES_MAX).contains(&text.len()) && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: &str =
        "acme/shop = shop, Acme/* = acme\n ghe.example.com/acme/shop=own , 4242 = app, , * = rest";

    #[test]
    fn the_most_specific_entry_decides_the_tenant() {
        let tenants = GithubTenants::parse(ENTRIES).unwrap();
        for (host, repo, installation, tenant) in [
            (DEFAULT_HOST, "acme/shop", None, "shop"),
            (DEFAULT_HOST, "ACME/Shop", Some(4242), "shop"),
            (DEFAULT_HOST, "acme/other", Some(4242), "acme"),
            (DEFAULT_HOST, "acme-evil/shop", Some(4242), "app"),
            (DEFAULT_HOST, "acme-evil/shop", Some(7), "rest"),
            ("ghe.example.com", "acme/shop", None, "own"),
            ("ghe.example.com", "acme/other", None, "rest"),
        ] {
            let found = tenants.find_tenant(host, repo, installation).map(Tenant::as_str);
            assert_eq!(found, Some(tenant), "{host} {repo} {installation:?}");
        }
        let tenants = GithubTenants::parse("acme/shop = shop").unwrap();
        assert_eq!(tenants.find_tenant(DEFAULT_HOST, "acme/other", Some(4242)), None);
        assert_eq!(tenants.find_tenant("ghe.example.com", "acme/shop", None), None);
    }

    #[test]
    fn a_name_alone_decides_only_if_no_installation_could() {
        let with_installation = GithubTenants::parse(ENTRIES).unwrap();
        let without = GithubTenants::parse("acme/shop = shop, * = rest").unwrap();
        for (tenants, repo, tenant) in [
            (&with_installation, "acme/shop", Some("shop")),
            (&with_installation, "Acme/other", Some("acme")),
            (&with_installation, "theirs/shop", None),
            (&without, "acme/shop", Some("shop")),
            (&without, "theirs/shop", Some("rest")),
        ] {
            assert_eq!(tenants.find_tenant_by_name(DEFAULT_HOST, repo).map(Tenant::as_str), tenant, "{repo}");
        }
    }

    #[test]
    fn an_invalid_entry_is_rejected_with_the_problem() {
        for (text, problem) in [
            ("acme/shop", "has no `=`"),
            ("acme/shop = ", "names no tenant"),
            ("acme = acme", "names no repository"),
            ("*/shop = acme", "names no repository"),
            ("acme/sh op = acme", "names no repository"),
            ("a/b/c/d = acme", "names no repository"),
            ("acme/shop = a, Acme/Shop = b", "was given to a before"),
            ("7 = a\n7 = b", "was given to a before"),
        ] {
            let error = GithubTenants::parse(text).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("owner/*"), "{text}: {error}");
        }
        assert!(GithubTenants::parse(" ,\n").unwrap().is_empty());
        assert!(GithubTenants::parse("acme/shop = a, acme/shop = a").is_ok(), "said twice");
    }
}
