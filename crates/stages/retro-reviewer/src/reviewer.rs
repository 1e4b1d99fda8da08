//! Records the remarks of reviews, and decides which remarks of a pull request are rules when its review is
//! due.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use retro_consumer::{Consumer, HandlerError, HandlerOutcome, ITEMS_PER_SWEEP, Sweep, process_item};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::message::Notice;
use retro_core::pipeline::ReviewPipelines;
use retro_core::policy::Policies;
use retro_core::review::{SettledRemarks, settle_review};
use retro_core::time::Clock;
use retro_events::{Delivery, github, subject};
use retro_store::{
    CommitResult, DecidedReview, EmbeddingSource, NewReviewBatch, PullRequestKey, ReviewClaim, ReviewEvent,
    ReviewEventResult, ReviewerStore, StoreError,
};
use tokio::sync::Notify;
use tracing::{error, info, warn};

use crate::claim::{ClaimJournal, NoJournal, hold_claim};
use crate::play::read_batch;
use crate::reader::{ReadingJournal, RemarkReader};
use crate::review_batch::CompletedRemarks;
use crate::review_event::review_event_from_github;
use crate::vectors::RequestVectors;

/// Maximum number of pull requests whose reviews a process reads at once, while it waits for a language model.
const READINGS_AT_ONCE: usize = 4;

/// Consumer that decides which remarks of a review are rules. Requests mutations from the writer and never
/// changes memories itself.
pub struct Reviewer {
    store: Arc<dyn ReviewerStore>,
    reader: Arc<dyn RemarkReader>,
    policies: Arc<dyn Policies>,
    pipelines: Arc<dyn ReviewPipelines>,
    vectors: RequestVectors,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
    wait_s: u64,
    claim_s: u64,
}

/// Dependencies that a reviewer needs for its decisions.
pub struct ReviewerPorts {
    /// Reader that classifies remarks.
    pub reader: Arc<dyn RemarkReader>,
    /// Policies, looked up by the rule scope of a repository.
    pub policies: Arc<dyn Policies>,
    /// The review pipeline that is in force.
    pub pipelines: Arc<dyn ReviewPipelines>,
    /// Source of the vectors for comparing requests; `None` selects the built-in embedder.
    pub vectors: Option<Arc<dyn EmbeddingSource>>,
    /// Clock that provides the times of decisions.
    pub clock: Arc<dyn Clock>,
}

impl Reviewer {
    /// Creates a reviewer over its ports. A pull request is due `wait_s` seconds after the first new event since its
    /// last decision; `outbox` is notified when it may contain messages to send. While a language model is asked about a
    /// pull request, it is claimed for `claim_s` seconds, which are renewed.
    pub fn new(
        store: Arc<dyn ReviewerStore>,
        judgement: ReviewerPorts,
        outbox: Arc<Notify>,
        wait_s: u64,
        claim_s: u64,
    ) -> Self {
        let ReviewerPorts { reader, policies, pipelines, vectors, clock } = judgement;
        let vectors = RequestVectors::new(vectors);
        Self { store, reader, policies, pipelines, vectors, clock, outbox, wait_s, claim_s }
    }

    async fn decide_review(&self, key: &PullRequestKey) -> Result<CommitResult, StoreError> {
        if !self.reader.asks_model() {
            return self.decide_claimed(key, None).await;
        }
        // Another process reads it, or has decided it since it was listed.
        let Some(claim) = self.store.claim_reviews(key, self.claim_s).await? else {
            return Ok(CommitResult::AlreadyDone);
        };
        hold_claim(&*self.store, &claim, self.claim_s, self.decide_claimed(key, Some(&claim))).await
    }

    async fn decide_claimed(
        &self,
        key: &PullRequestKey,
        claim: Option<&ReviewClaim>,
    ) -> Result<CommitResult, StoreError> {
        let Some(collected) = self.store.find_pull_request_reviews(key).await? else {
            return Ok(CommitResult::NotFound);
        };
        let (revision, round) = (collected.revision, collected.rounds + 1);
        let rule_scope = key.pull_request.repo.rule_scope(&key.tenant);
        let policy = self.policies.policy_for(&rule_scope);
        let completed = CompletedRemarks::from_collected(collected);
        // Committed without a batch, so that the pull request is no longer due.
        if completed.remarks.is_empty() {
            return self.store.commit_review(key, revision, claim, None).await;
        }
        let journal: Arc<dyn ReadingJournal> = match claim {
            None => Arc::new(NoJournal),
            Some(claim) => Arc::new(ClaimJournal { store: self.store.clone(), claim: claim.clone() }),
        };
        let pipeline = self.pipelines.current_review_pipeline();
        // No transaction is open. If a new remark arrives meanwhile, the revision differs, so the result is not
        // stored and the pull request is decided again; the answers of a model are, and are found again.
        let (batch, reading) = read_batch(key, completed, &*self.reader, pipeline.clone(), journal).await?;
        let vectors = self.vectors.resolve(&batch).await?;
        let embedder = vectors.embedder_for(&batch).expect("they were resolved for this batch");
        let SettledRemarks { decided, mutations } = settle_review(&batch, &policy, embedder);
        let requested_mutations = mutations.len();
        // A deleted request must not support a rule on another pull request.
        let requests = batch.remarks.iter().filter(|read| !read.remark.deleted).filter_map(|read| {
            let rule = read.reading.rule.as_ref()?;
            Some((read.remark.key.clone(), rule.title.clone()))
        });
        let requests = requests.collect();
        let review = DecidedReview {
            review: batch.review,
            remarks: batch.remarks,
            decided,
            pipeline: Some(pipeline.hashes().clone()),
            reading: Some(reading),
        };
        let settled = NewReviewBatch {
            id: batch.id,
            round,
            as_of: self.clock.now(),
            requests,
            message: Notice::RulesDue { batch: batch.id }.into_message(&rule_scope),
            rule_scope,
            policy,
            pipeline,
            review,
            mutations,
        };
        let step = self.store.commit_review(key, revision, claim, Some(&settled)).await?;
        if step == CommitResult::Done {
            let (pull_request, tenant) = (&key.pull_request, &key.tenant);
            info!(%tenant, review.id = %settled.id, requested_mutations, "decided the reviews of {pull_request}, round {round}");
            self.outbox.notify_one();
        }
        Ok(step)
    }
}

#[async_trait]
impl Consumer for Reviewer {
    fn name(&self) -> &'static str {
        "reviewer"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        let work = retro_telemetry::trace::start_batch_span(batch.len(), self.name(), subject::GITHUB);
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
                return vec![HandlerOutcome::from(problem); batch.len()];
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

#[async_trait]
impl Sweep for Reviewer {
    /// Decides the pull requests that are due, up to the maximum of one sweep, and returns their number. No
    /// message announces that a pull request is due.
    async fn sweep(&self) -> Result<usize, StoreError> {
        let due = self.store.list_due_reviews(ITEMS_PER_SWEEP).await?;
        // One after the other, unless a model is waited for.
        let at_once = if self.reader.asks_model() { READINGS_AT_ONCE } else { 1 };
        let decide = |key: PullRequestKey| async move {
            process_item(self.decide_review(&key), |problem| {
                let pull_request = &key.pull_request;
                error!(tenant = %key.tenant, "could not decide the reviews of {pull_request}: {problem}");
            })
            .await
        };
        let found = due.len();
        let mut decisions = futures::stream::iter(due).map(decide).buffer_unordered(at_once);
        while let Some(done) = decisions.next().await {
            done?;
        }
        Ok(found)
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
            error!(tenant = %review_event.event.tenant, "the store answered for fewer events than it was given");
            HandlerError::Failed("the store gave no answer for this event".to_owned()).into()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
