//! Converts the rows behind one run in full, and behind the numbers of runs that met a memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use retro_core::id::{MemoryId, RunId, WorkflowKey};
use retro_core::run::RunFacts;
use retro_store::{MemoryUsage, RUN_MEMORIES_MAX, Result, RunDetail, RunMemory};

use super::body::stored_body;
use super::memory::parse_memory;
use super::presentation::PendingPresentation;
use crate::at;

/// Row of `runs` with its details, as far as they are still stored.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct RunDetailRecord {
    ordinal: Option<i64>,
    attempt: i64,
    received_ms: i64,
    facts: Option<String>,
    body: Option<String>,
    trajectory: Option<Vec<u8>>,
}

impl RunDetailRecord {
    /// Converts the row to a run without memories, retrospectives and pull requests. Fails if a value is damaged.
    pub(crate) fn into_run_detail(self, key: &WorkflowKey, run: &RunId) -> Result<RunDetail> {
        let name = format!("{key}/{run}");
        let place = at("runs", &name);
        let facts = match (&self.facts, &self.body) {
            (Some(facts), Some(body)) => Some((
                at("run_facts.facts", &name).parse_json(facts)?,
                at("run_facts.body", &name).parse_json(body)?,
            )),
            _ => None,
        };
        let body = match &self.body {
            Some(body) => stored_body(body, self.trajectory.as_deref()),
            None => retro_store::StoredBody::Gone("it was deleted with the facts of the run".to_owned()),
        };
        Ok(RunDetail {
            key: key.clone(),
            run: run.clone(),
            ordinal: self.ordinal.map(|ordinal| place.parse_unsigned(ordinal)).transpose()?,
            attempt: place.parse_unsigned(self.attempt)?,
            received_at: place.parse_millis(self.received_ms)?,
            facts,
            body,
            memories: Vec::new(),
            retrospectives: Vec::new(),
            pull_requests: Vec::new(),
            commit_prompt_versions: BTreeSet::new(),
            checks: Vec::new(),
        })
    }
}

/// Rows about one run and its memories, of four tables.
#[derive(Debug, Default)]
pub(crate) struct RunMemoryRows {
    /// Memory, and the times in Unix milliseconds at which it was presented and read.
    pub(crate) presentations: Vec<(String, Option<i64>, Option<i64>)>,
    /// What is not applied to these two tables yet.
    pub(crate) pending: Vec<PendingPresentation>,
    /// Memory, and `true` if chance withheld it.
    pub(crate) assignments: Vec<(String, bool)>,
    /// Memory, and the retrospective that found it applied.
    pub(crate) applications: Vec<(String, String)>,
}

/// Merges the rows about a run with the memories that its event names, sorted by id, at most [`RUN_MEMORIES_MAX`].
/// Fails if a value is damaged.
pub(crate) fn collect_run_memories(
    name: &str,
    rows: &RunMemoryRows,
    facts: Option<&RunFacts>,
) -> Result<Vec<RunMemory>> {
    let mut all: BTreeMap<MemoryId, RunMemory> = BTreeMap::new();
    let place = at("presentations", name);
    for (memory, presented, read) in &rows.presentations {
        let one = entry(&mut all, place.parse(memory)?);
        one.presented_at = presented.map(|millis| place.parse_millis(millis)).transpose()?;
        one.read_at = read.map(|millis| place.parse_millis(millis)).transpose()?;
    }
    for (memory, withheld) in &rows.assignments {
        entry(&mut all, at("memory_assignments", name).parse(memory)?).withheld = Some(*withheld);
    }
    for PendingPresentation { presentation, recorded_ms } in &rows.pending {
        let recorded_at = at("pending_presentations", name).parse_millis(*recorded_ms)?;
        for memory in &presentation.memories {
            entry(&mut all, *memory).presented_at.get_or_insert(recorded_at);
        }
        for decision in &presentation.assignments {
            entry(&mut all, decision.memory).withheld.get_or_insert(decision.withheld);
        }
    }
    for (memory, retrospective) in &rows.applications {
        let place = at("run_memory_applications", name);
        entry(&mut all, place.parse(memory)?).applied_in = Some(place.parse(retrospective)?);
    }
    let named = facts.into_iter().flat_map(|facts| {
        facts.memories.presented.iter().chain(&facts.memories.read).copied().collect::<Vec<_>>()
    });
    for id in named {
        if all.len() < RUN_MEMORIES_MAX {
            entry(&mut all, id);
        }
    }
    Ok(all.into_values().take(RUN_MEMORIES_MAX).collect())
}

fn entry(all: &mut BTreeMap<MemoryId, RunMemory>, id: MemoryId) -> &mut RunMemory {
    let empty =
        RunMemory { id, memory: None, presented_at: None, read_at: None, withheld: None, applied_in: None };
    all.entry(id).or_insert(empty)
}

/// Attaches the stored memories, rows of id and document. Fails if a value is damaged.
pub(crate) fn attach_memories(all: &mut [RunMemory], rows: &[(String, String)]) -> Result<()> {
    let mut known = HashMap::new();
    for (id, memory) in rows {
        known.insert(id.as_str(), memory.as_str());
    }
    for one in all {
        let id = one.id.to_string();
        one.memory = known.get(id.as_str()).map(|memory| parse_memory(&id, memory)).transpose()?;
    }
    Ok(())
}

/// Puts counted rows, of memory and number of runs, in the order of the requested memories.
pub(crate) fn usage_in_order(
    memories: &[MemoryId],
    presented: &[(String, i64)],
    read: &[(String, i64)],
    applied: &[(String, i64)],
) -> Result<Vec<MemoryUsage>> {
    let index = |rows: &[(String, i64)], table: &'static str| -> Result<HashMap<String, u64>> {
        rows.iter()
            .map(|(memory, count)| Ok((memory.clone(), at(table, memory).parse_unsigned(*count)?)))
            .collect()
    };
    let presented = index(presented, "memory_presentation_counts.presentations")?;
    let (read, applied) = (index(read, "presentations")?, index(applied, "run_memory_applications")?);
    let of = |rows: &HashMap<String, u64>, id: &str| rows.get(id).copied().unwrap_or_default();
    let usage = |id: &MemoryId| {
        let id = id.to_string();
        MemoryUsage { presented: of(&presented, &id), read: of(&read, &id), applied: of(&applied, &id) }
    };
    Ok(memories.iter().map(usage).collect())
}
