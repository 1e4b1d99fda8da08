//! Cases of manual retrospectives: triggered for named runs, settled into proposals, decided by people.

use futures::future::join;
use retro_core::id::{ProposalId, RetrospectiveId};
use retro_core::manual::{
    Acceptance, DecideError, DecidedProposal, ManualRequest, NamedRun, ProposalFacts, Refusal, TriggerError,
    TriggeredRetrospective, trigger_retrospective,
};
use retro_core::memory::{ChangeEffect, MemoryStatus};
use retro_core::message::Notice;
use retro_core::retrospective::RetrospectiveState;
use retro_core::similarity::NgramEmbedder;

use super::Database;
use super::close::closing_facts;
use super::scenario::{LONG_S, Scenario, empty_result, failed_result, result_with_finding, run_id, time_at};
use crate::{CommitResult, ProposalFilter, ProposalRow, ProposalStatus};

/// A manual retrospective starts at once over exactly the named runs. Ordinals, window, epoch and pause do not change.
pub async fn a_manual_one_begins_with_its_runs_and_leaves_the_window_alone(database: &Database) {
    let mut story = Scenario::new(&*database.one, "t", "w");
    story.policy.threshold_runs = 3;
    story.count_runs(&["a", "b"]).await;
    let before = story.workflow_state().await;
    let id = open_manual(&story, "q", &["b", "a"]).await;
    assert_eq!(story.workflow_state().await, before);
    let detail =
        database.two.find_retrospective(&story.key.tenant, id).await.expect("reading").expect("opened");
    let manual = detail.retrospective;
    assert_eq!(
        (manual.epoch, manual.first, manual.last, manual.state),
        (0, 0, 0, RetrospectiveState::Investigating)
    );
    let asked = manual.asked.expect("it was asked for");
    assert_eq!((asked.runs, asked.by.as_str()), (vec![run_id("a"), run_id("b")], "ada"));
    assert_eq!(detail.sample.expect("named").order, [1, 2]);
    let due = Notice::InvestigationDue { retrospective: id, investigation: 1 };
    assert_eq!(story.list_notices().await, [due]);
    let claim = story.claim_next(LONG_S).await;
    assert_eq!((claim.retrospective.id, claim.run.run_id.as_str(), claim.number), (id, "a", 1));
    // The next automatic retrospective includes the same runs and has the first epoch.
    story.count_runs(&["c"]).await;
    let automatic = RetrospectiveId::of_epoch(&story.key, 1);
    let detail = database.one.find_retrospective(&story.key.tenant, automatic).await.expect("reading");
    let window = detail.expect("three runs wait").retrospective;
    assert_eq!((window.first, window.last), (1, 3));
    assert_eq!(story.workflow_state().await.epoch, 1);
}

/// A repeated or concurrent request is one request. Its name cannot be reused for another one.
pub async fn the_same_request_opens_one(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    story.count_runs(&["a"]).await;
    let other = story.with_store(&*database.two);
    let both = join(trigger_manual(&story, "q", &["a"]), trigger_manual(&other, "q", &["a"])).await;
    assert!(
        both == (Ok(CommitResult::Done), Ok(CommitResult::AlreadyDone))
            || both == (Ok(CommitResult::AlreadyDone), Ok(CommitResult::Done))
    );
    assert_eq!(story.list_notices().await.len(), 1);
    story.count_runs(&["b"]).await;
    assert_eq!(trigger_manual(&story, "q", &["b"]).await, Err(TriggerError::RequestConflict("q".to_owned())));
    let rows = story.store.list_retrospectives(&story.key.tenant, None, 9).await.expect("listing");
    assert_eq!(rows.iter().filter(|row| row.retrospective.asked.is_some()).count(), 1);
}

/// An unknown or uncounted run is named in the error, and nothing is opened.
pub async fn what_cannot_be_looked_at_is_told_and_nothing_is_written(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let mut skipped = story.new_run("skipped");
    skipped.arrival.run.outcome = retro_core::run::RunOutcome::Skip;
    story.count_batch(&[story.new_run("a"), skipped], time_at(0)).await;
    let unknown = TriggerError::UnknownRun { run: run_id("b"), workflow: story.key.workflow.clone() };
    assert_eq!(trigger_manual(&story, "q", &["a", "b"]).await, Err(unknown));
    assert_eq!(
        trigger_manual(&story, "q", &["skipped"]).await,
        Err(TriggerError::NotCounted(run_id("skipped")))
    );
    assert_eq!(story.store.list_retrospectives(&story.key.tenant, None, 9).await.expect("listing"), []);
    assert_eq!(story.list_notices().await, []);
}

/// Law 2 covers automatic retrospectives only. A person may trigger one at any time.
pub async fn any_number_may_be_open_beside_the_automatic_one(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    story.count_runs(&["a", "b"]).await;
    assert!(story.workflow_state().await.open);
    for request in ["q1", "q2", "q3"] {
        open_manual(&story, request, &["a"]).await;
    }
    let rows = story.store.list_retrospectives(&story.key.tenant, None, 9).await.expect("listing");
    assert_eq!(rows.iter().filter(|row| row.retrospective.state.is_open()).count(), 4);
}

/// Closing stores the report and the proposals, but no change, memory, tombstone or epoch, and does not touch the
/// window.
pub async fn closing_a_manual_one_stores_its_proposals_and_nothing_else(database: &Database) {
    let mut story = Scenario::new(&*database.one, "t", "w");
    story.policy.threshold_runs = 9;
    story.count_runs(&["a", "b"]).await;
    let before = story.workflow_state().await;
    let id = settle_manual(&story, "q", &["a", "b"], &["lesson", "lesson"]).await;
    story.mark_all_sent().await;
    assert_eq!(story.close_retrospective(id).await, CommitResult::Done);
    assert_eq!(story.close_retrospective(id).await, CommitResult::AlreadyDone);
    assert_eq!(story.workflow_state().await, before);
    assert_eq!(story.list_memories().await, []);
    assert_eq!(story.store.list_workflow_changes(&story.key).await.expect("changes"), []);
    assert_eq!(story.list_notices().await, [Notice::ReportReady { retrospective: id, epoch: 0 }]);
    let report = database
        .two
        .find_report(&story.key.tenant, id)
        .await
        .expect("reading")
        .expect("the report is stored");
    let sampled: Vec<_> = report.sampled.iter().map(|run| run.run.as_str()).collect();
    assert_eq!((report.ended, sampled), (RetrospectiveState::Closed, vec!["a", "b"]));
    let rows = list_proposals(&story, &ProposalFilter { limit: 9, ..Default::default() }).await;
    let stored: Vec<_> = rows.iter().map(|row| row.proposal.clone()).collect();
    assert_eq!(stored, report.proposals);
    assert_eq!((rows.len(), stored[0].evidence.len(), rows[0].decision.clone()), (1, 2, None));
    let found = database.two.find_proposal(&story.key.tenant, stored[0].id).await.expect("reading");
    assert_eq!(found.as_ref(), rows.first());
}

/// The report is marked failed. There is no pause, no dead letter and no run to release.
pub async fn a_manual_one_without_a_success_leaves_only_its_report(database: &Database) {
    let mut story = Scenario::new(&*database.one, "t", "w");
    story.policy.threshold_runs = 9;
    story.count_runs(&["a"]).await;
    let before = story.workflow_state().await;
    let id = open_manual(&story, "q", &["a"]).await;
    let claim = story.claim_next(LONG_S).await;
    story
        .store
        .finish_investigation(&claim, &failed_result(), Default::default(), &super::scenario::decide_finish)
        .await
        .expect("finishing");
    assert_eq!(story.close_retrospective(id).await, CommitResult::Done);
    let report =
        story.store.find_report(&story.key.tenant, id).await.expect("reading").expect("it has ended");
    assert_eq!(report.ended, RetrospectiveState::Failed);
    assert_eq!(story.workflow_state().await, before);
    assert_eq!(story.store.load_health().await.expect("health").dead_letters_open, 0);
}

/// An acceptance is one transaction.
pub async fn an_accepted_proposal_is_a_memory_with_its_changes_and_announcements(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let id = create_proposal(&story, "lesson").await;
    story.mark_all_sent().await;
    let decided = accept_proposal(&story, id).await.expect("the proposal is open");
    let memory = decided.memory.expect("it is one now");
    assert_eq!((memory.status, memory.observed_runs), (MemoryStatus::Active, 2));
    assert_eq!(
        database.two.find_memory(&story.key.tenant, memory.id).await.expect("reading"),
        Some(memory.clone())
    );
    let history = database.two.list_memory_changes(&story.key.tenant, memory.id).await.expect("history");
    assert_eq!(history, decided.changes);
    let kinds: Vec<_> = history.iter().map(|change| change.effect.kind()).collect();
    assert_eq!(kinds, ["created", "accepted", "observed"]);
    assert!(matches!(&history[1].effect, ChangeEffect::Accepted { proposal, .. } if *proposal == Some(id)));
    assert_eq!(story.list_notices().await.len(), 3, "each change is announced");
    let row = database
        .two
        .find_proposal(&story.key.tenant, id)
        .await
        .expect("reading")
        .expect("the proposal is kept");
    assert_eq!(row.decision, Some(decided.decision));
}

/// One decision takes effect; the other call returns it.
pub async fn two_people_at_once_leave_one_decision(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let id = create_proposal(&story, "lesson").await;
    let other = story.with_store(&*database.two);
    let both = join(accept_proposal(&story, id), refuse_proposal(&other, id)).await;
    let row = database
        .one
        .find_proposal(&story.key.tenant, id)
        .await
        .expect("reading")
        .expect("the proposal is kept");
    let stands = row.decision.expect("somebody has decided");
    let (won, told) = match both {
        (Ok(won), Err(told)) | (Err(told), Ok(won)) => (won, told),
        other => panic!("one call decides and the other returns that decision, not {other:?}"),
    };
    assert_eq!(won.decision, stands);
    assert_eq!(told, DecideError::AlreadyDecided(Box::new(stands)));
    assert_eq!(database.one.list_workflow_changes(&story.key).await.expect("changes"), won.changes);
}

/// The refusal is stored with its reason.
pub async fn a_refusal_is_kept_and_changes_no_memory(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let id = create_proposal(&story, "lesson").await;
    story.mark_all_sent().await;
    let decided = refuse_proposal(&story, id).await.expect("the proposal is open");
    let row = database
        .two
        .find_proposal(&story.key.tenant, id)
        .await
        .expect("reading")
        .expect("the proposal is kept");
    assert_eq!(row.decision, Some(decided.decision));
    assert_eq!((story.list_memories().await, story.list_notices().await), (vec![], vec![]));
}

/// The decision gets living memories, tombstones, and earlier changes caused by the proposal's runs.
pub async fn a_decision_knows_what_the_runs_have_shown_before(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let memory = story.learn_lesson("lesson").await;
    let gone = story.learn_lesson("Retry at once").await;
    super::write::delete_memory(&story, gone.id, "gone").await.expect("the memory is living");
    let id = settle_manual(&story, "q", &["lesson 1", "lesson 2"], &["lesson", "lesson"]).await;
    story.close_retrospective(id).await;
    let [row] = &list_proposals(&story, &ProposalFilter { limit: 9, ..Default::default() }).await[..] else {
        panic!("one pattern is one proposal")
    };
    let facts = std::sync::Mutex::new(None);
    let look = |seen: &ProposalFacts| {
        *facts.lock().expect("no task panics") = Some(seen.clone());
        Ok(retro_core::manual::accept_proposal(
            seen,
            &new_acceptance(),
            &story.policy,
            &NgramEmbedder,
            time_at(30),
        ))
    };
    let decided = story.store.decide_proposal(&story.key.tenant, row.proposal.id, &look).await;
    let decided = decided.expect("deciding").expect("the row exists").expect("the proposal is open");
    let facts = facts.into_inner().expect("no task panics").expect("it was asked");
    assert_eq!(facts.memories, std::slice::from_ref(&memory));
    assert_eq!(facts.tombstones.iter().map(|stone| stone.memory).collect::<Vec<_>>(), [gone.id]);
    let history = story.store.list_memory_changes(&story.key.tenant, memory.id).await.expect("history");
    assert!(history.iter().all(|change| facts.applied.contains(&change.id)));
    assert_eq!((decided.changes, decided.memory), (vec![], Some(memory)), "both runs had shown it");
}

/// The newest retrospective comes first; within one the order is that of its report.
pub async fn proposals_are_listed_and_filtered(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    let first = create_proposal(&story, "lesson").await;
    accept_proposal(&story, first).await.expect("the proposal is open");
    let id = settle_manual(&story, "another", &["a", "b"], &["Retry at once", "List the tables"]).await;
    story.close_retrospective(id).await;
    let story = &story;
    let filter = |filter| async move { list_proposals(story, &filter).await.len() };
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
    let report =
        story.store.find_report(&story.key.tenant, id).await.expect("reading").expect("the report is stored");
    let rows = list_proposals(story, &ProposalFilter { retrospective: Some(id), ..all }).await;
    let listed: Vec<_> = rows.into_iter().map(|row| row.proposal).collect();
    assert_eq!(listed, report.proposals);
}

/// A manual retrospective is not part of the workflow's sequence of epochs.
pub async fn the_previous_epoch_is_never_a_manual_one(database: &Database) {
    let story = Scenario::new(&*database.one, "t", "w");
    create_proposal(&story, "lesson").await;
    let id = story.settle_window(["c", "d"], &|_| empty_result()).await;
    let told = closing_facts(&story, id).await;
    assert_eq!((told.retrospective.epoch, told.writer.previous_epoch), (2, Some(1)));
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
    ManualRequest { request: request.to_owned(), by: "ada".to_owned(), runs, focus: None }
}

/// Triggers a manual retrospective.
pub(super) async fn trigger_manual(
    story: &Scenario<'_>,
    request: &str,
    runs: &[&str],
) -> Result<CommitResult, TriggerError> {
    let asked = new_request(request, runs);
    let decide = |known: &[NamedRun]| -> Result<TriggeredRetrospective, TriggerError> {
        trigger_retrospective(&story.key, &asked, known, &story.policy, time_at(5))
    };
    story.store.trigger_retrospective(&story.key, &asked, &decide).await.expect("triggering")
}

async fn open_manual(story: &Scenario<'_>, request: &str, runs: &[&str]) -> RetrospectiveId {
    assert_eq!(trigger_manual(story, request, runs).await, Ok(CommitResult::Done));
    RetrospectiveId::of_request(&story.key, request)
}

/// Opens a manual retrospective that finds each run's lesson, and advances it to settling.
pub(super) async fn settle_manual(
    story: &Scenario<'_>,
    request: &str,
    runs: &[&str],
    lessons: &[&str],
) -> RetrospectiveId {
    let id = open_manual(story, request, runs).await;
    for lesson in lessons {
        let claim = story.claim_next(LONG_S).await;
        assert_eq!(claim.retrospective.id, id);
        story.finish_claim(&claim, &result_with_finding(lesson)).await.expect("finishing");
    }
    id
}

/// Creates a proposal with evidence from two runs, over which the automatic retrospective found nothing.
pub(super) async fn create_proposal(story: &Scenario<'_>, lesson: &str) -> ProposalId {
    let automatic = story.settle_window(["a", "b"], &|_| empty_result()).await;
    story.close_retrospective(automatic).await;
    let id = settle_manual(story, "q", &["a", "b"], &[lesson, lesson]).await;
    story.close_retrospective(id).await;
    let filter = ProposalFilter { retrospective: Some(id), limit: 9, ..Default::default() };
    list_proposals(story, &filter).await[0].proposal.id
}

async fn list_proposals(story: &Scenario<'_>, filter: &ProposalFilter) -> Vec<ProposalRow> {
    story.store.list_proposals(&story.key.tenant, filter).await.expect("listing")
}

fn new_acceptance() -> Acceptance {
    Acceptance { request: "yes".to_owned(), by: "ada".to_owned(), despite_tombstone: None }
}

/// Accepts a proposal as a person does.
pub(super) async fn accept_proposal(
    story: &Scenario<'_>,
    id: ProposalId,
) -> Result<DecidedProposal, DecideError> {
    let decide = |facts: &ProposalFacts| {
        Ok(retro_core::manual::accept_proposal(
            facts,
            &new_acceptance(),
            &story.policy,
            &NgramEmbedder,
            time_at(30),
        ))
    };
    let decided = story.store.decide_proposal(&story.key.tenant, id, &decide).await;
    decided.expect("deciding").expect("the row exists")
}

async fn refuse_proposal(story: &Scenario<'_>, id: ProposalId) -> Result<DecidedProposal, DecideError> {
    let refusal =
        Refusal { request: "no".to_owned(), by: "bob".to_owned(), reason: "a matter of taste".to_owned() };
    let decide =
        |facts: &ProposalFacts| Ok(retro_core::manual::refuse_proposal(facts, &refusal, time_at(30)));
    let decided = story.store.decide_proposal(&story.key.tenant, id, &decide).await;
    decided.expect("deciding").expect("the row exists")
}
