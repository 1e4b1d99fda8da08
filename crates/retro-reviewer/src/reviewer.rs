//! The reviewer: takes what people say, and when a pull request's wait is over decides what of it is a rule.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::message::Notice;
use retro_core::policy::{Policies, Policy};
use retro_core::review::{ReviewBatch, Settled, settle};
use retro_core::similar::Unready;
use retro_core::time::Clock;
use retro_events::{Consumer, Delivery, Verdict, github, subject};
use retro_store::{
    DecidedReview, Heard, PullRequestKey, ReviewerStore, SettledReview, Step, StoreError, Taken, VectorSource,
};
use retro_watchdog::caught;
use tokio::sync::Notify;
use tracing::{debug, error, info, warn};

use crate::Reader;
use crate::gather::gather;
use crate::heard::heard;
use crate::vectors::Vectors;

/// How long a message waits when the database is away.
const STORE_AWAY: Duration = Duration::from_secs(2);
/// Pull requests decided upon in one sweep; the next sweep takes the next ones.
const REVIEWS_PER_SWEEP: u32 = 100;

/// Decides what of a review is a rule. Changes no memory: it asks the writer to.
pub struct Reviewer {
    store: Arc<dyn ReviewerStore>,
    reader: Arc<dyn Reader>,
    policies: Arc<dyn Policies>,
    vectors: Vectors,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
    wait_s: u64,
}

/// What a reviewer decides with.
pub struct Judgement {
    /// Says what a remark is.
    pub reader: Arc<dyn Reader>,
    /// The policy of each repository's keeper.
    pub policies: Arc<dyn Policies>,
    /// Says whether two requests are the same; `None`: the built-in embedder does.
    pub vectors: Option<Arc<dyn VectorSource>>,
    /// Gives each decision its moment.
    pub clock: Arc<dyn Clock>,
}

impl Reviewer {
    /// A reviewer over its ports. Who speaks makes a pull request due `wait_s` seconds later; `outbox` is rung when there may be
    /// something to send.
    pub fn new(
        store: Arc<dyn ReviewerStore>,
        judgement: Judgement,
        outbox: Arc<Notify>,
        wait_s: u64,
    ) -> Self {
        let Judgement { reader, policies, vectors, clock } = judgement;
        let vectors = Vectors::of(vectors);
        Self { store, reader, policies, vectors, clock, outbox, wait_s }
    }

    /// Decides upon every pull request whose wait is over. Returns how many were taken up.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let due = self.store.due_reviews(REVIEWS_PER_SWEEP).await?;
        for key in &due {
            let pull_request = &key.pull_request;
            // What is wrong with one is no reason to leave the others.
            match caught(self.decide(key)).await {
                Ok(Err(away @ StoreError::Unavailable(_))) => return Err(away),
                Ok(Err(problem)) => {
                    error!(tenant = %key.tenant, "the reviews of {pull_request} cannot be decided upon: {problem}");
                }
                Err(panicked) => {
                    error!(tenant = %key.tenant, "deciding upon the reviews of {pull_request} failed: {panicked}");
                }
                Ok(Ok(_)) => {}
            }
        }
        Ok(due.len())
    }

    async fn decide(&self, key: &PullRequestKey) -> Result<Step, StoreError> {
        let Some(collected) = self.store.collected(key).await? else { return Ok(Step::Unknown) };
        let (revision, round) = (collected.revision, collected.rounds + 1);
        let keeper = key.pull_request.repo.keeper(&key.tenant);
        let policy = self.policies.of(&keeper);
        let batch = gather(&key.tenant, &key.pull_request, collected, &*self.reader).await;
        if batch.remarks.is_empty() {
            return self.store.settle_review(key, revision, None).await;
        }
        let Settled { decided, mutations } = self.settled(&batch, &policy).await;
        let asked = mutations.len();
        let requests = batch.remarks.iter().filter(|read| !read.remark.deleted).filter_map(|read| {
            let rule = read.reading.rule.as_ref()?;
            Some((read.remark.key.clone(), rule.title.clone()))
        });
        let requests = requests.collect();
        let settled = SettledReview {
            id: batch.id,
            round,
            as_of: self.clock.now(),
            requests,
            message: Notice::RulesDue { batch: batch.id }.about(&keeper),
            keeper,
            policy,
            review: DecidedReview { review: batch.review, remarks: batch.remarks, decided },
            mutations,
        };
        let step = self.store.settle_review(key, revision, Some(&settled)).await?;
        if step == Step::Done {
            let (pull_request, tenant) = (&key.pull_request, &key.tenant);
            info!(%tenant, review.id = %settled.id, asked, "decided upon the reviews of {pull_request}, round {round}");
            self.outbox.notify_one();
        }
        Ok(step)
    }

    /// Tried until the vectors of what is compared are there, or cannot be had. No transaction is open meanwhile: whoever says
    /// more has it decided again, and this is not stored.
    async fn settled(&self, batch: &ReviewBatch, policy: &Policy) -> Settled {
        let mut rounds = self.vectors.rounds();
        loop {
            let missed = {
                let hand = rounds.hand();
                match hand.ready(settle(batch, policy, hand.embedder())) {
                    Ok(settled) => return settled,
                    Err(Unready) => hand.missed(),
                }
            };
            let found = self.vectors.get(&missed).await;
            rounds.got(missed, found);
        }
    }
}

#[async_trait]
impl Consumer for Reviewer {
    fn name(&self) -> &'static str {
        "reviewer"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let work = retro_trace::process_batch(batch.len(), self.name(), subject::GITHUB);
        batch.iter().filter_map(Delivery::trace).for_each(|trace| work.link(&trace, "message"));
        let read: Vec<Result<Option<Heard>, Rejection>> =
            batch.iter().map(|delivery| github::read(delivery).and_then(heard)).collect();
        let said: Vec<Heard> = read.iter().filter_map(|one| one.as_ref().ok()?.clone()).collect();
        let mut taken = match work.around(self.take(&said)).await {
            Ok(taken) => taken.into_iter(),
            Err(problem) => {
                work.failed("not_stored");
                return vec![not_stored(&problem); batch.len()];
            }
        };
        let verdict = |one: Result<Option<Heard>, Rejection>| match one {
            Err(rejection) => Verdict::DeadLetter(rejection),
            // A push speaks of no pull request.
            Ok(None) => Verdict::Done,
            Ok(Some(heard)) => answer(&heard, taken.next()),
        };
        read.into_iter().map(verdict).collect()
    }
}

impl Reviewer {
    async fn take(&self, said: &[Heard]) -> Result<Vec<Taken>, StoreError> {
        if said.is_empty() { Ok(Vec::new()) } else { self.store.hear(said, self.wait_s).await }
    }
}

fn answer(heard: &Heard, taken: Option<Taken>) -> Verdict {
    let pull_request = &heard.pull_request;
    match taken {
        Some(Taken::New | Taken::Nothing) => Verdict::Done,
        Some(Taken::Known) => Verdict::Known,
        Some(Taken::Full) => {
            warn!(tenant = %heard.event.tenant, "{pull_request} has as many remarks as are kept: one more is not");
            Verdict::Done
        }
        Some(Taken::Conflict(seen)) => {
            let detail = format!(
                "event {:?} of {:?} came before with other content: {seen}; now it has data sha256 {}",
                heard.event.id, heard.event.source, heard.content_hash
            );
            Verdict::DeadLetter(Rejection::at(Code::IdentityConflict, "data", detail))
        }
        None => {
            debug!("the store answered for fewer events than it was given");
            let reason = "the store gave no answer for this event".to_owned();
            Verdict::RetryAfter { wait: STORE_AWAY, reason }
        }
    }
}

/// An absent database is nobody's fault; anything else spends an attempt.
fn not_stored(problem: &StoreError) -> Verdict {
    let reason = problem.to_string();
    match problem {
        StoreError::Unavailable(_) => Verdict::Snooze { wait: STORE_AWAY, reason },
        StoreError::Fenced { .. } | StoreError::Unready(_) | StoreError::Damaged { .. } => {
            Verdict::RetryAfter { wait: STORE_AWAY, reason }
        }
    }
}

#[cfg(test)]
mod tests;
