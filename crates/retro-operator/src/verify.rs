//! `retro verify`: checks the stored invariants on a live store.
//!
//! The store is read in three passes, page by page: by workflow (ordinals, windows, epochs), by retrospective
//! (reports, samples, proposals) and by memory (changes, fold, tombstones). Only one page is held at a time, and a
//! page costs the same at the end of a large store as at its beginning.
//!
//! Workers keep writing meanwhile. A page is read in one transaction and contains everything that is compared, so no
//! check sees a half-written state. Rows that are added before the cursor between two pages are left for the next
//! verification. A manual proposal and its memory are on different pages and are read one by one, so a race can look
//! like a violation. Therefore a page with violations is read again, and only those are reported that all
//! [`CHECK_ROUNDS_MAX`] rounds find at the same place.

mod manual;
mod memories;
mod reports;
mod windows;

use std::collections::BTreeSet;

use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_store::{OperatorStore, Result, RetrospectiveCursor};
use serde::{Deserialize, Serialize};

use crate::text::format_count;

/// Number of rounds in which a violation must show up before it is reported: a race does not hit three times in a row
/// at one place.
pub const CHECK_ROUNDS_MAX: usize = 3;
/// Number of workflows per page. Their windows take about 40 bytes each, and the overhead per page is a
/// fraction of the time to read it.
const WORKFLOWS_PER_PAGE: u32 = 200;
/// Number of retrospectives per page. A report takes up to a few hundred kilobytes, so a page takes about ten
/// megabytes.
const RETROSPECTIVES_PER_PAGE: u32 = 50;
/// Number of memories per page, each with its whole history: up to a few hundred changes of a kilobyte.
const MEMORIES_PER_PAGE: u32 = 100;

/// Maximum number of violations kept: more than a person reads, and a bound on the memory used when a whole
/// store is damaged.
pub const VIOLATIONS_MAX: usize = 1_000;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verification {
    /// Violations found, at most [`VIOLATIONS_MAX`]; empty for a sound store.
    pub violations: Vec<Violation>,
    /// Number of violations that were found but not kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Number of objects checked. An empty store proves nothing.
    pub checked: CheckedCounts,
    /// Number of unsent messages in the outbox. Not a violation, but it should decrease.
    pub outbox_unsent: u64,
    /// Open dead letters of all tenants.
    pub dead_letters_open: u64,
}

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Violation {
    /// The check that failed.
    pub check: Check,
    /// Tenant, workflow, and the object within it.
    pub place: String,
    /// The problem in one sentence.
    pub problem: String,
}

/// The checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Ordinals run from 1 to the number of counted runs, without a gap or a duplicate.
    Ordinals,
    /// Windows that were not released are contiguous and disjoint, and end at the ordinal in the workflow's
    /// row.
    Windows,
    /// Epochs run from 1 without a gap.
    Epochs,
    /// At most one retrospective of a workflow is open, and the workflow's row is consistent with this.
    Open,
    /// A closed or failed retrospective has a report that agrees with the change log.
    Reports,
    /// A report's sample can be drawn again from its seed, and its policy has the recorded hash.
    Samples,
    /// The memory table equals the fold of the change log.
    Fold,
    /// A change has the id derived from its effect key, and exists once.
    EffectKeys,
    /// A manual retrospective names counted runs, and its proposals are about those runs and decided at most once.
    Manual,
    /// A tombstone belongs to a deleted memory and ends at the time that the deletion set.
    Tombstones,
}

/// Numbers of objects checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckedCounts {
    /// Number of tenants.
    pub tenants: u64,
    /// Number of workflows with recorded runs.
    pub workflows: u64,
    /// Number of counted runs.
    pub runs: u64,
    /// Number of retrospectives.
    pub retrospectives: u64,
    /// Number of reports.
    pub reports: u64,
    /// Number of memories that were folded and compared.
    pub memories: u64,
    /// Number of changes.
    pub changes: u64,
    /// Number of tombstones.
    pub tombstones: u64,
    /// Number of proposals of manual retrospectives.
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
        self.left_out += found.len().saturating_sub(room) as u64;
        self.violations.extend(found.into_iter().take(room));
    }

    /// Returns true when there are no violations and at least one counted run was checked.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && self.checked.runs > 0
    }

    /// Renders the result for people: verdict, violations with their places, and numbers of objects checked.
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
        let verdict = match (self.violations.len() as u64 + self.left_out, runs) {
            (0, 0) => "NOTHING PROVED: the store holds no counted run".to_owned(),
            (0, _) => "sound".to_owned(),
            (n, _) => format!("NOT SOUND: {}", format_count(n, "violation")),
        };
        let lines = self
            .violations
            .iter()
            .map(|one| format!("  {} at {}: {}\n", one.check.as_str(), one.place, one.problem));
        format!(
            "{verdict}\n{}{}checked {} with {}: {}, {}, {}, {}, {}, {}, {}\n{} waiting to be sent, {} open\n",
            lines.collect::<String>(),
            if self.left_out > 0 { format!("  and {} more\n", self.left_out) } else { String::new() },
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
    /// Returns the name used in output.
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

/// Verifies the data of every tenant. Fails only when the store cannot be read; violations are part of the result.
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

/// Position in the three passes: workflows, then retrospectives, then memories. A page starts after the last row of
/// the previous page.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PageCursor {
    /// Workflows with their ordinals and windows.
    Workflows(Option<WorkflowKey>),
    /// Retrospectives with their reports, changes and proposals.
    Retrospectives(Option<RetrospectiveCursor>),
    /// Memories with their changes and tombstones.
    Memories(Option<(Tenant, MemoryId)>),
}

/// The result of checking one page.
#[derive(Default)]
struct PageCheck {
    checked: CheckedCounts,
    violations: Vec<Violation>,
    /// Tenants of the page's workflows, in order.
    tenants: Vec<Tenant>,
    /// Next page; `None` after the last one.
    next: Option<PageCursor>,
}

impl PageCheck {
    fn add_violation(&mut self, check: Check, place: impl Into<String>, problem: impl Into<String>) {
        self.violations.push(Violation { check, place: place.into(), problem: problem.into() });
    }
}

/// Counts distinct tenants without storing them; they arrive sorted.
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

/// Checks a page until it has no violations, at most [`CHECK_ROUNDS_MAX`] times. The next page follows from the last
/// round, so a row that has moved out of this page is checked there.
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
        let seen: BTreeSet<_> = last.violations.iter().map(|one| (one.check, one.place.clone())).collect();
        last = check_page(store, page).await?;
        // A violation of one round only, or at another place each time, is a race with a writer.
        last.violations.retain(|one| seen.contains(&(one.check, one.place.clone())));
    }
    tenants.count_tenants(std::mem::take(&mut last.tenants));
    Ok(last)
}

async fn check_page(store: &dyn OperatorStore, page: &PageCursor) -> Result<PageCheck> {
    let mut page_check = PageCheck::default();
    match page {
        PageCursor::Workflows(behind) => {
            let books = store.list_workflow_records(behind.as_ref(), WORKFLOWS_PER_PAGE).await?;
            windows::check_workflows(&books, &mut page_check);
            let full = books.len() as u64 == u64::from(WORKFLOWS_PER_PAGE);
            let last = books.into_iter().next_back().filter(|_| full).map(|one| one.key);
            page_check.next =
                Some(last.map_or(PageCursor::Retrospectives(None), |key| PageCursor::Workflows(Some(key))));
        }
        PageCursor::Retrospectives(behind) => {
            let page = store.list_retrospective_records(behind.as_ref(), RETROSPECTIVES_PER_PAGE).await?;
            for books in &page.items {
                reports::check_retrospective(store, books, &mut page_check).await?;
            }
            page_check.next = Some(
                page.next.map_or(PageCursor::Memories(None), |next| PageCursor::Retrospectives(Some(next))),
            );
        }
        PageCursor::Memories(behind) => {
            let behind = behind.as_ref().map(|(tenant, id)| (tenant, *id));
            let books = store.list_memory_records(behind, MEMORIES_PER_PAGE).await?;
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
