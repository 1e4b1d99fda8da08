//! Computes a memory by folding its changes. A state machine defines which changes are legal in which status.

use std::fmt::Write as _;

use super::{
    CONTRADICTIONS_KEPT_MAX, Change, ChangeEffect, EVIDENCE_KEPT_MAX, Evidence, Memory, MemoryScope,
    MemoryStatus,
};
use crate::id::{ChangeId, MemoryId, RunId};
use crate::remark::AuthorStanding;
use crate::weight::Weight;

/// Error for a change that is illegal for its memory: the change log or the stored memory is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("change {change} ({kind}) does not fit memory {memory}: {problem}")]
pub struct FoldError {
    /// Id of the change.
    pub change: ChangeId,
    /// Kind of the change.
    pub kind: &'static str,
    /// Id of the memory.
    pub memory: MemoryId,
    /// Explanation of why the change is illegal.
    pub problem: String,
}

/// Applies one change to a memory, which is `None` before its first change. Fails if the change is illegal
/// for the status of the memory, or if its numbers contradict each other or the memory.
pub fn fold_change(memory: Option<Memory>, change: &Change) -> Result<Option<Memory>, FoldError> {
    let illegal = |problem: String| FoldError {
        change: change.id,
        kind: change.effect.kind(),
        memory: change.memory,
        problem,
    };
    if change.effect.leaves_memory_unchanged() {
        return Ok(memory);
    }
    let Some(mut memory) = memory else {
        return create_memory(change).map(Some).map_err(illegal);
    };
    find_misfit(&memory, change).map_or(Ok(()), |problem| Err(illegal(problem)))?;
    apply_effect(&mut memory, &change.effect);
    memory.changed_at = change.at;
    if let (ChangeEffect::Reweighted { contradicted_by, .. }, Some(epoch)) = (&change.effect, change.epoch) {
        memory.contradicted_by.extend(contradicted_by.iter().map(|run| (epoch, run.clone())));
        // The oldest contradictions are dropped first, because only those of the last two retrospectives
        // count.
        let surplus = memory.contradicted_by.len().saturating_sub(CONTRADICTIONS_KEPT_MAX);
        memory.contradicted_by.drain(..surplus);
    }
    Ok(Some(memory))
}

/// Returns the statuses that a new memory can have.
pub const fn initial_statuses() -> &'static [MemoryStatus] {
    &[MemoryStatus::Tentative, MemoryStatus::Active]
}

/// Returns the kinds of change that are legal for a memory in this status: the state machine as a table.
pub const fn legal_changes(status: MemoryStatus) -> &'static [&'static str] {
    match status {
        MemoryStatus::Tentative => &[
            "promoted",
            "accepted",
            "observed",
            "quote_missing",
            "revised",
            "held",
            "released",
            "disabled",
            "enabled",
            "pinned",
            "unpinned",
            "deleted",
            "superseded",
        ],
        MemoryStatus::Active => &[
            "observed",
            "quote_missing",
            "revised",
            "reweighted",
            "exempted",
            "held",
            "released",
            "disabled",
            "enabled",
            "pinned",
            "unpinned",
            "archived",
            "deleted",
            "superseded",
        ],
        MemoryStatus::Archived => &[
            "promoted",
            "accepted",
            "quote_missing",
            "revived",
            "held",
            "released",
            "disabled",
            "enabled",
            "unpinned",
            "deleted",
            "superseded",
        ],
        MemoryStatus::Deleted => &["restored"],
        MemoryStatus::Superseded | MemoryStatus::Graduated => &[],
    }
}

/// Returns the status of a memory after a legal change of this kind, or `None` if the change keeps the
/// status or, for `restored`, names it.
pub fn status_after(kind: &str) -> Option<MemoryStatus> {
    match kind {
        "promoted" | "accepted" => Some(MemoryStatus::Active),
        "archived" => Some(MemoryStatus::Archived),
        "revived" => Some(MemoryStatus::Tentative),
        "deleted" => Some(MemoryStatus::Deleted),
        "superseded" => Some(MemoryStatus::Superseded),
        _ => None,
    }
}

/// Renders the state machine as a Mermaid diagram from [`initial_statuses`], [`legal_changes`] and
/// [`status_after`].
pub fn render_state_machine() -> String {
    let mut drawn = "stateDiagram-v2\n".to_owned();
    for status in initial_statuses() {
        let _ = writeln!(drawn, "    [*] --> {status}: created");
    }
    for &from in MemoryStatus::ALL {
        for kind in legal_changes(from) {
            let after = match *kind {
                "restored" => MemoryStatus::ALL.iter().copied().filter(|status| status.is_living()).collect(),
                kind => vec![status_after(kind).unwrap_or(from)],
            };
            for to in after {
                let _ = writeln!(drawn, "    {from} --> {to}: {kind}");
            }
        }
    }
    drawn
}

/// Returns the reason why the change is illegal for this memory, or `None` if it is legal.
fn find_misfit(memory: &Memory, change: &Change) -> Option<String> {
    let allowed = legal_changes(memory.status);
    if change.memory != memory.id {
        Some(format!("it was applied to memory {}", memory.id))
    } else if matches!(change.effect, ChangeEffect::Created { .. }) {
        Some("it exists already".to_owned())
    } else if !allowed.contains(&change.effect.kind()) {
        Some(match allowed {
            [] => format!("it is {}, which is final", memory.status),
            allowed => format!("it is {}; legal then: {}", memory.status, allowed.join(", ")),
        })
    } else if let (ChangeEffect::Promoted { .. } | ChangeEffect::Revived { .. }, Some(why), Some(_)) =
        (&change.effect, &memory.quarantine, memory.authority)
    {
        Some(format!("it is a quarantined rule, and only a person promotes it: {why}"))
    } else if let (ChangeEffect::Held { .. }, Some(why)) = (&change.effect, &memory.quarantine) {
        Some(format!("it is held already: {why}"))
    } else if let (ChangeEffect::Held { .. }, Some(by)) = (&change.effect, &memory.released_by) {
        Some(format!("{by} has released it, and its lesson is the same"))
    } else if matches!(change.effect, ChangeEffect::Released { .. }) && memory.quarantine.is_none() {
        Some("it is not held".to_owned())
    } else if let ChangeEffect::QuoteMissing { run } = &change.effect
        && memory.unchecked_evidence(run).is_none()
    {
        Some(format!("no unchecked quote of run {run} is left"))
    } else if let Some(problem) = find_switch_misfit(memory, change) {
        Some(problem)
    } else if let ChangeEffect::Reweighted { before, delta, after, .. } = &change.effect
        && (*before != memory.weight || *after != before.adjusted_by(*delta))
    {
        Some(format!("its weight is {}, and the change says {before} {delta} = {after}", memory.weight))
    } else {
        None
    }
}

/// Returns the reason why the change does not fit what operators have switched on or off, or `None` if it does.
fn find_switch_misfit(memory: &Memory, change: &Change) -> Option<String> {
    match (&change.effect, &memory.disabled_by, &memory.pinned_by) {
        (ChangeEffect::Disabled { .. }, Some(by), _) => Some(format!("it is disabled already, by {by}")),
        (ChangeEffect::Enabled { .. }, None, _) => Some("it is not disabled".to_owned()),
        (ChangeEffect::Pinned { .. }, _, Some(by)) => Some(format!("it is pinned already, by {by}")),
        (ChangeEffect::Unpinned { .. }, _, None) => Some("it is not pinned".to_owned()),
        (ChangeEffect::Restored { status, .. }, ..) if !status.is_living() => {
            Some(format!("no memory is restored as {status}"))
        }
        (
            ChangeEffect::Reweighted { .. }
            | ChangeEffect::Exempted { .. }
            | ChangeEffect::Archived
            | ChangeEffect::Superseded { .. }
            | ChangeEffect::Deleted { .. },
            Some(by),
            _,
        ) if !change.cause.is_by_person() => {
            Some(format!("{by} has disabled it, and it stays as it is until a person enables it"))
        }
        _ => None,
    }
}

fn create_memory(change: &Change) -> Result<Memory, String> {
    let ChangeEffect::Created { scope, lesson, status, weight, evidence, quarantine, by } = &change.effect
    else {
        return Err("it does not exist".to_owned());
    };
    if quarantine.is_some() && *status != MemoryStatus::Tentative {
        return Err(format!("no memory is quarantined and begins as {status}"));
    }
    if !initial_statuses().contains(status) {
        return Err(format!("no memory begins as {status}"));
    }
    let first = evidence.as_ref();
    let asked = first.and_then(|evidence| evidence.remark.as_ref()).map(|source| source.standing);
    // A rule that an operator adds counts like one that an insider asked for.
    let is_added_rule = by.is_some() && matches!(scope, MemoryScope::Repository { .. });
    Ok(Memory {
        id: change.memory,
        scope: scope.clone(),
        lesson: lesson.clone(),
        status: *status,
        weight: *weight,
        observed_runs: u32::from(first.is_some()),
        tentative_runs: first.map(|evidence| evidence.run.clone()).into_iter().collect(),
        tentative_witnesses: first.map(name_witnesses).unwrap_or_default(),
        evidence: first.cloned().into_iter().collect(),
        quote_missing_in: None,
        cue_not_met: 0,
        contradicted_by: Vec::new(),
        quarantine: quarantine.clone(),
        released_by: None,
        disabled_by: None,
        pinned_by: None,
        added_by: by.clone(),
        authority: if is_added_rule { Some(AuthorStanding::Insider) } else { asked },
        created_at: change.at,
        changed_at: change.at,
    })
}

fn apply_effect(memory: &mut Memory, effect: &ChangeEffect) {
    if let Some(status) = status_after(effect.kind()) {
        memory.status = status;
    }
    match effect {
        ChangeEffect::Promoted { weight, evidence } => {
            memory.weight = *weight;
            memory.cue_not_met = 0;
            memory.contradicted_by.clear();
            add_evidence(memory, evidence);
        }
        ChangeEffect::Accepted { weight, .. } => {
            memory.weight = *weight;
            memory.cue_not_met = 0;
            memory.contradicted_by.clear();
            memory.quarantine = None;
            // A promotion by an operator counts like one by an insider. Memories without an authority are not
            // rules and do not get one.
            memory.authority = memory.authority.map(|_| AuthorStanding::Insider);
        }
        ChangeEffect::Observed { evidence } => {
            // Only runs since the memory became tentative count for confirmation; an active memory needs no
            // confirmation.
            if memory.status == MemoryStatus::Tentative {
                // The run of an agent that saved the lesson is listed since then.
                if memory.unchecked_evidence(&evidence.run).is_none() {
                    memory.tentative_runs.push(evidence.run.clone());
                }
                memory.tentative_witnesses.extend(name_witnesses(evidence));
            }
            add_evidence(memory, evidence);
        }
        ChangeEffect::QuoteMissing { run } => {
            memory.evidence.retain(|evidence| !evidence.is_unchecked() || evidence.run != *run);
            memory.observed_runs = memory.observed_runs.saturating_sub(1);
            memory.quote_missing_in = Some(run.clone());
        }
        ChangeEffect::Revised { lesson } => {
            memory.lesson = lesson.clone();
            // Whoever released the memory has not seen this lesson.
            memory.released_by = None;
        }
        ChangeEffect::Reweighted { after, cue_not_met, .. } => {
            memory.weight = *after;
            memory.cue_not_met = *cue_not_met;
        }
        ChangeEffect::Exempted { cue_not_met } => memory.cue_not_met = *cue_not_met,
        ChangeEffect::Revived { evidence } => {
            memory.weight = Weight::ZERO;
            memory.cue_not_met = 0;
            memory.contradicted_by.clear();
            memory.tentative_runs = vec![evidence.run.clone()];
            memory.tentative_witnesses = name_witnesses(evidence);
            add_evidence(memory, evidence);
        }
        ChangeEffect::Held { why } => memory.quarantine = Some(why.clone()),
        ChangeEffect::Released { by } => {
            memory.quarantine = None;
            memory.released_by = Some(by.clone());
        }
        ChangeEffect::Disabled { by } => memory.disabled_by = Some(by.clone()),
        ChangeEffect::Enabled { .. } => memory.disabled_by = None,
        ChangeEffect::Pinned { by } => memory.pinned_by = Some(by.clone()),
        ChangeEffect::Unpinned { .. } => memory.pinned_by = None,
        ChangeEffect::Restored { status, .. } => {
            memory.status = *status;
            // A person says that the deletion was wrong. What led to it must not delete the memory again.
            memory.contradicted_by.clear();
        }
        ChangeEffect::Archived
        | ChangeEffect::Deleted { .. }
        | ChangeEffect::Superseded { .. }
        | ChangeEffect::Created { .. }
        | ChangeEffect::Suppressed { .. }
        | ChangeEffect::Refused { .. } => {}
    }
}

/// Returns the run with each of its witnesses; empty if the run itself is the witness.
fn name_witnesses(evidence: &Evidence) -> Vec<(RunId, String)> {
    evidence.origin.witnesses().into_iter().map(|witness| (evidence.run.clone(), witness)).collect()
}

/// Adds evidence of a run. What its agent said before is replaced by what the trace shows, because a run counts once.
fn add_evidence(memory: &mut Memory, evidence: &Evidence) {
    let said = memory.evidence.iter_mut().find(|known| known.is_unchecked() && known.run == evidence.run);
    if let Some(said) = said {
        said.clone_from(evidence);
        return;
    }
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
    fn the_readme_shows_the_current_state_machine() {
        let fresh = format!("```mermaid\n{}```\n", render_state_machine());
        let readme = include_str!("../../README.md");
        assert!(readme.contains(&fresh), "the drawing in README.md is stale; it should be:\n{fresh}");
    }

    #[test]
    fn every_kind_of_change_is_legal_in_some_status() {
        let legal: Vec<_> = MemoryStatus::ALL.iter().flat_map(|status| legal_changes(*status)).collect();
        for kind in [
            "promoted",
            "accepted",
            "observed",
            "quote_missing",
            "revised",
            "reweighted",
            "exempted",
            "archived",
            "revived",
            "held",
            "released",
            "disabled",
            "enabled",
            "pinned",
            "unpinned",
            "deleted",
            "restored",
        ] {
            assert!(legal.contains(&&kind), "{kind}");
        }
        for status in [MemoryStatus::Superseded, MemoryStatus::Graduated] {
            assert_eq!(legal_changes(status), [""; 0], "{status} is an end");
        }
        assert_eq!(legal_changes(MemoryStatus::Deleted), ["restored"], "only a person takes it back");
    }
}
