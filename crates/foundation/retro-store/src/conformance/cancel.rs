//! Conformance cases for cancelling and reopening retrospectives.

use futures::future::join;
use retro_core::attribution::Attribution;
use retro_core::cancel::ReopenError;
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::DeadLetterId;
use retro_core::message::Notice;
use retro_core::retrospective::{Retrospective, RetrospectiveState};
use retro_core::time::add_seconds;

use super::Database;
use super::delivery::new_dead_letter;
use super::scenario::{LONG_S, Scenario, empty_result, failed_result, time_at};
use crate::{
    AuditAction, AuditRow, CancelResult, CommitResult, DeadLetterFilter, DeadLetterStatus, JournalEntry,
    JournalStage, ReopenResult, StoreError,
};

/// Checks that cancelling a retrospective releases its runs with their ordinals, does not free its epoch, and
/// is recorded in the audit log.
pub async fn cancelling_releases_the_runs_and_records_person_and_reason(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    let opened = scenario.latest_retrospective().await;
    let CancelResult::Cancelled { retrospective, state } =
        cancel_retrospective(&scenario, &opened, "ann").await
    else {
        panic!("it was open")
    };
    assert_eq!(retrospective, Retrospective { state: RetrospectiveState::Cancelled, ..opened.clone() });
    assert_eq!(scenario.latest_retrospective().await, retrospective);
    assert_eq!(scenario.workflow_state().await, state);
    assert_eq!((state.open, state.claimed, state.counted, state.epoch, state.failures), (false, 0, 2, 1, 0));
    let pause = add_seconds(time_at(20), scenario.policy.failure_pause_s);
    assert_eq!(state.paused_until, Some(pause), "stored exactly");
    let audit_rows = database.two.list_audit_rows(&scenario.key.tenant, opened.id.0).await.expect("reading");
    assert_eq!(
        audit_rows,
        [AuditRow {
            action: AuditAction::Cancelled,
            act: new_act("ann"),
            opened_retrospective: None,
            detail: None
        }]
    );
    assert_eq!(database.two.find_report(&scenario.key.tenant, opened.id).await.expect("reading"), None);
    scenario.count_batch(&[], pause).await;
    let next = scenario.latest_retrospective().await;
    assert_eq!((next.epoch, next.first, next.last), (2, 1, 2), "its runs are in the next one");
}

/// Checks that an ended retrospective cannot be cancelled, and that a second caller gets the attribution of
/// the first cancellation.
pub async fn a_retrospective_that_has_ended_cannot_be_cancelled(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    let opened = scenario.latest_retrospective().await;
    let other = scenario.with_store(&*database.two);
    let (one, two) =
        join(cancel_retrospective(&scenario, &opened, "ann"), cancel_retrospective(&other, &opened, "bob"))
            .await;
    let now = |answer: &CancelResult| matches!(answer, CancelResult::Cancelled { .. });
    let (first, second, name) = if now(&one) { (one, two, "ann") } else { (two, one, "bob") };
    assert!(now(&first), "{first:?}");
    let CancelResult::AlreadyEnded { retrospective, act: result } = second else {
        panic!("one action takes effect: {second:?}")
    };
    assert_eq!((retrospective.state, result), (RetrospectiveState::Cancelled, Some(new_act(name))));
    assert_eq!(
        database.one.list_audit_rows(&scenario.key.tenant, opened.id.0).await.expect("reading").len(),
        1
    );
    let scenario = Scenario::new(&*database.one, "t", "v");
    let id = scenario.settle_window(["a", "b"], &|_| empty_result()).await;
    scenario.close_retrospective(id).await;
    let closed = scenario.latest_retrospective().await;
    let state = scenario.workflow_state().await;
    let expected = CancelResult::AlreadyEnded { retrospective: closed.clone(), act: None };
    assert_eq!(cancel_retrospective(&scenario, &closed, "ann").await, expected);
    assert_eq!(scenario.workflow_state().await, state);
    let nobody = Retrospective { id: retro_core::id::RetrospectiveId::of_epoch(&scenario.key, 9), ..closed };
    assert_eq!(cancel_retrospective(&scenario, &nobody, "ann").await, CancelResult::NotFound);
}

/// Checks that after a cancellation a running worker can store nothing and no other worker takes over.
pub async fn cancelling_fences_the_investigator_and_makes_every_message_harmless(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    let opened = scenario.latest_retrospective().await;
    scenario.draw_sample().await;
    let claim = scenario.claim_next(LONG_S).await;
    cancel_retrospective(&scenario.with_store(&*database.two), &opened, "ann").await;
    let fenced = |answer: crate::Result<()>| matches!(answer, Err(StoreError::Fenced { .. }));
    let entry = JournalEntry { stage: JournalStage::Answered, body: "late".into() };
    assert!(fenced(database.one.extend_lease(&claim, LONG_S).await));
    assert!(fenced(database.one.append_journal(&claim, &entry).await));
    assert!(fenced(database.one.schedule_retry(&claim, 0, "late").await));
    assert!(fenced(scenario.finish_claim(&claim, &empty_result()).await));
    assert!(database.one.claim_investigation("another", LONG_S).await.expect("claiming").is_none());
    assert_eq!(database.one.count_claimable().await.expect("counting"), 0);
    assert_eq!(scenario.draw_sample().await, CommitResult::AlreadyDone);
    assert_eq!(scenario.close_retrospective(opened.id).await, CommitResult::AlreadyDone);
    assert_eq!(database.one.list_overdue_samples(0, 9).await.expect("overdue"), []);
    assert_eq!(database.one.list_overdue_closings(0, 9).await.expect("overdue"), []);
    let detail = database.one.find_retrospective(&scenario.key.tenant, opened.id).await.expect("reading");
    assert_eq!(detail.expect("the row exists").investigations[0].result, None);
}

/// Checks that only the first to commit of a concurrent cancellation and closing takes effect.
pub async fn a_cancel_and_a_closing_at_once_leave_one_end(database: &Database) {
    for round in 0..10 {
        let scenario = Scenario::new(&*database.one, "t", &format!("w{round}"));
        let id =
            scenario.settle_window(["a", "b"], &|_| super::scenario::result_with_finding("a lesson")).await;
        let settling = scenario.latest_retrospective().await;
        let other = scenario.with_store(&*database.two);
        let (closed, cancelled) =
            join(scenario.close_retrospective(id), cancel_retrospective(&other, &settling, "ann")).await;
        let (state, claimed) =
            (scenario.latest_retrospective().await.state, scenario.workflow_state().await.claimed);
        let report = database.one.find_report(&scenario.key.tenant, id).await.expect("reading");
        let audit_rows =
            database.one.list_audit_rows(&scenario.key.tenant, id.0).await.expect("reading").len();
        let learnt = scenario.list_memories().await.len();
        match closed {
            CommitResult::Done => {
                assert!(
                    matches!(&cancelled, CancelResult::AlreadyEnded { retrospective, act: None } if retrospective.state == RetrospectiveState::Closed)
                );
                assert_eq!((state, claimed, audit_rows, learnt), (RetrospectiveState::Closed, 2, 0, 1));
                assert!(report.is_some());
            }
            _ => {
                assert!(matches!(cancelled, CancelResult::Cancelled { .. }), "{cancelled:?}");
                assert_eq!((state, claimed, audit_rows, learnt), (RetrospectiveState::Cancelled, 0, 1, 0));
                assert!(report.is_none());
            }
        }
    }
}

/// Checks that reopening ignores the pause, and that the new retrospective covers released and newer runs and
/// has its own seed.
pub async fn replaying_a_failure_opens_the_next_epoch_at_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let dead_letter = fail_retrospective(&scenario, ["a", "b"]).await;
    scenario.count_runs(&["c"]).await;
    scenario.mark_all_sent().await;
    let failed = scenario.latest_retrospective().await;
    let ReopenResult::Opened(opened) = reopen_failed(&scenario, dead_letter, "ann").await else {
        panic!("nothing blocks it")
    };
    assert_eq!((opened.epoch, opened.first, opened.last, opened.state), (2, 1, 3, RetrospectiveState::Due));
    assert_eq!(scenario.latest_retrospective().await, opened);
    assert_ne!(opened.id, failed.id);
    let state = scenario.workflow_state().await;
    assert_eq!((state.open, state.claimed, state.failures, state.paused_until), (true, 3, 1, None));
    assert_eq!(scenario.list_notices().await, [Notice::RetrospectiveDue { retrospective: opened.id }]);
    assert_eq!(load_status(&scenario, dead_letter).await, DeadLetterStatus::Replayed);
    let audit_rows =
        database.two.list_audit_rows(&scenario.key.tenant, dead_letter.0).await.expect("reading");
    assert_eq!(
        audit_rows,
        [AuditRow {
            action: AuditAction::Replayed,
            act: new_act("ann"),
            opened_retrospective: Some(opened.id),
            detail: None
        }]
    );
    assert_eq!(database.one.load_health().await.expect("health").dead_letters_open, 0);
    assert_eq!(scenario.draw_sample().await, CommitResult::Done);
    scenario.investigate_all(&|_| super::scenario::failed_result()).await;
    scenario.close_retrospective(opened.id).await;
    let until = add_seconds(time_at(20), 2 * scenario.policy.failure_pause_s);
    assert_eq!(scenario.workflow_state().await.paused_until, Some(until), "the pause goes on growing");
}

/// Checks that a failed retrospective is reopened once, and that a second caller gets the first attribution
/// and the opened retrospective.
pub async fn a_failed_retrospective_is_reopened_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let dead_letter = fail_retrospective(&scenario, ["a", "b"]).await;
    let other = scenario.with_store(&*database.two);
    let (one, two) =
        join(reopen_failed(&scenario, dead_letter, "ann"), reopen_failed(&other, dead_letter, "bob")).await;
    let now = |answer: &ReopenResult| matches!(answer, ReopenResult::Opened(_));
    let (first, second, name) = if now(&one) { (one, two, "ann") } else { (two, one, "bob") };
    let ReopenResult::Opened(opened) = first else { panic!("one of them opens: {first:?}") };
    assert_eq!(second, ReopenResult::AlreadyReopened { act: new_act(name), opened: opened.clone() });
    assert_eq!(scenario.latest_retrospective().await, opened);
    cancel_retrospective(&scenario, &opened, "cem").await;
    let ReopenResult::AlreadyReopened { opened, .. } = reopen_failed(&scenario, dead_letter, "ann").await
    else {
        panic!("once for ever")
    };
    assert_eq!((opened.epoch, opened.state), (2, RetrospectiveState::Cancelled));
    assert_eq!(scenario.latest_retrospective().await.epoch, 2);
}

/// Checks that nothing changes if a dead letter's retrospective cannot be reopened.
pub async fn a_dead_letter_with_nothing_to_reopen_stays_open(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.failure_pause_s = 0;
    let dead_letter = fail_retrospective(&scenario, ["a", "b"]).await;
    // Without a pause, the next retrospective opened in the transaction in which this one failed.
    let (open, state) = (scenario.latest_retrospective().await, scenario.workflow_state().await);
    assert_eq!(open.epoch, 2);
    assert_eq!(
        reopen_failed(&scenario, dead_letter, "ann").await,
        ReopenResult::Refused(ReopenError::OneIsOpen { epoch: 2 })
    );
    scenario.draw_sample().await;
    scenario.investigate_all(&|_| empty_result()).await;
    scenario.close_retrospective(open.id).await;
    assert_eq!(
        reopen_failed(&scenario, dead_letter, "ann").await,
        ReopenResult::Refused(ReopenError::ClaimedSince { claimed: state.claimed })
    );
    assert_eq!(load_status(&scenario, dead_letter).await, DeadLetterStatus::Open);
    assert_eq!(database.one.list_audit_rows(&scenario.key.tenant, dead_letter.0).await.expect("reading"), []);
    assert_eq!(scenario.latest_retrospective().await.epoch, 2);
}

/// Checks that the dead letter of an invalid message reopens no retrospective; its replay sends the message
/// again.
pub async fn only_the_dead_letter_of_a_failed_retrospective_reopens(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let other = database.one.store_dead_letter(&new_dead_letter(7)).await.expect("storing");
    assert_eq!(
        reopen_failed(&scenario, other, "ann").await,
        ReopenResult::OtherCode(DeadLetterCode::FieldInvalid)
    );
    assert_eq!(load_status(&scenario, other).await, DeadLetterStatus::Open);
    let nobody = DeadLetterId(retro_core::id::derive_uuid("nothing", &[]));
    assert_eq!(reopen_failed(&scenario, nobody, "ann").await, ReopenResult::NotFound);
}

pub(super) fn new_act(by: &str) -> Attribution {
    Attribution::new(by, "the tests want it so", time_at(20)).expect("it says who and why")
}

pub(super) async fn cancel_retrospective(
    scenario: &Scenario<'_>,
    retrospective: &Retrospective,
    by: &str,
) -> CancelResult {
    let decide = |retrospective: &Retrospective, mut state: retro_core::retrospective::WorkflowState| {
        state.cancel_retrospective(retrospective, time_at(20));
        state
    };
    let done = scenario
        .store
        .cancel_retrospective(&scenario.key.tenant, retrospective.id, &new_act(by), &decide)
        .await;
    done.expect("cancelling")
}

pub(super) async fn reopen_failed(
    scenario: &Scenario<'_>,
    dead_letter: DeadLetterId,
    by: &str,
) -> ReopenResult {
    let decide = |failed: &Retrospective, mut state: retro_core::retrospective::WorkflowState| {
        let opening = state.reopen_after(failed, &scenario.policy, time_at(20))?;
        Ok((state, opening))
    };
    scenario
        .store
        .reopen_retrospective(&scenario.key.tenant, dead_letter, &new_act(by), &decide)
        .await
        .expect("replaying")
}

/// Fails a retrospective over two new runs and returns its dead letter.
pub(super) async fn fail_retrospective(scenario: &Scenario<'_>, names: [&str; 2]) -> DeadLetterId {
    let id = scenario.settle_window(names, &|_| failed_result()).await;
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
    let filter =
        DeadLetterFilter { code: Some(DeadLetterCode::RetrospectiveFailed), limit: 1, ..Default::default() };
    scenario.store.list_dead_letters(&scenario.key.tenant, &filter).await.expect("listing")[0].id
}

async fn load_status(scenario: &Scenario<'_>, dead_letter: DeadLetterId) -> DeadLetterStatus {
    let dead_letter =
        scenario.store.find_dead_letter(&scenario.key.tenant, dead_letter).await.expect("reading");
    dead_letter.expect("the row exists").status
}
