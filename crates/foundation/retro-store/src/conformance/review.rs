//! Conformance cases for recording review events, deciding remarks and applying rule batches.

use futures::future::join;
use jiff::Timestamp;
use retro_core::id::{
    EventKey, MemoryId, RemarkKey, RemarkKind, Repository, ReviewBatchId, ReviewKey, ReviewedPullRequest,
};
use retro_core::learn::{PromoteError, PromoteFacts, ReviewClosingFacts, close_review};
use retro_core::memory::{Memory, MemoryStatus};
use retro_core::message::Notice;
use retro_core::policy::Policy;
use retro_core::remark::{AuthorAssociation, Remark};
use retro_core::review::{
    ReadRemark, ReadingKind, RemarkReading, RemarkSupport, ReviewBatch, RuleText, Screening, SettledRemarks,
    settle_review,
};
use retro_core::similarity::{NgramEmbedder, ScopeChanged};

use super::Database;
use super::scenario::{mark_all_sent, review_pipeline, test_tenant, time_at};
use crate::review::{
    DecidedReview, NewReviewBatch, PullRequestKey, ReviewEvent, ReviewEventKind, ReviewEventResult,
};
use crate::write::{ClosedRuleBatch, RuleBatchFacts};
use crate::{CommitResult, MemoryFilter, Store};

/// Wait in seconds that is too long to pass during a test.
const LONG_S: u64 = 3600;
pub(super) const RULE: &str = "Use `Result` instead of `panic!` in library code";

/// Checks that a review event is recorded once, despite a redelivery, a duplicate in the batch, or the same
/// id with different content.
pub async fn a_review_event_is_recorded_once(database: &Database) {
    let received = remark_event("t", "1", new_remark(1, RULE), time_at(0));
    let twice = [received.clone(), received.clone()];
    assert_eq!(
        record_events(&*database.one, &twice).await,
        [ReviewEventResult::Recorded, ReviewEventResult::Duplicate]
    );
    let revision = load_reviews(&*database.two, "t").await.revision;
    let other = ReviewEvent { content_hash: "another".to_owned(), ..received.clone() };
    let taken = record_events(&*database.two, &[received, other]).await;
    assert!(
        matches!(&taken[..], [ReviewEventResult::Duplicate, ReviewEventResult::Conflict(_)]),
        "{taken:?}"
    );
    assert_eq!(load_reviews(&*database.one, "t").await.revision, revision);
}

/// Checks that two processes that record the same batch concurrently record each event once (law 13).
pub async fn two_processes_recording_the_same_events_leave_what_one_would_have_left(database: &Database) {
    let batch: Vec<_> =
        (1..=5).map(|id| remark_event("t", &id.to_string(), new_remark(id, RULE), time_at(0))).collect();
    let (one, two) = join(record_events(&*database.one, &batch), record_events(&*database.two, &batch)).await;
    let new = one.iter().chain(&two).filter(|taken| **taken == ReviewEventResult::Recorded).count();
    assert_eq!(new, 5, "{one:?} {two:?}");
    let known = load_reviews(&*database.one, "t").await;
    assert_eq!((known.remarks.len(), known.revision), (5, 5));
}

/// Checks that a pull request is due after its wait, which later events do not extend.
pub async fn a_pull_request_is_due_once_its_wait_is_over(database: &Database) {
    let store = &*database.one;
    store
        .record_events(&[remark_event("t", "1", new_remark(1, RULE), time_at(0))], LONG_S)
        .await
        .expect("recording");
    assert_eq!(store.list_due_reviews(10).await.expect("checking"), []);
    let other = ReviewEvent {
        pull_request: pull_request("acme/other", 1),
        ..remark_event("t", "2", new_remark(2, RULE), time_at(0))
    };
    record_events(store, &[other]).await;
    let due = database.two.list_due_reviews(10).await.expect("checking");
    assert_eq!(
        due,
        [PullRequestKey { tenant: test_tenant("t"), pull_request: pull_request("acme/other", 1) }]
    );
}

/// Checks that the newest version of a remark wins in any order of arrival, and that a deleted remark stays
/// deleted.
pub async fn the_newest_version_of_a_remark_wins_in_any_order(database: &Database) {
    let edited = Remark { edited: true, ..new_remark(1, "now this") };
    let removed = Remark { deleted: true, ..new_remark(2, "") };
    let taken = record_events(
        &*database.one,
        &[
            remark_event("t", "1", edited, time_at(5)),
            remark_event("t", "2", new_remark(1, "first that"), time_at(0)),
            remark_event("t", "3", removed, time_at(1)),
            remark_event("t", "4", new_remark(2, "it was said before"), time_at(0)),
            remark_event("t", "5", new_remark(2, "and even after"), time_at(9)),
        ],
    )
    .await;
    assert_eq!(
        taken,
        [
            ReviewEventResult::Recorded,
            ReviewEventResult::Unchanged,
            ReviewEventResult::Recorded,
            ReviewEventResult::Unchanged,
            ReviewEventResult::Unchanged
        ]
    );
    let remarks = load_reviews(&*database.two, "t").await.remarks;
    let bodies: Vec<_> = remarks.iter().map(|(one, _)| (one.body.as_str(), one.deleted)).collect();
    assert_eq!(bodies, [("now this", false), ("", true)]);
}

/// Checks that a thread may be resolved before its comment arrives, and that a later event may name the
/// author.
pub async fn threads_and_authors_may_arrive_in_any_order(database: &Database) {
    let store = &*database.one;
    let thread = |id: &str, resolved, seconds| ReviewEvent {
        kind: Some(ReviewEventKind::Thread { first_comment: 1, resolved, at: time_at(seconds) }),
        ..remark_event("t", id, new_remark(1, RULE), time_at(0))
    };
    assert_eq!(
        record_events(store, &[thread("1", true, 5), thread("2", false, 3)]).await,
        [ReviewEventResult::Recorded, ReviewEventResult::Unchanged]
    );
    record_events(store, &[remark_event("t", "3", new_remark(1, RULE), time_at(0))]).await;
    let author = |id: &str| ReviewEvent {
        author: Some("ann".to_owned()),
        kind: None,
        ..remark_event("t", id, new_remark(1, RULE), time_at(0))
    };
    assert_eq!(
        record_events(store, &[author("4"), author("5")]).await,
        [ReviewEventResult::Recorded, ReviewEventResult::Unchanged]
    );
    let known = load_reviews(&*database.two, "t").await;
    assert_eq!((known.resolved_threads, known.author.as_deref()), (vec![1], Some("ann")));
}

/// Checks that a decision on an outdated revision stores nothing, and that only one of two concurrent
/// decisions is stored.
pub async fn a_decision_about_an_older_revision_is_not_stored(database: &Database) {
    let store = &*database.one;
    record_events(store, &[remark_event("t", "1", new_remark(1, RULE), time_at(0))]).await;
    let (revision, settled) = decide_review(store, "t").await;
    record_events(store, &[remark_event("t", "2", new_remark(2, "Looks good"), time_at(0))]).await;
    assert_eq!(
        store.commit_review(&pull_request_key("t"), revision, None, Some(&settled)).await.expect("settling"),
        CommitResult::AlreadyDone
    );
    let (revision, settled) = decide_review(store, "t").await;
    let of = pull_request_key("t");
    let one = store.commit_review(&of, revision, None, Some(&settled));
    let two = database.two.commit_review(&of, revision, None, Some(&settled));
    let (one, two) = join(one, two).await;
    let both = [one.expect("settling"), two.expect("settling")];
    assert_eq!(both.iter().filter(|step| **step == CommitResult::Done).count(), 1, "{both:?}");
    assert_eq!(store.list_due_reviews(10).await.expect("checking"), []);
    let unsent = store.list_unsent_messages(10).await.expect("the outbox");
    assert!(
        matches!(&unsent[..], [one] if one.notice == Notice::RulesDue { batch: settled.id }),
        "{unsent:?}"
    );
    assert_eq!(load_reviews(&*database.two, "t").await.rounds, 1);
}

/// Checks that a decision gets the requests on other pull requests of the repository.
pub async fn a_decision_gets_requests_of_the_repositorys_other_pull_requests(database: &Database) {
    let store = &*database.one;
    record_events(store, &[remark_event("t", "1", new_remark(1, RULE), time_at(0))]).await;
    commit_review_now(store, "t").await;
    let elsewhere = |repo: &str, number| ReviewEvent {
        pull_request: pull_request(repo, number),
        ..remark_event("t", &format!("{repo}{number}"), remark_at(repo, number, 9, "Thanks"), time_at(0))
    };
    record_events(store, &[elsewhere("acme/shop", 8), elsewhere("acme/other", 8)]).await;
    for (repo, others) in [("acme/shop", 1), ("acme/other", 0)] {
        let of = PullRequestKey { tenant: test_tenant("t"), pull_request: pull_request(repo, 8) };
        let known = database
            .two
            .find_pull_request_reviews(&of)
            .await
            .expect("reading")
            .expect("the pull request is stored");
        assert_eq!(known.other_requests.len(), others, "{repo}");
        assert!(known.other_requests.iter().all(|other| other.title == RULE));
    }
}

/// Checks that a batch of rule mutations is applied once, in one transaction, even by concurrent writers.
pub async fn closing_a_batch_of_rules_stores_everything_once(database: &Database) {
    let store = &*database.one;
    record_events(store, &[remark_event("t", "1", new_remark(1, RULE), time_at(0))]).await;
    let id = commit_review_now(store, "t").await;
    mark_all_sent(store).await;
    assert_eq!(store.list_overdue_rule_batches(LONG_S, 10).await.expect("checking"), []);
    assert_eq!(
        database.two.list_overdue_rule_batches(0, 10).await.expect("checking"),
        [(test_tenant("t"), id)]
    );
    let (one, two) = join(close_rule_batch(store, "t", id), close_rule_batch(&*database.two, "t", id)).await;
    let both = [one, two];
    assert_eq!(both.iter().filter(|step| **step == CommitResult::Done).count(), 1, "{both:?}");
    assert_eq!(database.two.list_overdue_rule_batches(0, 10).await.expect("checking"), []);
    let memories = list_rules(store, "t").await;
    assert!(
        matches!(&memories[..], [one] if one.status == MemoryStatus::Active && one.weight.get() == 300),
        "{memories:?}"
    );
    let rule_scope = test_repository().rule_scope(&test_tenant("t"));
    assert_eq!(store.list_workflow_changes(&rule_scope).await.expect("changes").len(), 1);
    let result = store.list_unsent_messages(10).await.expect("the outbox");
    assert!(matches!(&result[..], [one] if one.notice.kind() == "memory.changed"), "{result:?}");
    let report =
        store.find_review_report(&test_tenant("t"), id).await.expect("reading").expect("it was closed");
    assert_eq!((report.remarks.len(), report.changes.len()), (1, 1));
    let listed = store.list_review_reports(&test_tenant("t"), None, 10).await.expect("listing");
    assert_eq!(listed.iter().map(|one| one.id).collect::<Vec<_>>(), [id]);
}

/// Checks that a batch and a promotion without a decision store nothing, and that their facts can be read without a
/// lock as long as there is something to decide.
pub async fn undecided_rules_store_nothing_and_their_facts_are_readable(database: &Database) {
    let (store, tenant, other) = (&*database.one, test_tenant("t"), test_tenant("u"));
    record_events(store, &[remark_event("t", "1", new_remark(1, RULE), time_at(0))]).await;
    let id = commit_review_now(store, "t").await;
    let facts = database.two.load_rule_batch_facts(&tenant, id).await.expect("reading");
    assert_eq!(facts.expect("it is pending").mutations.len(), 1);
    assert!(store.load_rule_batch_facts(&other, id).await.expect("reading").is_none());
    let undecided = store.close_rule_batch(&tenant, id, &|_: RuleBatchFacts| Err(ScopeChanged)).await;
    assert_eq!(undecided.expect("closing"), Err(ScopeChanged));
    assert_eq!(list_rules(store, "t").await, []);
    assert_eq!(close_rule_batch(&*database.two, "t", id).await, CommitResult::Done);
    assert!(store.load_rule_batch_facts(&tenant, id).await.expect("reading").is_none(), "it is applied");
    let rule = list_rules(store, "t").await.remove(0);
    let facts = store.load_promote_facts(&tenant, rule.id).await.expect("reading");
    assert_eq!(facts.map(|facts| facts.memory), Some(rule.clone()));
    assert!(store.load_promote_facts(&other, rule.id).await.expect("reading").is_none());
    let undecided = store.promote_rule(&tenant, rule.id, "one", &|_: &PromoteFacts| Err(ScopeChanged)).await;
    assert_eq!(undecided.expect("promoting"), Err(ScopeChanged));
    assert_eq!(list_rules(store, "t").await, [rule]);
}

/// Checks that a change caused by a remark is not repeated in the next round.
pub async fn the_next_round_gets_earlier_changes_of_a_remark(database: &Database) {
    let store = &*database.one;
    for (event, body) in [("1", RULE), ("2", "Thanks")] {
        record_events(
            store,
            &[remark_event("t", event, new_remark(event.parse().expect("a number"), body), time_at(0))],
        )
        .await;
        let id = commit_review_now(store, "t").await;
        assert_eq!(close_rule_batch(store, "t", id).await, CommitResult::Done);
    }
    let rule_scope = test_repository().rule_scope(&test_tenant("t"));
    assert_eq!(store.list_workflow_changes(&rule_scope).await.expect("changes").len(), 1);
    let reports = store.list_review_reports(&test_tenant("t"), None, 10).await.expect("listing");
    let changes: usize = reports.iter().map(|report| report.changes.len()).sum();
    assert_eq!((reports.len(), changes), (2, 1));
}

/// Checks that an outsider's rule stays in quarantine until an operator promotes it, which takes effect once.
pub async fn a_person_promotes_a_quarantined_rule_once(database: &Database) {
    let store = &*database.one;
    let rule = a_quarantined_rule(store, "t").await;
    assert_eq!(promote_rule(store, "t", rule.id, "one").await, Ok(CommitResult::Done));
    assert_eq!(promote_rule(&*database.two, "t", rule.id, "one").await, Ok(CommitResult::AlreadyDone));
    let repeated = promote_rule(store, "t", rule.id, "two").await;
    assert!(matches!(repeated, Err(PromoteError::WrongStatus { .. })), "{repeated:?}");
    let rule = list_rules(store, "t").await.remove(0);
    assert!(rule.status == MemoryStatus::Active && rule.quarantine.is_none(), "{rule:?}");
    let nobody = MemoryId(retro_core::id::derive_uuid("nobody", &[]));
    assert_eq!(promote_rule(store, "t", nobody, "one").await, Ok(CommitResult::NotFound));
}

/// Checks that two tenants with the same pull request of the same repository do not affect each other (law
/// 11).
pub async fn reviewing_keeps_tenants_apart(database: &Database) {
    let store = &*database.one;
    record_events(store, &[remark_event("t", "1", new_remark(1, RULE), time_at(0))]).await;
    // Another tenant can use the same event id.
    assert_eq!(
        record_events(store, &[remark_event("u", "1", new_remark(1, "Thanks"), time_at(0))]).await,
        [ReviewEventResult::Recorded]
    );
    let bodies = |known: crate::review::PullRequestReviews| known.remarks[0].0.body.clone();
    assert_eq!(bodies(load_reviews(store, "t").await), RULE);
    assert_eq!(bodies(load_reviews(store, "u").await), "Thanks");
    let id = commit_review_now(store, "t").await;
    assert_eq!(close_rule_batch(store, "u", id).await, CommitResult::NotFound);
    assert_eq!(load_reviews(store, "u").await.other_requests, []);
    assert_eq!(close_rule_batch(store, "t", id).await, CommitResult::Done);
    assert_eq!(list_rules(store, "u").await, []);
    let rule = list_rules(store, "t").await.remove(0);
    assert_eq!(promote_rule(store, "u", rule.id, "one").await, Ok(CommitResult::NotFound));
    assert!(store.find_review_report(&test_tenant("u"), id).await.expect("reading").is_none());
    assert_eq!(store.list_review_reports(&test_tenant("u"), None, 10).await.expect("listing"), []);
    assert_eq!(
        store.load_rule_candidates(&test_tenant("u"), &test_repository(), 0).await.expect("recalling"),
        []
    );
    assert_eq!(
        store.load_rule_candidates(&test_tenant("t"), &test_repository(), 0).await.expect("recalling").len(),
        1
    );
}

/// Returns the repository used by these cases.
pub(super) fn test_repository() -> Repository {
    Repository::new("acme/shop").expect("a valid name")
}

pub(super) fn pull_request(repo: &str, number: u64) -> ReviewedPullRequest {
    ReviewedPullRequest { repo: Repository::new(repo).expect("a valid name"), number }
}

pub(super) fn pull_request_key(of: &str) -> PullRequestKey {
    PullRequestKey { tenant: test_tenant(of), pull_request: pull_request("acme/shop", 7) }
}

pub(super) fn new_remark(id: u64, body: &str) -> Remark {
    remark_at("acme/shop", 7, id, body)
}

pub(super) fn remark_at(repo: &str, number: u64, id: u64, body: &str) -> Remark {
    Remark {
        key: RemarkKey { pull_request: pull_request(repo, number), kind: RemarkKind::LineComment, id },
        review: Some(5),
        review_state: None,
        reply_to: None,
        by: "größe\0".to_owned(),
        bot: false,
        association: AuthorAssociation::Member,
        by_author: false,
        body: body.to_owned(),
        path: None,
        line: None,
        at: time_at(0),
        url: None,
        edited: false,
        deleted: false,
        truncated: false,
    }
}

pub(super) fn remark_event(of: &str, event: &str, remark: Remark, changed_at: Timestamp) -> ReviewEvent {
    ReviewEvent {
        event: EventKey {
            tenant: test_tenant(of),
            source: "https://github.com/acme/shop".to_owned(),
            id: event.to_owned(),
        },
        content_hash: format!("hash of {event}"),
        pull_request: remark.key.pull_request.clone(),
        author: None,
        kind: Some(ReviewEventKind::Remark { remark, thumbs_up: 2, changed_at }),
    }
}

pub(super) async fn record_events(store: &dyn Store, received: &[ReviewEvent]) -> Vec<ReviewEventResult> {
    store.record_events(received, 0).await.expect("recording")
}

async fn load_reviews(store: &dyn Store, of: &str) -> crate::review::PullRequestReviews {
    store
        .find_pull_request_reviews(&pull_request_key(of))
        .await
        .expect("reading")
        .expect("the pull request is stored")
}

/// Decides as the reviewer does, but classifies only one particular sentence as a rule.
pub(super) async fn decide_review(store: &dyn Store, of: &str) -> (u64, NewReviewBatch) {
    let known = load_reviews(store, of).await;
    let review = ReviewKey { pull_request: pull_request_key(of).pull_request, review: None };
    let round = known.rounds + 1;
    let remarks = known.remarks.into_iter().map(|(remark, thumbs_up)| {
        let is_rule = remark.body == RULE;
        let rule = is_rule.then(|| RuleText {
            subject: "panic".to_owned(),
            title: RULE.to_owned(),
            content: "Said in a review.".to_owned(),
            path: None,
        });
        let kind = if is_rule { ReadingKind::Rule } else { ReadingKind::Noise };
        let (features, reason) = (Vec::new(), "because".to_owned());
        let reading = RemarkReading { kind, certainty: 900, features, rule, reason, model: None };
        let support = RemarkSupport { thumbs_up, ..RemarkSupport::default() };
        ReadRemark { remark, reading, support, screening: Screening::default() }
    });
    let batch = ReviewBatch {
        id: ReviewBatchId::of_review(&test_tenant(of), &review, round),
        tenant: test_tenant(of),
        review,
        remarks: remarks.collect(),
        others: known.other_requests,
    };
    let policy = Policy::default();
    let SettledRemarks { decided, mutations } = settle_review(&batch, &policy, &NgramEmbedder);
    let rule_scope = test_repository().rule_scope(&test_tenant(of));
    let requests = batch
        .remarks
        .iter()
        .filter_map(|read| Some((read.remark.key.clone(), read.reading.rule.as_ref()?.title.clone())));
    let settled = NewReviewBatch {
        id: batch.id,
        round,
        as_of: time_at(10),
        policy,
        pipeline: review_pipeline(),
        requests: requests.collect(),
        message: Notice::RulesDue { batch: batch.id }.into_message(&rule_scope),
        rule_scope,
        review: DecidedReview {
            review: batch.review,
            remarks: batch.remarks,
            decided,
            pipeline: Some(review_pipeline().hashes().clone()),
            reading: None,
        },
        mutations,
    };
    (known.revision, settled)
}

pub(super) async fn commit_review_now(store: &dyn Store, of: &str) -> ReviewBatchId {
    let (revision, settled) = decide_review(store, of).await;
    let step =
        store.commit_review(&pull_request_key(of), revision, None, Some(&settled)).await.expect("settling");
    assert_eq!(step, CommitResult::Done);
    settled.id
}

pub(super) async fn close_rule_batch(store: &dyn Store, of: &str, id: ReviewBatchId) -> CommitResult {
    let decide = |facts: RuleBatchFacts| {
        let RuleBatchFacts { id: batch, review, mutations, rules } = facts;
        let DecidedReview { review, remarks, decided, pipeline, reading } = review.expect("it is of reviews");
        let tenant = rules.rule_scope.tenant.clone();
        let batch = ReviewBatch { id: batch, tenant, review, remarks, others: Vec::new() };
        let settled = SettledRemarks { decided, mutations };
        let facts = ReviewClosingFacts { batch, settled, pipeline, reading, rules };
        let closing = close_review(facts, &NgramEmbedder, time_at(20));
        let report = Some(closing.report);
        Ok(ClosedRuleBatch {
            applied: closing.applied,
            report,
            messages: closing.messages,
            feedback: Default::default(),
        })
    };
    let closed = store.close_rule_batch(&test_tenant(of), id, &decide).await.expect("closing");
    closed.expect("every text can be compared")
}

async fn promote_rule(
    store: &dyn Store,
    of: &str,
    id: MemoryId,
    request: &str,
) -> Result<CommitResult, PromoteError> {
    let decide = |facts: &_| {
        let policy = Policy::default();
        Ok(retro_core::learn::promote_rule(
            facts,
            request,
            "ann",
            "it is right",
            &policy,
            &NgramEmbedder,
            time_at(30),
        ))
    };
    let promoted = store.promote_rule(&test_tenant(of), id, request, &decide).await.expect("promoting");
    promoted.expect("every text can be compared")
}

/// Creates an active rule requested by a repository member on a pull request.
pub(super) async fn a_rule(store: &dyn Store, of: &str) -> Memory {
    record_events(store, &[remark_event(of, "1", new_remark(1, RULE), time_at(0))]).await;
    let id = commit_review_now(store, of).await;
    assert_eq!(close_rule_batch(store, of, id).await, CommitResult::Done);
    list_rules(store, of).await.remove(0)
}

/// Creates a rule requested by an outsider on a pull request, which is in quarantine.
pub(super) async fn a_quarantined_rule(store: &dyn Store, of: &str) -> Memory {
    let stranger = Remark { association: AuthorAssociation::None, ..new_remark(1, RULE) };
    record_events(store, &[remark_event(of, "1", stranger, time_at(0))]).await;
    let id = commit_review_now(store, of).await;
    assert_eq!(close_rule_batch(store, of, id).await, CommitResult::Done);
    let rule = list_rules(store, of).await.remove(0);
    assert!(rule.status == MemoryStatus::Tentative && rule.quarantine.is_some(), "{rule:?}");
    rule
}

/// Returns the rules of [`test_repository`].
pub(super) async fn list_rules(store: &dyn Store, of: &str) -> Vec<Memory> {
    let workflow = Some(test_repository().rule_scope(&test_tenant(of)).workflow);
    let filter = MemoryFilter { workflow, limit: 100, ..Default::default() };
    store.list_memories(&test_tenant(of), &filter).await.expect("listing")
}
