//! Manual retrospectives: asked for by name, settled into proposals, decided by people.

use futures::future::join;
use retro_core::id::{ProposalId, RetrospectiveId};
use retro_core::manual::{
    Acceptance, Asked, Decided, NamedRun, ProposalFacts, Refusal, Triggered, Undecided, Untriggered, accept,
    refuse, trigger,
};
use retro_core::memory::{Effect, Status};
use retro_core::message::Notice;
use retro_core::retrospective::State;
use retro_core::similar::NgramEmbedder;

use super::Database;
use super::close::closing_facts;
use super::story::{LONG_S, Story, failed, found, moment, nothing, run_id};
use crate::{ProposalFilter, ProposalRow, ProposalStatus, Step};

/// It starts at once, over exactly what was named; ordinals, window, epoch and pause are what they were.
pub async fn a_manual_one_begins_with_its_runs_and_leaves_the_window_alone(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    story.policy.threshold_runs = 3;
    story.count(&["a", "b"]).await;
    let before = story.state().await;
    let id = opened(&story, "q", &["b", "a"]).await;
    assert_eq!(story.state().await, before);
    let detail = database.two.retrospective(&story.key.tenant, id).await.expect("reading").expect("opened");
    let manual = detail.retrospective;
    assert_eq!((manual.epoch, manual.first, manual.last, manual.state), (0, 0, 0, State::Investigating));
    let asked = manual.asked.expect("it was asked for");
    assert_eq!((asked.runs, asked.by.as_str()), (vec![run_id("a"), run_id("b")], "ada"));
    assert_eq!(detail.sample.expect("named").order, [1, 2]);
    let due = Notice::InvestigationDue { retrospective: id, investigation: 1 };
    assert_eq!(story.notices().await, [due]);
    let claim = story.claim(LONG_S).await;
    assert_eq!((claim.retrospective.id, claim.run.run_id.as_str(), claim.number), (id, "a", 1));
    // The next automatic one takes the same runs up, under the first epoch.
    story.count(&["c"]).await;
    let automatic = RetrospectiveId::automatic(&story.key, 1);
    let detail = database.one.retrospective(&story.key.tenant, automatic).await.expect("reading");
    let window = detail.expect("three runs wait").retrospective;
    assert_eq!((window.first, window.last), (1, 3));
    assert_eq!(story.state().await.epoch, 1);
}

/// A request that is repeated, or arrives twice at once, is one request; under its name nothing else is asked.
pub async fn the_same_request_opens_one(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a"]).await;
    let other = story.by(&*database.two);
    let both = join(ask(&story, "q", &["a"]), ask(&other, "q", &["a"])).await;
    assert!(
        both == (Ok(Step::Done), Ok(Step::AlreadyDone)) || both == (Ok(Step::AlreadyDone), Ok(Step::Done))
    );
    assert_eq!(story.notices().await.len(), 1);
    story.count(&["b"]).await;
    assert_eq!(ask(&story, "q", &["b"]).await, Err(Untriggered::OtherContent("q".to_owned())));
    let rows = story.store.retrospectives(&story.key.tenant, None, 9).await.expect("listing");
    assert_eq!(rows.iter().filter(|row| row.retrospective.asked.is_some()).count(), 1);
}

/// A run that is unknown, or was never counted, is named, and nothing is opened.
pub async fn what_cannot_be_looked_at_is_told_and_nothing_is_written(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let mut skipped = story.run("skipped");
    skipped.arrival.run.outcome = retro_core::run::Outcome::Skip;
    story.count_batch(&[story.run("a"), skipped], moment(0)).await;
    let unknown = Untriggered::UnknownRun { run: run_id("b"), workflow: story.key.workflow.clone() };
    assert_eq!(ask(&story, "q", &["a", "b"]).await, Err(unknown));
    assert_eq!(ask(&story, "q", &["skipped"]).await, Err(Untriggered::NotCounted(run_id("skipped"))));
    assert_eq!(story.store.retrospectives(&story.key.tenant, None, 9).await.expect("listing"), []);
    assert_eq!(story.notices().await, []);
}

/// Law 2 is about automatic ones: a person may ask at any time, as often as they like.
pub async fn any_number_may_be_open_beside_the_automatic_one(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a", "b"]).await;
    assert!(story.state().await.open);
    for request in ["q1", "q2", "q3"] {
        opened(&story, request, &["a"]).await;
    }
    let rows = story.store.retrospectives(&story.key.tenant, None, 9).await.expect("listing");
    assert_eq!(rows.iter().filter(|row| row.retrospective.state.is_open()).count(), 4);
}

/// Report and proposals; no change, no memory, no tombstone, no epoch, and the window as it was.
pub async fn closing_a_manual_one_stores_its_proposals_and_nothing_else(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    story.policy.threshold_runs = 9;
    story.count(&["a", "b"]).await;
    let before = story.state().await;
    let id = settled(&story, "q", &["a", "b"], &["lesson", "lesson"]).await;
    story.everything_sent().await;
    assert_eq!(story.close(id).await, Step::Done);
    assert_eq!(story.close(id).await, Step::AlreadyDone);
    assert_eq!(story.state().await, before);
    assert_eq!(story.memories().await, []);
    assert_eq!(story.store.changes(&story.key).await.expect("changes"), []);
    assert_eq!(story.notices().await, [Notice::ReportReady { retrospective: id, epoch: 0 }]);
    let report = database.two.report(&story.key.tenant, id).await.expect("reading").expect("it is closed");
    let sampled: Vec<_> = report.sampled.iter().map(|run| run.run.as_str()).collect();
    assert_eq!((report.ended, sampled), (State::Closed, vec!["a", "b"]));
    let rows = listed(&story, &ProposalFilter { limit: 9, ..Default::default() }).await;
    let stored: Vec<_> = rows.iter().map(|row| row.proposal.clone()).collect();
    assert_eq!(stored, report.proposals);
    assert_eq!((rows.len(), stored[0].evidence.len(), rows[0].decision.clone()), (1, 2, None));
    let found = database.two.proposal(&story.key.tenant, stored[0].id).await.expect("reading");
    assert_eq!(found.as_ref(), rows.first());
}

/// A report that says so; nothing to release, no pause, no dead letter.
pub async fn a_manual_one_without_a_success_leaves_only_its_report(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    story.policy.threshold_runs = 9;
    story.count(&["a"]).await;
    let before = story.state().await;
    let id = opened(&story, "q", &["a"]).await;
    let claim = story.claim(LONG_S).await;
    story
        .store
        .finish(&claim, &failed(), Default::default(), &super::story::finish)
        .await
        .expect("finishing");
    assert_eq!(story.close(id).await, Step::Done);
    let report = story.store.report(&story.key.tenant, id).await.expect("reading").expect("it has ended");
    assert_eq!(report.ended, State::Failed);
    assert_eq!(story.state().await, before);
    assert_eq!(story.store.health().await.expect("health").dead_letters_open, 0);
}

/// Everything about an acceptance is one transaction.
pub async fn an_accepted_proposal_is_a_memory_with_its_changes_and_announcements(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = proposed(&story, "lesson").await;
    story.everything_sent().await;
    let decided = accepted(&story, id).await.expect("it is open");
    let memory = decided.memory.expect("it is one now");
    assert_eq!((memory.status, memory.observed_runs), (Status::Active, 2));
    assert_eq!(
        database.two.memory(&story.key.tenant, memory.id).await.expect("reading"),
        Some(memory.clone())
    );
    let history = database.two.history(&story.key.tenant, memory.id).await.expect("history");
    assert_eq!(history, decided.changes);
    let kinds: Vec<_> = history.iter().map(|change| change.effect.kind()).collect();
    assert_eq!(kinds, ["created", "accepted", "observed"]);
    assert!(matches!(&history[1].effect, Effect::Accepted { proposal, .. } if *proposal == Some(id)));
    assert_eq!(story.notices().await.len(), 3, "each change is announced");
    let row = database.two.proposal(&story.key.tenant, id).await.expect("reading").expect("it stays");
    assert_eq!(row.decision, Some(decided.decision));
}

/// One effect, and the other is told what was decided.
pub async fn two_people_at_once_leave_one_decision(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = proposed(&story, "lesson").await;
    let other = story.by(&*database.two);
    let both = join(accepted(&story, id), refused(&other, id)).await;
    let row = database.one.proposal(&story.key.tenant, id).await.expect("reading").expect("it stays");
    let stands = row.decision.expect("somebody has decided");
    let (won, told) = match both {
        (Ok(won), Err(told)) | (Err(told), Ok(won)) => (won, told),
        other => panic!("one decides and one is told, not {other:?}"),
    };
    assert_eq!(won.decision, stands);
    assert_eq!(told, Undecided::Before(Box::new(stands)));
    assert_eq!(database.one.changes(&story.key).await.expect("changes"), won.changes);
}

/// The reason stays with it.
pub async fn a_refusal_is_kept_and_changes_no_memory(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let id = proposed(&story, "lesson").await;
    story.everything_sent().await;
    let decided = refused(&story, id).await.expect("it is open");
    let row = database.two.proposal(&story.key.tenant, id).await.expect("reading").expect("it stays");
    assert_eq!(row.decision, Some(decided.decision));
    assert_eq!((story.memories().await, story.notices().await), (vec![], vec![]));
}

/// What a person decides with: living memories, tombstones, and what the proposal's runs have caused before.
pub async fn a_decision_knows_what_the_runs_have_shown_before(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let memory = story.learn("lesson").await;
    let gone = story.learn("Retry at once").await;
    super::write::delete(&story, gone.id, "gone").await.expect("it lives");
    let id = settled(&story, "q", &["lesson 1", "lesson 2"], &["lesson", "lesson"]).await;
    story.close(id).await;
    let [row] = &listed(&story, &ProposalFilter { limit: 9, ..Default::default() }).await[..] else {
        panic!("one pattern is one proposal")
    };
    let facts = std::sync::Mutex::new(None);
    let look = |seen: &ProposalFacts| {
        *facts.lock().expect("nobody panics") = Some(seen.clone());
        Ok(accept(seen, &acceptance(), &story.policy, &NgramEmbedder, moment(30)))
    };
    let decided = story.store.decide_proposal(&story.key.tenant, row.proposal.id, &look).await;
    let decided = decided.expect("deciding").expect("it is there").expect("it is open");
    let facts = facts.into_inner().expect("nobody panics").expect("it was asked");
    assert_eq!(facts.memories, std::slice::from_ref(&memory));
    assert_eq!(facts.tombstones.iter().map(|stone| stone.memory).collect::<Vec<_>>(), [gone.id]);
    let history = story.store.history(&story.key.tenant, memory.id).await.expect("history");
    assert!(history.iter().all(|change| facts.applied.contains(&change.id)));
    assert_eq!((decided.changes, decided.memory), (vec![], Some(memory)), "both runs had shown it");
}

/// Newest retrospective first, and within one in the order of its report.
pub async fn proposals_are_listed_and_filtered(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let first = proposed(&story, "lesson").await;
    accepted(&story, first).await.expect("it is open");
    let id = settled(&story, "another", &["a", "b"], &["Retry at once", "List the tables"]).await;
    story.close(id).await;
    let story = &story;
    let filter = |filter| async move { listed(story, &filter).await.len() };
    let all = ProposalFilter { limit: 9, ..Default::default() };
    assert_eq!(filter(all.clone()).await, 3);
    assert_eq!(filter(ProposalFilter { limit: 1, ..all.clone() }).await, 1);
    assert_eq!(filter(ProposalFilter { retrospective: Some(id), ..all.clone() }).await, 2);
    for (status, rows) in
        [(ProposalStatus::Open, 2), (ProposalStatus::Accepted, 1), (ProposalStatus::Refused, 0)]
    {
        assert_eq!(filter(ProposalFilter { status: Some(status), ..all.clone() }).await, rows, "{status:?}");
    }
    let elsewhere = Some(super::story::key("t", "elsewhere").workflow);
    assert_eq!(filter(ProposalFilter { workflow: elsewhere, ..all.clone() }).await, 0);
    let report = story.store.report(&story.key.tenant, id).await.expect("reading").expect("it is closed");
    let rows = listed(story, &ProposalFilter { retrospective: Some(id), ..all }).await;
    let listed: Vec<_> = rows.into_iter().map(|row| row.proposal).collect();
    assert_eq!(listed, report.proposals);
}

/// What a manual one ends in is no step of the workflow's own sequence.
pub async fn the_previous_epoch_is_never_a_manual_one(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    proposed(&story, "lesson").await;
    let id = story.settle(["c", "d"], &|_| nothing()).await;
    let told = closing_facts(&story, id).await;
    assert_eq!((told.retrospective.epoch, told.writer.previous_epoch), (2, Some(1)));
    let other = Story::new(&*database.one, "t", "v");
    let mut quiet = Story { policy: other.policy.clone(), ..other };
    quiet.policy.threshold_runs = 9;
    quiet.count(&["a"]).await;
    let id = settled(&quiet, "q", &["a"], &["lesson"]).await;
    quiet.close(id).await;
    quiet.policy.threshold_runs = 2;
    quiet.count(&["b"]).await;
    quiet.sample().await;
    let automatic = RetrospectiveId::automatic(&quiet.key, 1);
    for _ in 0..2 {
        let claim = quiet.claim(LONG_S).await;
        quiet.finish(&claim, &nothing()).await.expect("finishing");
    }
    assert_eq!(closing_facts(&quiet, automatic).await.writer.previous_epoch, None);
}

fn asked(request: &str, runs: &[&str]) -> Asked {
    let runs = runs.iter().map(|name| run_id(name)).collect();
    Asked { request: request.to_owned(), by: "ada".to_owned(), runs, focus: None }
}

/// Asks as a person would.
pub(super) async fn ask(story: &Story<'_>, request: &str, runs: &[&str]) -> Result<Step, Untriggered> {
    let asked = asked(request, runs);
    let decide = |known: &[NamedRun]| -> Result<Triggered, Untriggered> {
        trigger(&story.key, &asked, known, &story.policy, moment(5))
    };
    story.store.trigger(&story.key, &asked, &decide).await.expect("triggering")
}

async fn opened(story: &Story<'_>, request: &str, runs: &[&str]) -> RetrospectiveId {
    assert_eq!(ask(story, request, runs).await, Ok(Step::Done));
    RetrospectiveId::manual(&story.key, request)
}

/// Opens a manual retrospective that finds the lesson of each run, and brings it to where the writer takes over.
pub(super) async fn settled(
    story: &Story<'_>,
    request: &str,
    runs: &[&str],
    lessons: &[&str],
) -> RetrospectiveId {
    let id = opened(story, request, runs).await;
    for lesson in lessons {
        let claim = story.claim(LONG_S).await;
        assert_eq!(claim.retrospective.id, id);
        story.finish(&claim, &found(lesson)).await.expect("finishing");
    }
    id
}

/// A proposal of a lesson that two runs show; the automatic retrospective over them found nothing.
pub(super) async fn proposed(story: &Story<'_>, lesson: &str) -> ProposalId {
    let automatic = story.settle(["a", "b"], &|_| nothing()).await;
    story.close(automatic).await;
    let id = settled(story, "q", &["a", "b"], &[lesson, lesson]).await;
    story.close(id).await;
    let filter = ProposalFilter { retrospective: Some(id), limit: 9, ..Default::default() };
    listed(story, &filter).await[0].proposal.id
}

async fn listed(story: &Story<'_>, filter: &ProposalFilter) -> Vec<ProposalRow> {
    story.store.proposals(&story.key.tenant, filter).await.expect("listing")
}

fn acceptance() -> Acceptance {
    Acceptance { request: "yes".to_owned(), by: "ada".to_owned(), despite_tombstone: None }
}

/// Accepts as a person would.
pub(super) async fn accepted(story: &Story<'_>, id: ProposalId) -> Result<Decided, Undecided> {
    let decide =
        |facts: &ProposalFacts| Ok(accept(facts, &acceptance(), &story.policy, &NgramEmbedder, moment(30)));
    let decided = story.store.decide_proposal(&story.key.tenant, id, &decide).await;
    decided.expect("deciding").expect("it is there")
}

async fn refused(story: &Story<'_>, id: ProposalId) -> Result<Decided, Undecided> {
    let refusal =
        Refusal { request: "no".to_owned(), by: "bob".to_owned(), reason: "a matter of taste".to_owned() };
    let decide = |facts: &ProposalFacts| Ok(refuse(facts, &refusal, moment(30)));
    let decided = story.store.decide_proposal(&story.key.tenant, id, &decide).await;
    decided.expect("deciding").expect("it is there")
}
