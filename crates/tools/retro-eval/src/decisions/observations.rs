//! Reads from the report of a retrospective what became of the patterns that were observed: kept, held for a
//! person, refused, or not counted for another reason.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

/// Parts of the reasons for which an observation leads to no change although nothing is wrong with its text.
const OTHER_REASONS: &[&str] = &[
    "has shown it",
    "this has happened before",
    "it passes by itself",
    "which counts as its harm",
    "a tombstone forbids it",
];

/// What became of an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ObservationResult {
    /// A memory was created or got evidence.
    Passed,
    /// The memory is held for a person.
    Held,
    /// The observation was refused.
    Refused,
    /// The observation changed nothing for a reason that is not about its text.
    NotCounted,
}

/// An observation that a report lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observation {
    /// Title of the lesson.
    pub(super) title: String,
    /// Reason for the result, as the report states it.
    pub(super) reason: String,
    pub(super) result: ObservationResult,
}

/// Returns the observations of a report, given the ids of the memories that are held.
pub(super) fn list_observations(report: &Value, held: &BTreeSet<&str>) -> Vec<Observation> {
    let mutations = report["mutations"].as_array().into_iter().flatten();
    let observed = mutations.filter(|mutation| mutation["request"]["kind"] == "observe");
    observed
        .map(|mutation| Observation {
            title: text_of(&mutation["request"]["about"]),
            reason: text_of(&mutation["reason"]),
            result: classify_mutation(mutation, held),
        })
        .collect()
}

/// Returns the number of findings that an investigator's answers lost to the mechanical checks.
pub(super) fn count_dropped(report: &Value) -> u64 {
    let investigations = report["investigations"].as_array().into_iter().flatten();
    investigations.filter_map(|one| one["dropped"].as_u64()).sum()
}

/// Returns the ids of the memories in a list that are held.
pub(super) fn held_ids(memories: &[Value]) -> BTreeSet<&str> {
    let held = memories.iter().filter(|memory| memory["quarantine"].is_string());
    held.filter_map(|memory| memory["id"].as_str()).collect()
}

fn classify_mutation(mutation: &Value, held: &BTreeSet<&str>) -> ObservationResult {
    let changes = mutation["changes"].as_array().map_or(&[][..], Vec::as_slice);
    let kind_of = |change: &Value| change["kind"].as_str().unwrap_or_default().to_owned();
    let is_held = |change: &Value| {
        kind_of(change) == "held" || change["memory"].as_str().is_some_and(|memory| held.contains(memory))
    };
    if changes.iter().any(is_held) {
        return ObservationResult::Held;
    }
    if changes.iter().any(|change| !matches!(kind_of(change).as_str(), "refused" | "suppressed")) {
        return ObservationResult::Passed;
    }
    let reason = mutation["reason"].as_str().unwrap_or_default();
    if OTHER_REASONS.iter().any(|other| reason.contains(other)) {
        ObservationResult::NotCounted
    } else {
        ObservationResult::Refused
    }
}

/// Replaces every word with a digit by `…`, so that the same reason about other runs and memories is counted
/// with it.
pub(super) fn mask_numbers(reason: &str) -> String {
    let words = reason.split_whitespace();
    let masked = words.map(|word| if word.contains(|c: char| c.is_ascii_digit()) { "…" } else { word });
    masked.collect::<Vec<_>>().join(" ")
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(changes: &Value, reason: &str, expected: ObservationResult) {
        let report = json!({"mutations": [
            {"request": {"kind": "sweep", "about": "every active memory"}, "changes": [], "reason": ""},
            {"request": {"kind": "observe", "about": "a line"}, "changes": changes, "reason": reason},
        ]});
        let observed = list_observations(&report, &BTreeSet::from(["m-held"]));
        assert_eq!(observed.len(), 1);
        assert_eq!((observed[0].title.as_str(), observed[0].result), ("a line", expected), "{reason}");
    }

    #[test]
    fn an_observation_passes_is_held_is_refused_or_is_not_counted() {
        let change = |kind: &str, memory: &str| json!([{"kind": kind, "memory": memory}]);
        check(&change("created", "m-1"), "first seen in run a", ObservationResult::Passed);
        check(&change("created", "m-held"), "first seen in run a", ObservationResult::Held);
        check(&change("held", "m-2"), "it turns verification off", ObservationResult::Held);
        check(&change("refused", "m-3"), "its text is hostile", ObservationResult::Refused);
        check(&json!([]), "its text is hostile", ObservationResult::Refused);
        check(&change("refused", "m-4"), "run a has shown it already", ObservationResult::NotCounted);
        check(
            &json!([]),
            "the very same call got past it: it passes by itself",
            ObservationResult::NotCounted,
        );
        check(
            &change("suppressed", "m-5"),
            "a tombstone forbids it until then",
            ObservationResult::NotCounted,
        );
    }

    #[test]
    fn held_memories_and_dropped_findings_are_counted() {
        let memories = [
            json!({"id": "a", "quarantine": "why"}),
            json!({"id": "b"}),
            json!({"id": "c", "quarantine": null}),
        ];
        assert_eq!(held_ids(&memories), BTreeSet::from(["a"]));
        let report = json!({"investigations": [{"dropped": 2}, {"dropped": 1}, {}]});
        assert_eq!(count_dropped(&report), 3);
    }

    #[test]
    fn reasons_about_different_runs_are_alike() {
        assert_eq!(mask_numbers("seen in run a-7: twice"), mask_numbers("seen in run a-8: twice"));
    }
}
