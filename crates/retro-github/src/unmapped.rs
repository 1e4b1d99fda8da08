//! What belongs to no tenant, or to none of whoever signed it, told once: a webhook of a whole organisation names a thousand repositories a day.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use retro_core::id::Tenant;
use tracing::warn;

use crate::read::Taken;

/// Repositories that are told of at most; beyond them only the metric counts. A name has a few hundred bytes at most.
const TOLD_MAX: usize = 1000;

/// The repositories that were told of since the process began.
#[derive(Debug, Default)]
pub(crate) struct Unmapped(Mutex<HashSet<String>>);

impl Unmapped {
    /// Tells of the repository, the first time. It has an owner where the secret that signed speaks for other tenants.
    pub(crate) fn tell(&self, taken: &Taken, owner: Option<&Tenant>) {
        let Taken { host, repo, installation, .. } = taken;
        let name = format!("{host}/{repo}");
        if !self.is_new(&name) {
            return;
        }
        let by = installation.map_or(String::new(), |id| format!(" (installation {id})"));
        if let Some(owner) = owner {
            warn!(
                "{name}{by} belongs to the tenant {owner}, and a secret has signed its webhook that does not speak for it: it is left \
                 alone. Whoever has that secret named a repository of somebody else's"
            );
            return;
        }
        warn!(
            "{name}{by} belongs to no tenant, so its webhooks are left alone; `github_tenants` of the configuration says whose it is"
        );
    }

    fn is_new(&self, name: &str) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < TOLD_MAX && told.insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_told_of_once_and_a_flood_of_them_is_bounded() {
        let unmapped = Unmapped::default();
        assert_eq!(["a", "b", "a"].map(|name| unmapped.is_new(name)), [true, true, false]);
        let told = (0..2 * TOLD_MAX).filter(|nth| unmapped.is_new(&nth.to_string())).count();
        assert_eq!(told, TOLD_MAX - 2);
    }
}
