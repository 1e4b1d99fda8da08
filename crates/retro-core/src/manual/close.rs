//! Closes a manual retrospective with a report that contains its proposals.

use jiff::Timestamp;

use super::propose::build_proposals;
use crate::investigate::has_success;
use crate::learn::{ClosedRetrospective, ClosingFacts, unapplied_batch};
use crate::memory::Memory;
use crate::message::Notice;
use crate::report;
use crate::retrospective::RetrospectiveState;
use crate::similarity::Embedder;

/// Closes a manual retrospective. The state of the workflow does not change. If no investigation succeeded,
/// the retrospective fails, and the report says so. There are no claimed runs to release, and no dead letter
/// is stored because the operator can make another request.
pub(crate) fn close_manual(
    facts: ClosingFacts,
    embedder: &dyn Embedder,
    now: Timestamp,
) -> ClosedRetrospective {
    let ClosingFacts { retrospective, sample, window, investigations, timings, writer, state, .. } = facts;
    let ended =
        if has_success(&investigations) { RetrospectiveState::Closed } else { RetrospectiveState::Failed };
    let proposals = build_proposals(&retrospective, &investigations, embedder);
    let living: Vec<Memory> =
        writer.memories.into_iter().filter(|memory| memory.status.is_living()).collect();
    let applied = unapplied_batch(&[]);
    let report = report::build_report(report::ReportInputs {
        retrospective: &retrospective,
        ended,
        sample: &sample,
        window: &window,
        investigations: &investigations,
        history: &report::WorkflowHistory::default(),
        timings: &timings,
        applied: &applied,
        before: &living,
        after: &living,
        proposals: &proposals,
        embedder: embedder.name(),
        closed_at: now,
    });
    let ready = Notice::ReportReady { retrospective: retrospective.id, epoch: retrospective.epoch };
    let messages = vec![ready.into_message(&retrospective.key)];
    ClosedRetrospective {
        report,
        applied,
        retrospective_state: ended,
        workflow_state: state,
        opened: None,
        messages,
        failure: None,
        proposals,
        rules: Vec::new(),
    }
}
