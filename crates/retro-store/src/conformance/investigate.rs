//! Investigating: claims under a lease, fencing, the journal, and the sequence.

use futures::future::join;
use retro_core::message::Notice;
use retro_core::retrospective::{Investigation, Presented, State};
use retro_core::run::{HttpsRef, ObjectRef};
use serde_json::json;

use super::Database;
use super::story::{LONG_S, Story, failed, found, moment, nothing};
use crate::{Claim, IncomingBody, JournalEntry, Result, Stage, Step, Store, StoreError, StoredBody};

/// Run, body, presented memories with whether they were read, living memories, and what was found before.
pub async fn a_claim_carries_everything_that_is_known(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let (shown, said) = (story.learn("shown").await.id, story.learn("said").await.id);
    let other = story.learn("of no concern").await.id;
    let unknown = super::story::key("t", "w");
    let unknown = retro_core::id::RetrospectiveId::automatic(&unknown, 77).0;
    let mut runs = [story.run("a"), story.run("b")];
    for run in &mut runs {
        run.arrival.run.memories.presented = vec![said, retro_core::id::MemoryId(unknown)];
        run.arrival.run.memories.read = vec![said];
        let id = &run.arrival.run.run_id;
        database.one.record_presented(&story.key, id, &[shown]).await.expect("recording");
    }
    story.count_batch(&runs, moment(0)).await;
    story.sample().await;
    let first = story.claim(LONG_S).await;
    assert_eq!((first.number, first.attempt, first.earlier.len()), (1, 1, 0));
    let mut presented = vec![Presented::own(shown, false), Presented::own(said, true)];
    presented.sort_by_key(|one| one.memory);
    assert_eq!(first.presented, presented, "what is no memory here is left out");
    assert_eq!(first.memories, sorted(story.memories().await));
    assert!(first.memories.iter().any(|memory| memory.id == other));
    let run = runs.iter().find(|run| run.arrival.run.run_id == first.run.run_id).expect("one of the two");
    assert_eq!(first.run, run.arrival.run);
    let IncomingBody::Inline(body) = &run.body else { unreachable!("the story's bodies are inline") };
    assert_eq!(first.body, StoredBody::Inline(body.clone()));
    story.finish(&first, &found("again")).await.expect("finishing");
    let second = story.claim(LONG_S).await;
    assert_eq!(second.number, 2);
    assert_eq!(second.earlier.len(), 1);
    assert_eq!(second.earlier[0].result, Some(found("again")), "stored exactly");
}

/// None, inline of any size, and by reference.
pub async fn bodies_of_every_kind_come_back_as_they_came(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    (story.policy.threshold_runs, story.policy.sample_runs_max) = (6, 6);
    let object = ObjectRef { name: "t/objects/1".into(), sha256: "0".repeat(64), bytes: 1 << 40 };
    let https = HttpsRef { url: "https://runs.example.com/1?right=2".into(), sha256: "1".repeat(64) };
    let large: Vec<u8> =
        (0..200_000u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let bodies = [
        ("none", IncomingBody::None, StoredBody::None),
        ("empty", IncomingBody::Inline(Vec::new()), StoredBody::Inline(Vec::new())),
        ("small", IncomingBody::Inline(b"{}".to_vec()), StoredBody::Inline(b"{}".to_vec())),
        ("large", IncomingBody::Inline(large.clone()), StoredBody::Inline(large)),
        ("object", IncomingBody::Object(object.clone()), StoredBody::Object(object)),
        ("https", IncomingBody::Https(https.clone()), StoredBody::Https(https)),
    ];
    let runs: Vec<_> = bodies
        .iter()
        .map(|(name, body, _)| {
            let mut run = story.run(name);
            run.body = body.clone();
            run
        })
        .collect();
    story.count_batch(&runs, moment(0)).await;
    story.sample().await;
    for _ in 0..bodies.len() {
        let claim = story.claim(LONG_S).await;
        let (name, _, expected) =
            bodies.iter().find(|(name, ..)| *name == claim.run.run_id.as_str()).expect("one of them");
        assert!(claim.body == *expected, "{name}");
        story.finish(&claim, &nothing()).await.expect("finishing");
    }
}

/// One investigation, one holder.
pub async fn nobody_claims_what_somebody_holds(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    assert!(database.one.claim("nobody", LONG_S).await.expect("claiming").is_none(), "nothing is due");
    due(&story).await;
    assert_eq!(database.two.claimable().await.expect("claimable"), 1);
    story.claim(LONG_S).await;
    assert!(database.two.claim("another", LONG_S).await.expect("claiming").is_none());
    assert_eq!(database.two.claimable().await.expect("claimable"), 0);
}

/// The oldest due first, and never the same one twice.
pub async fn two_workers_at_once_claim_two_different_investigations(database: &Database) {
    let workflows = ["v", "w"].map(|workflow| Story::new(&*database.one, "t", workflow));
    for story in &workflows {
        due(story).await;
    }
    let (one, two) = join(database.one.claim("one", LONG_S), database.two.claim("two", LONG_S)).await;
    let claims = [one, two].map(|claim| claim.expect("claiming").expect("two are due").retrospective.id);
    assert_ne!(claims[0], claims[1]);
    assert_eq!(database.one.claimable().await.expect("claimable"), 0);
}

/// A worker that died is replaced.
pub async fn an_expired_lease_is_taken_over_with_a_larger_token(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    due(&story).await;
    let mut last = 0;
    for attempt in 1..=4 {
        let claim = story.by(&*database.two).claim(0).await;
        assert_eq!((claim.number, claim.attempt), (1, attempt));
        assert_eq!(claim.taken_over, attempt > 1, "the first took it from nobody");
        assert!(claim.token > last, "{} after {last}", claim.token);
        last = claim.token;
    }
}

/// A stalled worker that wakes up late commits nothing.
pub async fn the_old_holder_is_fenced_and_writes_nothing(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    due(&story).await;
    let old = story.claim(0).await;
    let new = story.by(&*database.two).claim(LONG_S).await;
    story.everything_sent().await;
    let entry = JournalEntry { stage: Stage::Answered, body: json!("too late") };
    assert_fenced(&database.one.heartbeat(&old, LONG_S).await);
    assert_fenced(&database.one.journal(&old, &entry).await);
    assert_fenced(&database.one.retry_later(&old, 0, "too late").await);
    assert_fenced(&story.finish(&old, &found("too late")).await);
    assert_eq!(story.notices().await, []);
    assert_eq!(ended(&*database.one, &old).await, []);
    assert!(
        database.one.claim("x", LONG_S).await.expect("claiming").is_none(),
        "the new holder's lease stands"
    );
    // The new holder is not disturbed, and finds no row of the old one in the journal.
    database.two.heartbeat(&new, 0).await.expect("a heartbeat");
    let taken_over = story.claim(LONG_S).await;
    assert_eq!(taken_over.journal, []);
    story.finish(&taken_over, &nothing()).await.expect("finishing");
    assert_fenced(&database.two.heartbeat(&new, LONG_S).await);
    assert_fenced(&database.one.heartbeat(&taken_over, LONG_S).await);
}

/// It says when the lease ends, counted from now.
pub async fn a_heartbeat_holds_a_lease_and_can_let_it_end(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    due(&story).await;
    let claim = story.claim(0).await;
    database.one.heartbeat(&claim, LONG_S).await.expect("nobody has taken it over yet");
    assert!(database.two.claim("another", LONG_S).await.expect("claiming").is_none());
    database.one.heartbeat(&claim, u64::MAX).await.expect("a lease of any length");
    database.one.heartbeat(&claim, 0).await.expect("still its own");
    assert_eq!(database.two.claimable().await.expect("claimable"), 1);
}

/// What was answered is never asked again; of two rows of one stage the first stays.
pub async fn a_takeover_resumes_from_the_journal(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    due(&story).await;
    let first = story.claim(0).await;
    assert_eq!(first.journal, []);
    let entry = |stage, body| JournalEntry { stage, body };
    let briefed = entry(Stage::Briefed, json!({"chars": 12, "text": "a\u{0}b"}));
    let answered = entry(Stage::Answered, json!(["dear", 1.5, null]));
    database.one.journal(&first, &briefed).await.expect("writing");
    database.one.journal(&first, &answered).await.expect("writing");
    database.one.journal(&first, &entry(Stage::Answered, json!("another"))).await.expect("ignored");
    let second = story.by(&*database.two).claim(LONG_S).await;
    assert_eq!(second.journal, [briefed, answered]);
}

/// Due again after its pause; whoever gave it back has nothing more to say, and the attempt is spent.
pub async fn a_claim_that_is_given_back_waits_and_is_fenced(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    due(&story).await;
    let first = story.claim(LONG_S).await;
    database.one.retry_later(&first, 0, "a first reason").await.expect("giving back");
    assert_fenced(&story.finish(&first, &nothing()).await);
    assert_fenced(&database.one.retry_later(&first, 0, "again").await);
    let second = story.claim(LONG_S).await;
    assert_eq!((second.attempt, second.taken_over), (2, false), "it was given back, not taken over");
    assert!(second.token > first.token);
    database.one.retry_later(&second, LONG_S, "a second reason").await.expect("giving back");
    assert!(database.two.claim("eager", LONG_S).await.expect("claiming").is_none(), "its pause runs");
    assert_eq!(database.two.claimable().await.expect("claimable"), 0);
}

/// A worker that stops leaves its work to the others at once: no pause, no attempt spent, nothing journalled lost.
pub async fn a_claim_that_is_released_is_due_at_once_and_costs_no_attempt(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    due(&story).await;
    let first = story.claim(LONG_S).await;
    let entry = JournalEntry { stage: Stage::Answered, body: json!("kept") };
    database.one.journal(&first, &entry).await.expect("writing");
    database.one.release(&first).await.expect("releasing");
    assert_eq!(database.two.claimable().await.expect("claimable"), 1);
    let second = story.by(&*database.two).claim(LONG_S).await;
    assert_eq!((second.number, second.attempt), (1, 1), "the attempt was given back");
    assert!(!second.taken_over);
    assert!(second.token > first.token);
    assert_eq!(second.journal, [entry]);
}

/// Whoever released a claim, or lost it before, can neither write under it nor take it from the next holder.
pub async fn who_released_a_claim_is_fenced(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    due(&story).await;
    let first = story.claim(LONG_S).await;
    database.one.release(&first).await.expect("releasing");
    assert_fenced(&database.one.release(&first).await);
    assert_fenced(&database.one.heartbeat(&first, LONG_S).await);
    assert_fenced(&story.finish(&first, &nothing()).await);
    let second = story.by(&*database.two).claim(LONG_S).await;
    assert_fenced(&database.one.release(&first).await);
    assert!(database.one.claim("x", LONG_S).await.expect("claiming").is_none(), "the lease stands");
    story.finish(&second, &nothing()).await.expect("finishing");
    assert_fenced(&database.two.release(&second).await);
}

/// One at a time, in the order of the sample; then the batch of mutations waits for the writer.
pub async fn finishing_makes_the_next_due_and_the_last_one_settles(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    due(&story).await;
    let id = story.retrospective().await.id;
    let detail =
        database.one.retrospective(&story.key.tenant, id).await.expect("reading").expect("it is there");
    let order = detail.sample.expect("it is drawn").order;
    story.everything_sent().await;
    let first = story.claim(LONG_S).await;
    story.finish(&first, &found("x")).await.expect("finishing");
    assert_fenced(&story.finish(&first, &found("x")).await);
    assert_eq!(story.notices().await, [Notice::InvestigationDue { retrospective: id, investigation: 2 }]);
    story.everything_sent().await;
    let second = story.claim(LONG_S).await;
    story.finish(&second, &nothing()).await.expect("finishing");
    assert_eq!(story.notices().await, [Notice::MutationsDue { retrospective: id }]);
    assert_eq!(story.retrospective().await.state, State::Settling);
    assert!(database.one.claim("late", LONG_S).await.expect("claiming").is_none());
    let all = ended(&*database.two, &first).await;
    let ordinals: Vec<_> = all.iter().map(|one| one.ordinal).collect();
    assert_eq!(ordinals, order);
    assert_eq!(all[0].result, Some(found("x")));
    assert_eq!(all[1].result, Some(nothing()));
}

/// The next run of the shuffled order takes its place.
pub async fn a_failed_investigation_is_replaced_from_the_window(database: &Database) {
    let mut story = Story::new(&*database.one, "t", "w");
    (story.policy.threshold_runs, story.policy.sample_runs_max) = (3, 1);
    story.count(&["a", "b", "c"]).await;
    story.sample().await;
    story.investigate(&|claim: &Claim| if claim.number == 1 { failed() } else { nothing() }).await;
    let id = story.retrospective().await.id;
    let detail = database.one.retrospective(&story.key.tenant, id).await.expect("reading");
    let all = detail.expect("it is there").investigations;
    let told: Vec<_> = all.iter().map(|one| (one.number, one.replacement)).collect();
    assert_eq!(told, [(1, false), (2, true)]);
    assert_ne!(all[0].run, all[1].run);
}

/// Law 13: a worker whose task was restarted answers twice.
pub async fn two_holders_that_finish_at_once_leave_one_result(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    due(&story).await;
    story.everything_sent().await;
    let claim = story.claim(LONG_S).await;
    let other = story.by(&*database.two);
    let result = nothing();
    let (one, two) = join(story.finish(&claim, &result), other.finish(&claim, &result)).await;
    assert_eq!(u8::from(one.is_ok()) + u8::from(two.is_ok()), 1, "{one:?} {two:?}");
    assert_eq!(ended(&*database.one, &claim).await.len(), 1);
    assert_eq!(story.notices().await.len(), 1);
    let unknown = story.finish(&Claim { number: 99, ..claim }, &result).await;
    assert_fenced(&unknown);
}

async fn due(story: &Story<'_>) {
    story.count(&["a", "b"]).await;
    assert_eq!(story.sample().await, Step::Done);
}

/// The ended investigations of a claim's retrospective, in sequence.
async fn ended(store: &dyn Store, claim: &Claim) -> Vec<Investigation> {
    let retrospective = &claim.retrospective;
    let detail = store.retrospective(&retrospective.key.tenant, retrospective.id).await.expect("reading");
    let mut all = detail.expect("it is there").investigations;
    all.retain(|one| one.result.is_some());
    all
}

fn sorted(mut memories: Vec<retro_core::memory::Memory>) -> Vec<retro_core::memory::Memory> {
    memories.sort_by_key(|memory| memory.id);
    memories
}

#[track_caller]
fn assert_fenced(answer: &Result<()>) {
    assert!(matches!(answer, Err(StoreError::Fenced { .. })), "{answer:?}");
}
