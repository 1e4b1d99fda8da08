#![doc = include_str!("../README.md")]

mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use retro_core::count::{self, Arrival, Counted, Disposition};
use retro_core::dead_letter::Rejection;
use retro_core::id::EventKey;
use retro_core::policy::Policies;
use retro_core::time::Clock;
use retro_events::hosts::DatarefHosts;
use retro_events::run_completed::{self, Body, RunCompleted};
use retro_events::{Accountable, Consumer, Delivery, Verdict};
use retro_redact::Redactor;
use retro_store::{CounterStore, IncomingBody, IncomingRun, StoreError};
use tokio::sync::Notify;
use tracing::{debug, error, info};

use spans::Spans;

/// How long a message waits when the database is away.
const STORE_AWAY: Duration = Duration::from_secs(2);
/// Bytes of bodies after which a transaction is full: a packed message of a kilobyte may hold a body of a megabyte, and a
/// batch has hundreds of messages. Two hundred bodies of the size that CloudEvents asks for still fit.
const BODY_BYTES_PER_TRANSACTION: usize = 8 * 1024 * 1024;
/// Windows looked at in one sweep; the next sweep takes the next ones.
const WINDOWS_PER_SWEEP: u32 = 100;

/// Counts finished runs.
pub struct Counter {
    store: Arc<dyn CounterStore>,
    policies: Arc<dyn Policies>,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
    hosts: DatarefHosts,
}

impl Counter {
    /// A counter over its ports; `outbox` is rung when there may be something to send.
    pub fn new(
        store: Arc<dyn CounterStore>,
        policies: Arc<dyn Policies>,
        clock: Arc<dyn Clock>,
        outbox: Arc<Notify>,
    ) -> Self {
        Self { store, policies, clock, outbox, hosts: DatarefHosts::default() }
    }

    /// The same, taking references to bodies at these hosts; without them every address is refused.
    pub fn taking_bodies_at(self, hosts: DatarefHosts) -> Self {
        Self { hosts, ..self }
    }

    /// Opens what no event would open: windows that filled up while their workflow paused. Returns how many
    /// retrospectives it opened; windows that are not full are looked at and left.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let as_of = self.clock.now();
        let waiting = self.store.waiting_windows(as_of, WINDOWS_PER_SWEEP).await?;
        if waiting.is_empty() {
            return Ok(0);
        }
        let opened = AtomicUsize::new(0);
        let decide = |facts, arrivals: &[Arrival]| {
            let effects = count::decide(facts, arrivals, &*self.policies, as_of);
            opened.store(effects.opened.len(), Ordering::Relaxed);
            effects
        };
        self.store.count(&[], &waiting, &decide).await?;
        let opened = opened.into_inner();
        if opened > 0 {
            self.outbox.notify_one();
        }
        Ok(opened)
    }

    async fn count(&self, runs: &[IncomingRun]) -> Result<Vec<Counted>, StoreError> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let as_of = self.clock.now();
        let decide = |facts, arrivals: &[Arrival]| count::decide(facts, arrivals, &*self.policies, as_of);
        let counted = self.store.count(runs, &[], &decide).await?;
        self.outbox.notify_one();
        Ok(counted)
    }
}

#[async_trait]
impl Consumer for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(batch.len());
        let mut rest = batch;
        while !rest.is_empty() {
            let read = read_some(rest, &self.hosts);
            let (part, after) = rest.split_at(read.len());
            verdicts.extend(self.count_part(part, read).await);
            rest = after;
        }
        verdicts
    }
}

impl Counter {
    /// Counts deliveries that were read, in one transaction.
    async fn count_part(
        &self,
        batch: &[Delivery],
        mut read: Vec<Result<IncomingRun, Rejection>>,
    ) -> Vec<Verdict> {
        let spans = Spans::begin(batch, &mut read);
        let runs: Vec<IncomingRun> = read.iter().filter_map(|run| run.as_ref().ok().cloned()).collect();
        let mut counted = match spans.batch.around(self.count(&runs)).await {
            Ok(counted) => counted.into_iter(),
            Err(problem) => {
                spans.batch.failed("not_stored");
                return vec![not_stored(&problem); batch.len()];
            }
        };
        let answer = |(place, run)| match run {
            Err(rejection) => Verdict::DeadLetter(rejection),
            Ok(run) => {
                let counted = counted.next();
                let ordinal = counted.as_ref().and_then(|counted| counted.ordinal);
                let verdict = answer(&run, counted);
                spans.end(place, ordinal, &verdict);
                verdict
            }
        };
        read.into_iter().enumerate().map(answer).collect()
    }
}

#[async_trait]
impl Accountable for Counter {
    async fn unhandled(&self, batch: &[Delivery]) -> Result<Vec<usize>, String> {
        let read: Vec<Option<(EventKey, String)>> = batch
            .iter()
            .map(|delivery| run_completed::read(delivery, &self.hosts).ok())
            .map(|read| read.map(|read| (read.event, read.content_hash)))
            .collect();
        let events: Vec<EventKey> = read.iter().flatten().map(|(event, _)| event.clone()).collect();
        let mut seen = self.store.seen(&events).await.map_err(|problem| problem.to_string())?.into_iter();
        let handled = read.iter().map(|read| {
            // One with other content under the same identity was given up, and is none that was handled.
            read.as_ref().is_some_and(|(_, hash)| seen.next().flatten().is_some_and(|seen| seen.is(hash)))
        });
        Ok(handled.enumerate().filter(|(_, handled)| !handled).map(|(nth, _)| nth).collect())
    }
}

/// Reads deliveries from the first one on, until their bodies fill a transaction; at least one.
fn read_some(batch: &[Delivery], hosts: &DatarefHosts) -> Vec<Result<IncomingRun, Rejection>> {
    let mut read_so_far = Vec::with_capacity(batch.len());
    let mut bytes = 0;
    for delivery in batch {
        let one = read(delivery, hosts);
        if let Ok(IncomingRun { body: IncomingBody::Inline(body), .. }) = &one {
            bytes += body.len();
        }
        read_so_far.push(one);
        if bytes >= BODY_BYTES_PER_TRANSACTION {
            break;
        }
    }
    read_so_far
}

/// One event into what is stored of it: facts and trajectory without secrets.
fn read(delivery: &Delivery, hosts: &DatarefHosts) -> Result<IncomingRun, Rejection> {
    let RunCompleted { event, key, content_hash, mut run, body, trace } =
        run_completed::read(delivery, hosts)?;
    let redactor = Redactor::shared();
    redactor.facts(&mut run);
    let body = match body {
        Body::None => IncomingBody::None,
        Body::Object(object) => IncomingBody::Object(object),
        Body::Https(body) => IncomingBody::Https(body),
        Body::Inline(mut trajectory) => {
            redactor.trajectory(&mut trajectory);
            IncomingBody::Inline(serde_json::to_vec(&trajectory).expect("a trajectory is plain data"))
        }
    };
    let arrival = Arrival { event, key, content_hash, run };
    Ok(IncomingRun { arrival, position: delivery.sequence, body, trace })
}

fn answer(run: &IncomingRun, counted: Option<Counted>) -> Verdict {
    let arrival = &run.arrival;
    let (key, id) = (&arrival.key, &arrival.run.run_id);
    let disposition = counted.map(|counted| counted.disposition);
    if let Some(disposition) = &disposition {
        retro_meter::RUNS_COUNTED.add(1, [disposition.as_str()]);
    }
    match disposition {
        Some(Disposition::Conflict(rejection)) => Verdict::DeadLetter(rejection),
        Some(Disposition::Counted(ordinal)) => {
            info!(tenant = %key.tenant, workflow = %key.workflow, run.id = %id, ordinal, "counted run {id}");
            Verdict::Done
        }
        Some(Disposition::Duplicate) => Verdict::Known,
        Some(other) => {
            debug!(tenant = %key.tenant, workflow = %key.workflow, run.id = %id, "run {id}: {other:?}");
            Verdict::Done
        }
        None => {
            error!(run.id = %id, "the store answered for fewer runs than it was given");
            Verdict::RetryAfter {
                wait: STORE_AWAY,
                reason: "the store gave no answer for this run".to_owned(),
            }
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
mod tests {
    use retro_events::run_completed::TYPE;

    use super::*;

    /// A message whose body has about so many bytes.
    fn delivery(sequence: u64, bytes: usize) -> Delivery {
        let message = "x ".repeat(bytes / 2);
        let payload = format!(
            r#"{{"specversion":"1.0","type":"{TYPE}","source":"s","id":"{sequence}","data":{{"workflow":"w","run_id":"{sequence}",
                "outcome":"success","trajectory":{{"schema_version":"ATIF-v1.4","steps":[{{"source":"user","message":"{message}"}}]}}}}}}"#
        );
        Delivery {
            stream: "RETRO_INTAKE".to_owned(),
            subject: "retro.run.completed.acme.w".to_owned(),
            sequence,
            headers: Vec::new(),
            payload: payload.into(),
            delivered: 1,
            stored_at: "2026-11-20T12:00:00Z".parse().expect("a moment"),
        }
    }

    #[test]
    fn a_transaction_takes_as_many_bodies_as_fit_and_at_least_one() {
        let count = |bytes: usize, number: u64| {
            let batch: Vec<Delivery> = (1..=number).map(|sequence| delivery(sequence, bytes)).collect();
            let read = read_some(&batch, &DatarefHosts::default());
            assert!(read.iter().all(Result::is_ok), "{read:?}");
            read.len()
        };
        assert_eq!(count(1000, 30), 30, "small ones are counted together");
        assert_eq!(count(900 * 1024, 12), 10, "the tenth fills eight MiB");
        assert_eq!(count(900 * 1024, 1), 1);
    }
}
