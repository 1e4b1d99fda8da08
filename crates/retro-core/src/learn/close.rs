//! Closing: the batch is applied, the report written, the workflow freed, and the threshold looked at again, as
//! one decision for one transaction.

use jiff::Timestamp;

use super::apply::{Applied, MutationOutcome, WriterFacts, apply};
use super::rules::{RulesUsed, rules_used};
use super::settle::Mutation;
use crate::dead_letter::{Code, Rejection};
use crate::investigate::succeeded;
use crate::manual::{self, Proposal};
use crate::memory::Memory;
use crate::message::{Message, Notice};
use crate::policy::Policies;
use crate::report::{self, Report};
use crate::retrospective::{Investigation, Opening, Retrospective, State, WorkflowState};
use crate::sample::Sample;
use crate::similar::Embedder;

pub use crate::report::Timing;

/// Everything about a retrospective that waits for the writer.
#[derive(Debug, Clone)]
pub struct ClosingFacts {
    /// The retrospective, settling.
    pub retrospective: Retrospective,
    /// Its sample.
    pub sample: Sample,
    /// The runs of its window, by ordinal.
    pub window: Vec<report::WindowRun>,
    /// Its investigations, in sequence, all ended.
    pub investigations: Vec<Investigation>,
    /// How long each took and what it cost, in the same order.
    pub timings: Vec<Timing>,
    /// The mutations that they ask for.
    pub batch: Vec<Mutation>,
    /// What the writer knows.
    pub writer: WriterFacts,
    /// The workflow.
    pub state: WorkflowState,
    /// What went before in it: nothing for a manual one.
    pub history: report::History,
}

/// What closing does.
#[derive(Debug, Clone)]
pub struct Closing {
    /// The report.
    pub report: Report,
    /// What the batch did to memory; nothing when the retrospective failed.
    pub applied: Applied,
    /// `Closed` or `Failed`.
    pub retrospective: State,
    /// The workflow afterwards.
    pub state: WorkflowState,
    /// The next retrospective, when the window is full again already.
    pub opened: Option<Opening>,
    /// Announcements of the changes and of the report.
    pub messages: Vec<Message>,
    /// Why the retrospective failed; it leaves a dead letter.
    pub failure: Option<Rejection>,
    /// What a manual one proposes.
    pub proposals: Vec<Proposal>,
    /// What its verdicts ask of the rules of repositories: a batch for each, which the writer applies under the lock of its keeper.
    pub rules: Vec<RulesUsed>,
}

/// Decides how a retrospective ends; a manual one changes no memory and opens nothing. `now` becomes the next one's `as_of` if one opens.
pub fn close(
    facts: ClosingFacts,
    embedder: &dyn Embedder,
    policies: &dyn Policies,
    now: Timestamp,
) -> Closing {
    if facts.retrospective.asked.is_some() {
        return manual::close(facts, embedder, now);
    }
    let ClosingFacts {
        retrospective,
        sample,
        window,
        investigations,
        timings,
        batch,
        writer,
        mut state,
        history,
    } = facts;
    let success = succeeded(&investigations);
    let before: Vec<_> = writer.memories.iter().filter(|memory| memory.status.lives()).cloned().collect();
    let applied = if success { apply(writer, &batch, embedder) } else { nothing(&batch) };
    let after = merged(before.clone(), &applied.memories);
    let failure = (!success).then(|| failure(&retrospective, &investigations));
    if success {
        state.close();
    } else {
        state.release(&retrospective);
    }
    let key = retrospective.key.clone();
    let ended = if success { State::Closed } else { State::Failed };
    let report = report::write(report::Inputs {
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
        embedder: embedder.name(),
        closed_at: now,
    });
    let opened = state.open_if_due(&key, &policies.of(&key), now);
    let ready =
        Notice::ReportReady { retrospective: retrospective.id, epoch: retrospective.epoch }.about(&key);
    let messages = applied.changes.iter().filter(|change| !change.effect.leaves_memory()).map(|change| {
        let kind = change.effect.kind().to_owned();
        Notice::MemoryChanged { change: change.id, memory: change.memory, kind, at: change.at }.about(&key)
    });
    let rules = if success { rules_used(&retrospective, &investigations, policies) } else { Vec::new() };
    let due = rules.iter().map(|used| Notice::RulesDue { batch: used.id }.about(&used.keeper));
    let messages = messages.chain([ready]).chain(due).collect();
    let proposals = Vec::new();
    Closing { report, applied, retrospective: ended, state, opened, messages, failure, proposals, rules }
}

/// A failed retrospective asks for nothing: only its sweep could stand in the batch, and it waits for a success.
pub(crate) fn nothing(batch: &[Mutation]) -> Applied {
    let outcome = |mutation: &Mutation| MutationOutcome {
        mutation: mutation.id,
        asked: super::apply::asked(&mutation.ask),
        did: Vec::new(),
        why: "the retrospective failed: nothing is applied".to_owned(),
    };
    Applied {
        changes: Vec::new(),
        memories: Vec::new(),
        tombstones: Vec::new(),
        expired: Vec::new(),
        outcomes: batch.iter().map(outcome).collect(),
    }
}

pub(super) fn merged(mut before: Vec<Memory>, changed: &[Memory]) -> Vec<Memory> {
    for memory in changed {
        match before.iter_mut().find(|old| old.id == memory.id) {
            Some(old) => old.clone_from(memory),
            None => before.push(memory.clone()),
        }
    }
    before
}

fn failure(retrospective: &Retrospective, investigations: &[Investigation]) -> Rejection {
    let told = |one: &Investigation| {
        let problem = one.result.as_ref().and_then(|result| result.problem()).unwrap_or("no result");
        format!("run {}: {problem}", one.run)
    };
    let all: Vec<_> = investigations.iter().map(told).collect();
    Rejection::whole(
        Code::RetrospectiveFailed,
        format!(
            "retrospective {} of {} had no successful investigation ({}); its {} runs are released",
            retrospective.epoch,
            retrospective.key,
            all.join("; "),
            retrospective.window_runs()
        ),
    )
}
