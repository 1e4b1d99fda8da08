//! Storage port that stores edited versions of dead letters.

use async_trait::async_trait;
use retro_core::attribution::Attribution;
use retro_core::id::{DeadLetterId, Tenant};

use crate::dead_letter::MessageContent;
use crate::result::Result;
use crate::{AuditStore, CounterStore, OperatorStore};

/// Stores edited versions of dead letters. The original never changes. Includes [`OperatorStore`] and
/// [`AuditStore`] because an editor reads the dead letter first, and that read is audited.
#[async_trait]
pub trait DeadLetterEditStore: OperatorStore + AuditStore + CounterStore {
    /// Stores `content`, edited from version `based_on`, as the next version of a dead letter, together with
    /// its audit row, in one transaction. Returns the 1-based number of the new version; `None` if the tenant
    /// has no such dead letter. Concurrent edits get distinct numbers.
    async fn edit_dead_letter(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        based_on: u32,
        content: &MessageContent,
        act: &Attribution,
    ) -> Result<Option<u32>>;
}
