//! Contradictions: a run shows the reverse of what a known memory says.

use retro_core::finding::{Finding, FindingKind, KnownMemory};
use retro_core::id::MemoryId;

/// The memory of the same step and subject that a repair reverses: following it failed and doing the opposite
/// succeeded. A memory that names nothing to avoid is reversed by a repair that avoids what it prefers.
pub(super) fn contradicted(finding: &Finding, memories: &[KnownMemory]) -> Option<MemoryId> {
    let reversed = |memory: &&KnownMemory| {
        let prefers_the_failing = memory.cue.avoid.is_none()
            && memory.cue.tool == finding.cue.tool
            && memory.cue.prefer.is_some()
            && memory.cue.prefer == finding.cue.avoid;
        memory.step.as_ref() == Some(&finding.step)
            && memory.subject == finding.subject
            && (finding.cue.opposes(&memory.cue) || prefers_the_failing)
    };
    let shows = finding.kind == FindingKind::Repair;
    shows.then(|| memories.iter().find(reversed).map(|memory| memory.id))?
}
