//! Notes whether the first call that a memory is about was made as the memory says, and whether it failed.

use retro_core::calls::MemoryTrial;
use retro_core::finding::BriefMemory;

use super::call::{Call, StepCalls};
use super::handled_errors::is_transient_error;
use super::manner::Manner;

/// Returns the trial of a memory in a run: the first call made as it says or, if there is none, the first call that
/// could have been. Returns `None` if there is no such call, or if a single call cannot show it.
pub(super) fn find_trial(memory: &BriefMemory, steps: &[StepCalls<'_>]) -> Option<MemoryTrial> {
    let (step, tool) = (memory.step.as_ref()?, memory.cue.tool.as_deref()?);
    let prefer = Manner::parse(memory.cue.prefer.as_deref()?);
    let calls = &steps.iter().find(|one| one.step == step)?.calls;
    if let Some(first @ Manner::CalledFirst(_)) = prefer.other_call() {
        return find_trial_after(memory, calls, tool, first);
    }
    if !prefer.shows_in_call() {
        return None;
    }
    let is_about = |call: &&Call<'_>| call.tool == tool && prefer.applies_to(call);
    let followed = calls.iter().filter(is_about).find(|call| prefer.matches_call(call));
    let first = followed.or_else(|| calls.iter().find(is_about))?;
    let failed = first.failure().is_some() && !is_transient_error(first.error());
    Some(MemoryTrial { memory: memory.id, followed: followed.is_some(), failed })
}

/// Returns the trial of a memory that asks for another call first: the first call after that one or, if there is none,
/// the first call. Commands are left out: the next command of a shell may have another goal.
fn find_trial_after(
    memory: &BriefMemory,
    calls: &[Call<'_>],
    tool: &str,
    first: &Manner,
) -> Option<MemoryTrial> {
    let is_about = |call: &&Call<'_>| {
        call.tool == tool && call.arguments.as_object().is_some() && !first.matches_call(call)
    };
    let prepared = calls.iter().position(|call| first.matches_call(call) && call.succeeded());
    let followed = prepared.and_then(|at| calls[at + 1..].iter().find(is_about));
    let tried = followed.or_else(|| calls.iter().find(is_about))?;
    let failed = tried.failure().is_some() && !is_transient_error(tried.error());
    Some(MemoryTrial { memory: memory.id, followed: followed.is_some(), failed })
}
