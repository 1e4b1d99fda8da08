//! Counts what the gate does to the lessons of real runs, all of which are genuine.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use retro_core::printable::make_printable_line;
use serde_json::Value;

use crate::decisions::observations::{
    ObservationResult, count_dropped, held_ids, list_observations, mask_numbers,
};
use crate::instance::Instance;

/// Results in the order in which they are printed.
const RESULTS: [(ObservationResult, &str); 4] = [
    (ObservationResult::Passed, "passed"),
    (ObservationResult::Held, "held"),
    (ObservationResult::Refused, "refused"),
    (ObservationResult::NotCounted, "not counted for another reason"),
];

/// Observations of all reports of an instance.
#[derive(Debug, Default)]
pub(super) struct GateCounts {
    results: BTreeMap<ObservationResult, usize>,
    /// Held and refused lines with the reason, and how often each was observed.
    blocked: BTreeMap<(ObservationResult, String, String), usize>,
    /// Number of findings that were lost to the mechanical checks.
    dropped: u64,
}

/// Reads the reports of all retrospectives and counts their observations, given the list of all memories.
pub(super) async fn count_observations(retro: &Instance, memories: &Value) -> Result<GateCounts> {
    let memories = memories.as_array().context("`retro memories list` printed no list")?;
    let rows = retro.run_json(&["retrospectives", "list", "--limit", "1000000"]).await?;
    let mut counts = GateCounts::default();
    for row in rows.as_array().context("`retro retrospectives list` printed no list")? {
        let id = row["retrospective"]["id"].as_str().context("a retrospective without an id")?;
        counts.add_report(&retro.run_json(&["reports", "show", id]).await?, memories);
    }
    Ok(counts)
}

impl GateCounts {
    fn add_report(&mut self, report: &Value, memories: &[Value]) {
        let reasons: BTreeMap<&str, &str> = memories
            .iter()
            .filter_map(|memory| Some((memory["lesson"]["title"].as_str()?, memory["quarantine"].as_str()?)))
            .collect();
        for observation in list_observations(report, &held_ids(memories)) {
            *self.results.entry(observation.result).or_default() += 1;
            // The report says that a held memory was created; why it is held stands with the memory.
            let reason = match observation.result {
                ObservationResult::Held => {
                    reasons.get(observation.title.as_str()).copied().unwrap_or(&observation.reason).to_owned()
                }
                ObservationResult::Refused => mask_numbers(&observation.reason),
                ObservationResult::Passed | ObservationResult::NotCounted => continue,
            };
            *self.blocked.entry((observation.result, observation.title, reason)).or_default() += 1;
        }
        self.dropped += count_dropped(report);
    }

    pub(super) fn print_counts(&self) {
        let all: usize = self.results.values().sum();
        println!("\n{all} observations of genuine runs; {} findings were lost to checks", self.dropped);
        for (result, name) in RESULTS {
            let count = self.results.get(&result).copied().unwrap_or_default();
            let share = if all == 0 { 0.0 } else { count as f64 / all as f64 };
            println!("{count:>7}  {share:.4}  {name}");
        }
        for (result, name) in [(ObservationResult::Refused, "refused"), (ObservationResult::Held, "held")] {
            println!("\n{name} lines:");
            for ((_, title, reason), count) in self.blocked.iter().filter(|((kind, ..), _)| *kind == result) {
                println!("{count:>7}  {}", make_printable_line(title));
                println!("         reason: {}", make_printable_line(reason));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn held_and_refused_lines_are_counted_with_their_reasons() {
        let observe = |about: &str, memory: &str, reason: &str| {
            let changes =
                if memory.is_empty() { json!([]) } else { json!([{"kind": "created", "memory": memory}]) };
            json!({"request": {"kind": "observe", "about": about}, "changes": changes, "reason": reason})
        };
        let report = json!({"mutations": [
            observe("a", "m-1", "first seen in run 1"),
            observe("b", "m-2", "first seen in run 1"),
            observe("c", "", "run 1 says something hostile"),
            observe("c", "", "run 2 says something hostile"),
            observe("a", "", "run 2 has shown it already"),
        ], "investigations": [{"dropped": 3}]});
        let memories = [
            json!({"id": "m-1", "lesson": {"title": "a"}}),
            json!({"id": "m-2", "lesson": {"title": "b"}, "quarantine": "turns checks off"}),
        ];
        let mut counts = GateCounts::default();
        counts.add_report(&report, &memories);
        let of = |result| counts.results.get(&result).copied().unwrap_or_default();
        assert_eq!(RESULTS.map(|(result, _)| of(result)), [1, 1, 2, 1]);
        let held = (ObservationResult::Held, "b".to_owned(), "turns checks off".to_owned());
        let refused = (ObservationResult::Refused, "c".to_owned(), "run … says something hostile".to_owned());
        assert_eq!((counts.blocked[&held], counts.blocked[&refused], counts.dropped), (1, 2, 3));
    }
}
