//! Implements `retro verify`, which checks the invariants of the stored data while the store is in use.
//!
//! The store is read in three passes, page by page: by workflow (ordinals, windows, epochs), by retrospective
//! (reports, samples, proposals) and by memory (changes, fold, tombstones). Only one page is in memory at a time, and
//! reading a page costs the same at the end of a large store as at its beginning.
//!
//! Workers may write during a verification. A page is read in one transaction and contains everything that is
//! compared, so no check sees a half-written state. Rows that are added before the cursor are left for the
//! next verification. Only a manual proposal and its memory are on different pages and are read separately,
//! so a race can look like a violation. A page with violations is therefore read again, and only violations
//! that all [`CHECK_ROUNDS_MAX`] rounds find at the same place are reported.

mod manual;
mod memories;
mod reports;
mod windows;

use std::collections::BTreeSet;

use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_store::{OperatorStore, Result, RetrospectiveCursor};
use serde::{Deserialize, Serialize};

use crate::text::format_count;

/// Number of rounds that must find a violation before it is reported. A race is unlikely to occur at the same
/// place three times in a row.
pub const CHECK_ROUNDS_MAX: usize = 3;
/// Number of workflows per page. A window takes about 40 bytes, and the overhead of a page is small compared
/// to the time of reading it.
const WORKFLOWS_PER_PAGE: u32 = 200;
/// Number of retrospectives per page. A report takes up to a few hundred kilobytes, so a page takes about ten
/// megabytes.
const RETROSPECTIVES_PER_PAGE: u32 = 50;
/// Number of memories per page. Each is read with its whole history, which is up to a few hundred changes of about a
/// kilobyte each.
const MEMORIES_PER_PAGE: u32 = 100;

/// Maximum number of violations in the result: more than anybody reads, and a bound on memory if a whole
/// store is damaged.
pub const VIOLATIONS_MAX: usize = 1_000;

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verification {
    /// Violations that were found, at most [`VIOLATIONS_MAX`]; empty for a sound store.
    pub violations: Vec<Violation>,
    /// Number of violations that were found beyond [`VIOLATIONS_MAX`] and left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// Numbers of objects that were checked. An empty store proves nothing.
    pub checked: CheckedCounts,
    /// Number of unsent messages in the outbox. Unsent messages are not a violation, but the number should
    /// decrease.
    pub outbox_unsent: u64,
    /// Number of open dead letters of all tenants.
    pub dead_letters_open: u64,
}

/// Violation of an invariant at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Violation {
    /// Check that failed.
    pub check: Check,
    /// Place of the violation: tenant, workflow, and the object within the workflow.
    pub location: String,
    /// Description of the problem in one sentence.
    pub detail: String,
}

/// A check of `retro verify`. Each variant documents the invariant that must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Ordinals run from 1 to the number of counted runs, without a gap or a duplicate.
    Ordinals,
    /// Windows that were not released are contiguous and disjoint, and the last one ends at the ordinal stored in the
    /// workflow's row.
    Windows,
    /// Epochs run from 1 without a gap.
    Epochs,
    /// At most one retrospective of a workflow is open, and the workflow's row says whether one is.
    Open,
    /// A closed or failed retrospective has a report that agrees with the change log.
    Reports,
    /// The sample in a report can be drawn again from its seed, and the policy in it has the recorded hash.
    Samples,
    /// Each stored memory equals the fold of its changes.
    Fold,
    /// A change has the id derived from its effect key and is stored once.
    EffectKeys,
    /// A manual retrospective names only counted runs, and its proposals are supported by these runs and decided at
    /// most once.
    Manual,
    /// A tombstone belongs to a deleted memory and expires at the time that its deletion set.
    Tombstones,
}

/// Numbers of objects that a verification checked, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckedCounts {
    /// Number of tenants checked.
    pub tenants: u64,
    /// Number of workflows checked, rule scopes not included.
    pub workflows: u64,
    /// Number of counted runs checked.
    pub runs: u64,
    /// Number of retrospectives checked.
    pub retrospectives: u64,
    /// Number of reports checked.
    pub reports: u64,
    /// Number of memories that were folded and compared.
    pub memories: u64,
    /// Number of changes checked.
    pub changes: u64,
    /// Number of tombstones checked.
    pub tombstones: u64,
    /// Number of proposals of manual retrospectives checked.
    #[serde(default)]
    pub proposals: u64,
}

impl CheckedCounts {
    fn add_counts(&mut self, other: &Self) {
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
    fn add_violations(&mut self, found: Vec<Violation>) {
        let room = VIOLATIONS_MAX - self.violations.len();
        self.omitted += found.len().saturating_sub(room) as u64;
        self.violations.extend(found.into_iter().take(room));
    }

    /// Returns `true` if there are no violations and at least one counted run was checked.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && self.checked.runs > 0
    }

    /// Renders the result for people: the verdict, the violations with their places, and the numbers of checked
    /// objects.
    pub fn render_text(&self) -> String {
        let CheckedCounts {
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
        let verdict = match (self.violations.len() as u64 + self.omitted, runs) {
            (0, 0) => "NOTHING PROVED: the store holds no counted run".to_owned(),
            (0, _) => "sound".to_owned(),
            (n, _) => format!("NOT SOUND: {}", format_count(n, "violation")),
        };
        let lines = self
            .violations
            .iter()
            .map(|one| format!("  {} at {}: {}\n", one.check.as_str(), one.location, one.detail));
        format!(
            "{verdict}\n{}{}checked {} with {}: {}, {}, {}, {}, {}, {}, {}\n{} waiting to be sent, {} open\n",
            lines.collect::<String>(),
            if self.omitted > 0 { format!("  and {} more\n", self.omitted) } else { String::new() },
            format_count(tenants, "tenant"),
            format_count(workflows, "workflow"),
            format_count(runs, "counted run"),
            format_count(retrospectives, "retrospective"),
            format_count(reports, "report"),
            format_count(memories, "memory"),
            format_count(changes, "change"),
            format_count(tombstones, "tombstone"),
            format_count(proposals, "proposal"),
            format_count(self.outbox_unsent, "message"),
            format_count(self.dead_letters_open, "dead letter"),
        )
    }
}

impl Check {
    /// Returns the name for text output. JSON uses the name of the variant in snake case instead.
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

/// Verifies the data of every tenant. Fails only if the store cannot be read; violations are part of the result.
pub async fn verify_store(store: &dyn OperatorStore) -> Result<Verification> {
    let mut all = Verification::default();
    let health = store.load_health().await?;
    all.outbox_unsent = health.outbox_unsent;
    all.dead_letters_open = health.dead_letters_open;
    let mut tenants = TenantCounter::default();
    let mut page = Some(PageCursor::Workflows(None));
    while let Some(at) = page {
        let page_check = confirm_page(store, &at, &mut tenants).await?;
        all.checked.add_counts(&page_check.checked);
        all.add_violations(page_check.violations);
        page = page_check.next;
    }
    all.checked.tenants = tenants.counted;
    all.violations.sort();
    Ok(all)
}

/// Position of a page in the three passes: workflows, then retrospectives, then memories. A page starts after the
/// last row of the previous page; `None` is the start of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PageCursor {
    /// The pass over workflows, with their ordinals and windows.
    Workflows(Option<WorkflowKey>),
    /// The pass over retrospectives, with their reports, changes and proposals.
    Retrospectives(Option<RetrospectiveCursor>),
    /// The pass over memories, with their changes and tombstones.
    Memories(Option<(Tenant, MemoryId)>),
}

/// Result of checking one page.
#[derive(Default)]
struct PageCheck {
    checked: CheckedCounts,
    violations: Vec<Violation>,
    /// Tenants of the page's workflows, sorted.
    tenants: Vec<Tenant>,
    /// Position of the next page; `None` after the last page.
    next: Option<PageCursor>,
}

impl PageCheck {
    fn add_violation(&mut self, check: Check, location: impl Into<String>, detail: impl Into<String>) {
        self.violations.push(Violation { check, location: location.into(), detail: detail.into() });
    }
}

/// Counts distinct tenants. The tenants arrive sorted, so only the last one is stored.
#[derive(Default)]
struct TenantCounter {
    counted: u64,
    last: Option<Tenant>,
}

impl TenantCounter {
    fn count_tenants(&mut self, tenants: Vec<Tenant>) {
        for tenant in tenants {
            if self.last.as_ref() != Some(&tenant) {
                self.counted += 1;
                self.last = Some(tenant);
            }
        }
    }
}

/// Checks a page until no violations are found, at most [`CHECK_ROUNDS_MAX`] times. The next page begins
/// where the last round ended, so a row that has moved out of this page is checked with the next one.
async fn confirm_page(
    store: &dyn OperatorStore,
    page: &PageCursor,
    tenants: &mut TenantCounter,
) -> Result<PageCheck> {
    let mut last = check_page(store, page).await?;
    for _ in 1..CHECK_ROUNDS_MAX {
        if last.violations.is_empty() {
            break;
        }
        let seen: BTreeSet<_> = last.violations.iter().map(|one| (one.check, one.location.clone())).collect();
        last = check_page(store, page).await?;
        // A violation found in only one round, or at another place each time, is a race with a writer.
        last.violations.retain(|one| seen.contains(&(one.check, one.location.clone())));
    }
    // From the last round only, so that a page that is read again is not counted twice.
    tenants.count_tenants(std::mem::take(&mut last.tenants));
    Ok(last)
}

async fn check_page(store: &dyn OperatorStore, page: &PageCursor) -> Result<PageCheck> {
    let mut page_check = PageCheck::default();
    match page {
        PageCursor::Workflows(after) => {
            let books = store.list_workflow_records(after.as_ref(), WORKFLOWS_PER_PAGE).await?;
            windows::check_workflows(&books, &mut page_check);
            // Only a full page can be followed by another one.
            let full = books.len() as u64 == u64::from(WORKFLOWS_PER_PAGE);
            let last = books.into_iter().next_back().filter(|_| full).map(|one| one.key);
            page_check.next =
                Some(last.map_or(PageCursor::Retrospectives(None), |key| PageCursor::Workflows(Some(key))));
        }
        PageCursor::Retrospectives(after) => {
            let page = store.list_retrospective_records(after.as_ref(), RETROSPECTIVES_PER_PAGE).await?;
            for books in &page.items {
                reports::check_retrospective(store, books, &mut page_check).await?;
            }
            page_check.next = Some(
                page.next.map_or(PageCursor::Memories(None), |next| PageCursor::Retrospectives(Some(next))),
            );
        }
        PageCursor::Memories(after) => {
            let after = after.as_ref().map(|(tenant, id)| (tenant, *id));
            let books = store.list_memory_records(after, MEMORIES_PER_PAGE).await?;
            for one in &books {
                memories::check_memory(store, one, &mut page_check).await?;
            }
            let full = books.len() as u64 == u64::from(MEMORIES_PER_PAGE);
            let last = books.into_iter().next_back().filter(|_| full);
            page_check.next = last.map(|one| PageCursor::Memories(Some((one.tenant, one.id))));
        }
    }
    Ok(page_check)
}

#[cfg(test)]
mod tests;
