//! Checks the words that databases store.

use serde::Serialize;
use serde_json::json;

use crate::JournalStage;
use crate::audit::AuditAction as Action;
use crate::dead_letter::DeadLetterStatus as Status;
use crate::manual::ProposalStatus as Proposal;
use crate::replay::ReplayBatchState as Batch;
use crate::retention::RetentionStage;

/// Checks that the variants have these words, as text and as JSON.
fn check<T: Serialize + Copy + Into<&'static str>>(variants: &[T], words: &[&str]) {
    let written: Vec<&str> = variants.iter().map(|variant| (*variant).into()).collect();
    assert_eq!(written, words);
    assert_eq!(serde_json::to_value(variants).expect("words serialize to JSON"), json!(words));
}

#[test]
fn stored_words_never_change() {
    check(
        &[
            Action::Cancelled,
            Action::Replayed,
            Action::Discarded,
            Action::Edited,
            Action::ReadRaw,
            Action::Exported,
        ],
        &["cancelled", "replayed", "discarded", "edited", "read_raw", "exported"],
    );
    check(
        &[Status::Open, Status::Replaying, Status::Handled, Status::Discarded, Status::Replayed],
        &["open", "replaying", "handled", "discarded", "replayed"],
    );
    check(&[Proposal::Open, Proposal::Accepted, Proposal::Refused], &["open", "accepted", "refused"]);
    check(
        &[Batch::Canary, Batch::Running, Batch::Stopped, Batch::Done],
        &["canary", "running", "stopped", "done"],
    );
    check(RetentionStage::ALL, &["bodies", "journals", "runs", "events", "messages", "attempts"]);
    assert_eq!(JournalStage::Briefed.as_str(), "briefed");
    assert_eq!(JournalStage::Answered.as_str(), "answered");
}
