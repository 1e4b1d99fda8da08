//! Storage port that reads the attempts, edited versions and replays of dead letters.

use async_trait::async_trait;
use retro_core::id::{DeadLetterId, Tenant};

use crate::dead_letter::{
    Attempt, DeadLetterCount, DeadLetterFilter, DeadLetterVersion, DeadLetterVersionRow,
};
use crate::replay::ReplayRow;
use crate::result::Result;

/// Reads the attempts, versions and replays of a dead letter. For a dead letter of another tenant, every list
/// is empty.
#[async_trait]
pub trait DeadLetterStore: Send + Sync {
    /// Returns the recorded attempts at a dead letter's message in order, at most [`ATTEMPTS_KEPT`](crate::dead_letter::ATTEMPTS_KEPT).
    async fn list_attempts(&self, tenant: &Tenant, dead_letter: DeadLetterId) -> Result<Vec<Attempt>>;

    /// Returns the edited versions of a dead letter without their content, sorted by version number.
    async fn list_versions(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
    ) -> Result<Vec<DeadLetterVersionRow>>;

    /// Returns an edited version of a dead letter; `None` if it does not exist. Version 0, the dead letter as
    /// received, is not an edited version.
    async fn find_version(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        version: u32,
    ) -> Result<Option<DeadLetterVersion>>;

    /// Returns the replays of a dead letter, oldest request first.
    async fn list_replays(&self, tenant: &Tenant, dead_letter: DeadLetterId) -> Result<Vec<ReplayRow>>;

    /// Counts the tenant's dead letters that match the filter, grouped by rejection, consumer and workflow.
    ///
    /// The group with the newest dead letter comes first. Returns at most `filter.limit` groups and ignores
    /// `filter.after`.
    async fn count_dead_letters(
        &self,
        tenant: &Tenant,
        filter: &DeadLetterFilter,
    ) -> Result<Vec<DeadLetterCount>>;
}
