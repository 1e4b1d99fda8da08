//! `retro verify`: proves on a live store what the laws promise.
//!
//! The port reads in separate questions while workers go on writing, so one look may see a change and not yet its
//! memory. Such a sight passes; damage stays. What a first look finds is therefore looked at again, and only what
//! every one of [`LOOKS_MAX`] looks finds at the same address is reported.

mod manual;
mod memories;
mod windows;

use std::collections::BTreeSet;

use retro_core::id::{Tenant, WorkflowKey};
use retro_store::{MemoryFilter, OperatorStore, Result};
use serde::{Deserialize, Serialize};

use crate::words::count;

/// How often something suspicious is looked at before it is reported: a race does not hit three times in a row at
/// one address.
pub const LOOKS_MAX: usize = 3;

/// What was checked, and what is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verification {
    /// Everything that is not as it should be; empty on a sound store.
    pub violations: Vec<Violation>,
    /// How much was looked at: an empty store proves nothing.
    pub checked: Checked,
    /// Messages that wait to be sent; not a violation, but a number that should fall.
    pub outbox_unsent: u64,
    /// Dead letters that nobody has acted on, over all tenants.
    pub dead_letters_open: u64,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Violation {
    /// What was checked.
    pub check: Check,
    /// Where: tenant, workflow, and what in it.
    pub place: String,
    /// What is wrong, in one sentence.
    pub problem: String,
}

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Ordinals run from 1 to the number of counted runs, each once.
    Ordinals,
    /// Windows that were not released are contiguous, disjoint, and end where the workflow says.
    Windows,
    /// Epochs run from 1 without a gap.
    Epochs,
    /// At most one retrospective of a workflow is open, and the workflow knows it.
    Open,
    /// A closed or failed retrospective has a report that agrees with the change log.
    Reports,
    /// A report's sample can be drawn again from its seed, and its policy has the hash that stands beside it.
    Samples,
    /// The memory table is the fold of the change log.
    Fold,
    /// A change has the id of its effect key, and happens once.
    EffectKeys,
    /// A manual retrospective looked at runs that exist, and its proposals are of those and decided once.
    Manual,
    /// A tombstone belongs to a deleted memory and ends when its deletion says.
    Tombstones,
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Checked {
    /// Tenants.
    pub tenants: u64,
    /// Workflows.
    pub workflows: u64,
    /// Counted runs.
    pub runs: u64,
    /// Retrospectives.
    pub retrospectives: u64,
    /// Reports.
    pub reports: u64,
    /// Memories folded and compared.
    pub memories: u64,
    /// Changes.
    pub changes: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Proposals of manual retrospectives.
    #[serde(default)]
    pub proposals: u64,
}

impl Checked {
    fn add(&mut self, other: &Self) {
        self.tenants += other.tenants;
        self.workflows += other.workflows;
        self.runs += other.runs;
        self.retrospectives += other.retrospectives;
        self.reports += other.reports;
        self.memories += other.memories;
        self.changes += other.changes;
        self.tombstones += other.tombstones;
        self.proposals += other.proposals;
    }
}

impl Verification {
    /// Whether nothing is wrong and something was there to be wrong.
    pub fn sound(&self) -> bool {
        self.violations.is_empty() && self.checked.runs > 0
    }

    /// The result for people: the verdict, every violation with its address, and what was checked.
    pub fn text(&self) -> String {
        let Checked {
            tenants,
            workflows,
            runs,
            retrospectives,
            reports,
            memories,
            changes,
            tombstones,
            proposals,
        } = self.checked;
        let verdict = match (self.violations.len() as u64, runs) {
            (0, 0) => "NOTHING PROVED: the store holds no counted run".to_owned(),
            (0, _) => "sound".to_owned(),
            (n, _) => format!("NOT SOUND: {}", count(n, "violation")),
        };
        let lines = self
            .violations
            .iter()
            .map(|one| format!("  {} at {}: {}\n", one.check.as_str(), one.place, one.problem));
        format!(
            "{verdict}\n{}checked {} with {}: {}, {}, {}, {}, {}, {}, {}\n{} waiting to be sent, {} open\n",
            lines.collect::<String>(),
            count(tenants, "tenant"),
            count(workflows, "workflow"),
            count(runs, "counted run"),
            count(retrospectives, "retrospective"),
            count(reports, "report"),
            count(memories, "memory"),
            count(changes, "change"),
            count(tombstones, "tombstone"),
            count(proposals, "proposal"),
            count(self.outbox_unsent, "message"),
            count(self.dead_letters_open, "dead letter"),
        )
    }
}

impl Check {
    /// The word as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ordinals => "ordinals",
            Self::Windows => "windows",
            Self::Epochs => "epochs",
            Self::Open => "open retrospective",
            Self::Reports => "report",
            Self::Samples => "sample",
            Self::Fold => "memory",
            Self::EffectKeys => "change",
            Self::Manual => "manual retrospective",
            Self::Tombstones => "tombstone",
        }
    }
}

/// Looks at everything of every tenant. Fails only when the store cannot be read; what it holds is never an error.
pub async fn verify(store: &dyn OperatorStore) -> Result<Verification> {
    let mut all = Verification::default();
    for tenant in store.tenants().await? {
        all.checked.tenants += 1;
        for workflow in store.workflows(&tenant).await? {
            let look = settled(store, Subject::Workflow(&workflow.key)).await?;
            all.checked.add(&look.checked);
            all.violations.extend(look.violations);
        }
        for keeper in memories::keepers(store, &tenant).await? {
            let look = settled(store, Subject::Keeper(&keeper)).await?;
            all.checked.add(&look.checked);
            all.violations.extend(look.violations);
        }
        let look = settled(store, Subject::Homeless(&tenant)).await?;
        all.checked.add(&look.checked);
        all.violations.extend(look.violations);
    }
    let health = store.health().await?;
    all.outbox_unsent = health.outbox_unsent;
    all.dead_letters_open = health.dead_letters_open;
    all.violations.sort();
    Ok(all)
}

/// What is looked at in one go.
#[derive(Clone, Copy)]
enum Subject<'a> {
    /// A workflow with everything that belongs to it.
    Workflow(&'a WorkflowKey),
    /// The rules of a repository, with their changes and tombstones.
    Keeper(&'a WorkflowKey),
    /// The memories of a tenant that belong to no workflow that the store knows.
    Homeless(&'a Tenant),
}

/// One look at a subject.
#[derive(Default)]
struct Look {
    checked: Checked,
    violations: Vec<Violation>,
}

impl Look {
    fn wrong(&mut self, check: Check, place: impl Into<String>, problem: impl Into<String>) {
        self.violations.push(Violation { check, place: place.into(), problem: problem.into() });
    }
}

async fn settled(store: &dyn OperatorStore, subject: Subject<'_>) -> Result<Look> {
    let mut last = look(store, subject).await?;
    for _ in 1..LOOKS_MAX {
        if last.violations.is_empty() {
            break;
        }
        let seen: BTreeSet<_> = last.violations.iter().map(|one| (one.check, one.place.clone())).collect();
        last = look(store, subject).await?;
        last.violations.retain(|one| seen.contains(&(one.check, one.place.clone())));
    }
    Ok(last)
}

async fn look(store: &dyn OperatorStore, subject: Subject<'_>) -> Result<Look> {
    let mut look = Look::default();
    match subject {
        Subject::Workflow(key) => {
            look.checked.workflows = 1;
            windows::check(store, key, &mut look).await?;
            memories::check(store, key, &mut look).await?;
        }
        Subject::Keeper(key) => memories::check(store, key, &mut look).await?,
        Subject::Homeless(tenant) => memories::check_homeless(store, tenant, &mut look).await?,
    }
    Ok(look)
}

/// Every memory that a filter finds, without a limit of its own.
fn all_memories(workflow: Option<&WorkflowKey>) -> MemoryFilter {
    MemoryFilter {
        workflow: workflow.map(|key| key.workflow.clone()),
        limit: u32::MAX,
        ..MemoryFilter::default()
    }
}

#[cfg(test)]
mod tests;
