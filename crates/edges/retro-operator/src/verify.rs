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
mod page;
mod reports;
mod verification;
mod windows;

pub use verification::{Check, CheckedCounts, VIOLATIONS_MAX, Verification, Violation};

use std::collections::BTreeSet;

use retro_core::id::Tenant;
use retro_store::{OperatorStore, Result};

use page::{PageCheck, PageCursor};

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
