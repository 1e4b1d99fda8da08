//! The port of the record: what people did, in their own words, never changed and never removed.

use async_trait::async_trait;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::steer::Act;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Result;

/// What a person did about a retrospective, a dead letter or a batch of replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// A retrospective or a batch was called off.
    Cancelled,
    /// A dead letter was replayed.
    Replayed,
    /// A dead letter was put aside.
    Discarded,
    /// A version of a dead letter was made.
    Edited,
    /// The exact bytes of a dead letter were shown.
    ReadRaw,
    /// A dead letter was exported with its exact bytes.
    Exported,
}

impl Deed {
    /// The word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Replayed => "replayed",
            Self::Discarded => "discarded",
            Self::Edited => "edited",
            Self::ReadRaw => "read_raw",
            Self::Exported => "exported",
        }
    }
}

/// An act as stored: never changed, never removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActRow {
    /// What was done.
    pub deed: Deed,
    /// Who, why and when.
    #[serde(flatten)]
    pub act: Act,
    /// The retrospective that it opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<RetrospectiveId>,
    /// What exactly, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Writing down what changes nothing else; an act that does is written in its own transaction.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Writes one row for each of `subjects` (ids of dead letters or batches), all or none. `detail` says what exactly
    /// was done, the same of each. Whether they are the tenant's is asked by the caller, who has read them.
    async fn note(
        &self,
        tenant: &Tenant,
        subjects: &[Uuid],
        deed: Deed,
        act: &Act,
        detail: Option<&str>,
    ) -> Result<()>;
}
