//! Logs each unmapped repository only once, because an organisation's webhook can name a thousand
//! repositories a day.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use retro_core::id::Tenant;
use tracing::warn;

use crate::webhook::AcceptedWebhook;

/// Maximum number of repositories to log; the metric still counts the others. A name has at most a few
/// hundred bytes.
const LOGGED_MAX: usize = 1000;

/// The repositories logged since the process started.
#[derive(Debug, Default)]
pub(crate) struct UnmappedRepositories(Mutex<HashSet<String>>);

impl UnmappedRepositories {
    /// Logs a repository the first time it is seen. `owner` is the repository's tenant if the signing secret
    /// may not act for it, or `None` if the repository is unmapped.
    pub(crate) fn log_once(&self, webhook: &AcceptedWebhook, owner: Option<&Tenant>) {
        let AcceptedWebhook { host, repo, installation, .. } = webhook;
        let name = format!("{host}/{repo}");
        if !self.is_new(&name) {
            return;
        }
        let by = installation.map_or(String::new(), |id| format!(" (installation {id})"));
        if let Some(owner) = owner {
            warn!(
                "{name}{by} belongs to the tenant {owner}, but its webhook was signed with a secret that may not act for it. It is \
                 ignored: the owner of that secret named another tenant's repository"
            );
            return;
        }
        warn!(
            "{name}{by} belongs to no tenant, so its webhooks are ignored; map it in `github_tenants` of the configuration"
        );
    }

    fn is_new(&self, name: &str) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logged.len() < LOGGED_MAX && logged.insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_logged_once_and_their_number_is_limited() {
        let unmapped = UnmappedRepositories::default();
        assert_eq!(["a", "b", "a"].map(|name| unmapped.is_new(name)), [true, true, false]);
        let logged = (0..2 * LOGGED_MAX).filter(|nth| unmapped.is_new(&nth.to_string())).count();
        assert_eq!(logged, LOGGED_MAX - 2);
    }
}
