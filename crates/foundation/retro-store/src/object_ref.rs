//! Resolves full and abbreviated ids of retrospectives, reports, proposals, dead letters and batches.

use async_trait::async_trait;
use retro_core::id::{ObjectRef, Tenant};
use strum::IntoStaticStr;
use uuid::Uuid;

use crate::Result;

/// Number of candidates that are named for an ambiguous reference.
pub const CANDIDATES_MAX: usize = 5;

/// Kind of an object that is named by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum ObjectKind {
    /// A retrospective, automatic or manual.
    #[strum(serialize = "retrospective")]
    Retrospective,
    /// A report of a retrospective or of a review.
    #[strum(serialize = "report")]
    Report,
    /// A report of a review.
    #[strum(serialize = "report")]
    ReviewReport,
    /// A proposal of a manual retrospective.
    #[strum(serialize = "proposal")]
    Proposal,
    /// A message that could not be handled.
    #[strum(serialize = "dead letter")]
    DeadLetter,
    /// A batch of replays.
    #[strum(serialize = "batch")]
    ReplayBatch,
}

impl ObjectKind {
    /// Returns the noun for people, such as `dead letter`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Finds objects by full id or id prefix.
#[async_trait]
pub trait ObjectRefStore: Send + Sync {
    /// Returns the ids of the tenant's objects of a kind that match the reference, in ascending order: at most one
    /// more than [`CANDIDATES_MAX`].
    async fn find_object_ids(&self, tenant: &Tenant, kind: ObjectKind, name: ObjectRef) -> Result<Vec<Uuid>>;
}

/// Error for a reference that does not identify exactly one object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnresolvedObject {
    /// No object of the tenant matches the reference.
    #[error("there is no {} {name} in this tenant", .kind.as_str())]
    Missing {
        /// Kind of the object.
        kind: ObjectKind,
        /// The reference.
        name: ObjectRef,
    },
    /// Several objects of the tenant match the reference.
    #[error("the ids of several objects begin with {name}: {}; give more digits of the one that you mean", list_candidates(.candidates))]
    Ambiguous {
        /// Kind of the objects.
        kind: ObjectKind,
        /// The reference.
        name: ObjectRef,
        /// The first ids that match.
        candidates: Vec<Uuid>,
    },
}

/// Lists ids for a person, at most [`CANDIDATES_MAX`].
pub(crate) fn list_candidates(ids: &[impl ToString]) -> String {
    let shown: Vec<_> = ids.iter().take(CANDIDATES_MAX).map(ToString::to_string).collect();
    let more = if ids.len() > CANDIDATES_MAX { " and more" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Resolves a reference to the id of one object. Returns a full id without a lookup; the caller finds out whether the
/// object exists when it loads it.
pub async fn resolve_object_ref<S: ObjectRefStore + ?Sized>(
    store: &S,
    tenant: &Tenant,
    kind: ObjectKind,
    name: ObjectRef,
) -> Result<std::result::Result<Uuid, UnresolvedObject>> {
    if let Some(id) = name.exact_id() {
        return Ok(Ok(id));
    }
    let candidates = store.find_object_ids(tenant, kind, name).await?;
    Ok(match candidates.as_slice() {
        [] => Err(UnresolvedObject::Missing { kind, name }),
        [id] => Ok(*id),
        _ => Err(UnresolvedObject::Ambiguous { kind, name, candidates }),
    })
}
