//! Whose a repository is, as the configuration says: a payload names its repository, and never its owner.
//!
//! Whoever knows the webhook's secret may name any repository. So a repository belongs to nobody unless an entry here
//! says so.

use std::collections::BTreeMap;

use retro_core::id::Tenant;

/// The host of repositories whose entry names none.
pub const HOST: &str = "github.com";
/// The longest name of a host, in bytes: what the domain name system takes.
pub const HOST_BYTES_MAX: usize = 253;
/// The longest name of an owner or of a repository, in bytes: GitHub takes 39 and 100.
pub const NAME_BYTES_MAX: usize = 100;

/// Which tenant a repository or an installation belongs to. Names do not differ by case alone, as at GitHub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GithubTenants {
    /// By `host/owner/name`, in lower case; `*` stands for every name, owner and host behind which no more is said.
    repositories: BTreeMap<String, Tenant>,
    /// By the id of the installation of a GitHub App.
    installations: BTreeMap<u64, Tenant>,
}

/// An entry that cannot be read.
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
    /// Reads entries that are separated by commas or lines. Fails with the first that cannot be read, or that says another
    /// tenant than one before it.
    pub fn parse(text: &str) -> Result<Self, EntryError> {
        let mut tenants = Self::default();
        for entry in text.split([',', '\n']).map(str::trim).filter(|entry| !entry.is_empty()) {
            tenants.add(entry).map_err(|problem| EntryError { entry: entry.to_owned(), problem })?;
        }
        Ok(tenants)
    }

    /// Whether nothing belongs to anybody.
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty() && self.installations.is_empty()
    }

    /// Whether anything belongs to a tenant.
    pub fn has(&self, tenant: &Tenant) -> bool {
        self.repositories.values().chain(self.installations.values()).any(|owner| owner == tenant)
    }

    /// The tenant of a repository (`owner/name`) at a host, as the most precise entry says: the repository, its owner, the
    /// installation, everything else.
    pub fn of(&self, host: &str, repo: &str, installation: Option<u64>) -> Option<&Tenant> {
        let whole = format!("{host}/{repo}").to_lowercase();
        let (owner, _) = whole.rsplit_once('/')?;
        let named = self.repositories.get(&whole).or_else(|| self.repositories.get(&format!("{owner}/*")));
        named.or_else(|| self.installations.get(&installation?)).or_else(|| self.repositories.get("*"))
    }

    fn add(&mut self, entry: &str) -> Result<(), String> {
        let (whose, tenant) = entry.split_once('=').ok_or("has no `=`")?;
        let (whose, tenant) = (whose.trim(), tenant.trim());
        let tenant = Tenant::new(tenant).map_err(|error| format!("names no tenant: {error}"))?;
        let before = match whose.parse() {
            Ok(installation) => self.installations.insert(installation, tenant.clone()),
            Err(_) => self.repositories.insert(repository(whose)?, tenant.clone()),
        };
        match before {
            Some(before) if before != tenant => Err(format!("was given to {before} before")),
            _ => Ok(()),
        }
    }
}

/// An entry's left side with its host, in lower case.
fn repository(whose: &str) -> Result<String, String> {
    let whose = whose.to_lowercase();
    if whose == "*" {
        return Ok(whose);
    }
    let parts: Vec<&str> = whose.split('/').collect();
    let (host, owner, name) = match parts[..] {
        [owner, name] => (HOST, owner, name),
        [host, owner, name] => (host, owner, name),
        _ => return Err("names no repository".to_owned()),
    };
    if !is_host(host) || !is_name(owner) || !(name == "*" || is_name(name)) {
        return Err("names no repository".to_owned());
    }
    Ok(format!("{host}/{owner}/{name}"))
}

/// Whether a text may be the name of an owner or of a repository.
pub fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(plain)
}

/// Whether a text may be the name of a host, perhaps with a port.
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
    fn the_most_precise_entry_says_whose_a_repository_is() {
        let tenants = GithubTenants::parse(ENTRIES).unwrap();
        for (host, repo, installation, tenant) in [
            (HOST, "acme/shop", None, "shop"),
            (HOST, "ACME/Shop", Some(4242), "shop"),
            (HOST, "acme/other", Some(4242), "acme"),
            (HOST, "acme-evil/shop", Some(4242), "app"),
            (HOST, "acme-evil/shop", Some(7), "rest"),
            ("ghe.example.com", "acme/shop", None, "own"),
            ("ghe.example.com", "acme/other", None, "rest"),
        ] {
            let found = tenants.of(host, repo, installation).map(Tenant::as_str);
            assert_eq!(found, Some(tenant), "{host} {repo} {installation:?}");
        }
        let tenants = GithubTenants::parse("acme/shop = shop").unwrap();
        assert_eq!(tenants.of(HOST, "acme/other", Some(4242)), None);
        assert_eq!(tenants.of("ghe.example.com", "acme/shop", None), None);
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_told_with_what_is_wrong() {
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
