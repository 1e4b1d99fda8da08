//! What a claim carries.

use std::collections::BTreeMap;

use retro_core::id::{MemoryId, Ordinal, RetrospectiveId, RunId, Tenant, WorkflowKey};
use retro_core::memory::{Memory, Scope};
use retro_core::outcome::RunOutcome;
use retro_core::retrospective::{Investigation, Presented, Retrospective};
use retro_core::review::Repository;
use retro_core::run::{MemoryUse, RunFacts};
use retro_fault::{Guard, broken};
use retro_store::{Claim, JournalEntry, Result, Stage, StoredBody};

use crate::at;

/// A row of `investigations` that has just been claimed.
#[derive(Debug, sqlx::FromRow)]
pub struct Record {
    tenant: String,
    retrospective: String,
    number: i64,
    ordinal: i64,
    run_id: String,
    token: i64,
    attempts: i64,
    taken_over: bool,
}

/// A claimed investigation.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The owner.
    pub tenant: Tenant,
    /// Its retrospective.
    pub retrospective: RetrospectiveId,
    /// Its place in the sequence, from 1.
    pub number: u32,
    /// The run's.
    pub ordinal: Ordinal,
    /// The run.
    pub run: RunId,
    /// The fencing token.
    pub token: u64,
    /// Attempts begun.
    pub attempt: u32,
    /// Whether another worker let its lease run out.
    pub taken_over: bool,
}

impl Record {
    /// Reads it.
    pub fn read(&self) -> Result<Taken> {
        let place = at("investigations", format!("{}, number {}", self.retrospective, self.number));
        Ok(Taken {
            tenant: place.parse(&self.tenant)?,
            retrospective: place.parse(&self.retrospective)?,
            number: place.unsigned(self.number)?,
            ordinal: place.unsigned(self.ordinal)?,
            run: place.parse(&self.run_id)?,
            token: place.unsigned(self.token)?,
            attempt: place.unsigned(self.attempts)?,
            taken_over: self.taken_over,
        })
    }
}

/// How far a claim moves the token on, so that whoever held it before is fenced.
pub fn token_step() -> i64 {
    i64::from(!broken(Guard::Fencing))
}

/// What is loaded about a claimed investigation.
#[derive(Debug)]
pub struct Parts {
    /// Its retrospective.
    pub retrospective: Retrospective,
    /// What the run's event said, and its body.
    pub run: (RunFacts, StoredBody),
    /// The memories that the run met, and whether it opened them.
    pub met: BTreeMap<MemoryId, bool>,
    /// Living memories of the workflow, and every one of it that was met, by id.
    pub memories: Vec<Memory>,
    /// The rules of repositories that were met.
    pub rules: Vec<Memory>,
    /// What is known by now of the run's pull requests.
    pub outcomes: Vec<RunOutcome>,
    /// The ended investigations before it.
    pub earlier: Vec<Investigation>,
    /// What earlier attempts journalled.
    pub journal: Vec<JournalEntry>,
}

/// Puts a claim together. A memory that was met and is neither this workflow's nor a rule of its tenant's is left out: an event
/// may name anything.
pub fn claim(taken: &Taken, parts: Parts) -> Claim {
    let Parts { retrospective, run: (run, body), met, mut memories, rules, outcomes, earlier, journal } =
        parts;
    let kept = |rule: &Memory| match &rule.scope {
        Scope::Repository { repo, .. } => Repository::new(repo).ok().map(|repo| (rule.id, repo)),
        _ => None,
    };
    let repos: BTreeMap<MemoryId, Repository> = rules.iter().filter_map(kept).collect();
    let own = |id: &MemoryId| memories.binary_search_by_key(id, |memory| memory.id).is_ok();
    let shown = |(memory, read)| {
        let repo = repos.get(&memory).cloned();
        (repo.is_some() || own(&memory)).then_some(Presented { memory, read, repo })
    };
    let presented = met.into_iter().filter_map(shown).collect();
    memories.extend(rules);
    memories.sort_by_key(|memory| memory.id);
    memories.dedup_by_key(|memory| memory.id);
    Claim {
        retrospective,
        number: taken.number,
        token: taken.token,
        attempt: taken.attempt,
        taken_over: taken.taken_over,
        run,
        body,
        presented,
        memories,
        outcomes,
        earlier,
        journal,
    }
}

/// The memories that a run met: what our own gateway recorded, as rows of `presentations`, and what the event itself
/// says. Read once is read.
pub fn met(
    key: &WorkflowKey,
    run: &RunId,
    recorded: &[(String, bool)],
    said: &MemoryUse,
) -> Result<BTreeMap<MemoryId, bool>> {
    let place = at("presentations.memory", format!("{key}/{run}"));
    let recorded = recorded.iter().map(|(memory, read)| Ok((place.parse(memory)?, *read)));
    let mut met: BTreeMap<MemoryId, bool> = recorded.collect::<Result<_>>()?;
    for memory in &said.presented {
        met.entry(*memory).or_default();
    }
    for memory in &said.read {
        met.insert(*memory, true);
    }
    Ok(met)
}

/// Reads a row of `journal`.
pub fn journal_entry(taken: &Taken, stage: &str, body: &str) -> Result<JournalEntry> {
    let place = at("journal.body", format!("{}, number {}, {stage}", taken.retrospective, taken.number));
    let known = [Stage::Briefed, Stage::Answered].into_iter().find(|known| known.as_str() == stage);
    let stage = known.ok_or_else(|| place.damaged("no stage is called so"))?;
    Ok(JournalEntry { stage, body: place.json(body)? })
}
