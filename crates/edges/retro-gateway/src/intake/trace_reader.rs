//! Reads the runs of collected traces: what no request does itself. Any number of processes may do so; of two that find the
//! same trace, one claims it.
//!
//! **Killed at any step, nothing is lost or counted twice.** Spans are stored before a request is answered. A run is
//! published before its trace is marked as read, so a process that dies in between leaves a trace that is read again: the
//! same run in a newer attempt, which is counted once. Spans are deleted with the mark that the run was read from all of
//! them, or in the transaction that stores their dead letter. A process that stood still while another took its claim over
//! publishes an older attempt, which changes nothing.

use std::sync::Arc;
use std::time::Duration;

use retro_consumer::{HandlerError, PassLoop, process_item, run_in_place};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::Workflow;
use retro_core::trace_collection::{SpanOutline, TraceStep, decide_trace_step};
use retro_events::run_completed::RunEvent;
use retro_store::dead_letter::SPANS_SUBJECT;
use retro_store::{
    ClaimedTrace, CompressedDocument, DeliveryPosition, NewDeadLetter, ReadTrace, StoreError, TraceClaim,
    TraceEnd,
};
use retro_telemetry::metrics;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{IngestError, IngestService};

/// Maximum number of traces claimed at once: what one process reads well within the lease.
const CLAIMS_MAX: u32 = 16;
/// Milliseconds after which a trace is tried again whose run the broker did not accept.
const RETRY_MS: u64 = 2000;
/// Seconds for which a closed trace is recognized. An exporter repeats a request for minutes, a collector for hours.
const REMEMBERED_S: u64 = 24 * 3600;
/// Maximum number of closed traces deleted at once.
const PURGED_MAX: u32 = 1000;
/// Consumer and stream of the dead letters of traces, which were no messages.
const CONSUMER: &str = "gateway";
const STREAM: &str = "traces";

impl IngestService {
    /// Reads traces until `stop` is cancelled: at once when one may be read, and otherwise every `interval`.
    pub async fn read_traces(self, interval: Duration, stop: CancellationToken) {
        let traces = Arc::clone(&self.traces);
        let passes = PassLoop::new("the reading of traces".to_owned(), interval, stop);
        passes.woken_by(&traces.wake).run(|| self.read_due_traces()).await;
    }

    /// Decides about traces that are due. Returns the number of those about which something was decided.
    pub(super) async fn read_due_traces(&self) -> Result<usize, StoreError> {
        let claimed = self.traces.store.claim_traces(CLAIMS_MAX, self.traces.rules.lease_s).await?;
        let mut decided = 0;
        for trace in claimed {
            let id = trace.claim.trace_id.clone();
            let log = |problem: &dyn std::fmt::Display| error!("trace {id} could not be read: {problem}");
            decided += usize::from(process_item(self.decide_trace(trace), log).await?.unwrap_or(false));
        }
        if decided == 0 {
            self.traces.store.purge_closed_traces(REMEMBERED_S, PURGED_MAX).await?;
        }
        Ok(decided)
    }

    /// Decides about a claimed trace. Returns `false` if the broker did not accept its run.
    async fn decide_trace(&self, trace: ClaimedTrace) -> Result<bool, HandlerError> {
        let spans = self.traces.store.load_trace_spans(&trace.claim).await?;
        // More may have come since the claim; those are decided about together with the others.
        let claim = TraceClaim { spans: spans.len() as u64, ..trace.claim.clone() };
        let quiet_ms = if claim.spans == trace.claim.spans { trace.quiet_ms } else { 0 };
        let (outlines, documents): (Vec<SpanOutline>, Vec<Vec<u8>>) =
            spans.into_iter().map(|span| (span.outline, span.document)).unzip();
        let read_spans = usize::try_from(trace.read_spans).unwrap_or(usize::MAX);
        let step = decide_trace_step(&outlines, read_spans, quiet_ms, &self.traces.rules.waits);
        let end = match step {
            TraceStep::Read => return self.read_trace(&trace, claim, documents).await,
            TraceStep::GiveUp => return self.give_up(&trace, claim, documents).await,
            TraceStep::Wait { quiet_ms } => TraceEnd::Wait(quiet_ms),
            TraceStep::Ignore => TraceEnd::Delete,
            TraceStep::Forget => TraceEnd::Forget,
        };
        let has_ended = self.traces.store.end_trace_claim(&claim, end).await?;
        if has_ended && step == TraceStep::Ignore {
            metrics::TRACES_PROCESSED.add(1, ["ignored"]);
        }
        Ok(true)
    }

    /// Publishes the run of a trace, and marks the trace as read.
    async fn read_trace(
        &self,
        trace: &ClaimedTrace,
        claim: TraceClaim,
        documents: Vec<Vec<u8>>,
    ) -> Result<bool, HandlerError> {
        let assembled = self.assemble(&documents, trace.workflow.as_ref()).await;
        let run = match assembled {
            Ok(run) => run.map(|run| run.with_attempt(claim.attempt)),
            Err(rejection) => return self.refuse(claim, trace.workflow.clone(), &documents, rejection).await,
        };
        let workflow = run.as_ref().map(|run| run.workflow.clone());
        if let Some(run) = run {
            let place = format!("trace {}", claim.trace_id);
            match self.ingest_runs(&claim.tenant, vec![(place, run)]).await {
                Ok(_) => {}
                Err(IngestError::AllRefused(mut refused)) => {
                    let refused = refused.remove(0);
                    let rejection =
                        Rejection { code: refused.code, path: Some(refused.path), detail: refused.detail };
                    return self.refuse(claim, workflow, &documents, rejection).await;
                }
                Err(IngestError::Refused(rejection)) => {
                    return self.refuse(claim, workflow, &documents, rejection).await;
                }
                Err(problem) => {
                    warn!("the run of trace {} was not accepted: {problem}", claim.trace_id);
                    self.traces.store.end_trace_claim(&claim, TraceEnd::Retry(RETRY_MS)).await?;
                    return Ok(false);
                }
            }
            metrics::TRACES_PROCESSED.add(1, [if trace.read_spans > 0 { "read_again" } else { "read" }]);
        }
        let tenant = claim.tenant.clone();
        let read = [ReadTrace { claim, workflow }];
        self.traces.store.mark_traces_read(&tenant, &read, self.traces.rules.waits.quiet_ms).await?;
        Ok(true)
    }

    /// Gives up a trace whose root has not come. It becomes a dead letter, unless nothing was captured of it.
    async fn give_up(
        &self,
        trace: &ClaimedTrace,
        claim: TraceClaim,
        documents: Vec<Vec<u8>>,
    ) -> Result<bool, HandlerError> {
        let workflow = match self.assemble(&documents, None).await {
            Ok(Some(run)) => Some(run.workflow),
            Ok(None) => {
                self.traces.store.end_trace_claim(&claim, TraceEnd::Delete).await?;
                metrics::TRACES_PROCESSED.add(1, ["ignored"]);
                return Ok(true);
            }
            Err(_) => None,
        };
        let detail = format!(
            "the root of trace {} did not come: {} spans came, the last one {} s ago, and none of them is a root that has \
             ended",
            claim.trace_id,
            documents.len(),
            trace.quiet_ms / 1000
        );
        let rejection = Rejection::of_message(DeadLetterCode::TraceIncomplete, detail);
        self.store_dead_letter(claim, workflow, &documents, rejection, "given_up").await
    }

    async fn refuse(
        &self,
        claim: TraceClaim,
        workflow: Option<Workflow>,
        documents: &[Vec<u8>],
        rejection: Rejection,
    ) -> Result<bool, HandlerError> {
        self.store_dead_letter(claim, workflow, documents, rejection, "refused").await
    }

    /// Makes the spans of a trace a dead letter, as one file that `retro emit` reads.
    async fn store_dead_letter(
        &self,
        claim: TraceClaim,
        workflow: Option<Workflow>,
        documents: &[Vec<u8>],
        rejection: Rejection,
        outcome: &'static str,
    ) -> Result<bool, HandlerError> {
        let file = run_in_place(|| self.importer.join_spans(documents))?;
        let payload = run_in_place(|| CompressedDocument::from_document(&file))?.into_bytes();
        let code = rejection.code;
        let dead_letter = NewDeadLetter {
            position: DeliveryPosition {
                consumer: CONSUMER.to_owned(),
                stream: STREAM.to_owned(),
                sequence: claim.attempt.into(),
            },
            tenant: Some(claim.tenant.clone()),
            workflow,
            subject: SPANS_SUBJECT.to_owned(),
            headers: vec![
                ("content-type".to_owned(), "application/json".to_owned()),
                ("content-encoding".to_owned(), "zstd".to_owned()),
                ("trace-id".to_owned(), claim.trace_id.clone()),
            ],
            payload,
            rejection,
            attempts: 1,
            stored_at: self.clock.now(),
        };
        if self.traces.store.end_trace_claim(&claim, TraceEnd::DeadLetter(&dead_letter)).await? {
            metrics::TRACES_PROCESSED.add(1, [outcome]);
            metrics::DEAD_LETTERS_STORED.add(1, [CONSUMER, code.as_str()]);
            let id = dead_letter.id();
            info!(dead_letter = %id, "the spans of trace {} are dead letter {id}: {code}", claim.trace_id);
        }
        Ok(true)
    }

    async fn assemble(
        &self,
        documents: &[Vec<u8>],
        workflow: Option<&Workflow>,
    ) -> Result<Option<RunEvent>, Rejection> {
        self.import(|importer| importer.assemble_trace(documents, workflow)).await
    }
}
