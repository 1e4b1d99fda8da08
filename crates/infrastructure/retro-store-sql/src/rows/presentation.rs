//! Text of a row of `pending_presentations`.

use std::collections::{BTreeMap, BTreeSet};

use retro_core::id::{MemoryId, RunId, Workflow, WorkflowKey, derive_uuid};
use retro_core::recall::Assignment;
use retro_store::{Presentation, Result};
use uuid::Uuid;

use crate::at;

/// Number of buckets. A transaction with rows of hundreds of runs writes at most as many pages of the index, and whoever
/// looks for a run reads one bucket of what waits.
const BUCKETS: u8 = 32;
/// Number of hexadecimal digits of a memory's id.
const ID_DIGITS: usize = 32;

/// Row of `pending_presentations`: id, tenant, workflow, run, memories, and the time in Unix milliseconds.
pub(crate) type PendingRow = (i64, String, String, String, String, i64);

/// Presentation that waits to be applied, with the time at which it was recorded, in Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingPresentation {
    pub(crate) presentation: Presentation,
    pub(crate) recorded_ms: i64,
}

/// Returns the bucket in which the presentations of a run wait, 1 to [`BUCKETS`]. Stored, so it must never change. In bucket
/// 0 are rows of releases that knew none.
pub(crate) fn bucket_of_run(tenant: &str, workflow: &str, run: &str) -> i64 {
    let id = derive_uuid("bucket of presentations", &[tenant, workflow, run]);
    i64::from(id.as_bytes()[0] % BUCKETS) + 1
}

/// Formats what a run was handed: memories separated by blanks, each with the digits of its id, `p` if it was
/// presented, and after it, or after `w` if chance withheld it, the probability in thousandths with which it was to be
/// withheld. `h` stands for a decision to hand out a memory that was not presented, because the text was full.
pub(crate) fn format_pending_memories(presentation: &Presentation) -> String {
    let mut all: BTreeMap<MemoryId, (bool, Option<&Assignment>)> = BTreeMap::new();
    for memory in &presentation.memories {
        all.entry(*memory).or_default().0 = true;
    }
    for assignment in &presentation.assignments {
        all.entry(assignment.memory).or_default().1.get_or_insert(assignment);
    }
    let mut text = String::with_capacity(all.len() * (ID_DIGITS + 5));
    for (memory, (presented, decision)) in all {
        if !text.is_empty() {
            text.push(' ');
        }
        let mut digits = [0; ID_DIGITS];
        text.push_str(memory.0.simple().encode_lower(&mut digits));
        if presented {
            text.push('p');
        }
        if let Some(Assignment { withheld, permille, .. }) = decision {
            match (presented, withheld) {
                (_, true) => text.push('w'),
                (false, false) => text.push('h'),
                (true, false) => {}
            }
            text.push_str(&permille.to_string());
        }
    }
    text
}

impl PendingPresentation {
    /// Parses a row. Fails if a value is damaged.
    pub(crate) fn from_row((id, tenant, workflow, run, memories, recorded_ms): PendingRow) -> Result<Self> {
        let place = at("pending_presentations", id);
        let key = WorkflowKey { tenant: place.parse(&tenant)?, workflow: place.parse(&workflow)? };
        let run: RunId = place.parse(&run)?;
        let mut presentation = Presentation { key, run, memories: Vec::new(), assignments: Vec::new() };
        for entry in memories.split_ascii_whitespace() {
            let (presented, decision) =
                parse_entry(entry).ok_or_else(|| place.damaged_error("a memory of it cannot be read"))?;
            presentation.memories.extend(presented);
            presentation.assignments.extend(decision);
        }
        Ok(Self { presentation, recorded_ms })
    }
}

/// Runs about which feedback waits, and what was handed to them and is not applied yet.
#[derive(Debug, Default)]
pub(crate) struct RunsOfFeedback {
    runs: BTreeSet<(Workflow, RunId)>,
    pending: Vec<PendingPresentation>,
}

impl RunsOfFeedback {
    /// Parses the runs, pairs of workflow and run, of the feedback on memories of a scope, and the rows of
    /// `pending_presentations` about them. Fails if a value is damaged.
    pub(crate) fn from_rows(
        scope: &WorkflowKey,
        runs: &[(String, String)],
        pending: Vec<PendingRow>,
    ) -> Result<Self> {
        let place = at("memory_feedback", scope);
        let parse_run = |(workflow, run): &(String, String)| Ok((place.parse(workflow)?, place.parse(run)?));
        Ok(Self {
            runs: runs.iter().map(parse_run).collect::<Result<_>>()?,
            pending: pending.into_iter().map(PendingPresentation::from_row).collect::<Result<_>>()?,
        })
    }

    /// Returns `true` if the run is one of these.
    pub(crate) fn includes(&self, workflow: &Workflow, run: &RunId) -> bool {
        self.runs.contains(&(workflow.clone(), run.clone()))
    }

    /// Returns `true` if a memory was presented to a run and that is not applied yet.
    pub(crate) fn was_presented(&self, workflow: &Workflow, run: &RunId, memory: MemoryId) -> bool {
        self.pending
            .iter()
            .map(|one| &one.presentation)
            .any(|one| one.key.workflow == *workflow && one.run == *run && one.memories.contains(&memory))
    }
}

/// Parses an entry of a row: the memory if it was presented, and the decision by chance about it if there was one.
fn parse_entry(entry: &str) -> Option<(Option<MemoryId>, Option<Assignment>)> {
    let (digits, rest) = entry.split_at_checked(ID_DIGITS)?;
    let memory = MemoryId(Uuid::try_parse(digits).ok()?);
    let (presented, rest) = match rest.strip_prefix('p') {
        Some(rest) => (Some(memory), rest),
        None => (None, rest),
    };
    if presented.is_some() && rest.is_empty() {
        return Some((presented, None));
    }
    let (withheld, permille) = match rest.strip_prefix('w') {
        Some(permille) => (true, permille),
        None => (false, rest.strip_prefix('h').unwrap_or(rest)),
    };
    Some((presented, Some(Assignment { memory, withheld, permille: permille.parse().ok()? })))
}

#[cfg(test)]
mod tests {
    use retro_core::id::Tenant;

    use super::*;

    fn memory(number: u128) -> MemoryId {
        MemoryId(Uuid::from_u128(number))
    }

    fn row(memories: &str) -> PendingRow {
        (1, "default".to_owned(), "shop".to_owned(), "run-1".to_owned(), memories.to_owned(), 7)
    }

    #[test]
    fn what_a_run_was_handed_is_read_as_it_was_written() {
        let decide = |number, withheld, permille| Assignment { memory: memory(number), withheld, permille };
        let presentation = Presentation {
            key: WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("shop").unwrap() },
            run: RunId::new("run-1").unwrap(),
            memories: vec![memory(1), memory(2), memory(3)],
            assignments: vec![
                decide(2, false, 100),
                decide(3, true, 0),
                decide(4, true, 1000),
                decide(5, false, 20),
            ],
        };
        let text = format_pending_memories(&presentation);
        let zeros = "0".repeat(31);
        assert_eq!(text, format!("{zeros}1p {zeros}2p100 {zeros}3pw0 {zeros}4w1000 {zeros}5h20"));
        let read = PendingPresentation::from_row(row(&text)).unwrap();
        assert_eq!(read, PendingPresentation { presentation, recorded_ms: 7 });
    }

    #[test]
    fn runs_are_spread_over_all_buckets_and_stay_in_theirs() {
        // Stored rows are in these.
        assert_eq!(bucket_of_run("default", "shop", "run-1"), 20);
        let used: BTreeSet<i64> =
            (0..1_000).map(|nth| bucket_of_run("default", "shop", &format!("run-{nth}"))).collect();
        assert_eq!(used, (1..=i64::from(BUCKETS)).collect());
    }

    #[test]
    fn a_damaged_row_is_an_error() {
        let zeros = "0".repeat(32);
        for damaged in ["1", &zeros, "x", &format!("{zeros}q"), &format!("{zeros}p1x"), &format!("{zeros}w")]
        {
            assert!(PendingPresentation::from_row(row(damaged)).is_err(), "{damaged}");
        }
        assert!(PendingPresentation::from_row(row("")).unwrap().presentation.memories.is_empty());
    }
}
