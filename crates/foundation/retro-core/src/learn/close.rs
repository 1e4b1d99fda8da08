//! Closes a retrospective: applies its batch, builds its report, and opens the next retrospective if one is
//! due. All of this is one decision, to be stored in one transaction.

use jiff::Timestamp;

use super::apply::apply_mutations;
use super::feedback::{FeedbackChanges, FeedbackSelection};
use super::missed::{KnownLessons, list_missed};
use super::rules::{RuleUseBatch, build_rule_use_batches};
use super::settle::Mutation;
use super::signals::{RunSignal, list_signals};
use super::writer::WriterFacts;
use crate::calls::CallCounts;
use crate::dead_letter::{DeadLetterCode, Rejection};
use crate::investigate::has_success;
use crate::manual::{build_proposals, proposal_texts};
use crate::memory::{AppliedBatch, Memory, MutationOutcome, Proposal};
use crate::message::{Message, Notice};
use crate::policy::Policies;
use crate::report::{
    CallReport, InvestigationTiming, Report, ReportInputs, WindowRun, WorkflowHistory, build_report,
};
use crate::retrospective::{
    Investigation, OpenedRetrospective, Retrospective, RetrospectiveState, WorkflowState,
};
use crate::sample::Sample;
use crate::similarity::{ComparesTexts, Embedder};

/// Stored facts needed to close a retrospective.
#[derive(Debug, Clone)]
pub struct ClosingFacts {
    /// Retrospective to close, in state `Settling`.
    pub retrospective: Retrospective,
    /// Sample of the retrospective.
    pub sample: Sample,
    /// Runs of the window, sorted by ordinal.
    pub window: Vec<WindowRun>,
    /// Investigations of the retrospective, in sequence. All of them have ended.
    pub investigations: Vec<Investigation>,
    /// Attempts, duration and cost of each investigation, in the order of `investigations`.
    pub timings: Vec<InvestigationTiming>,
    /// Mutations requested by the results of the investigations.
    pub batch: Vec<Mutation>,
    /// What the runs of the window called and what failed; `None` if an earlier version of the program settled
    /// the retrospective, or if it is manual.
    pub calls: Option<CallCounts>,
    /// Facts that the writer needs to apply the batch.
    pub writer: WriterFacts,
    /// State of the workflow before closing.
    pub state: WorkflowState,
    /// Number of waiting runs of the workflow that precede everything in the intake stream that is not handled yet.
    pub waiting_in_order: u64,
    /// Earlier runs and investigations of the workflow, for comparison; empty for a manual retrospective.
    pub history: WorkflowHistory,
}

impl ComparesTexts for ClosingFacts {
    fn texts_to_compare(&self) -> Vec<String> {
        if self.retrospective.manual_request.is_some() {
            return proposal_texts(&self.retrospective, &self.investigations);
        }
        self.writer.texts_to_compare(&self.batch)
    }
}

/// Result of closing a retrospective.
#[derive(Debug, Clone)]
pub struct ClosedRetrospective {
    /// Report of the retrospective, to be stored.
    pub report: Report,
    /// Changes to memories, and the outcomes of the mutations. There are no changes if the retrospective
    /// failed or is manual.
    pub applied: AppliedBatch,
    /// New state of the retrospective: `Closed` or `Failed`.
    pub retrospective_state: RetrospectiveState,
    /// State of the workflow after closing.
    pub workflow_state: WorkflowState,
    /// Next retrospective if the window has filled up again in the meantime; `None` otherwise.
    pub opened: Option<OpenedRetrospective>,
    /// Messages that announce the changes, the report and the rule batches.
    pub messages: Vec<Message>,
    /// Reason why the retrospective failed, to be stored as a dead letter; `None` if it succeeded or is
    /// manual.
    pub failure: Option<Rejection>,
    /// Proposals of a manual retrospective; empty for an automatic one.
    pub proposals: Vec<Proposal>,
    /// Batches of rule mutations, one per repository. The writer applies each batch later, under the lock of
    /// its rule scope.
    pub rules: Vec<RuleUseBatch>,
    /// What becomes of the waiting feedback.
    pub feedback: FeedbackChanges,
    /// Strongest signal of each investigated run that memories were presented to.
    pub signals: Vec<RunSignal>,
}

/// Decides the effects of closing a retrospective. A manual retrospective changes no memory and opens no
/// other retrospective. If the next retrospective opens, `now` becomes its `as_of`.
pub fn close_retrospective(
    facts: ClosingFacts,
    embedder: &dyn Embedder,
    policies: &dyn Policies,
    now: Timestamp,
) -> ClosedRetrospective {
    // A manual retrospective holds no claim, so none of the state changes below may apply to it.
    if facts.retrospective.manual_request.is_some() {
        return close_manual(facts, embedder, now);
    }
    let ClosingFacts {
        retrospective,
        sample,
        window,
        investigations,
        timings,
        batch,
        calls,
        writer,
        mut state,
        waiting_in_order,
        history,
    } = facts;
    let success = has_success(&investigations);
    let signals = list_signals(&investigations, &writer.feedback);
    let before: Vec<_> = writer.memories.iter().filter(|memory| memory.status.is_living()).cloned().collect();
    let (as_of, mut tombstones) = (writer.as_of, writer.tombstones.clone());
    // Feedback waits for a retrospective that succeeds, like the runs.
    let feedback = if success {
        FeedbackSelection::select(writer.feedback.clone())
    } else {
        FeedbackSelection::default()
    };
    let batch = feedback.add_to_batch(retrospective.id, batch);
    let applied = if success { apply_mutations(writer, &batch, embedder) } else { unapplied_batch(&batch) };
    let feedback = feedback.settle(retrospective.id.0, &applied);
    let after = applied.memories_after(&before);
    tombstones.extend(applied.tombstones.iter().cloned());
    let known = KnownLessons { memories: &after, tombstones: &tombstones, batch: &batch, as_of };
    let calls = calls.filter(|_| success).map(|counts| CallReport {
        missed: list_missed(&counts.failures, &known),
        coverage: counts.coverage,
        operations: counts.operations,
    });
    let failure = (!success).then(|| build_failure(&retrospective, &investigations));
    if success {
        state.close_retrospective();
    } else {
        state.release_window(&retrospective);
    }
    let key = retrospective.key.clone();
    let ended = if success { RetrospectiveState::Closed } else { RetrospectiveState::Failed };
    let report = build_report(ReportInputs {
        retrospective: &retrospective,
        ended,
        sample: &sample,
        window: &window,
        investigations: &investigations,
        history: &history,
        timings: &timings,
        applied: &applied,
        before: &before,
        after: &after,
        proposals: &[],
        calls: calls.as_ref(),
        embedder: embedder.name(),
        closed_at: now,
    });
    // Runs were counted while this retrospective was open; without this check they would wait for the next
    // event.
    let opened = state.open_if_due(&key, &policies.policy_for(&key), now, waiting_in_order);
    let rules =
        if success { build_rule_use_batches(&retrospective, &investigations, policies) } else { Vec::new() };
    let messages = build_messages(&retrospective, &applied, &rules);
    let proposals = Vec::new();
    ClosedRetrospective {
        report,
        applied,
        retrospective_state: ended,
        workflow_state: state,
        opened,
        messages,
        failure,
        proposals,
        rules,
        feedback,
        signals,
    }
}

/// Closes a manual retrospective. The state of the workflow does not change. If no investigation succeeded,
/// the retrospective fails, and the report says so. There are no claimed runs to release, and no dead letter
/// is stored because the operator can make another request.
fn close_manual(facts: ClosingFacts, embedder: &dyn Embedder, now: Timestamp) -> ClosedRetrospective {
    let ClosingFacts { retrospective, sample, window, investigations, timings, writer, state, .. } = facts;
    let ended =
        if has_success(&investigations) { RetrospectiveState::Closed } else { RetrospectiveState::Failed };
    let proposals = build_proposals(&retrospective, &investigations, embedder);
    let living: Vec<Memory> =
        writer.memories.into_iter().filter(|memory| memory.status.is_living()).collect();
    let applied = unapplied_batch(&[]);
    let report = build_report(ReportInputs {
        retrospective: &retrospective,
        ended,
        sample: &sample,
        window: &window,
        investigations: &investigations,
        history: &WorkflowHistory::default(),
        timings: &timings,
        applied: &applied,
        before: &living,
        after: &living,
        proposals: &proposals,
        calls: None,
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
        feedback: FeedbackChanges::default(),
        signals: Vec::new(),
    }
}

/// Returns the messages of a closed retrospective: those for its changes, for its report, and for the rule
/// batches that are due.
fn build_messages(
    retrospective: &Retrospective,
    applied: &AppliedBatch,
    rules: &[RuleUseBatch],
) -> Vec<Message> {
    let key = &retrospective.key;
    let changes = applied.effective_changes().map(|change| Notice::of_change(change).into_message(key));
    let ready = Notice::ReportReady { retrospective: retrospective.id, epoch: retrospective.epoch };
    let due = rules.iter().map(|used| Notice::RulesDue { batch: used.id }.into_message(&used.rule_scope));
    changes.chain([ready.into_message(key)]).chain(due).collect()
}

/// Returns the outcomes of a batch that is not applied because the retrospective failed. Such a batch
/// contains only a sweep, which is left to the next successful retrospective.
fn unapplied_batch(batch: &[Mutation]) -> AppliedBatch {
    let outcome = |mutation: &Mutation| {
        let reason = "the retrospective failed: nothing is applied".to_owned();
        MutationOutcome::without_changes(mutation.id, mutation.request.summarize(), reason)
    };
    AppliedBatch {
        changes: Vec::new(),
        memories: Vec::new(),
        tombstones: Vec::new(),
        expired: Vec::new(),
        outcomes: batch.iter().map(outcome).collect(),
    }
}

fn build_failure(retrospective: &Retrospective, investigations: &[Investigation]) -> Rejection {
    let describe = |one: &Investigation| {
        let problem = one.result.as_ref().and_then(|result| result.problem()).unwrap_or("no result");
        format!("run {}: {problem}", one.run)
    };
    let all: Vec<_> = investigations.iter().map(describe).collect();
    Rejection::of_message(
        DeadLetterCode::RetrospectiveFailed,
        format!(
            "retrospective {} of {} had no successful investigation ({}); its {} runs are released",
            retrospective.epoch,
            retrospective.key,
            all.join("; "),
            retrospective.window_runs()
        ),
    )
}
