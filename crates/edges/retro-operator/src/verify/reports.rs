//! Checks that every ended retrospective has a report that agrees with the change log and contains a sample that can
//! be drawn again.

use retro_core::canonical::canonical_json;
use retro_core::memory::Change;
use retro_core::report::Report;
use retro_core::retrospective::RetrospectiveState;
use retro_core::sample::draw_sample;
use retro_store::{OperatorStore, Result, RetrospectiveRecords};

use super::manual;
use super::page::PageCheck;
use super::verification::Check;
use crate::text::format_count;

pub(super) async fn check_retrospective(
    store: &dyn OperatorStore,
    books: &RetrospectiveRecords,
    page_check: &mut PageCheck,
) -> Result<()> {
    page_check.checked.retrospectives += 1;
    if let Some(request) = &books.retrospective.manual_request {
        return manual::check_manual(store, books, request, page_check).await;
    }
    check_automatic(books, page_check);
    Ok(())
}

fn check_automatic(books: &RetrospectiveRecords, page_check: &mut PageCheck) {
    let one = &books.retrospective;
    if !matches!(one.state, RetrospectiveState::Closed | RetrospectiveState::Failed) {
        return;
    }
    let place = format!("{}, epoch {}, retrospective {}", one.key, one.epoch, one.id);
    let Some(report) = &books.report else {
        page_check.add_violation(
            Check::Reports,
            place,
            format!("it is {} and has no report", one.state.as_str()),
        );
        return;
    };
    page_check.checked.reports += 1;
    if (report.ended, report.first, report.last, report.epoch) != (one.state, one.first, one.last, one.epoch)
    {
        let problem = "state, window or epoch of its report differ from its row";
        page_check.add_violation(Check::Reports, &place, problem);
    }
    compare_changes(&place, report, &books.changes, page_check);
    check_sample(&place, report, page_check);
}

fn compare_changes(place: &str, report: &Report, logged: &[Change], page_check: &mut PageCheck) {
    // The canonical bytes decide; if the values are equal, serializing them is not necessary.
    if logged != report.changes && canonical_bytes(logged) != canonical_bytes(&report.changes) {
        let problem = format!(
            "its report lists {} and the change log {}, or they differ",
            format_count(report.changes.len() as u64, "change"),
            logged.len()
        );
        page_check.add_violation(Check::Reports, format!("{place}, changes"), problem);
    }
}

/// Draws the sample again from the id of the retrospective and compares it with the sample in the report.
fn check_sample(place: &str, report: &Report, page_check: &mut PageCheck) {
    let drawn = draw_sample(report.id, (report.first..=report.last).collect(), &report.policy);
    if drawn != report.sample {
        let problem = "drawn again from its id, window and policy, the sample differs";
        page_check.add_violation(Check::Samples, place, problem);
    }
    if report.policy.content_hash() != report.policy_hash {
        page_check.add_violation(
            Check::Samples,
            format!("{place}, policy"),
            "its policy does not have the recorded hash",
        );
    }
}

fn canonical_bytes(changes: &[Change]) -> String {
    canonical_json(&serde_json::to_value(changes).expect("changes can be serialized"))
}
