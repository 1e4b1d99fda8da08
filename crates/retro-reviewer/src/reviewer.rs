//! Records the remarks of reviews, and decides which remarks of a pull request are rules when its review is
//! due.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::message::Notice;
use retro_core::policy::{Policies, Policy};
use retro_core::review::{ReviewBatch, SettledRemarks, settle_review};
use retro_core::similarity::MissingEmbeddings;
use retro_core::time::Clock;
use retro_events::{Consumer, Delivery, HandlerOutcome, github, subject};
use retro_store::{
    CommitResult, DecidedReview, EmbeddingSource, NewReviewBatch, PullRequestKey, ReviewEvent,
    ReviewEventResult, ReviewerStore, StoreError,
};
use retro_watchdog::catch_panic;
use tokio::sync::Notify;
use tracing::{debug, error, info, warn};

use crate::RemarkReader;
use crate::review_batch::build_review_batch;
use crate::review_event::review_event_from_github;
use crate::vectors::RequestVectors;

/// Delay before a message is redelivered if the database is unavailable.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(2);
/// Maximum number of pull requests decided per sweep; the next sweep decides the rest.
const REVIEWS_PER_SWEEP: u32 = 100;

/// Consumer that decides which remarks of a review are rules. Requests mutations from the writer and never
/// changes memories itself.
pub struct Reviewer {
    store: Arc<dyn ReviewerStore>,
    reader: Arc<dyn RemarkReader>,
    policies: Arc<dyn Policies>,
    vectors: RequestVectors,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
    wait_s: u64,
}

/// Dependencies that a reviewer needs for its decisions.
pub struct ReviewerPorts {
    /// Reader that classifies remarks.
    pub reader: Arc<dyn RemarkReader>,
    /// Policies, looked up by the rule scope of a repository.
    pub policies: Arc<dyn Policies>,
    /// Source of the vectors for comparing requests; `None` selects the built-in embedder.
    pub vectors: Option<Arc<dyn EmbeddingSource>>,
    /// Clock that provides the times of decisions.
    pub clock: Arc<dyn Clock>,
}

impl Reviewer {
    /// Creates a reviewer over its ports. A pull request is due `wait_s` seconds after the first new event since its
    /// last decision; `outbox` is notified when it may contain messages to send.
    pub fn new(
        store: Arc<dyn ReviewerStore>,
        judgement: ReviewerPorts,
        outbox: Arc<Notify>,
        wait_s: u64,
    ) -> Self {
        let ReviewerPorts { reader, policies, vectors, clock } = judgement;
        let vectors = RequestVectors::new(vectors);
        Self { store, reader, policies, vectors, clock, outbox, wait_s }
    }

    /// Decides the pull requests that are due, up to the maximum of one sweep, and returns their number.
    pub async fn decide_due_reviews(&self) -> Result<usize, StoreError> {
        let due = self.store.list_due_reviews(REVIEWS_PER_SWEEP).await?;
        for key in &due {
            let pull_request = &key.pull_request;
            // A problem of one pull request must not stop the others.
            match catch_panic(self.decide_review(key)).await {
                // An unavailable database fails for every pull request, so the sweep ends.
                Ok(Err(away @ StoreError::Unavailable(_))) => return Err(away),
                Ok(Err(problem)) => {
                    error!(tenant = %key.tenant, "could not decide the reviews of {pull_request}: {problem}");
                }
                Err(panicked) => {
                    error!(tenant = %key.tenant, "deciding the reviews of {pull_request} panicked: {panicked}");
                }
                Ok(Ok(_)) => {}
            }
        }
        Ok(due.len())
    }

    async fn decide_review(&self, key: &PullRequestKey) -> Result<CommitResult, StoreError> {
        let Some(collected) = self.store.find_pull_request_reviews(key).await? else {
            return Ok(CommitResult::NotFound);
        };
        let (revision, round) = (collected.revision, collected.rounds + 1);
        let keeper = key.pull_request.repo.rule_scope(&key.tenant);
        let policy = self.policies.policy_for(&keeper);
        let batch = build_review_batch(&key.tenant, &key.pull_request, collected, &*self.reader).await;
        // Committed without a batch, so that the pull request is no longer due.
        if batch.remarks.is_empty() {
            return self.store.commit_review(key, revision, None).await;
        }
        let SettledRemarks { decided, mutations } = self.settle_with_vectors(&batch, &policy).await;
        let requested_mutations = mutations.len();
        // A deleted request must not support a rule on another pull request.
        let requests = batch.remarks.iter().filter(|read| !read.remark.deleted).filter_map(|read| {
            let rule = read.reading.rule.as_ref()?;
            Some((read.remark.key.clone(), rule.title.clone()))
        });
        let requests = requests.collect();
        let settled = NewReviewBatch {
            id: batch.id,
            round,
            as_of: self.clock.now(),
            requests,
            message: Notice::RulesDue { batch: batch.id }.into_message(&keeper),
            rule_scope: keeper,
            policy,
            review: DecidedReview { review: batch.review, remarks: batch.remarks, decided },
            mutations,
        };
        let step = self.store.commit_review(key, revision, Some(&settled)).await?;
        if step == CommitResult::Done {
            let (pull_request, tenant) = (&key.pull_request, &key.tenant);
            info!(%tenant, review.id = %settled.id, requested_mutations, "decided the reviews of {pull_request}, round {round}");
            self.outbox.notify_one();
        }
        Ok(step)
    }

    /// Settles the batch. Fetches vectors until all that the decision needs are available or known to be
    /// unavailable, without an open transaction. If a new remark arrives meanwhile, the revision differs, so
    /// the result is not stored and the pull request is decided again.
    async fn settle_with_vectors(&self, batch: &ReviewBatch, policy: &Policy) -> SettledRemarks {
        let mut rounds = self.vectors.resolver();
        loop {
            let missed = {
                let hand = rounds.next_pass();
                match hand.ensure_complete(settle_review(batch, policy, hand.embedder())) {
                    Ok(settled) => return settled,
                    Err(MissingEmbeddings) => hand.missing_texts(),
                }
            };
            let found = self.vectors.fetch_vectors(&missed).await;
            rounds.add_vectors(missed, found);
        }
    }
}

#[async_trait]
impl Consumer for Reviewer {
    fn name(&self) -> &'static str {
        "reviewer"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        let work = retro_trace::start_batch_span(batch.len(), self.name(), subject::GITHUB);
        batch.iter().filter_map(Delivery::trace_context).for_each(|trace| work.add_link(&trace, "message"));
        let parsed: Vec<Result<Option<ReviewEvent>, Rejection>> = batch
            .iter()
            .map(|delivery| github::parse_event(delivery).and_then(review_event_from_github))
            .collect();
        let events: Vec<ReviewEvent> = parsed.iter().filter_map(|one| one.as_ref().ok()?.clone()).collect();
        let mut results = match work.instrument(self.record_events(&events)).await {
            Ok(results) => results.into_iter(),
            Err(problem) => {
                work.set_error("not_stored");
                return vec![outcome_for_store_error(&problem); batch.len()];
            }
        };
        // The store returns one result for each event, in the order of the events.
        let decide_outcome = |one: Result<Option<ReviewEvent>, Rejection>| match one {
            Err(rejection) => HandlerOutcome::DeadLetter(rejection),
            // A push belongs to no pull request.
            Ok(None) => HandlerOutcome::Done,
            Ok(Some(event)) => outcome_for(&event, results.next()),
        };
        parsed.into_iter().map(decide_outcome).collect()
    }
}

impl Reviewer {
    async fn record_events(&self, events: &[ReviewEvent]) -> Result<Vec<ReviewEventResult>, StoreError> {
        if events.is_empty() { Ok(Vec::new()) } else { self.store.record_events(events, self.wait_s).await }
    }
}

fn outcome_for(review_event: &ReviewEvent, result: Option<ReviewEventResult>) -> HandlerOutcome {
    let pull_request = &review_event.pull_request;
    match result {
        Some(ReviewEventResult::Recorded | ReviewEventResult::Unchanged) => HandlerOutcome::Done,
        Some(ReviewEventResult::Duplicate) => HandlerOutcome::Duplicate,
        Some(ReviewEventResult::LimitReached) => {
            warn!(tenant = %review_event.event.tenant, "{pull_request} has the maximum number of stored remarks: a further one was dropped");
            HandlerOutcome::Done
        }
        Some(ReviewEventResult::Conflict(seen)) => {
            let detail = format!(
                "event {:?} of {:?} came before with other content: {seen}; now it has data sha256 {}",
                review_event.event.id, review_event.event.source, review_event.content_hash
            );
            HandlerOutcome::DeadLetter(Rejection::of_field(DeadLetterCode::IdentityConflict, "data", detail))
        }
        None => {
            debug!("the store returned fewer results than it was given events");
            let reason = "the store gave no answer for this event".to_owned();
            HandlerOutcome::RetryAfter { wait: STORE_RETRY_DELAY, reason }
        }
    }
}

/// Returns the outcome of handling a message that failed with this store error. An unavailable database does not use
/// up an attempt; other errors do.
fn outcome_for_store_error(problem: &StoreError) -> HandlerOutcome {
    let reason = problem.to_string();
    match problem {
        StoreError::Unavailable(_) => HandlerOutcome::Snooze { wait: STORE_RETRY_DELAY, reason },
        StoreError::Fenced { .. } | StoreError::MissingEmbeddings(_) | StoreError::Damaged { .. } => {
            HandlerOutcome::RetryAfter { wait: STORE_RETRY_DELAY, reason }
        }
    }
}

#[cfg(test)]
mod tests;
