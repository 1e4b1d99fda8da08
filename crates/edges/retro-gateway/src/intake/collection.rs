//! Collects the spans of traces: publishes the runs of whole ones at once, and stores parts until their runs can be read.

use std::collections::BTreeSet;
use std::sync::Arc;

use retro_consumer::run_in_place;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::Tenant;
use retro_core::trace_collection::TraceWaits;
use retro_events::INTAKE_EVENTS_MAX;
use retro_events::run_completed::RunEvent;
use retro_redact::Redactor;
use retro_store::compressed::DocumentCompressor;
use retro_store::{
    AddSpansResult, AddedTrace, ArrivingSpan, ArrivingTrace, CollectedTraceStore, CollectionBounds,
    CollectionRules, ReadTrace, TraceClaim,
};
use retro_telemetry::metrics;
use tokio::sync::Notify;

use super::importer::{ReceivedTrace, ReceivedTraces, RunImporter};
use super::{EventsAnswer, IngestError, IngestService};

/// Maximum number of spans of a trace: more calls than a trajectory may have turns are never read.
const TRACE_SPANS_MAX: u64 = 10_000;
/// Maximum size of a trace, in bytes of JSON: about that of a request, since reading it takes as much memory.
const TRACE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of traces of a tenant that are not closed. Each takes a row, however small it is.
const TENANT_TRACES_MAX: u64 = 20_000;

/// How traces are collected.
#[derive(Clone)]
pub struct TraceSettings {
    /// Stores the spans.
    pub store: Arc<dyn CollectedTraceStore>,
    /// Times after which a trace is not waited for any more.
    pub waits: TraceWaits,
    /// Maximum size of the traces of a tenant that are not closed, in bytes of JSON.
    pub tenant_bytes_max: u64,
    /// Seconds for which a process may work on a trace before another one takes it over. Reading the largest takes a
    /// second.
    pub lease_s: u64,
}

/// Collects traces.
pub(super) struct TraceCollection {
    pub(super) store: Arc<dyn CollectedTraceStore>,
    pub(super) rules: CollectionRules,
    /// Notified if something can be decided about a trace.
    pub(super) wake: Notify,
}

impl TraceCollection {
    pub(super) fn new(settings: TraceSettings) -> Self {
        let bounds = CollectionBounds {
            trace_spans_max: TRACE_SPANS_MAX,
            trace_bytes_max: TRACE_BYTES_MAX,
            tenant_traces_max: TENANT_TRACES_MAX,
            tenant_bytes_max: settings.tenant_bytes_max,
        };
        let rules = CollectionRules { waits: settings.waits, bounds, lease_s: settings.lease_s };
        Self { store: settings.store, rules, wake: Notify::new() }
    }
}

/// Why spans of a trace were rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SpanRejection {
    /// The trace is closed.
    TooLate,
    /// The trace would have too many spans.
    TooManySpans,
    /// The trace would have too many bytes.
    TooManyBytes,
}

impl SpanRejection {
    /// Returns what is wrong with the traces of these spans, and what to do.
    pub(super) fn explain(self) -> String {
        match self {
            Self::TooLate => "their traces were read or given up before: sent earlier, or with a longer \
                              `trace_quiet_s`, they would have been in the run"
                .to_owned(),
            Self::TooManySpans => format!("a trace may have at most {TRACE_SPANS_MAX} spans"),
            Self::TooManyBytes => format!("a trace may have at most {TRACE_BYTES_MAX} bytes of JSON"),
        }
    }
}

/// What a request with traces came to.
#[derive(Debug, Default)]
pub(super) struct CollectedRequest {
    /// Number of spans without valid ids.
    pub(super) invalid_spans: usize,
    /// Rejected spans: why, how many, and of which trace.
    pub(super) rejected: Vec<(SpanRejection, usize, String)>,
    /// Refused runs of whole traces.
    pub(super) refused: EventsAnswer,
    /// Number of spans of refused runs.
    pub(super) refused_spans: usize,
}

/// A whole trace whose run is about to be published.
struct WholeTrace {
    trace_id: String,
    received: usize,
    run: RunEvent,
    claim: Option<TraceClaim>,
}

impl IngestService {
    /// Accepts the traces of a request: publishes the runs of whole ones, and stores the others.
    pub(super) async fn collect_traces(
        &self,
        tenant: &Tenant,
        read: impl FnOnce(&dyn RunImporter) -> Result<ReceivedTraces, Rejection>,
    ) -> Result<CollectedRequest, IngestError> {
        // Held until documents are compressed: they may take several times the memory of the request.
        let permit = self.imports.acquire().await.expect("the semaphore is never closed");
        let ReceivedTraces { traces, invalid_spans } = run_in_place(|| read(&*self.importer))?;
        count_spans("invalid", invalid_spans);
        let mut collected = CollectedRequest { invalid_spans, ..CollectedRequest::default() };
        let mut traces = self.without_unrelated(tenant, traces).await?;
        let runs = traces.iter().filter(|trace| trace.run.is_some()).count();
        if runs > INTAKE_EVENTS_MAX {
            let detail = format!("{runs} runs; at most {INTAKE_EVENTS_MAX} are accepted");
            return Err(Rejection::of_message(DeadLetterCode::Oversized, detail).into());
        }
        if traces.is_empty() {
            return Ok(collected);
        }
        let arriving = run_in_place(|| traces.iter_mut().map(prepare_trace).collect::<Result<Vec<_>, _>>())?;
        drop(permit);
        let rules = &self.traces.rules;
        let added = match self.traces.store.add_spans(tenant, &arriving, rules).await? {
            AddSpansResult::Added(added) => added,
            AddSpansResult::TenantFull => return Err(IngestError::TracesFull),
        };
        drop(arriving);
        let mut whole = Vec::new();
        for (trace, answer) in traces.into_iter().zip(added) {
            let ReceivedTrace { trace_id, received, run, .. } = trace;
            let rejection = match answer {
                AddedTrace::HasRun(claim) => {
                    let run = run.expect("the store answers so only for a trace whose run is here");
                    whole.push(WholeTrace { trace_id, received, run, claim });
                    continue;
                }
                AddedTrace::Stored { is_due } => {
                    count_spans("stored", received);
                    if is_due {
                        self.traces.wake.notify_one();
                    }
                    continue;
                }
                AddedTrace::TooLate => SpanRejection::TooLate,
                AddedTrace::TooManySpans(_) => SpanRejection::TooManySpans,
                AddedTrace::TooManyBytes(_) => SpanRejection::TooManyBytes,
            };
            count_spans(if rejection == SpanRejection::TooLate { "late" } else { "refused" }, received);
            collected.rejected.push((rejection, received, trace_id));
        }
        self.publish_whole_traces(tenant, whole, &mut collected).await?;
        Ok(collected)
    }

    /// Leaves out whole traces without a run, such as those of web requests, unless parts of them are stored.
    async fn without_unrelated(
        &self,
        tenant: &Tenant,
        mut traces: Vec<ReceivedTrace>,
    ) -> Result<Vec<ReceivedTrace>, IngestError> {
        let has_no_run = |trace: &ReceivedTrace| trace.is_complete && trace.run.is_none();
        let ids: Vec<String> =
            traces.iter().filter(|trace| has_no_run(trace)).map(|trace| trace.trace_id.clone()).collect();
        if ids.is_empty() {
            return Ok(traces);
        }
        let stored = self.traces.store.list_collected_traces(tenant, &ids).await?;
        let stored: BTreeSet<String> = stored.into_iter().collect();
        traces.retain(|trace| {
            let is_kept = !has_no_run(trace) || stored.contains(&trace.trace_id);
            if !is_kept {
                count_spans("ignored", trace.received);
            }
            is_kept
        });
        Ok(traces)
    }

    /// Publishes the runs of whole traces together, and marks the traces as read.
    async fn publish_whole_traces(
        &self,
        tenant: &Tenant,
        whole: Vec<WholeTrace>,
        collected: &mut CollectedRequest,
    ) -> Result<(), IngestError> {
        let (mut runs, mut received, mut read) = (Vec::new(), Vec::new(), Vec::new());
        for trace in whole {
            let workflow = Some(trace.run.workflow.clone());
            read.extend(trace.claim.map(|claim| ReadTrace { claim, workflow }));
            received.push(trace.received);
            runs.push((format!("trace {}", trace.trace_id), trace.run));
        }
        if runs.is_empty() {
            return Ok(());
        }
        let answer = match self.ingest_runs(tenant, runs).await {
            Ok(answer) => answer,
            Err(IngestError::AllRefused(refused)) => EventsAnswer { accepted: 0, refused },
            Err(other) => return Err(other),
        };
        // A refused run is refused again, so its trace is not read a second time.
        self.traces.store.mark_traces_read(tenant, &read, self.traces.rules.waits.quiet_ms).await?;
        let refused_spans = answer.refused.iter().map(|refused| received[refused.index]).sum();
        count_spans("read", received.iter().sum::<usize>() - refused_spans);
        count_spans("refused", refused_spans);
        metrics::TRACES_PROCESSED.add(answer.accepted as u64, ["read"]);
        metrics::TRACES_PROCESSED.add(answer.refused.len() as u64, ["refused"]);
        (collected.refused, collected.refused_spans) = (answer, refused_spans);
        Ok(())
    }
}

fn count_spans(outcome: &'static str, spans: usize) {
    if spans > 0 {
        metrics::SPANS_RECEIVED.add(spans as u64, [outcome]);
    }
}

/// Removes secrets from the spans of a trace, and compresses them. The documents are taken out of the trace.
fn prepare_trace(trace: &mut ReceivedTrace) -> retro_store::Result<ArrivingTrace> {
    let mut redactor = Redactor::shared().begin_run();
    let mut compressor = DocumentCompressor::new()?;
    let mut spans = Vec::new();
    for span in std::mem::take(&mut trace.spans) {
        // Redact before anything is stored: the database must never hold a secret, not even for a moment.
        let document = super::span_redaction::redact_span(&mut redactor, &span.document);
        spans.push(ArrivingSpan {
            outline: span.outline,
            bytes: document.len() as u64,
            document: compressor.compress(document.as_bytes())?,
        });
    }
    Ok(ArrivingTrace { trace_id: trace.trace_id.clone(), spans, has_run: trace.run.is_some() })
}
