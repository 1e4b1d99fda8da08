//! The words of enums are stored, hashed and used as labels, so they never change.

use retro_core::count::Disposition;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::finding::MemoryVerdict as Verdict;
use retro_core::id::RemarkKind;
use retro_core::memory::{MemoryStatus, WeightReason};
use retro_core::pull_request::{CreditedOutcome, PullRequestState};
use retro_core::remark::AuthorStanding as Standing;
use retro_core::retrospective::RetrospectiveState as State;
use retro_core::review::ReadingKind;
use retro_core::run::RunOutcome as Run;

/// Checks that the variants have these words, separated by spaces, as text and as JSON.
fn check<T: serde::Serialize + Copy + Into<&'static str>>(variants: &[T], words: &str) {
    let written: Vec<&str> = variants.iter().map(|variant| (*variant).into()).collect();
    assert_eq!(written.join(" "), words);
    assert_eq!(serde_json::to_value(variants).unwrap(), serde_json::json!(written));
}

#[test]
fn stored_words_never_change() {
    check(
        &[Run::Success, Run::Failure, Run::Error, Run::Timeout, Run::Cancellation, Run::Skip, Run::Unknown],
        "success failure error timeout cancellation skip unknown",
    );
    check(
        &[State::Due, State::Investigating, State::Settling, State::Closed, State::Failed, State::Cancelled],
        "due investigating settling closed failed cancelled",
    );
    check(MemoryStatus::ALL, "tentative active archived deleted superseded graduated");
    check(
        &[Verdict::Harmed, Verdict::Helped, Verdict::Applied, Verdict::Ignored, Verdict::CueNotMet],
        "harmed helped applied ignored cue_not_met",
    );
    check(
        &[PullRequestState::Open, PullRequestState::Merged, PullRequestState::Closed],
        "open merged closed",
    );
    check(
        &[
            CreditedOutcome::Merged,
            CreditedOutcome::ClosedUnmerged,
            CreditedOutcome::ChangesRequested,
            CreditedOutcome::Reverted,
        ],
        "merged closed_unmerged changes_requested reverted",
    );
    check(
        &[Standing::Bot, Standing::Outsider, Standing::Contributor, Standing::Insider],
        "bot outsider contributor insider",
    );
    let kinds = [RemarkKind::ReviewBody, RemarkKind::LineComment, RemarkKind::ConversationComment];
    check(&kinds, "review_body line_comment conversation_comment");
    for kind in kinds {
        assert_eq!(kind.as_str().parse::<RemarkKind>().ok(), Some(kind));
    }
}

#[test]
fn words_for_people_are_not_the_stored_ones() {
    assert_eq!(Verdict::CueNotMet.as_str(), "cue not met");
    assert_eq!(Verdict::Harmed.as_str(), "harmed");
    assert_eq!(WeightReason::ClosedUnmerged.as_str(), "closed unmerged");
    assert_eq!(WeightReason::Merged.as_str(), "merged");
    let kinds: Vec<_> = ReadingKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(kinds, ["rule", "one-off", "question", "praise", "noise", "preference"]);
}

#[test]
fn a_disposition_is_a_metric_label() {
    let conflict = Rejection::of_message(DeadLetterCode::NotJson, "");
    let all = [
        Disposition::Counted(1),
        Disposition::Updated,
        Disposition::Recorded,
        Disposition::Superseded,
        Disposition::Duplicate,
        Disposition::Conflict(conflict),
    ];
    let labels: Vec<_> = all.iter().map(Disposition::as_str).collect();
    assert_eq!(labels, ["counted", "updated", "recorded", "superseded", "duplicate", "conflict"]);
}
