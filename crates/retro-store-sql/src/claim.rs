//! Converts the rows of a claimed investigation and builds the claim from them.

use std::collections::BTreeMap;

use retro_core::id::{MemoryId, Ordinal, RetrospectiveId, RunId, Tenant, WorkflowKey};
use retro_core::memory::{Memory, MemoryScope};
use retro_core::outcome::PullRequestOutcome;
use retro_core::retrospective::{Investigation, PresentedMemory, Retrospective};
use retro_core::review::Repository;
use retro_core::run::{RunFacts, RunMemories};
use retro_fault::{Guard, is_broken};
use retro_store::{Claim, JournalEntry, JournalStage, Result, StoredBody};

use crate::at;

/// A row of `investigations` that has just been claimed.
#[derive(Debug, sqlx::FromRow)]
pub struct ClaimRecord {
    tenant: String,
    retrospective: String,
    number: i64,
    ordinal: i64,
    run_id: String,
    token: i64,
    attempts: i64,
    taken_over: bool,
}

/// Investigation that a worker has just claimed.
#[derive(Debug, Clone)]
pub struct ClaimedInvestigation {
    /// Tenant that owns the retrospective.
    pub tenant: Tenant,
    /// Retrospective that the investigation belongs to.
    pub retrospective: RetrospectiveId,
    /// Number of the investigation in the sequence of its retrospective, from 1.
    pub number: u32,
    /// Ordinal of the run to investigate.
    pub ordinal: Ordinal,
    /// Id of the run to investigate.
    pub run: RunId,
    /// Fencing token of this claim. A write with an older token is rejected.
    pub token: u64,
    /// Number of attempts that were begun, including this one.
    pub attempt: u32,
    /// True when the investigation was taken over because the lease of another worker had expired.
    pub taken_over: bool,
}

impl ClaimRecord {
    /// Converts the row. Fails on a damaged value.
    pub fn to_claimed_investigation(&self) -> Result<ClaimedInvestigation> {
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
        })
    }
}

/// Amount by which a claim advances the token, so that the previous holder is fenced. It is 0 when fault injection
/// breaks fencing.
pub fn token_step() -> i64 {
    i64::from(!is_broken(Guard::Fencing))
}

/// Data that is loaded for a claimed investigation.
#[derive(Debug)]
pub struct ClaimParts {
    /// Retrospective that the investigation belongs to.
    pub retrospective: Retrospective,
    /// Facts and body of the run.
    pub run: (RunFacts, StoredBody),
    /// Memories that were presented to the run, and for each whether the run read its content.
    pub met: BTreeMap<MemoryId, bool>,
    /// Living memories of the workflow and all memories presented to the run, sorted by id.
    pub memories: Vec<Memory>,
    /// Rules of repositories that were presented to the run.
    pub rules: Vec<Memory>,
    /// Known outcomes of the run's pull requests.
    pub outcomes: Vec<PullRequestOutcome>,
    /// Investigations of the retrospective that come earlier in the sequence and have ended.
    pub earlier: Vec<Investigation>,
    /// Journal entries that earlier attempts at this investigation wrote.
    pub journal: Vec<JournalEntry>,
}

/// Builds a claim. Leaves out presented memories that neither belong to this workflow nor are rules of its tenant,
/// because an event may name any id.
pub fn build_claim(claimed: &ClaimedInvestigation, parts: ClaimParts) -> Claim {
    let ClaimParts { retrospective, run: (run, body), met, mut memories, rules, outcomes, earlier, journal } =
        parts;
    let kept = |rule: &Memory| match &rule.scope {
        MemoryScope::Repository { repo, .. } => Repository::new(repo).ok().map(|repo| (rule.id, repo)),
        _ => None,
    };
    let repos: BTreeMap<MemoryId, Repository> = rules.iter().filter_map(kept).collect();
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
        outcomes,
        earlier,
        journal,
    }
}

/// Collects the memories that were presented to a run: those that the gateway recorded in `presentations`, and those
/// that the event names. A memory counts as read when one of the two sources says so.
pub fn collect_met_memories(
    key: &WorkflowKey,
    run: &RunId,
    recorded: &[(String, bool)],
    event_memories: &RunMemories,
) -> Result<BTreeMap<MemoryId, bool>> {
    let place = at("presentations.memory", format!("{key}/{run}"));
    let recorded = recorded.iter().map(|(memory, read)| Ok((place.parse(memory)?, *read)));
    let mut met: BTreeMap<MemoryId, bool> = recorded.collect::<Result<_>>()?;
    for memory in &event_memories.presented {
        // Keeps `true` where the gateway recorded that the memory was read.
        met.entry(*memory).or_default();
    }
    for memory in &event_memories.read {
        met.insert(*memory, true);
    }
    Ok(met)
}

/// Parses a row of `journal`. Fails on an unknown stage.
pub fn journal_entry_from_row(
    claimed: &ClaimedInvestigation,
    stage: &str,
    body: &str,
) -> Result<JournalEntry> {
    let place = at("journal.body", format!("{}, number {}, {stage}", claimed.retrospective, claimed.number));
    let known =
        [JournalStage::Briefed, JournalStage::Answered].into_iter().find(|known| known.as_str() == stage);
    let stage = known.ok_or_else(|| place.damaged_error("there is no such stage"))?;
    Ok(JournalEntry { stage, body: place.parse_json(body)? })
}
