//! A report for each end, which tells what the log tells and whose sample can be drawn again.

use retro_core::canonical::canonical_json;
use retro_core::memory::Change;
use retro_core::report::Report;
use retro_core::retrospective::State;
use retro_core::sample::draw;
use retro_store::{OperatorStore, Result, RetrospectiveBooks};

use super::{Check, Look, manual};
use crate::words::count;

pub(super) async fn check(
    store: &dyn OperatorStore,
    books: &RetrospectiveBooks,
    look: &mut Look,
) -> Result<()> {
    look.checked.retrospectives += 1;
    if let Some(asked) = &books.retrospective.asked {
        return manual::check(store, books, asked, look).await;
    }
    check_automatic(books, look);
    Ok(())
}

fn check_automatic(books: &RetrospectiveBooks, look: &mut Look) {
    let one = &books.retrospective;
    if !matches!(one.state, State::Closed | State::Failed) {
        return;
    }
    let place = format!("{}, epoch {}, retrospective {}", one.key, one.epoch, one.id);
    let Some(report) = &books.report else {
        look.wrong(Check::Reports, place, format!("it is {} and has no report", one.state.as_str()));
        return;
    };
    look.checked.reports += 1;
    if (report.ended, report.first, report.last, report.epoch) != (one.state, one.first, one.last, one.epoch)
    {
        let problem = "its report tells another state, window or epoch than its row";
        look.wrong(Check::Reports, &place, problem);
    }
    compare_changes(&place, report, &books.changes, look);
    draw_again(&place, report, look);
}

fn compare_changes(place: &str, report: &Report, logged: &[Change], look: &mut Look) {
    // Their canonical bytes decide; what is equal as it is need not be written out.
    if logged != report.changes && bytes(logged) != bytes(&report.changes) {
        let problem = format!(
            "its report lists {} and the change log {}, or they differ",
            count(report.changes.len() as u64, "change"),
            logged.len()
        );
        look.wrong(Check::Reports, format!("{place}, changes"), problem);
    }
}

/// Anyone can draw the sample again; here it is done.
fn draw_again(place: &str, report: &Report, look: &mut Look) {
    let drawn = draw(report.id, (report.first..=report.last).collect(), &report.policy);
    if drawn != report.sample {
        let problem = "drawn again from its id, window and policy, the sample is another";
        look.wrong(Check::Samples, place, problem);
    }
    if report.policy.hash() != report.policy_hash {
        look.wrong(Check::Samples, format!("{place}, policy"), "its policy has another hash than it says");
    }
}

fn bytes(changes: &[Change]) -> String {
    canonical_json(&serde_json::to_value(changes).expect("changes are plain data"))
}
