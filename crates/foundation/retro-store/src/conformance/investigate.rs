//! Conformance cases for investigations: leases, fencing, the journal and ordering.

use futures::future::join;
use retro_core::message::Notice;
use retro_core::retrospective::{Investigation, PresentedMemory, RetrospectiveState};
use retro_core::run::{GithubLogRef, HttpsRef, ObjectRef};
use serde_json::json;

use super::Database;
use super::scenario::{
    LONG_S, Scenario, empty_result, failed_result, inline_body, result_with_finding, time_at,
};
use crate::{
    Claim, CommitResult, IncomingBody, JournalEntry, JournalStage, Result, Store, StoreError, StoredBody,
    decompress_document,
};

/// Checks that a claim contains the run, its body, the memories presented to and read by it, living memories,
/// and earlier findings.
pub async fn a_claim_carries_everything_that_is_known(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let (shown, said) = (scenario.learn_lesson("shown").await.id, scenario.learn_lesson("said").await.id);
    let other = scenario.learn_lesson("of no concern").await.id;
    let unknown = super::scenario::workflow_key("t", "w");
    let unknown = retro_core::id::RetrospectiveId::of_epoch(&unknown, 77).0;
    let mut runs = [scenario.new_run("a"), scenario.new_run("b")];
    for run in &mut runs {
        run.arrival.run.memories.presented = vec![said, retro_core::id::MemoryId(unknown)];
        run.arrival.run.memories.read = vec![said];
        let id = &run.arrival.run.run_id;
        database.one.record_presented(&scenario.key, id, &[shown], &[]).await.expect("recording");
    }
    scenario.count_batch(&runs, time_at(0)).await;
    scenario.draw_sample().await;
    let first = scenario.claim_next(LONG_S).await;
    assert_eq!((first.number, first.attempt, first.earlier.len()), (1, 1, 0));
    let mut presented = vec![
        PresentedMemory::from_own_workflow(shown, false),
        PresentedMemory::from_own_workflow(said, true),
    ];
    presented.sort_by_key(|one| one.memory);
    assert_eq!(first.presented, presented, "unknown memories are left out");
    assert_eq!(first.memories, sort_memories(scenario.list_memories().await));
    assert!(first.memories.iter().any(|memory| memory.id == other));
    let run = runs.iter().find(|run| run.arrival.run.run_id == first.run.run_id).expect("one of the two");
    assert_eq!(first.run, run.arrival.run);
    let IncomingBody::Inline(body) = &run.body else { unreachable!("the story's bodies are inline") };
    assert_eq!(
        first.body,
        StoredBody::Inline(decompress_document(body.as_bytes()).expect("it was compressed"))
    );
    scenario.finish_claim(&first, &result_with_finding("again")).await.expect("finishing");
    let second = scenario.claim_next(LONG_S).await;
    assert_eq!(second.number, 2);
    assert_eq!(second.earlier.len(), 1);
    assert_eq!(second.earlier[0].result, Some(result_with_finding("again")), "stored exactly");
}

/// Checks that absent bodies, inline bodies of any size and references are read back unchanged.
pub async fn bodies_of_every_kind_come_back_as_they_came(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    (scenario.policy.threshold_runs, scenario.policy.sample_runs_max) = (7, 7);
    let object = ObjectRef { name: "t/objects/1".into(), sha256: "0".repeat(64), bytes: 1 << 40 };
    let https = HttpsRef { url: "https://runs.example.com/1?right=2".into(), sha256: "1".repeat(64) };
    let log = GithubLogRef { host: "github.com".into(), repo: "acme/shop".into(), run: 1 << 40, attempt: 2 };
    let large: Vec<u8> =
        (0..200_000u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let bodies = [
        ("none", IncomingBody::None, StoredBody::None),
        ("empty", inline_body(b""), StoredBody::Inline(Vec::new())),
        ("small", inline_body(b"{}"), StoredBody::Inline(b"{}".to_vec())),
        ("large", inline_body(&large), StoredBody::Inline(large)),
        ("object", IncomingBody::Object(object.clone()), StoredBody::Object(object)),
        ("https", IncomingBody::Https(https.clone()), StoredBody::Https(https)),
        ("log", IncomingBody::GithubLog(log.clone()), StoredBody::GithubLog(log)),
    ];
    let runs: Vec<_> = bodies
        .iter()
        .map(|(name, body, _)| {
            let mut run = scenario.new_run(name);
            run.body = body.clone();
            run
        })
        .collect();
    scenario.count_batch(&runs, time_at(0)).await;
    scenario.draw_sample().await;
    for _ in 0..bodies.len() {
        let claim = scenario.claim_next(LONG_S).await;
        let (name, _, expected) =
            bodies.iter().find(|(name, ..)| *name == claim.run.run_id.as_str()).expect("one of them");
        assert!(claim.body == *expected, "{name}");
        scenario.finish_claim(&claim, &empty_result()).await.expect("finishing");
    }
}

/// Checks that a leased investigation cannot be claimed.
pub async fn a_held_investigation_cannot_be_claimed(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    assert!(
        database.one.claim_investigation("nobody", LONG_S).await.expect("claiming").is_none(),
        "nothing is due"
    );
    make_investigation_due(&scenario).await;
    assert_eq!(database.two.count_claimable().await.expect("claimable"), 1);
    scenario.claim_next(LONG_S).await;
    assert!(database.two.claim_investigation("another", LONG_S).await.expect("claiming").is_none());
    assert_eq!(database.two.count_claimable().await.expect("claimable"), 0);
}

/// Checks that concurrent workers claim different investigations, the oldest due one first.
pub async fn two_workers_at_once_claim_two_different_investigations(database: &Database) {
    let workflows = ["v", "w"].map(|workflow| Scenario::new(&*database.one, "t", workflow));
    for scenario in &workflows {
        make_investigation_due(scenario).await;
    }
    let (one, two) = join(
        database.one.claim_investigation("one", LONG_S),
        database.two.claim_investigation("two", LONG_S),
    )
    .await;
    let claims = [one, two].map(|claim| claim.expect("claiming").expect("two are due").retrospective.id);
    assert_ne!(claims[0], claims[1]);
    assert_eq!(database.one.count_claimable().await.expect("claimable"), 0);
}

/// Checks that an investigation with an expired lease is taken over with a larger fencing token.
pub async fn an_expired_lease_is_taken_over_with_a_larger_token(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let mut last = 0;
    for attempt in 1..=4 {
        let claim = scenario.with_store(&*database.two).claim_next(0).await;
        assert_eq!((claim.number, claim.attempt), (1, attempt));
        assert_eq!(claim.taken_over, attempt > 1, "the first took it from nobody");
        assert!(claim.token > last, "{} after {last}", claim.token);
        last = claim.token;
    }
}

/// Checks that a stalled worker that resumes after losing its lease can commit nothing.
pub async fn the_old_holder_is_fenced_and_writes_nothing(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let old = scenario.claim_next(0).await;
    let new = scenario.with_store(&*database.two).claim_next(LONG_S).await;
    scenario.mark_all_sent().await;
    let entry = JournalEntry { stage: JournalStage::Answered, body: json!("too late") };
    assert_fenced(&database.one.extend_lease(&old, LONG_S).await);
    assert_fenced(&database.one.append_journal(&old, &entry).await);
    assert_fenced(&database.one.schedule_retry(&old, 0, "too late").await);
    assert_fenced(&scenario.finish_claim(&old, &result_with_finding("too late")).await);
    assert_eq!(scenario.list_notices().await, []);
    assert_eq!(list_ended(&*database.one, &old).await, []);
    assert!(
        database.one.claim_investigation("x", LONG_S).await.expect("claiming").is_none(),
        "the new holder's lease stands"
    );
    // The new holder is unaffected and finds no journal entry of the old one.
    database.two.extend_lease(&new, 0).await.expect("a heartbeat");
    let taken_over = scenario.claim_next(LONG_S).await;
    assert_eq!(taken_over.journal, []);
    scenario.finish_claim(&taken_over, &empty_result()).await.expect("finishing");
    assert_fenced(&database.two.extend_lease(&new, LONG_S).await);
    assert_fenced(&database.one.extend_lease(&taken_over, LONG_S).await);
}

/// Checks that a heartbeat sets the remaining time of a lease, and can also end it.
pub async fn a_heartbeat_holds_a_lease_and_can_let_it_end(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let claim = scenario.claim_next(0).await;
    database.one.extend_lease(&claim, LONG_S).await.expect("nobody has taken it over yet");
    assert!(database.two.claim_investigation("another", LONG_S).await.expect("claiming").is_none());
    database.one.extend_lease(&claim, u64::MAX).await.expect("a lease of any length");
    database.one.extend_lease(&claim, 0).await.expect("still its own");
    assert_eq!(database.two.count_claimable().await.expect("claimable"), 1);
}

/// Checks that a takeover finds the journaled answer, and that the first entry of a stage is kept.
pub async fn a_takeover_resumes_from_the_journal(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let first = scenario.claim_next(0).await;
    assert_eq!(first.journal, []);
    let entry = |stage, body| JournalEntry { stage, body };
    let answered = entry(JournalStage::Answered, json!(["dear", 1.5, null, "a\u{0}b"]));
    database.one.append_journal(&first, &answered).await.expect("writing");
    database
        .one
        .append_journal(&first, &entry(JournalStage::Answered, json!("another")))
        .await
        .expect("ignored");
    let second = scenario.with_store(&*database.two).claim_next(LONG_S).await;
    assert_eq!(second.journal, [answered]);
}

/// Checks that a failed attempt is due again after its pause, fences its former holder and counts.
pub async fn a_claim_that_is_given_back_waits_and_is_fenced(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let first = scenario.claim_next(LONG_S).await;
    database.one.schedule_retry(&first, 0, "a first reason").await.expect("scheduling a retry");
    assert_fenced(&scenario.finish_claim(&first, &empty_result()).await);
    assert_fenced(&database.one.schedule_retry(&first, 0, "again").await);
    let second = scenario.claim_next(LONG_S).await;
    assert_eq!((second.attempt, second.taken_over), (2, false), "it was given back, not taken over");
    assert!(second.token > first.token);
    database.one.schedule_retry(&second, LONG_S, "a second reason").await.expect("scheduling a retry");
    assert!(
        database.two.claim_investigation("eager", LONG_S).await.expect("claiming").is_none(),
        "its pause runs"
    );
    assert_eq!(database.two.count_claimable().await.expect("claimable"), 0);
    let id = second.retrospective.id;
    let shown = database.two.find_retrospective(&scenario.key.tenant, id).await.expect("reading");
    let shown = shown.expect("the retrospective exists").attempts;
    let [attempts] = &shown[..] else { panic!("{shown:?}") };
    assert_eq!((attempts.number, attempts.attempts, attempts.lease_until), (1, 2, None));
    assert_eq!(attempts.last_error.as_deref(), Some("a second reason"));
    assert!(attempts.worker.is_some(), "{attempts:?}");
}

/// Checks that a released claim is due immediately, does not count as an attempt and keeps the journal.
pub async fn a_claim_that_is_released_is_due_at_once_and_costs_no_attempt(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let first = scenario.claim_next(LONG_S).await;
    let entry = JournalEntry { stage: JournalStage::Answered, body: json!("kept") };
    database.one.append_journal(&first, &entry).await.expect("writing");
    database.one.release_claim(&first).await.expect("releasing");
    assert_eq!(database.two.count_claimable().await.expect("claimable"), 1);
    let second = scenario.with_store(&*database.two).claim_next(LONG_S).await;
    assert_eq!((second.number, second.attempt), (1, 1), "the attempt was given back");
    assert!(!second.taken_over);
    assert!(second.token > first.token);
    assert_eq!(second.journal, [entry]);
}

/// Checks that a worker that released or lost its claim can neither write under it nor take it from the next
/// holder.
pub async fn a_worker_that_released_its_claim_is_fenced(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let first = scenario.claim_next(LONG_S).await;
    database.one.release_claim(&first).await.expect("releasing");
    assert_fenced(&database.one.release_claim(&first).await);
    assert_fenced(&database.one.extend_lease(&first, LONG_S).await);
    assert_fenced(&scenario.finish_claim(&first, &empty_result()).await);
    let second = scenario.with_store(&*database.two).claim_next(LONG_S).await;
    assert_fenced(&database.one.release_claim(&first).await);
    assert!(
        database.one.claim_investigation("x", LONG_S).await.expect("claiming").is_none(),
        "the lease stands"
    );
    scenario.finish_claim(&second, &empty_result()).await.expect("finishing");
    assert_fenced(&database.two.release_claim(&second).await);
}

/// Checks that investigations become due one at a time in sample order, and that the last one stores the
/// batch of mutations for the writer.
pub async fn finishing_makes_the_next_due_and_the_last_one_settles(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    let id = scenario.latest_retrospective().await.id;
    let detail = database
        .one
        .find_retrospective(&scenario.key.tenant, id)
        .await
        .expect("reading")
        .expect("the row exists");
    let order = detail.sample.expect("it is drawn").order;
    scenario.mark_all_sent().await;
    let first = scenario.claim_next(LONG_S).await;
    scenario.finish_claim(&first, &result_with_finding("x")).await.expect("finishing");
    assert_fenced(&scenario.finish_claim(&first, &result_with_finding("x")).await);
    assert_eq!(
        scenario.list_notices().await,
        [Notice::InvestigationDue { retrospective: id, investigation: 2 }]
    );
    scenario.mark_all_sent().await;
    let second = scenario.claim_next(LONG_S).await;
    scenario.finish_claim(&second, &empty_result()).await.expect("finishing");
    assert_eq!(scenario.list_notices().await, [Notice::MutationsDue { retrospective: id }]);
    assert_eq!(scenario.latest_retrospective().await.state, RetrospectiveState::Settling);
    assert!(database.one.claim_investigation("late", LONG_S).await.expect("claiming").is_none());
    let all = list_ended(&*database.two, &first).await;
    let ordinals: Vec<_> = all.iter().map(|one| one.ordinal).collect();
    assert_eq!(ordinals, order);
    assert_eq!(all[0].result, Some(result_with_finding("x")));
    assert_eq!(all[1].result, Some(empty_result()));
}

/// Checks that a failed investigation is replaced with the next run in the sample's random order.
pub async fn a_failed_investigation_is_replaced_from_the_window(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    (scenario.policy.threshold_runs, scenario.policy.sample_runs_max) = (3, 1);
    scenario.count_runs(&["a", "b", "c"]).await;
    scenario.draw_sample().await;
    scenario
        .investigate_all(&|claim: &Claim| if claim.number == 1 { failed_result() } else { empty_result() })
        .await;
    let id = scenario.latest_retrospective().await.id;
    let detail = database.one.find_retrospective(&scenario.key.tenant, id).await.expect("reading");
    let all = detail.expect("the row exists").investigations;
    let results: Vec<_> = all.iter().map(|one| (one.number, one.replacement)).collect();
    assert_eq!(results, [(1, false), (2, true)]);
    assert_ne!(all[0].run, all[1].run);
}

/// Checks that a worker that finishes twice concurrently, because its task was restarted, leaves one result
/// (law 13).
pub async fn two_holders_that_finish_at_once_leave_one_result(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    make_investigation_due(&scenario).await;
    scenario.mark_all_sent().await;
    let claim = scenario.claim_next(LONG_S).await;
    let other = scenario.with_store(&*database.two);
    let result = empty_result();
    let (one, two) = join(scenario.finish_claim(&claim, &result), other.finish_claim(&claim, &result)).await;
    assert_eq!(u8::from(one.is_ok()) + u8::from(two.is_ok()), 1, "{one:?} {two:?}");
    assert_eq!(list_ended(&*database.one, &claim).await.len(), 1);
    assert_eq!(scenario.list_notices().await.len(), 1);
    let unknown = scenario.finish_claim(&Claim { number: 99, ..claim }, &result).await;
    assert_fenced(&unknown);
}

pub(super) async fn make_investigation_due(scenario: &Scenario<'_>) {
    scenario.count_runs(&["a", "b"]).await;
    assert_eq!(scenario.draw_sample().await, CommitResult::Done);
}

/// Returns the ended investigations of a claim's retrospective in order of execution.
async fn list_ended(store: &dyn Store, claim: &Claim) -> Vec<Investigation> {
    let retrospective = &claim.retrospective;
    let detail =
        store.find_retrospective(&retrospective.key.tenant, retrospective.id).await.expect("reading");
    let mut all = detail.expect("the row exists").investigations;
    all.retain(|one| one.result.is_some());
    all
}

fn sort_memories(mut memories: Vec<retro_core::memory::Memory>) -> Vec<retro_core::memory::Memory> {
    memories.sort_by_key(|memory| memory.id);
    memories
}

#[track_caller]
pub(super) fn assert_fenced(answer: &Result<()>) {
    assert!(matches!(answer, Err(StoreError::Fenced { .. })), "{answer:?}");
}
