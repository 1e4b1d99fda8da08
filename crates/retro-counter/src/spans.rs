//! The spans of counting: one of the batch, linked to what caused its events, and within the trace of each event that is
//! recorded one of its own, so that what follows from the run continues that.

use retro_core::dead_letter::Rejection;
use retro_core::id::Ordinal;
use retro_events::{Delivery, Verdict, subject};
use retro_store::IncomingRun;
use retro_trace::{Cause, Kind, LINKS_MAX, Work};

/// The spans of a batch under way.
pub(crate) struct Spans {
    pub(crate) batch: Work,
    /// By the run's place in the batch.
    runs: Vec<Option<Work>>,
}

impl Spans {
    /// Begins them, and tells each run what it continues. At most [`LINKS_MAX`] runs of a batch have a span: a run beyond them is
    /// continued all the same, by the context that it came with.
    pub(crate) fn begin(batch: &[Delivery], read: &mut [Result<IncomingRun, Rejection>]) -> Self {
        let whole = retro_trace::process_batch(batch.len(), "counter", subject::RUN_COMPLETED);
        let whole_trace = whole.trace();
        let mut runs: Vec<Option<Work>> = Vec::with_capacity(batch.len());
        let mut begun = 0;
        for (delivery, run) in batch.iter().zip(read) {
            let Ok(run) = run else {
                runs.push(None);
                continue;
            };
            let work =
                run.trace.as_ref().filter(|trace| trace.is_sampled() && begun < LINKS_MAX).map(|trace| {
                    whole.link(trace, "message");
                    let work = of_run(run, Cause::of(Some(trace), delivery.is_repeated()));
                    whole_trace.iter().for_each(|whole| work.link(whole, "batch"));
                    work
                });
            begun += usize::from(work.is_some());
            let own = work.as_ref().and_then(Work::trace);
            run.trace = own.or_else(|| run.trace.take()).or_else(|| whole_trace.clone());
            runs.push(work);
        }
        Self { batch: whole, runs }
    }

    /// Says what became of the run at this place.
    pub(crate) fn end(&self, place: usize, ordinal: Option<Ordinal>, verdict: &Verdict) {
        let Some(work) = self.runs.get(place).and_then(Option::as_ref) else { return };
        retro_trace::answered(work, verdict);
        if let Some(ordinal) = ordinal {
            work.note("retro.ordinal", i64::try_from(ordinal).unwrap_or(i64::MAX));
        }
    }
}

fn of_run(run: &IncomingRun, cause: Cause<'_>) -> Work {
    let work = Work::begin("count run", Kind::Consumer, cause);
    let (key, facts) = (&run.arrival.key, &run.arrival.run);
    work.note("cicd.pipeline.name", key.workflow.as_str().to_owned());
    work.note("cicd.pipeline.run.id", facts.run_id.as_str().to_owned());
    work.note("cicd.pipeline.result", facts.outcome.as_str());
    work
}
