//! Collects the spans of traces: publishes the runs of whole ones at once, and stores parts until their runs can be read.

use std::collections::BTreeSet;

use retro_consumer::run_in_place;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{Tenant, Workflow};
use retro_events::INTAKE_EVENTS_MAX;
use retro_redact::Redactor;
use retro_store::compressed::DocumentCompressor;
use retro_store::{AddSpansResult, AddedTrace, ArrivingSpan, ArrivingTrace, ReadTrace, StoreError};
use retro_telemetry::metrics;
use tracing::warn;

use super::importer::{ReceivedTrace, ReceivedTraces, RunImporter};
use super::span_redaction::redact_span;
use super::trace_settings::{TRACE_BYTES_MAX, TRACE_SPANS_MAX};
use super::{EventsAnswer, IngestError, IngestService};

/// Why spans of a trace were rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SpanRejection {
    /// The trace is closed.
    Late,
    /// The trace would have too many spans.
    ManySpans,
    /// The trace would have too many bytes.
    ManyBytes,
}

impl SpanRejection {
    /// Returns what is wrong with the traces of these spans, and what to do.
    pub(super) fn explain(self) -> String {
        match self {
            Self::Late => "their traces were read or given up before: sent earlier, or with a longer \
                              `trace_quiet_s`, they would have been in the run"
                .to_owned(),
            Self::ManySpans => format!("a trace may have at most {TRACE_SPANS_MAX} spans"),
            Self::ManyBytes => format!("a trace may have at most {TRACE_BYTES_MAX} bytes of JSON"),
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

/// Traces of a request, by what is done with them.
#[derive(Default)]
struct SortedTraces {
    /// Whole traces of which nothing is stored: their runs are published.
    whole: Vec<ReceivedTrace>,
    /// Traces of which spans are to be stored.
    parts: Vec<ReceivedTrace>,
}

impl IngestService {
    /// Accepts the traces of a request: publishes the runs of whole ones, and stores the others. `held` is released when
    /// nothing of the request is needed any more.
    pub(super) async fn collect_traces(
        &self,
        tenant: &Tenant,
        held: impl Send + 'static,
        read: impl FnOnce(&dyn RunImporter) -> Result<ReceivedTraces, Rejection>,
    ) -> Result<CollectedRequest, IngestError> {
        let ReceivedTraces { traces, invalid_spans } = self.import(read).await?;
        count_spans("invalid", invalid_spans);
        let mut collected = CollectedRequest { invalid_spans, ..CollectedRequest::default() };
        let SortedTraces { mut whole, parts } = self.sort_traces(tenant, traces).await?;
        if whole.len() > INTAKE_EVENTS_MAX {
            let detail = format!("{} runs; at most {INTAKE_EVENTS_MAX} are accepted", whole.len());
            return Err(Rejection::of_message(DeadLetterCode::Oversized, detail).into());
        }
        // First, so that nothing is published if the tenant has no space for them.
        self.store_parts(tenant, parts, &mut collected).await?;
        self.publish_whole_traces(tenant, &mut whole, &mut collected).await?;
        self.keep_whole_traces(tenant, whole, held);
        Ok(collected)
    }

    /// Sorts the traces of a request. Whole ones without a run, such as those of web requests, are left out, unless parts
    /// of them are stored.
    async fn sort_traces(
        &self,
        tenant: &Tenant,
        traces: Vec<ReceivedTrace>,
    ) -> Result<SortedTraces, IngestError> {
        let complete = traces.iter().filter(|trace| trace.is_complete);
        let ids: Vec<String> = complete.map(|trace| trace.trace_id.clone()).collect();
        let known: BTreeSet<String> = match ids.is_empty() {
            true => BTreeSet::new(),
            false => self.traces.store.list_collected_traces(tenant, &ids).await?.into_iter().collect(),
        };
        let mut sorted = SortedTraces::default();
        for trace in traces {
            match (trace.is_complete && !known.contains(&trace.trace_id), trace.run.is_some()) {
                (true, true) => sorted.whole.push(trace),
                (true, false) => count_spans("ignored", trace.received),
                (false, _) => sorted.parts.push(trace),
            }
        }
        Ok(sorted)
    }

    /// Stores the spans of traces.
    async fn store_parts(
        &self,
        tenant: &Tenant,
        parts: Vec<ReceivedTrace>,
        collected: &mut CollectedRequest,
    ) -> Result<(), IngestError> {
        if parts.is_empty() {
            return Ok(());
        }
        let received: Vec<(usize, String)> =
            parts.iter().map(|trace| (trace.received, trace.trace_id.clone())).collect();
        let arriving = self.prepare_traces(parts, false).await?;
        let added = match self.traces.store.add_spans(tenant, &arriving, &self.traces.rules).await? {
            AddSpansResult::Added(added) => added,
            AddSpansResult::TenantFull => return Err(IngestError::TracesFull),
        };
        for ((received, trace_id), answer) in received.into_iter().zip(added) {
            let rejection = match answer {
                AddedTrace::Stored { is_due } => {
                    count_spans("stored", received);
                    if is_due {
                        self.traces.wake.notify_one();
                    }
                    continue;
                }
                AddedTrace::TooLate => SpanRejection::Late,
                AddedTrace::TooManySpans(_) => SpanRejection::ManySpans,
                AddedTrace::TooManyBytes(_) => SpanRejection::ManyBytes,
                AddedTrace::HasRun(_) => unreachable!("these traces were added as parts"),
            };
            count_spans(if rejection == SpanRejection::Late { "late" } else { "refused" }, received);
            collected.rejected.push((rejection, received, trace_id));
        }
        Ok(())
    }

    /// Publishes the runs of whole traces together. Those that are refused are taken out.
    async fn publish_whole_traces(
        &self,
        tenant: &Tenant,
        whole: &mut Vec<ReceivedTrace>,
        collected: &mut CollectedRequest,
    ) -> Result<(), IngestError> {
        if whole.is_empty() {
            return Ok(());
        }
        let runs = whole.iter_mut().map(|trace| {
            let run = trace.run.take().expect("traces with a run were chosen");
            trace.workflow = Some(run.workflow.clone());
            (format!("trace {}", trace.trace_id), run)
        });
        let answer = match self.ingest_runs(tenant, runs.collect()).await {
            Ok(answer) => answer,
            Err(IngestError::AllRefused(refused)) => EventsAnswer { accepted: 0, refused },
            Err(other) => return Err(other),
        };
        let refused: BTreeSet<usize> = answer.refused.iter().map(|refused| refused.index).collect();
        let total: usize = whole.iter().map(|trace| trace.received).sum();
        let refused_spans: usize = refused.iter().map(|index| whole[*index].received).sum();
        let mut index = 0..;
        whole.retain(|_| index.next().is_some_and(|index| !refused.contains(&index)));
        count_spans("read", total - refused_spans);
        count_spans("refused", refused_spans);
        metrics::TRACES_PROCESSED.add(answer.accepted as u64, ["read"]);
        metrics::TRACES_PROCESSED.add(refused.len() as u64, ["refused"]);
        (collected.refused, collected.refused_spans) = (answer, refused_spans);
        Ok(())
    }

    /// Keeps the spans of whole traces whose runs were published, so that spans that come later find them. Nobody waits for
    /// it: a process that is killed meanwhile leaves a run of which later spans are a trace without a root.
    fn keep_whole_traces(&self, tenant: &Tenant, whole: Vec<ReceivedTrace>, held: impl Send + 'static) {
        if whole.is_empty() {
            return;
        }
        let (service, tenant) = (self.clone(), tenant.clone());
        self.traces.tasks.spawn(async move {
            let _held = held;
            if let Err(problem) = service.try_keep_whole_traces(&tenant, whole).await {
                warn!("the spans of whole traces were not kept: {problem}");
            }
        });
    }

    async fn try_keep_whole_traces(
        &self,
        tenant: &Tenant,
        whole: Vec<ReceivedTrace>,
    ) -> Result<(), StoreError> {
        let workflows: Vec<Option<Workflow>> = whole.iter().map(|trace| trace.workflow.clone()).collect();
        let arriving = self.prepare_traces(whole, true).await?;
        let AddSpansResult::Added(added) =
            self.traces.store.add_spans(tenant, &arriving, &self.traces.rules).await?
        else {
            return Ok(());
        };
        let mut read = Vec::new();
        for (answer, workflow) in added.into_iter().zip(workflows) {
            match answer {
                AddedTrace::HasRun(Some(claim)) => read.push(ReadTrace { claim, workflow }),
                // A part came at the same time.
                AddedTrace::Stored { is_due: true } => self.traces.wake.notify_one(),
                _ => {}
            }
        }
        self.traces.store.mark_traces_read(tenant, &read, self.traces.rules.waits.quiet_ms).await
    }

    /// Removes secrets from the spans of traces, and compresses them.
    async fn prepare_traces(
        &self,
        traces: Vec<ReceivedTrace>,
        has_run: bool,
    ) -> Result<Vec<ArrivingTrace>, StoreError> {
        // Documents may take several times the memory of the request until they are compressed.
        let _permit = self.imports.acquire().await.expect("the semaphore is never closed");
        run_in_place(|| traces.into_iter().map(|trace| prepare_trace(trace, has_run)).collect())
    }
}

fn count_spans(outcome: &'static str, spans: usize) {
    if spans > 0 {
        metrics::SPANS_RECEIVED.add(spans as u64, [outcome]);
    }
}

/// Removes secrets from the spans of a trace, and compresses them.
fn prepare_trace(trace: ReceivedTrace, has_run: bool) -> retro_store::Result<ArrivingTrace> {
    let mut redactor = Redactor::shared().begin_run();
    let mut compressor = DocumentCompressor::new()?;
    let mut spans = Vec::new();
    for span in trace.spans {
        // Redact before anything is stored: the database must never hold a secret, not even for a moment.
        let document = redact_span(&mut redactor, &span.document);
        spans.push(ArrivingSpan {
            outline: span.outline,
            bytes: document.len() as u64,
            document: compressor.compress(document.as_bytes())?,
        });
    }
    Ok(ArrivingTrace { trace_id: trace.trace_id, spans, has_run })
}
