//! The fold: a memory from its changes, and the state machine that says which change is legal where.

use std::fmt::Write as _;

use super::{CONTRADICTIONS_KEPT_MAX, Change, EVIDENCE_KEPT_MAX, Effect, Evidence, Memory, Status};
use crate::id::{ChangeId, MemoryId};
use crate::review::Standing;
use crate::weight::Weight;

/// A change that does not fit the memory it names: the log or the table is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("change {change} ({kind}) does not fit memory {memory}: {problem}")]
pub struct FoldError {
    /// The change.
    pub change: ChangeId,
    /// Its kind.
    pub kind: &'static str,
    /// The memory.
    pub memory: MemoryId,
    /// What does not fit.
    pub problem: String,
}

/// Applies one change to its memory. `None` in: it does not exist yet. Fails when the change is illegal there, or
/// when its own figures do not add up: this function *is* the state machine.
pub fn fold(memory: Option<Memory>, change: &Change) -> Result<Option<Memory>, FoldError> {
    let illegal = |problem: String| FoldError {
        change: change.id,
        kind: change.effect.kind(),
        memory: change.memory,
        problem,
    };
    if change.effect.leaves_memory() {
        return Ok(memory);
    }
    let Some(mut memory) = memory else {
        return created(change).map(Some).map_err(illegal);
    };
    misfit(&memory, change).map_or(Ok(()), |problem| Err(illegal(problem)))?;
    step(&mut memory, &change.effect);
    memory.changed_at = change.at;
    if let (Effect::Reweighted { contradicted_by, .. }, Some(epoch)) = (&change.effect, change.epoch) {
        memory.contradicted_by.extend(contradicted_by.iter().map(|run| (epoch, run.clone())));
        let surplus = memory.contradicted_by.len().saturating_sub(CONTRADICTIONS_KEPT_MAX);
        memory.contradicted_by.drain(..surplus);
    }
    Ok(Some(memory))
}

/// The statuses that a memory can begin with.
pub const fn legal_at_first() -> &'static [Status] {
    &[Status::Tentative, Status::Active]
}

/// The kinds of change that are legal for a memory of this status: the state machine as a table.
pub const fn legal_after(status: Status) -> &'static [&'static str] {
    match status {
        Status::Tentative => &["promoted", "accepted", "observed", "deleted", "superseded"],
        Status::Active => &["observed", "reweighted", "exempted", "archived", "deleted", "superseded"],
        Status::Archived => &["promoted", "accepted", "revived", "deleted", "superseded"],
        Status::Deleted | Status::Superseded | Status::Graduated => &[],
    }
}

/// The status after a legal change of this kind; `None` when the status stays.
pub fn status_after(kind: &str) -> Option<Status> {
    match kind {
        "promoted" | "accepted" => Some(Status::Active),
        "archived" => Some(Status::Archived),
        "revived" => Some(Status::Tentative),
        "deleted" => Some(Status::Deleted),
        "superseded" => Some(Status::Superseded),
        _ => None,
    }
}

/// The state machine as a Mermaid diagram, drawn from [`legal_at_first`], [`legal_after`] and [`status_after`].
pub fn state_machine() -> String {
    let mut drawn = "stateDiagram-v2\n".to_owned();
    for status in legal_at_first() {
        let _ = writeln!(drawn, "    [*] --> {status}: created");
    }
    for from in Status::ALL {
        for kind in legal_after(from) {
            let to = status_after(kind).unwrap_or(from);
            let _ = writeln!(drawn, "    {from} --> {to}: {kind}");
        }
    }
    drawn
}

/// What forbids the change for this memory, if anything does.
fn misfit(memory: &Memory, change: &Change) -> Option<String> {
    let allowed = legal_after(memory.status);
    if change.memory != memory.id {
        Some(format!("it was applied to memory {}", memory.id))
    } else if matches!(change.effect, Effect::Created { .. }) {
        Some("it exists already".to_owned())
    } else if !allowed.contains(&change.effect.kind()) {
        Some(format!("it is {}; legal then: {}", memory.status, allowed.join(", ")))
    } else if let (Effect::Promoted { .. } | Effect::Revived { .. }, Some(why)) =
        (&change.effect, &memory.quarantine)
    {
        Some(format!("it is quarantined, and only a person promotes it: {why}"))
    } else if let Effect::Reweighted { before, delta, after, .. } = &change.effect
        && (*before != memory.weight || *after != before.moved(*delta))
    {
        Some(format!("its weight is {}, and the change says {before} {delta} = {after}", memory.weight))
    } else {
        None
    }
}

fn created(change: &Change) -> Result<Memory, String> {
    let Effect::Created { scope, lesson, status, weight, evidence, quarantine } = &change.effect else {
        return Err("it does not exist".to_owned());
    };
    if quarantine.is_some() && *status != Status::Tentative {
        return Err(format!("no memory is quarantined and begins as {status}"));
    }
    if !legal_at_first().contains(status) {
        return Err(format!("no memory begins as {status}"));
    }
    Ok(Memory {
        id: change.memory,
        scope: scope.clone(),
        lesson: lesson.clone(),
        status: *status,
        weight: *weight,
        observed_runs: 1,
        tentative_runs: vec![evidence.run.clone()],
        evidence: vec![evidence.clone()],
        cue_not_met: 0,
        contradicted_by: Vec::new(),
        quarantine: quarantine.clone(),
        authority: evidence.remark.as_ref().map(|source| source.standing),
        created_at: change.at,
        changed_at: change.at,
    })
}

fn step(memory: &mut Memory, effect: &Effect) {
    if let Some(status) = status_after(effect.kind()) {
        memory.status = status;
    }
    match effect {
        Effect::Promoted { weight, evidence } => {
            memory.weight = *weight;
            memory.cue_not_met = 0;
            memory.contradicted_by.clear();
            remember(memory, evidence);
        }
        Effect::Accepted { weight, .. } => {
            memory.weight = *weight;
            memory.cue_not_met = 0;
            memory.contradicted_by.clear();
            memory.quarantine = None;
            memory.authority = memory.authority.map(|_| Standing::Insider);
        }
        Effect::Observed { evidence } => {
            if memory.status == Status::Tentative {
                memory.tentative_runs.push(evidence.run.clone());
            }
            remember(memory, evidence);
        }
        Effect::Reweighted { after, cue_not_met, .. } => {
            memory.weight = *after;
            memory.cue_not_met = *cue_not_met;
        }
        Effect::Exempted { cue_not_met } => memory.cue_not_met = *cue_not_met,
        Effect::Revived { evidence } => {
            memory.weight = Weight::ZERO;
            memory.cue_not_met = 0;
            memory.contradicted_by.clear();
            memory.tentative_runs = vec![evidence.run.clone()];
            remember(memory, evidence);
        }
        Effect::Archived
        | Effect::Deleted { .. }
        | Effect::Superseded { .. }
        | Effect::Created { .. }
        | Effect::Suppressed { .. }
        | Effect::Refused { .. } => {}
    }
}

fn remember(memory: &mut Memory, evidence: &Evidence) {
    memory.observed_runs += 1;
    memory.authority = memory.authority.max(evidence.remark.as_ref().map(|source| source.standing));
    memory.evidence.push(evidence.clone());
    if memory.evidence.len() > EVIDENCE_KEPT_MAX {
        memory.evidence.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_the_state_machine_as_it_is() {
        let fresh = format!("```mermaid\n{}```\n", state_machine());
        let readme = include_str!("../../README.md");
        assert!(readme.contains(&fresh), "the drawing in README.md is stale; it should be:\n{fresh}");
    }

    #[test]
    fn every_change_is_legal_somewhere_or_leaves_its_memory_alone() {
        let legal: Vec<_> = Status::ALL.iter().flat_map(|status| legal_after(*status)).collect();
        for kind in
            ["promoted", "accepted", "observed", "reweighted", "exempted", "archived", "revived", "deleted"]
        {
            assert!(legal.contains(&&kind), "{kind}");
        }
        for status in Status::ALL.into_iter().filter(|status| !status.lives()) {
            assert_eq!(legal_after(status), [""; 0], "{status} is an end");
        }
    }
}
