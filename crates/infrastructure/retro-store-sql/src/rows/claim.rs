//! Converts the rows of a claimed investigation and builds its claim.

use std::collections::BTreeMap;

use retro_core::id::{MemoryId, Ordinal, Repository, RetrospectiveId, RunId, Tenant, WorkflowKey};
use retro_core::memory::{Memory, MemoryScope};
use retro_core::retrospective::{Investigation, PresentedMemory, Retrospective};
use retro_core::run::{RunFacts, RunMemories};
use retro_fault::{Guard, is_broken};
use retro_store::{Claim, JournalEntry, JournalStage, Result, StoredBody};

use super::presentation::PendingPresentation;
use crate::at;

/// Newly claimed row of `investigations`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct ClaimRecord {
    tenant: String,
    retrospective: String,
    number: i64,
    ordinal: i64,
    run_id: String,
    token: i64,
    attempts: i64,
    last_error: Option<String>,
    taken_over: bool,
}

/// Newly claimed investigation, before its data is loaded.
#[derive(Debug, Clone)]
pub(crate) struct ClaimedInvestigation {
    /// Tenant that owns the retrospective.
    pub(crate) tenant: Tenant,
    /// Retrospective of the investigation.
    pub(crate) retrospective: RetrospectiveId,
    /// 1-based position of the investigation in its retrospective.
    pub(crate) number: u32,
    /// Ordinal of the run to investigate.
    pub(crate) ordinal: Ordinal,
    /// Id of the run to investigate.
    pub(crate) run: RunId,
    /// Fencing token of the claim. Writes with an older token are rejected.
    pub(crate) token: u64,
    /// 1-based attempt number.
    pub(crate) attempt: u32,
    /// `true` if the investigation was taken over from a worker whose lease had expired.
    pub(crate) taken_over: bool,
    /// Reason why the last attempt failed; `None` if none failed.
    pub(crate) last_error: Option<String>,
}

impl ClaimRecord {
    /// Converts the row to a [`ClaimedInvestigation`]. Fails if a value is damaged.
    pub(crate) fn to_claimed_investigation(&self) -> Result<ClaimedInvestigation> {
        let place = at("investigations", format!("{}, number {}", self.retrospective, self.number));
        Ok(ClaimedInvestigation {
            tenant: place.parse(&self.tenant)?,
            retrospective: place.parse(&self.retrospective)?,
            number: place.parse_unsigned(self.number)?,
            ordinal: place.parse_unsigned(self.ordinal)?,
            run: place.parse(&self.run_id)?,
            token: place.parse_unsigned(self.token)?,
            attempt: place.parse_unsigned(self.attempts)?,
            taken_over: self.taken_over,
            last_error: self.last_error.clone(),
        })
    }
}

/// Returns the increment of the token on each claim, which fences the previous holder: 1, or 0 if fault
/// injection breaks fencing.
pub(crate) fn token_step() -> i64 {
    i64::from(!is_broken(Guard::Fencing))
}

/// Loaded data of a claimed investigation.
#[derive(Debug)]
pub(crate) struct ClaimParts {
    /// Retrospective of the investigation.
    pub(crate) retrospective: Retrospective,
    /// Facts and body of the run.
    pub(crate) run: (RunFacts, StoredBody),
    /// Memories presented to the run, mapped to `true` if the run also opened them.
    pub(crate) met: BTreeMap<MemoryId, bool>,
    /// Living memories of the workflow, and its memories presented to the run in any status, sorted by id.
    pub(crate) memories: Vec<Memory>,
    /// Repository rules presented to the run.
    pub(crate) rules: Vec<Memory>,
    /// Ended earlier investigations of the same retrospective.
    pub(crate) earlier: Vec<Investigation>,
    /// Journal entries of earlier attempts at this investigation.
    pub(crate) journal: Vec<JournalEntry>,
}

/// Builds a claim. Drops presented memories that are neither memories of this workflow nor rules of its
/// tenant, because an event may name any id.
pub(crate) fn build_claim(claimed: &ClaimedInvestigation, parts: ClaimParts) -> Claim {
    let ClaimParts { retrospective, run: (run, body), met, mut memories, rules, earlier, journal } = parts;
    let kept = |rule: &Memory| match &rule.scope {
        MemoryScope::Repository { repo, .. } => Repository::new(repo).ok().map(|repo| (rule.id, repo)),
        _ => None,
    };
    let repos: BTreeMap<MemoryId, Repository> = rules.iter().filter_map(kept).collect();
    // `memories` is loaded sorted by id, which the binary search needs.
    let own = |id: &MemoryId| memories.binary_search_by_key(id, |memory| memory.id).is_ok();
    let shown = |(memory, read)| {
        let repo = repos.get(&memory).cloned();
        (repo.is_some() || own(&memory)).then_some(PresentedMemory { memory, read, repo })
    };
    let presented = met.into_iter().filter_map(shown).collect();
    memories.extend(rules);
    memories.sort_by_key(|memory| memory.id);
    memories.dedup_by_key(|memory| memory.id);
    Claim {
        retrospective,
        number: claimed.number,
        token: claimed.token,
        attempt: claimed.attempt,
        taken_over: claimed.taken_over,
        run,
        body,
        presented,
        memories,
        earlier,
        journal,
        last_error: claimed.last_error.clone(),
    }
}

/// Merges the memories presented to a run from the gateway's rows in `presentations`, from those that are not applied yet,
/// and from the run's event. A memory counts as read if either source says so.
pub(crate) fn collect_met_memories(
    key: &WorkflowKey,
    run: &RunId,
    recorded: &[(String, bool)],
    pending: &[PendingPresentation],
    event_memories: &RunMemories,
) -> Result<BTreeMap<MemoryId, bool>> {
    let place = at("presentations.memory", format!("{key}/{run}"));
    let recorded = recorded.iter().map(|(memory, read)| Ok((place.parse(memory)?, *read)));
    let mut met: BTreeMap<MemoryId, bool> = recorded.collect::<Result<_>>()?;
    let pending = pending.iter().flat_map(|one| &one.presentation.memories);
    for memory in pending.chain(&event_memories.presented) {
        // Does not overwrite `true` from the gateway's records: the memory stays read.
        met.entry(*memory).or_default();
    }
    // An opened memory counts as presented even if the event lists it only as read.
    for memory in &event_memories.read {
        met.insert(*memory, true);
    }
    Ok(met)
}

/// Converts a row of `journal`. Returns `None` for the brief that earlier versions stored, which nothing used. Fails if
/// the stage is unknown.
pub(crate) fn journal_entry_from_row(
    claimed: &ClaimedInvestigation,
    stage: &str,
    body: &str,
) -> Result<Option<JournalEntry>> {
    let place = at("journal.body", format!("{}, number {}, {stage}", claimed.retrospective, claimed.number));
    match stage {
        "answered" => Ok(Some(JournalEntry { stage: JournalStage::Answered, body: place.parse_json(body)? })),
        // It belongs to the whole retrospective, and is loaded by itself.
        "briefed" => Ok(None),
        _ => Err(place.damaged_error("there is no such stage")),
    }
}
