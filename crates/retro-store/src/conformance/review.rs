//! What people say about pull requests, what is decided about it, and what the writer makes of that.

use futures::future::join;
use jiff::Timestamp;
use retro_core::id::{EventKey, MemoryId, ReviewBatchId};
use retro_core::learn::{ReviewFacts, Unpromoted, close_review, promote_rule};
use retro_core::memory::{Memory, Status};
use retro_core::message::Notice;
use retro_core::policy::Policy;
use retro_core::review::{
    Association, PullRequestRef, ReadRemark, Reading, ReadingKind, Remark, RemarkKey, RemarkKind, Repository,
    ReviewBatch, ReviewKey, RuleText, Screening, Settled, Support, settle,
};
use retro_core::similar::NgramEmbedder;

use super::Database;
use super::story::{moment, tenant};
use crate::review::{DecidedReview, Heard, PullRequestKey, Said, SettledReview, Taken};
use crate::write::{RuleBatchFacts, RulesClosed};
use crate::{MemoryFilter, Step, Store};

/// Long enough that nothing is due during a test.
const LONG_S: u64 = 3600;
const RULE: &str = "Use `Result` instead of `panic!` in library code";

/// Redelivered, in one batch with itself, and under its id with other content.
pub async fn an_event_of_github_is_taken_once(database: &Database) {
    let heard = said("t", "1", remark(1, RULE), moment(0));
    let twice = [heard.clone(), heard.clone()];
    assert_eq!(hear(&*database.one, &twice).await, [Taken::New, Taken::Known]);
    let revision = collected(&*database.two, "t").await.revision;
    let other = Heard { content_hash: "another".to_owned(), ..heard.clone() };
    let taken = hear(&*database.two, &[heard, other]).await;
    assert!(matches!(&taken[..], [Taken::Known, Taken::Conflict(_)]), "{taken:?}");
    assert_eq!(collected(&*database.one, "t").await.revision, revision);
}

/// Two processes that take the same batch at once leave what one would have left.
pub async fn two_that_hear_the_same_at_once_leave_what_one_would_have_left(database: &Database) {
    let batch: Vec<_> = (1..=5).map(|id| said("t", &id.to_string(), remark(id, RULE), moment(0))).collect();
    let (one, two) = join(hear(&*database.one, &batch), hear(&*database.two, &batch)).await;
    let new = one.iter().chain(&two).filter(|taken| **taken == Taken::New).count();
    assert_eq!(new, 5, "{one:?} {two:?}");
    let known = collected(&*database.one, "t").await;
    assert_eq!((known.remarks.len(), known.revision), (5, 5));
}

/// Nothing is decided before its wait is over, and what comes meanwhile does not put it off.
pub async fn a_pull_request_is_due_once_its_wait_is_over(database: &Database) {
    let store = &*database.one;
    store.hear(&[said("t", "1", remark(1, RULE), moment(0))], LONG_S).await.expect("hearing");
    assert_eq!(store.due_reviews(10).await.expect("looking"), []);
    let other =
        Heard { pull_request: pull_request("acme/other", 1), ..said("t", "2", remark(2, RULE), moment(0)) };
    hear(store, &[other]).await;
    let due = database.two.due_reviews(10).await.expect("looking");
    assert_eq!(due, [PullRequestKey { tenant: tenant("t"), pull_request: pull_request("acme/other", 1) }]);
}

/// Events come in any order and the newest of a remark stays; what was taken back does not return.
pub async fn the_newest_of_a_remark_stays_whatever_came_first(database: &Database) {
    let edited = Remark { edited: true, ..remark(1, "now this") };
    let gone = Remark { deleted: true, ..remark(2, "") };
    let taken = hear(
        &*database.one,
        &[
            said("t", "1", edited, moment(5)),
            said("t", "2", remark(1, "first that"), moment(0)),
            said("t", "3", gone, moment(1)),
            said("t", "4", remark(2, "it was said before"), moment(0)),
            said("t", "5", remark(2, "and even after"), moment(9)),
        ],
    )
    .await;
    assert_eq!(taken, [Taken::New, Taken::Nothing, Taken::New, Taken::Nothing, Taken::Nothing]);
    let remarks = collected(&*database.two, "t").await.remarks;
    let bodies: Vec<_> = remarks.iter().map(|(one, _)| (one.body.as_str(), one.deleted)).collect();
    assert_eq!(bodies, [("now this", false), ("", true)]);
}

/// A thread is resolved before anybody knows its comment; the author is told by a later event.
pub async fn threads_and_authors_are_known_whenever_they_are_told(database: &Database) {
    let store = &*database.one;
    let thread = |id: &str, resolved, seconds| Heard {
        said: Some(Said::Thread { first: 1, resolved, at: moment(seconds) }),
        ..said("t", id, remark(1, RULE), moment(0))
    };
    assert_eq!(
        hear(store, &[thread("1", true, 5), thread("2", false, 3)]).await,
        [Taken::New, Taken::Nothing]
    );
    hear(store, &[said("t", "3", remark(1, RULE), moment(0))]).await;
    let author = |id: &str| Heard {
        author: Some("ann".to_owned()),
        said: None,
        ..said("t", id, remark(1, RULE), moment(0))
    };
    assert_eq!(hear(store, &[author("4"), author("5")]).await, [Taken::New, Taken::Nothing]);
    let known = collected(&*database.two, "t").await;
    assert_eq!((known.resolved, known.author.as_deref()), (vec![1], Some("ann")));
}

/// Whoever decides upon what is not the latest any more stores nothing; of two at once one does.
pub async fn what_was_decided_upon_an_older_state_is_not_stored(database: &Database) {
    let store = &*database.one;
    hear(store, &[said("t", "1", remark(1, RULE), moment(0))]).await;
    let (revision, settled) = decided(store, "t").await;
    hear(store, &[said("t", "2", remark(2, "Looks good"), moment(0))]).await;
    assert_eq!(
        store.settle_review(&key("t"), revision, Some(&settled)).await.expect("settling"),
        Step::AlreadyDone
    );
    let (revision, settled) = decided(store, "t").await;
    let of = key("t");
    let one = store.settle_review(&of, revision, Some(&settled));
    let two = database.two.settle_review(&of, revision, Some(&settled));
    let (one, two) = join(one, two).await;
    let both = [one.expect("settling"), two.expect("settling")];
    assert_eq!(both.iter().filter(|step| **step == Step::Done).count(), 1, "{both:?}");
    assert_eq!(store.due_reviews(10).await.expect("looking"), []);
    let unsent = store.unsent(10).await.expect("the outbox");
    assert!(
        matches!(&unsent[..], [one] if one.notice == Notice::RulesDue { batch: settled.id }),
        "{unsent:?}"
    );
    assert_eq!(collected(&*database.two, "t").await.rounds, 1);
}

/// What was asked for on one pull request is told to whoever decides about another of the repository.
pub async fn requests_are_told_to_the_other_pull_requests_of_the_repository(database: &Database) {
    let store = &*database.one;
    hear(store, &[said("t", "1", remark(1, RULE), moment(0))]).await;
    settle_now(store, "t").await;
    let elsewhere = |repo: &str, number| Heard {
        pull_request: pull_request(repo, number),
        ..said("t", &format!("{repo}{number}"), remark_at(repo, number, 9, "Thanks"), moment(0))
    };
    hear(store, &[elsewhere("acme/shop", 8), elsewhere("acme/other", 8)]).await;
    for (repo, others) in [("acme/shop", 1), ("acme/other", 0)] {
        let of = PullRequestKey { tenant: tenant("t"), pull_request: pull_request(repo, 8) };
        let known = database.two.collected(&of).await.expect("reading").expect("it was spoken of");
        assert_eq!(known.others.len(), others, "{repo}");
        assert!(known.others.iter().all(|other| other.title == RULE));
    }
}

/// All in one transaction, once, whoever else does it at the same time.
pub async fn closing_a_batch_of_rules_stores_everything_once(database: &Database) {
    let store = &*database.one;
    hear(store, &[said("t", "1", remark(1, RULE), moment(0))]).await;
    let id = settle_now(store, "t").await;
    everything_sent(store).await;
    assert_eq!(store.overdue_rules(LONG_S, 10).await.expect("looking"), []);
    assert_eq!(database.two.overdue_rules(0, 10).await.expect("looking"), [(tenant("t"), id)]);
    let (one, two) = join(close(store, "t", id), close(&*database.two, "t", id)).await;
    let both = [one, two];
    assert_eq!(both.iter().filter(|step| **step == Step::Done).count(), 1, "{both:?}");
    assert_eq!(database.two.overdue_rules(0, 10).await.expect("looking"), []);
    let memories = rules(store, "t").await;
    assert!(
        matches!(&memories[..], [one] if one.status == Status::Active && one.weight.get() == 300),
        "{memories:?}"
    );
    let keeper = repository().keeper(&tenant("t"));
    assert_eq!(store.changes(&keeper).await.expect("changes").len(), 1);
    let told = store.unsent(10).await.expect("the outbox");
    assert!(matches!(&told[..], [one] if one.notice.kind() == "memory.changed"), "{told:?}");
    let report = store.review_report(&tenant("t"), id).await.expect("reading").expect("it was closed");
    assert_eq!((report.remarks.len(), report.changes.len()), (1, 1));
    let listed = store.review_reports(&tenant("t"), None, 10).await.expect("listing");
    assert_eq!(listed.iter().map(|one| one.id).collect::<Vec<_>>(), [id]);
}

/// What a remark has done, it does not do again in the next round.
pub async fn what_a_remark_has_caused_is_told_to_the_next_round(database: &Database) {
    let store = &*database.one;
    for (event, body) in [("1", RULE), ("2", "Thanks")] {
        hear(store, &[said("t", event, remark(event.parse().expect("a number"), body), moment(0))]).await;
        let id = settle_now(store, "t").await;
        assert_eq!(close(store, "t", id).await, Step::Done);
    }
    let keeper = repository().keeper(&tenant("t"));
    assert_eq!(store.changes(&keeper).await.expect("changes").len(), 1);
    let reports = store.review_reports(&tenant("t"), None, 10).await.expect("listing");
    let changes: usize = reports.iter().map(|report| report.changes.len()).sum();
    assert_eq!((reports.len(), changes), (2, 1));
}

/// A stranger's rule waits in quarantine until a person promotes it, once.
pub async fn a_person_promotes_a_quarantined_rule_once(database: &Database) {
    let store = &*database.one;
    let stranger = Remark { association: Association::None, ..remark(1, RULE) };
    hear(store, &[said("t", "1", stranger, moment(0))]).await;
    let id = settle_now(store, "t").await;
    close(store, "t", id).await;
    let rule = rules(store, "t").await.remove(0);
    assert!(rule.status == Status::Tentative && rule.quarantine.is_some(), "{rule:?}");
    assert_eq!(promote(store, "t", rule.id, "one").await, Ok(Step::Done));
    assert_eq!(promote(&*database.two, "t", rule.id, "one").await, Ok(Step::AlreadyDone));
    let again = promote(store, "t", rule.id, "two").await;
    assert!(matches!(again, Err(Unpromoted::Status { .. })), "{again:?}");
    let rule = rules(store, "t").await.remove(0);
    assert!(rule.status == Status::Active && rule.quarantine.is_none(), "{rule:?}");
    let nobody = MemoryId(retro_core::id::derive("nobody", &[]));
    assert_eq!(promote(store, "t", nobody, "one").await, Ok(Step::Unknown));
}

/// The same pull request of the same repository, in two tenants.
pub async fn reviewing_keeps_tenants_apart(database: &Database) {
    let store = &*database.one;
    hear(store, &[said("t", "1", remark(1, RULE), moment(0))]).await;
    // The same identity of an event is another tenant's own.
    assert_eq!(hear(store, &[said("u", "1", remark(1, "Thanks"), moment(0))]).await, [Taken::New]);
    let bodies = |known: crate::review::Collected| known.remarks[0].0.body.clone();
    assert_eq!(bodies(collected(store, "t").await), RULE);
    assert_eq!(bodies(collected(store, "u").await), "Thanks");
    let id = settle_now(store, "t").await;
    assert_eq!(close(store, "u", id).await, Step::Unknown);
    assert_eq!(collected(store, "u").await.others, []);
    assert_eq!(close(store, "t", id).await, Step::Done);
    assert_eq!(rules(store, "u").await, []);
    let rule = rules(store, "t").await.remove(0);
    assert_eq!(promote(store, "u", rule.id, "one").await, Ok(Step::Unknown));
    assert!(store.review_report(&tenant("u"), id).await.expect("reading").is_none());
    assert_eq!(store.review_reports(&tenant("u"), None, 10).await.expect("listing"), []);
    assert_eq!(store.rules(&tenant("u"), &repository(), 0).await.expect("recalling"), []);
    assert_eq!(store.rules(&tenant("t"), &repository(), 0).await.expect("recalling").len(), 1);
}

/// Rules of this repository are asked for here.
pub(super) fn repository() -> Repository {
    Repository::new("acme/shop").expect("a good name")
}

fn pull_request(repo: &str, number: u64) -> PullRequestRef {
    PullRequestRef { repo: Repository::new(repo).expect("a good name"), number }
}

fn key(of: &str) -> PullRequestKey {
    PullRequestKey { tenant: tenant(of), pull_request: pull_request("acme/shop", 7) }
}

fn remark(id: u64, body: &str) -> Remark {
    remark_at("acme/shop", 7, id, body)
}

fn remark_at(repo: &str, number: u64, id: u64, body: &str) -> Remark {
    Remark {
        key: RemarkKey { pull_request: pull_request(repo, number), kind: RemarkKind::LineComment, id },
        review: Some(5),
        verdict: None,
        reply_to: None,
        by: "größe\0".to_owned(),
        bot: false,
        association: Association::Member,
        by_author: false,
        body: body.to_owned(),
        path: None,
        line: None,
        at: moment(0),
        url: None,
        edited: false,
        deleted: false,
    }
}

fn said(of: &str, event: &str, remark: Remark, changed_at: Timestamp) -> Heard {
    Heard {
        event: EventKey {
            tenant: tenant(of),
            source: "https://github.com/acme/shop".to_owned(),
            id: event.to_owned(),
        },
        content_hash: format!("hash of {event}"),
        pull_request: remark.key.pull_request.clone(),
        author: None,
        said: Some(Said::Remark { remark, thumbs_up: 2, changed_at }),
    }
}

async fn hear(store: &dyn Store, heard: &[Heard]) -> Vec<Taken> {
    store.hear(heard, 0).await.expect("hearing")
}

async fn collected(store: &dyn Store, of: &str) -> crate::review::Collected {
    store.collected(&key(of)).await.expect("reading").expect("it was spoken of")
}

/// Decides as the reviewer would, with a reader that takes one sentence for a rule.
async fn decided(store: &dyn Store, of: &str) -> (u64, SettledReview) {
    let known = collected(store, of).await;
    let review = ReviewKey { pull_request: key(of).pull_request, review: None };
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
        let reading = Reading { kind, certainty: 900, features: Vec::new(), rule, why: "because".to_owned() };
        let support = Support { thumbs_up, ..Support::default() };
        ReadRemark { remark, reading, support, screening: Screening::default() }
    });
    let batch = ReviewBatch {
        id: ReviewBatchId::of(&tenant(of), &review, round),
        tenant: tenant(of),
        review,
        remarks: remarks.collect(),
        others: known.others,
    };
    let policy = Policy::default();
    let Settled { decided, mutations } = settle(&batch, &policy, &NgramEmbedder);
    let keeper = repository().keeper(&tenant(of));
    let requests = batch
        .remarks
        .iter()
        .filter_map(|read| Some((read.remark.key.clone(), read.reading.rule.as_ref()?.title.clone())));
    let settled = SettledReview {
        id: batch.id,
        round,
        as_of: moment(10),
        policy,
        requests: requests.collect(),
        message: Notice::RulesDue { batch: batch.id }.about(&keeper),
        keeper,
        review: DecidedReview { review: batch.review, remarks: batch.remarks, decided },
        mutations,
    };
    (known.revision, settled)
}

async fn settle_now(store: &dyn Store, of: &str) -> ReviewBatchId {
    let (revision, settled) = decided(store, of).await;
    let step = store.settle_review(&key(of), revision, Some(&settled)).await.expect("settling");
    assert_eq!(step, Step::Done);
    settled.id
}

async fn close(store: &dyn Store, of: &str, id: ReviewBatchId) -> Step {
    let decide = |facts: RuleBatchFacts| {
        let RuleBatchFacts { id: batch, review, mutations, rules } = facts;
        let DecidedReview { review, remarks, decided } = review.expect("it is of reviews");
        let tenant = rules.keeper.tenant.clone();
        let batch = ReviewBatch { id: batch, tenant, review, remarks, others: Vec::new() };
        let facts = ReviewFacts { batch, settled: Settled { decided, mutations }, rules };
        let closing = close_review(facts, &NgramEmbedder, moment(20));
        let report = Some(closing.report);
        Ok(RulesClosed { applied: closing.applied, report, messages: closing.messages })
    };
    store.close_rules(&tenant(of), id, &decide).await.expect("closing")
}

async fn promote(store: &dyn Store, of: &str, id: MemoryId, request: &str) -> Result<Step, Unpromoted> {
    let decide = |facts: &_| {
        let policy = Policy::default();
        Ok(promote_rule(facts, request, "ann", "it is right", &policy, &NgramEmbedder, moment(30)))
    };
    store.promote_rule(&tenant(of), id, request, &decide).await.expect("promoting")
}

/// One that a member asked for on a pull request: active.
pub(super) async fn a_rule(store: &dyn Store, of: &str) -> Memory {
    hear(store, &[said(of, "1", remark(1, RULE), moment(0))]).await;
    let id = settle_now(store, of).await;
    assert_eq!(close(store, of, id).await, Step::Done);
    rules(store, of).await.remove(0)
}

/// Those of [`repository`].
pub(super) async fn rules(store: &dyn Store, of: &str) -> Vec<Memory> {
    let workflow = Some(repository().keeper(&tenant(of)).workflow);
    let filter = MemoryFilter { workflow, limit: 100, ..Default::default() };
    store.memories(&tenant(of), &filter).await.expect("listing")
}

async fn everything_sent(store: &dyn Store) {
    let unsent = store.unsent(100).await.expect("the outbox");
    let ids: Vec<_> = unsent.iter().map(|message| message.id).collect();
    store.mark_sent(&ids).await.expect("marking");
}
