//! Closing a manual retrospective: a report with proposals, and nothing else.

use jiff::Timestamp;

use super::propose;
use crate::investigate::succeeded;
use crate::learn::{Closing, ClosingFacts, nothing};
use crate::memory::Memory;
use crate::message::Notice;
use crate::report;
use crate::retrospective::State;
use crate::similar::Embedder;

/// Decides how a manual retrospective ends. The workflow's state comes out as it went in. One without a success has a
/// report that says so; there is nothing to release and nothing to replay: whoever asked may ask again.
pub(crate) fn close(facts: ClosingFacts, embedder: &dyn Embedder, now: Timestamp) -> Closing {
    let ClosingFacts { retrospective, sample, window, investigations, timings, writer, state, .. } = facts;
    let ended = if succeeded(&investigations) { State::Closed } else { State::Failed };
    let proposals = propose(&retrospective, &investigations, embedder);
    let living: Vec<Memory> = writer.memories.into_iter().filter(|memory| memory.status.lives()).collect();
    let applied = nothing(&[]);
    let report = report::write(report::Inputs {
        retrospective: &retrospective,
        ended,
        sample: &sample,
        window: &window,
        investigations: &investigations,
        history: &report::History::default(),
        timings: &timings,
        applied: &applied,
        before: &living,
        after: &living,
        proposals: &proposals,
        embedder: embedder.name(),
        closed_at: now,
    });
    let ready = Notice::ReportReady { retrospective: retrospective.id, epoch: retrospective.epoch };
    let messages = vec![ready.about(&retrospective.key)];
    Closing {
        report,
        applied,
        retrospective: ended,
        state,
        opened: None,
        messages,
        failure: None,
        proposals,
        rules: Vec::new(),
    }
}
