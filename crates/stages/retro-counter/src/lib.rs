#![doc = include_str!("../README.md")]

mod order;
mod spans;
mod windows;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use retro_consumer::{Consumer, EarlierBatch, HandlerError, HandlerOutcome, Reconcilable, run_in_place};
use retro_core::count::{self, Arrival, ArrivalDecision, Disposition, IntakeProgress};
use retro_core::dead_letter::Rejection;
use retro_core::id::{EventKey, WorkflowKey};
use retro_core::policy::Policies;
use retro_core::time::Clock;
use retro_core::trajectory::Trajectory;
use retro_events::hosts::DatarefHosts;
use retro_events::run_completed::{self, Body, RunCompleted};
use retro_events::{Delivery, StreamProgress};
use retro_redact::Redactor;
use retro_store::{CounterStore, DocumentCompressor, IncomingBody, IncomingRun, StoreError, WindowsToCheck};
use tokio::sync::Notify;
use tracing::{debug, error, info};

use order::IntakeOrder;
use spans::BatchSpans;

/// Size of inline bodies, in bytes, at which a transaction is full. The bound is needed because a compressed
/// message of a kilobyte may contain a body of a megabyte, and a batch has hundreds of messages. 128 bodies
/// of 64 KiB, the event size that CloudEvents asks for, still fit.
const BODY_BYTES_PER_TRANSACTION: usize = 8 * 1024 * 1024;

/// Consumer that counts finished runs.
pub struct Counter {
    store: Arc<dyn CounterStore>,
    policies: Arc<dyn Policies>,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
    hosts: DatarefHosts,
    order: IntakeOrder,
}

impl Counter {
    /// Creates a counter over its ports. `outbox` is notified when there may be messages to send.
    pub fn new(
        store: Arc<dyn CounterStore>,
        policies: Arc<dyn Policies>,
        clock: Arc<dyn Clock>,
        outbox: Arc<Notify>,
    ) -> Self {
        Self { store, policies, clock, outbox, hosts: DatarefHosts::default(), order: IntakeOrder::new(None) }
    }

    /// Sets the hosts at which a body may be stored. By default every URL is refused.
    pub fn with_dataref_hosts(self, hosts: DatarefHosts) -> Self {
        Self { hosts, ..self }
    }

    /// Sets the progress of all counters together, by which windows are opened in the order of the stream. Without it,
    /// this counter must be the only one.
    pub fn with_progress(self, progress: Arc<dyn StreamProgress>) -> Self {
        Self { order: IntakeOrder::new(Some(progress)), ..self }
    }

    /// Counts runs and checks windows in one transaction. Returns a decision for each run, and the rest of the effects.
    async fn count_runs(
        &self,
        runs: &[IncomingRun],
        windows: &[WorkflowKey],
        progress: IntakeProgress,
    ) -> Result<Counted, StoreError> {
        let as_of = self.clock.now();
        let effects = Mutex::new((0, Vec::new()));
        let decide = |facts, arrivals: &[Arrival]| {
            let decided = count::count_arrivals(facts, arrivals, progress, &*self.policies, as_of);
            // Replaced and not added, because the store may run the decision more than once.
            *effects.lock().unwrap_or_else(PoisonError::into_inner) =
                (decided.opened.len(), decided.put_off.clone());
            decided
        };
        let handled_up_to = match progress {
            IntakeProgress::UpTo(position) => position,
            IntakeProgress::BeforeEachEvent | IntakeProgress::NotAwaited => 0,
        };
        let windows = WindowsToCheck { keys: windows, handled_up_to };
        let decisions = self.store.count_runs(runs, windows, &decide).await?;
        let (opened, put_off) = effects.into_inner().unwrap_or_else(PoisonError::into_inner);
        if opened > 0 {
            self.outbox.notify_one();
        }
        Ok(Counted { decisions, opened, put_off })
    }
}

/// Effects of counting that a counter acts upon.
struct Counted {
    /// One decision per run, in order.
    decisions: Vec<ArrivalDecision>,
    /// Number of opened retrospectives.
    opened: usize,
    /// Workflows whose retrospective is put off.
    put_off: Vec<WorkflowKey>,
}

#[async_trait]
impl Consumer for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        self.handle_in_order(batch, &EarlierBatch::none()).await
    }

    /// Parses, redacts and compresses the first transaction's events while the earlier batch is being stored.
    async fn handle_in_order(&self, batch: &[Delivery], earlier: &EarlierBatch) -> Vec<HandlerOutcome> {
        let mut verdicts = Vec::with_capacity(batch.len());
        let mut rest = batch;
        while !rest.is_empty() {
            let parsed = run_in_place(|| parse_until_full(rest, &self.hosts));
            earlier.wait_until_ended().await;
            let parsed = match parsed {
                Ok(parsed) => parsed,
                Err(problem) => {
                    verdicts.resize(batch.len(), HandlerOutcome::from(problem));
                    break;
                }
            };
            let (part, after) = rest.split_at(parsed.len());
            verdicts.extend(self.count_part(part, parsed).await);
            rest = after;
        }
        verdicts
    }
}

impl Counter {
    /// Counts the runs of a batch, and remembers which retrospectives are put off.
    async fn count_in_order(
        &self,
        batch: &[Delivery],
        runs: &[IncomingRun],
    ) -> Result<Vec<ArrivalDecision>, StoreError> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let progress = self.order.progress_before(batch).await;
        let counted = self.count_runs(runs, &[], progress).await?;
        self.order.note_counted(batch, progress);
        self.order.note_checked(&[], counted.put_off);
        Ok(counted.decisions)
    }

    /// Counts parsed deliveries in one transaction. Returns one outcome per delivery.
    async fn count_part(
        &self,
        batch: &[Delivery],
        mut parsed: Vec<Result<IncomingRun, Rejection>>,
    ) -> Vec<HandlerOutcome> {
        let spans = BatchSpans::begin(batch, &mut parsed);
        let mut runs = Vec::with_capacity(parsed.len());
        let parsed: Vec<Result<(), Rejection>> =
            parsed.into_iter().map(|run| run.map(|run| runs.push(run))).collect();
        let counted = match spans.batch.instrument(self.count_in_order(batch, &runs)).await {
            Ok(counted) => counted,
            Err(problem) => {
                spans.batch.set_error("not_stored");
                return vec![HandlerOutcome::from(problem); batch.len()];
            }
        };
        log_counted(batch, &counted);
        // The store returns one decision per run, in order; rejected deliveries have none.
        let mut counted = runs.iter().zip(counted.into_iter().map(Some).chain(std::iter::repeat(None)));
        let answer = |(place, parsed)| match parsed {
            Err(rejection) => HandlerOutcome::DeadLetter(rejection),
            Ok(()) => {
                let (run, counted) = counted.next().expect("one run for each parsed delivery");
                let ordinal = counted.as_ref().and_then(|counted| counted.ordinal);
                let verdict = decide_outcome(run, counted);
                spans.end_run(place, ordinal, &verdict);
                verdict
            }
        };
        parsed.into_iter().enumerate().map(answer).collect()
    }
}

#[async_trait]
impl Reconcilable for Counter {
    async fn find_unprocessed(&self, batch: &[Delivery]) -> Result<Vec<usize>, String> {
        let parse = |delivery| run_completed::parse_delivery(delivery, &self.hosts).ok();
        let read: Vec<Option<(EventKey, String)>> = run_in_place(|| {
            let parsed = batch.iter().map(parse);
            parsed.map(|read| read.map(|read| (read.event, read.content_hash))).collect()
        });
        let events: Vec<EventKey> = read.iter().flatten().map(|(event, _)| event.clone()).collect();
        let mut seen =
            self.store.find_seen_events(&events).await.map_err(|problem| problem.to_string())?.into_iter();
        let handled = read.iter().map(|read| {
            // An event with the same identity and other content was dead-lettered, not handled.
            read.as_ref()
                .is_some_and(|(_, hash)| seen.next().flatten().is_some_and(|seen| seen.matches_hash(hash)))
        });
        Ok(handled.enumerate().filter(|(_, handled)| !handled).map(|(nth, _)| nth).collect())
    }
}

/// Logs one line for a transaction: at high rates, a line per run would be the largest part of the log.
fn log_counted(batch: &[Delivery], counted: &[ArrivalDecision]) {
    let new = counted.iter().filter(|one| matches!(one.disposition, Disposition::Counted(_))).count();
    if new == 0 {
        return;
    }
    let at = |delivery: Option<&Delivery>| delivery.map_or(0, |delivery| delivery.sequence);
    info!(
        runs = new,
        messages = batch.len(),
        sequence.first = at(batch.first()),
        sequence.last = at(batch.last()),
        "counted {new} runs of {} messages",
        batch.len()
    );
}

/// Parses deliveries in order until their bodies fill a transaction, and at least one. Fails if there is no memory to
/// compress a body.
fn parse_until_full(
    batch: &[Delivery],
    hosts: &DatarefHosts,
) -> Result<Vec<Result<IncomingRun, Rejection>>, StoreError> {
    let mut parsed = Vec::with_capacity(batch.len());
    let mut bodies = BodyWriter::new()?;
    for delivery in batch {
        parsed.push(match run_completed::parse_delivery(delivery, hosts) {
            Ok(event) => Ok(redact_run(event, delivery.sequence, &mut bodies)?),
            Err(rejection) => Err(rejection),
        });
        if bodies.json_bytes >= BODY_BYTES_PER_TRANSACTION {
            break;
        }
    }
    Ok(parsed)
}

/// Writes the bodies of a transaction as they are stored.
struct BodyWriter {
    compressor: DocumentCompressor,
    /// Buffer for the JSON of one body.
    json: Vec<u8>,
    /// Size of all bodies so far before their compression.
    json_bytes: usize,
}

impl BodyWriter {
    fn new() -> Result<Self, StoreError> {
        Ok(Self { compressor: DocumentCompressor::new()?, json: Vec::new(), json_bytes: 0 })
    }

    fn write(&mut self, trajectory: &Trajectory) -> Result<IncomingBody, StoreError> {
        self.json.clear();
        serde_json::to_writer(&mut self.json, trajectory).expect("a trajectory serializes to JSON");
        self.json_bytes += self.json.len();
        self.compressor.compress(&self.json).map(IncomingBody::Inline)
    }
}

/// Converts an event to the run to store, and removes secrets from its facts and its trajectory. Fails if there is no
/// memory to compress the body.
fn redact_run(
    event: RunCompleted,
    position: u64,
    bodies: &mut BodyWriter,
) -> Result<IncomingRun, StoreError> {
    let RunCompleted { event, key, content_hash, mut run, body, trace } = event;
    let mut redactor = Redactor::shared().begin_run();
    // Redact before anything is stored: the database must never hold a secret, not even for a moment.
    redactor.redact_facts(&mut run);
    let body = match body {
        Body::None => IncomingBody::None,
        Body::Object(object) => IncomingBody::Object(object),
        Body::Https(body) => IncomingBody::Https(body),
        Body::GithubLog(log) => IncomingBody::GithubLog(log),
        Body::Inline(mut trajectory) => {
            redactor.redact_trajectory(&mut trajectory);
            bodies.write(&trajectory)?
        }
    };
    let arrival = Arrival { event, key, content_hash, position, run };
    Ok(IncomingRun { arrival, body, trace })
}

fn decide_outcome(run: &IncomingRun, counted: Option<ArrivalDecision>) -> HandlerOutcome {
    let arrival = &run.arrival;
    let (key, id) = (&arrival.key, &arrival.run.run_id);
    let disposition = counted.map(|counted| counted.disposition);
    if let Some(disposition) = &disposition {
        retro_telemetry::metrics::RUNS_COUNTED.add(1, [disposition.as_str()]);
    }
    match disposition {
        Some(Disposition::Conflict(rejection)) => HandlerOutcome::DeadLetter(rejection),
        Some(Disposition::Counted(ordinal)) => {
            debug!(tenant = %key.tenant, workflow = %key.workflow, run.id = %id, ordinal, "counted run {id}");
            HandlerOutcome::Done
        }
        Some(Disposition::Duplicate) => HandlerOutcome::Duplicate,
        Some(other) => {
            debug!(tenant = %key.tenant, workflow = %key.workflow, run.id = %id, "run {id}: {other:?}");
            HandlerOutcome::Done
        }
        None => {
            error!(run.id = %id, "the store answered for fewer runs than it was given");
            HandlerError::Failed("the store gave no answer for this run".to_owned()).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use retro_events::run_completed::TYPE;

    use super::*;

    /// Builds a message whose body has about this many bytes.
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
    fn a_transaction_takes_the_bodies_that_fit_and_at_least_one() {
        let count = |bytes: usize, number: u64| {
            let batch: Vec<Delivery> = (1..=number).map(|sequence| delivery(sequence, bytes)).collect();
            let read = parse_until_full(&batch, &DatarefHosts::default()).expect("memory for a compressor");
            assert!(read.iter().all(Result::is_ok), "{read:?}");
            read.len()
        };
        assert_eq!(count(1000, 30), 30, "small bodies are counted together");
        assert_eq!(count(900 * 1024, 12), 10, "the tenth body fills 8 MiB");
        assert_eq!(count(900 * 1024, 1), 1);
    }
}
