//! `retro verify`: proves on a live store what the laws promise.
//!
//! The store is walked three times, page by page: by workflow (ordinals, windows, epochs), by retrospective (reports,
//! samples, proposals) and by memory (changes, fold, tombstones). Only one page is held at a time, and a page costs the
//! same at the end of a large store as at its beginning.
//!
//! Workers go on writing meanwhile. A page is read in one transaction, and what is compared stands in one page, so
//! nothing is seen half-written. Between two pages anything may happen: what is new and sorts before the cursor is left
//! for the next verification. A manual proposal and its memory stand in different pages and are asked for one by one;
//! therefore what a look finds is looked at again, and only what every one of [`LOOKS_MAX`] looks finds at the same
//! address is reported.

mod manual;
mod memories;
mod reports;
mod windows;

use std::collections::BTreeSet;

use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_store::{OperatorStore, Result, RetrospectiveCursor};
use serde::{Deserialize, Serialize};

use crate::words::count;

/// How often something suspicious is looked at before it is reported: a race does not hit three times in a row at
/// one address.
pub const LOOKS_MAX: usize = 3;
/// Workflows in one page: their windows take some 40 bytes each, and a question a page is a fraction of reading it.
const WORKFLOWS_PER_PAGE: u32 = 200;
/// Retrospectives in one page. A report has up to a few hundred kilobytes, so a page stays within some ten megabytes.
const RETROSPECTIVES_PER_PAGE: u32 = 50;
/// Memories in one page, each with its whole life: up to some hundreds of changes of a kilobyte.
const MEMORIES_PER_PAGE: u32 = 100;

/// Violations that are kept: more than a person reads, and a store that is wrong throughout must not fill the memory.
pub const VIOLATIONS_MAX: usize = 1_000;

/// What was checked, and what is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verification {
    /// What is not as it should be, at most [`VIOLATIONS_MAX`]; empty on a sound store.
    pub violations: Vec<Violation>,
    /// Violations beyond those.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
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

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Verification {
    fn add(&mut self, found: Vec<Violation>) {
        let room = VIOLATIONS_MAX - self.violations.len();
        self.left_out += found.len().saturating_sub(room) as u64;
        self.violations.extend(found.into_iter().take(room));
    }

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
        let verdict = match (self.violations.len() as u64 + self.left_out, runs) {
            (0, 0) => "NOTHING PROVED: the store holds no counted run".to_owned(),
            (0, _) => "sound".to_owned(),
            (n, _) => format!("NOT SOUND: {}", count(n, "violation")),
        };
        let lines = self
            .violations
            .iter()
            .map(|one| format!("  {} at {}: {}\n", one.check.as_str(), one.place, one.problem));
        format!(
            "{verdict}\n{}{}checked {} with {}: {}, {}, {}, {}, {}, {}, {}\n{} waiting to be sent, {} open\n",
            lines.collect::<String>(),
            if self.left_out > 0 { format!("  and {} more\n", self.left_out) } else { String::new() },
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
    let health = store.health().await?;
    all.outbox_unsent = health.outbox_unsent;
    all.dead_letters_open = health.dead_letters_open;
    let mut tenants = TenantCounter::default();
    let mut page = Some(Page::Workflows(None));
    while let Some(at) = page {
        let look = confirm(store, &at, &mut tenants).await?;
        all.checked.add(&look.checked);
        all.add(look.violations);
        page = look.next;
    }
    all.checked.tenants = tenants.counted;
    all.violations.sort();
    Ok(all)
}

/// The place of a page in the walk over the three orders: workflows, then retrospectives, then memories. Each walk
/// goes on behind the last row of the page before it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Page {
    /// Workflows with their ordinals and windows.
    Workflows(Option<WorkflowKey>),
    /// Retrospectives with their reports, changes and proposals.
    Retrospectives(Option<RetrospectiveCursor>),
    /// Memories with their changes and tombstones.
    Memories(Option<(Tenant, MemoryId)>),
}

/// One look at a page.
#[derive(Default)]
struct Look {
    checked: Checked,
    violations: Vec<Violation>,
    /// The tenants of its workflows, in order.
    tenants: Vec<Tenant>,
    /// The page behind it; `None` behind the last one.
    next: Option<Page>,
}

impl Look {
    fn wrong(&mut self, check: Check, place: impl Into<String>, problem: impl Into<String>) {
        self.violations.push(Violation { check, place: place.into(), problem: problem.into() });
    }
}

/// Counts tenants that come in order without keeping them.
#[derive(Default)]
struct TenantCounter {
    counted: u64,
    last: Option<Tenant>,
}

impl TenantCounter {
    fn add(&mut self, tenants: Vec<Tenant>) {
        for tenant in tenants {
            if self.last.as_ref() != Some(&tenant) {
                self.counted += 1;
                self.last = Some(tenant);
            }
        }
    }
}

/// Looks at a page until nothing is suspicious, or [`LOOKS_MAX`] times. The next page is the one behind the last look,
/// so a row that moved out of this page is met there.
async fn confirm(store: &dyn OperatorStore, page: &Page, tenants: &mut TenantCounter) -> Result<Look> {
    let mut last = look_at(store, page).await?;
    for _ in 1..LOOKS_MAX {
        if last.violations.is_empty() {
            break;
        }
        let seen: BTreeSet<_> = last.violations.iter().map(|one| (one.check, one.place.clone())).collect();
        last = look_at(store, page).await?;
        last.violations.retain(|one| seen.contains(&(one.check, one.place.clone())));
    }
    tenants.add(std::mem::take(&mut last.tenants));
    Ok(last)
}

async fn look_at(store: &dyn OperatorStore, page: &Page) -> Result<Look> {
    let mut look = Look::default();
    match page {
        Page::Workflows(behind) => {
            let books = store.workflow_books(behind.as_ref(), WORKFLOWS_PER_PAGE).await?;
            windows::check(&books, &mut look);
            let full = books.len() as u64 == u64::from(WORKFLOWS_PER_PAGE);
            let last = books.into_iter().next_back().filter(|_| full).map(|one| one.key);
            look.next = Some(last.map_or(Page::Retrospectives(None), |key| Page::Workflows(Some(key))));
        }
        Page::Retrospectives(behind) => {
            let page = store.retrospective_books(behind.as_ref(), RETROSPECTIVES_PER_PAGE).await?;
            for books in &page.items {
                reports::check(store, books, &mut look).await?;
            }
            look.next = Some(page.next.map_or(Page::Memories(None), |next| Page::Retrospectives(Some(next))));
        }
        Page::Memories(behind) => {
            let behind = behind.as_ref().map(|(tenant, id)| (tenant, *id));
            let books = store.memory_books(behind, MEMORIES_PER_PAGE).await?;
            for one in &books {
                memories::check(store, one, &mut look).await?;
            }
            let full = books.len() as u64 == u64::from(MEMORIES_PER_PAGE);
            let last = books.into_iter().next_back().filter(|_| full);
            look.next = last.map(|one| Page::Memories(Some((one.tenant, one.id))));
        }
    }
    Ok(look)
}

#[cfg(test)]
mod tests;
