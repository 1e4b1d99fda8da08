//! Conformance cases for manual retrospectives and their proposals.

use futures::future::join;
use retro_core::id::{ProposalId, RetrospectiveId};
use retro_core::manual::{
    Acceptance, DecideError, DecidedProposal, NamedRun, ProposalFacts, Refusal, TriggerError,
    TriggeredRetrospective, trigger_retrospective,
};
use retro_core::memory::{ChangeEffect, MemoryStatus};
use retro_core::message::Notice;
use retro_core::retrospective::{ManualRequest, RetrospectiveState};
use retro_core::similarity::{ComparesTexts, NgramEmbedder};

use super::Database;
use super::close::closing_facts;
use super::scenario::{LONG_S, Scenario, empty_result, failed_result, result_with_finding, run_id, time_at};
use crate::{CommitResult, ProposalFilter, ProposalRow, ProposalStatus};

/// Checks that a manual retrospective starts immediately, covers exactly the named runs, and changes neither
/// ordinals, window, epoch nor pause.
pub async fn a_manual_retrospective_has_its_runs_and_leaves_the_window_unchanged(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.threshold_runs = 3;
    scenario.count_runs(&["a", "b"]).await;
    let before = scenario.workflow_state().await;
    let id = open_manual(&scenario, "q", &["b", "a"]).await;
    assert_eq!(scenario.workflow_state().await, before);
    let detail =
        database.two.find_retrospective(&scenario.key.tenant, id).await.expect("reading").expect("opened");
    let manual = detail.retrospective;
    assert_eq!(
        (manual.epoch, manual.first, manual.last, manual.state),
        (0, 0, 0, RetrospectiveState::Investigating)
    );
    let requested = manual.manual_request.expect("it was requested by hand");
    assert_eq!((requested.runs, requested.by.as_str()), (vec![run_id("a"), run_id("b")], "ada"));
    assert_eq!(detail.sample.expect("named").order, [1, 2]);
    let due = Notice::InvestigationDue { retrospective: id, investigation: 1 };
    assert_eq!(scenario.list_notices().await, [due]);
    let claim = scenario.claim_next(LONG_S).await;
    assert_eq!((claim.retrospective.id, claim.run.run_id.as_str(), claim.number), (id, "a", 1));
    // The next automatic retrospective includes the same runs and has epoch 1.
    scenario.count_runs(&["c"]).await;
    let automatic = RetrospectiveId::of_epoch(&scenario.key, 1);
    let detail = database.one.find_retrospective(&scenario.key.tenant, automatic).await.expect("reading");
    let window = detail.expect("three runs wait").retrospective;
    assert_eq!((window.first, window.last), (1, 3));
    assert_eq!(scenario.workflow_state().await.epoch, 1);
}

/// Checks that a repeated or concurrent request opens one retrospective, and that a different request cannot
/// reuse its id.
pub async fn the_same_request_opens_one_retrospective(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a"]).await;
    let other = scenario.with_store(&*database.two);
    let both = join(trigger_manual(&scenario, "q", &["a"]), trigger_manual(&other, "q", &["a"])).await;
    assert!(
        both == (Ok(CommitResult::Done), Ok(CommitResult::AlreadyDone))
            || both == (Ok(CommitResult::AlreadyDone), Ok(CommitResult::Done))
    );
    assert_eq!(scenario.list_notices().await.len(), 1);
    scenario.count_runs(&["b"]).await;
    assert_eq!(
        trigger_manual(&scenario, "q", &["b"]).await,
        Err(TriggerError::RequestConflict("q".to_owned()))
    );
    let rows = scenario.store.list_retrospectives(&scenario.key.tenant, None, 9).await.expect("listing");
    assert_eq!(rows.iter().filter(|row| row.retrospective.manual_request.is_some()).count(), 1);
}

/// Checks that a refused trigger opens nothing, and that its error names the unknown or uncounted run.
pub async fn a_refused_trigger_writes_nothing(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let mut skipped = scenario.new_run("skipped");
    skipped.arrival.run.outcome = retro_core::run::RunOutcome::Skip;
    scenario.count_batch(&[scenario.new_run("a"), skipped], time_at(0)).await;
    let unknown = TriggerError::UnknownRun { run: run_id("b"), workflow: scenario.key.workflow.clone() };
    assert_eq!(trigger_manual(&scenario, "q", &["a", "b"]).await, Err(unknown));
    assert_eq!(
        trigger_manual(&scenario, "q", &["skipped"]).await,
        Err(TriggerError::NotCounted(run_id("skipped")))
    );
    assert_eq!(scenario.store.list_retrospectives(&scenario.key.tenant, None, 9).await.expect("listing"), []);
    assert_eq!(scenario.list_notices().await, []);
}

/// Checks that manual retrospectives can be open alongside the automatic one, because law 2 covers only
/// automatic ones.
pub async fn manual_retrospectives_are_open_beside_the_automatic_one(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    assert!(scenario.workflow_state().await.open);
    for request in ["q1", "q2", "q3"] {
        open_manual(&scenario, request, &["a"]).await;
    }
    let rows = scenario.store.list_retrospectives(&scenario.key.tenant, None, 9).await.expect("listing");
    assert_eq!(rows.iter().filter(|row| row.retrospective.state.is_open()).count(), 4);
}

/// Checks that closing a manual retrospective stores its report and proposals, but no change, memory,
/// tombstone or epoch, and leaves the window unchanged.
pub async fn closing_a_manual_retrospective_stores_only_report_and_proposals(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.threshold_runs = 9;
    scenario.count_runs(&["a", "b"]).await;
    let before = scenario.workflow_state().await;
    let id = settle_manual(&scenario, "q", &["a", "b"], &["lesson", "lesson"]).await;
    scenario.mark_all_sent().await;
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::AlreadyDone);
    assert_eq!(scenario.workflow_state().await, before);
    assert_eq!(scenario.list_memories().await, []);
    assert_eq!(scenario.store.list_workflow_changes(&scenario.key).await.expect("changes"), []);
    assert_eq!(scenario.list_notices().await, [Notice::ReportReady { retrospective: id, epoch: 0 }]);
    let report = database
        .two
        .find_report(&scenario.key.tenant, id)
        .await
        .expect("reading")
        .expect("the report is stored");
    let sampled: Vec<_> = report.sampled.iter().map(|run| run.run.as_str()).collect();
    assert_eq!((report.ended, sampled), (RetrospectiveState::Closed, vec!["a", "b"]));
    let rows = list_proposals(&scenario, &ProposalFilter { limit: 9, ..Default::default() }).await;
    let stored: Vec<_> = rows.iter().map(|row| row.proposal.clone()).collect();
    assert_eq!(stored, report.proposals);
    assert_eq!((rows.len(), stored[0].evidence.len(), rows[0].decision.clone()), (1, 2, None));
    let found = database.two.find_proposal(&scenario.key.tenant, stored[0].id).await.expect("reading");
    assert_eq!(found.as_ref(), rows.first());
}

/// Checks that a failed manual retrospective stores only a failed report: no pause, no dead letter and no
/// released runs.
pub async fn a_manual_retrospective_without_a_success_leaves_only_its_report(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.threshold_runs = 9;
    scenario.count_runs(&["a"]).await;
    let before = scenario.workflow_state().await;
    let id = open_manual(&scenario, "q", &["a"]).await;
    let claim = scenario.claim_next(LONG_S).await;
    scenario
        .store
        .finish_investigation(&claim, &failed_result(), Default::default(), &super::scenario::decide_finish)
        .await
        .expect("finishing");
    assert_eq!(scenario.close_retrospective(id).await, CommitResult::Done);
    let report =
        scenario.store.find_report(&scenario.key.tenant, id).await.expect("reading").expect("it has ended");
    assert_eq!(report.ended, RetrospectiveState::Failed);
    assert_eq!(scenario.workflow_state().await, before);
    assert_eq!(scenario.store.load_health().await.expect("health").dead_letters_open, 0);
}

/// Checks that accepting a proposal stores its memory, changes and announcements in one transaction.
pub async fn an_accepted_proposal_is_a_memory_with_its_changes_and_announcements(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = create_proposal(&scenario, "lesson").await;
    scenario.mark_all_sent().await;
    let decided = accept_proposal(&scenario, id).await.expect("the proposal is open");
    let memory = decided.memory.expect("it is one now");
    assert_eq!((memory.status, memory.observed_runs), (MemoryStatus::Active, 2));
    assert_eq!(
        database.two.find_memory(&scenario.key.tenant, memory.id).await.expect("reading"),
        Some(memory.clone())
    );
    let history = database.two.list_memory_changes(&scenario.key.tenant, memory.id).await.expect("history");
    assert_eq!(history, decided.changes);
    let kinds: Vec<_> = history.iter().map(|change| change.effect.kind()).collect();
    assert_eq!(kinds, ["created", "accepted", "observed"]);
    assert!(matches!(&history[1].effect, ChangeEffect::Accepted { proposal, .. } if *proposal == Some(id)));
    assert_eq!(scenario.list_notices().await.len(), 3, "each change is announced");
    let row = database
        .two
        .find_proposal(&scenario.key.tenant, id)
        .await
        .expect("reading")
        .expect("the proposal is kept");
    assert_eq!(row.decision, Some(decided.decision));
}

/// Checks that only one of two concurrent decisions takes effect, and that the other call returns it.
pub async fn two_people_at_once_leave_one_decision(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = create_proposal(&scenario, "lesson").await;
    let other = scenario.with_store(&*database.two);
    let both = join(accept_proposal(&scenario, id), refuse_proposal(&other, id)).await;
    let row = database
        .one
        .find_proposal(&scenario.key.tenant, id)
        .await
        .expect("reading")
        .expect("the proposal is kept");
    let stands = row.decision.expect("somebody has decided");
    let (won, result) = match both {
        (Ok(won), Err(result)) | (Err(result), Ok(won)) => (won, result),
        other => panic!("one call decides and the other returns that decision, not {other:?}"),
    };
    assert_eq!(won.decision, stands);
    assert_eq!(result, DecideError::AlreadyDecided(Box::new(stands)));
    assert_eq!(database.one.list_workflow_changes(&scenario.key).await.expect("changes"), won.changes);
}

/// Checks that a refusal is stored with its reason and changes no memory.
pub async fn a_refusal_is_stored_and_changes_no_memory(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = create_proposal(&scenario, "lesson").await;
    scenario.mark_all_sent().await;
    let decided = refuse_proposal(&scenario, id).await.expect("the proposal is open");
    let row = database
        .two
        .find_proposal(&scenario.key.tenant, id)
        .await
        .expect("reading")
        .expect("the proposal is kept");
    assert_eq!(row.decision, Some(decided.decision));
    assert_eq!((scenario.list_memories().await, scenario.list_notices().await), (vec![], vec![]));
}

/// Checks that a decision on a proposal gets living memories, tombstones, and earlier changes caused by the
/// proposal's runs.
pub async fn a_decision_gets_earlier_changes_of_the_runs(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("lesson").await;
    let deleted = scenario.learn_lesson("Retry at once").await;
    super::write::delete_memory(&scenario, deleted.id, "gone").await.expect("the memory is living");
    let id = settle_manual(&scenario, "q", &["lesson 1", "lesson 2"], &["lesson", "lesson"]).await;
    scenario.close_retrospective(id).await;
    let [row] = &list_proposals(&scenario, &ProposalFilter { limit: 9, ..Default::default() }).await[..]
    else {
        panic!("one pattern is one proposal")
    };
    let facts = std::sync::Mutex::new(None);
    let check = |seen: &ProposalFacts| {
        *facts.lock().expect("no task panics") = Some(seen.clone());
        Ok(retro_core::manual::accept_proposal(
            seen,
            &new_acceptance(),
            &scenario.policy,
            &NgramEmbedder,
            time_at(30),
        ))
    };
    let (tenant, id) = (&scenario.key.tenant, row.proposal.id);
    let collected = scenario.store.load_proposal_facts(tenant, id).await.expect("reading");
    let decided = scenario.store.decide_proposal(tenant, id, &check).await.expect("deciding");
    let decided = decided.expect("every text can be compared").expect("the row exists");
    let decided = decided.expect("the proposal is open");
    let facts = facts.into_inner().expect("no task panics").expect("it was asked");
    assert_eq!(collected.expect("the row exists").texts_to_compare(), facts.texts_to_compare());
    assert_eq!(facts.memories, std::slice::from_ref(&memory));
    assert_eq!(facts.tombstones.iter().map(|stone| stone.memory).collect::<Vec<_>>(), [deleted.id]);
    let history = scenario.store.list_memory_changes(&scenario.key.tenant, memory.id).await.expect("history");
    assert!(history.iter().all(|change| facts.applied.contains(&change.id)));
    assert_eq!((decided.changes, decided.memory), (vec![], Some(memory)), "both runs had shown it");
}

/// Checks that proposals are listed by retrospective, newest first, and in report order within one.
pub async fn proposals_are_listed_and_filtered(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let first = create_proposal(&scenario, "lesson").await;
    accept_proposal(&scenario, first).await.expect("the proposal is open");
    let id = settle_manual(&scenario, "another", &["a", "b"], &["Retry at once", "List the tables"]).await;
    scenario.close_retrospective(id).await;
    let scenario = &scenario;
    let filter = |filter| async move { list_proposals(scenario, &filter).await.len() };
    let all = ProposalFilter { limit: 9, ..Default::default() };
    assert_eq!(filter(all.clone()).await, 3);
    assert_eq!(filter(ProposalFilter { limit: 1, ..all.clone() }).await, 1);
    assert_eq!(filter(ProposalFilter { retrospective: Some(id), ..all.clone() }).await, 2);
    for (status, rows) in
        [(ProposalStatus::Open, 2), (ProposalStatus::Accepted, 1), (ProposalStatus::Refused, 0)]
    {
        assert_eq!(filter(ProposalFilter { status: Some(status), ..all.clone() }).await, rows, "{status:?}");
    }
    let elsewhere = Some(super::scenario::workflow_key("t", "elsewhere").workflow);
    assert_eq!(filter(ProposalFilter { workflow: elsewhere, ..all.clone() }).await, 0);
    let report = scenario
        .store
        .find_report(&scenario.key.tenant, id)
        .await
        .expect("reading")
        .expect("the report is stored");
    let rows = list_proposals(scenario, &ProposalFilter { retrospective: Some(id), ..all }).await;
    let listed: Vec<_> = rows.into_iter().map(|row| row.proposal).collect();
    assert_eq!(listed, report.proposals);
}

/// Checks that the previous epoch is never that of a manual retrospective.
pub async fn the_previous_epoch_is_never_that_of_a_manual_retrospective(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    create_proposal(&scenario, "lesson").await;
    let id = scenario.settle_window(["c", "d"], &|_| empty_result()).await;
    let result = closing_facts(&scenario, id).await;
    assert_eq!((result.retrospective.epoch, result.writer.previous_epoch), (2, Some(1)));
    let other = Scenario::new(&*database.one, "t", "v");
    let mut quiet = Scenario { policy: other.policy.clone(), ..other };
    quiet.policy.threshold_runs = 9;
    quiet.count_runs(&["a"]).await;
    let id = settle_manual(&quiet, "q", &["a"], &["lesson"]).await;
    quiet.close_retrospective(id).await;
    quiet.policy.threshold_runs = 2;
    quiet.count_runs(&["b"]).await;
    quiet.draw_sample().await;
    let automatic = RetrospectiveId::of_epoch(&quiet.key, 1);
    for _ in 0..2 {
        let claim = quiet.claim_next(LONG_S).await;
        quiet.finish_claim(&claim, &empty_result()).await.expect("finishing");
    }
    assert_eq!(closing_facts(&quiet, automatic).await.writer.previous_epoch, None);
}

fn new_request(request: &str, runs: &[&str]) -> ManualRequest {
    let runs = runs.iter().map(|name| run_id(name)).collect();
    ManualRequest {
        request: request.to_owned(),
        by: "ada".to_owned(),
        with_token: None,
        runs,
        focus: None,
        reason: None,
    }
}

/// Triggers a manual retrospective over the named runs.
pub(super) async fn trigger_manual(
    scenario: &Scenario<'_>,
    request: &str,
    runs: &[&str],
) -> Result<CommitResult, TriggerError> {
    let requested = new_request(request, runs);
    let decide = |known: &[NamedRun]| -> Result<TriggeredRetrospective, TriggerError> {
        trigger_retrospective(&scenario.key, &requested, known, &scenario.policy, time_at(5))
    };
    scenario.store.trigger_retrospective(&scenario.key, &requested, &decide).await.expect("triggering")
}

async fn open_manual(scenario: &Scenario<'_>, request: &str, runs: &[&str]) -> RetrospectiveId {
    assert_eq!(trigger_manual(scenario, request, runs).await, Ok(CommitResult::Done));
    RetrospectiveId::of_request(&scenario.key, request)
}

/// Advances a manual retrospective to settling, with one of the lessons as the result of each investigation.
pub(super) async fn settle_manual(
    scenario: &Scenario<'_>,
    request: &str,
    runs: &[&str],
    lessons: &[&str],
) -> RetrospectiveId {
    let id = open_manual(scenario, request, runs).await;
    for lesson in lessons {
        let claim = scenario.claim_next(LONG_S).await;
        assert_eq!(claim.retrospective.id, id);
        scenario.finish_claim(&claim, &result_with_finding(lesson)).await.expect("finishing");
    }
    id
}

/// Creates a proposal with evidence from two runs in which an automatic retrospective found nothing.
pub(super) async fn create_proposal(scenario: &Scenario<'_>, lesson: &str) -> ProposalId {
    let automatic = scenario.settle_window(["a", "b"], &|_| empty_result()).await;
    scenario.close_retrospective(automatic).await;
    let id = settle_manual(scenario, "q", &["a", "b"], &[lesson, lesson]).await;
    scenario.close_retrospective(id).await;
    let filter = ProposalFilter { retrospective: Some(id), limit: 9, ..Default::default() };
    list_proposals(scenario, &filter).await[0].proposal.id
}

async fn list_proposals(scenario: &Scenario<'_>, filter: &ProposalFilter) -> Vec<ProposalRow> {
    scenario.store.list_proposals(&scenario.key.tenant, filter).await.expect("listing")
}

fn new_acceptance() -> Acceptance {
    Acceptance { request: "yes".to_owned(), by: "ada".to_owned(), override_tombstone: None, reason: None }
}

/// Accepts a proposal as an operator's request does.
pub(super) async fn accept_proposal(
    scenario: &Scenario<'_>,
    id: ProposalId,
) -> Result<DecidedProposal, DecideError> {
    let decide = |facts: &ProposalFacts| {
        Ok(retro_core::manual::accept_proposal(
            facts,
            &new_acceptance(),
            &scenario.policy,
            &NgramEmbedder,
            time_at(30),
        ))
    };
    let decided = scenario.store.decide_proposal(&scenario.key.tenant, id, &decide).await;
    decided.expect("deciding").expect("every text can be compared").expect("the row exists")
}

async fn refuse_proposal(scenario: &Scenario<'_>, id: ProposalId) -> Result<DecidedProposal, DecideError> {
    let refusal =
        Refusal { request: "no".to_owned(), by: "bob".to_owned(), reason: "a matter of taste".to_owned() };
    let decide =
        |facts: &ProposalFacts| Ok(retro_core::manual::refuse_proposal(facts, &refusal, time_at(30)));
    let decided = scenario.store.decide_proposal(&scenario.key.tenant, id, &decide).await;
    decided.expect("deciding").expect("every text can be compared").expect("the row exists")
}
