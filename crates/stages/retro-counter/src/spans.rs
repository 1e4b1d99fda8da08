//! Traces counting. One span covers the batch and is linked to the causes of its events. Each sampled event
//! also gets a span within its own trace, which later work on the run continues.

use retro_consumer::HandlerOutcome;
use retro_core::dead_letter::Rejection;
use retro_core::id::Ordinal;
use retro_events::{Delivery, subject};
use retro_store::IncomingRun;
use retro_telemetry::trace::{Kind, LINKS_MAX, Span, SpanParent};

/// Open spans of a batch.
pub(crate) struct BatchSpans {
    pub(crate) batch: Span,
    /// Span of each run, by the run's index in the batch; `None` for a run without a span.
    runs: Vec<Option<Span>>,
}

impl BatchSpans {
    /// Begins the spans and sets the trace context that each run continues. At most [`LINKS_MAX`] runs of a
    /// batch get a span; the others continue the context of their event.
    pub(crate) fn begin(batch: &[Delivery], read: &mut [Result<IncomingRun, Rejection>]) -> Self {
        let batch_span =
            retro_telemetry::trace::start_batch_span(batch.len(), "counter", subject::RUN_COMPLETED);
        let batch_trace = batch_span.trace_context();
        let mut runs: Vec<Option<Span>> = Vec::with_capacity(batch.len());
        let mut begun = 0;
        for (delivery, run) in batch.iter().zip(read) {
            let Ok(run) = run else {
                runs.push(None);
                continue;
            };
            let work =
                run.trace.as_ref().filter(|trace| trace.is_sampled() && begun < LINKS_MAX).map(|trace| {
                    batch_span.add_link(trace, "message");
                    let work =
                        begin_run_span(run, SpanParent::from_trace(Some(trace), delivery.is_repeated()));
                    batch_trace.iter().for_each(|batch_span| work.add_link(batch_span, "batch"));
                    work
                });
            begun += usize::from(work.is_some());
            let own = work.as_ref().and_then(Span::trace_context);
            run.trace = own.or_else(|| run.trace.take()).or_else(|| batch_trace.clone());
            runs.push(work);
        }
        Self { batch: batch_span, runs }
    }

    /// Ends the span of the run at this index with its outcome.
    pub(crate) fn end_run(&self, place: usize, ordinal: Option<Ordinal>, verdict: &HandlerOutcome) {
        let Some(work) = self.runs.get(place).and_then(Option::as_ref) else { return };
        verdict.record_in_span(work);
        if let Some(ordinal) = ordinal {
            work.set_attribute("retro.ordinal", i64::try_from(ordinal).unwrap_or(i64::MAX));
        }
    }
}

fn begin_run_span(run: &IncomingRun, cause: SpanParent<'_>) -> Span {
    let work = Span::start("count run", Kind::Consumer, cause);
    let (key, facts) = (&run.arrival.key, &run.arrival.run);
    work.set_attribute("cicd.pipeline.name", key.workflow.as_str().to_owned());
    work.set_attribute("cicd.pipeline.run.id", facts.run_id.as_str().to_owned());
    work.set_attribute("cicd.pipeline.result", facts.outcome.as_str());
    work
}
