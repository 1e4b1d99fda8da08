//! Sections of the policy's file: which key stands in which table.
//!
//! Only the file has sections. A policy is stored and shown as one flat list of keys, whose names are unique over all sections, so
//! a workflow overrides a key without naming its section.

use crate::pipeline::Section;

/// Sections of `retrospective/pipeline.toml`, in the order of the file. Each key of a [`Policy`](super::Policy) is in exactly
/// one.
pub const POLICY_SECTIONS: &[Section] = &[
    Section {
        name: "trigger",
        doc: "When a retrospective is opened, over how many runs, and how long a workflow pauses after a failed one.",
        keys: &[
            "threshold_runs",
            "window_runs_max",
            "window_backlog_permille",
            "failure_pause_s",
            "failure_pause_max_s",
        ],
    },
    Section {
        name: "selection",
        doc: "Which runs of the window are investigated.",
        keys: &["sample_permille", "sample_runs_max", "sample_order"],
    },
    Section {
        name: "investigation",
        doc: "Who investigates a run, and how.",
        keys: &["stages", "investigation_attempts_max", "model_refutes"],
    },
    Section {
        name: "budget",
        doc: "What a language model may use. The budget of a day is in the configuration, because it is over all workflows.",
        keys: &[
            "investigation_tokens_max",
            "retrospective_tokens_max",
            "investigation_cents_max",
            "retrospective_cents_max",
            "model_turns_max",
            "step_share_permille",
        ],
    },
    Section {
        name: "learning",
        doc: "What makes a memory of a finding, and what the memory gains and loses.",
        keys: &[
            "confirm_runs",
            "witness",
            "confirmed_weight",
            "helped_delta",
            "harmed_delta",
            "ignored_delta",
            "cue_not_met_max",
            "unneeded_delta",
            "unneeded_calls_min",
            "merged_delta",
            "closed_unmerged_delta",
            "changes_requested_delta",
            "reverted_delta",
            "limbo_observed_delta",
            "archive_weight",
            "contradiction_runs",
            "tombstone_s",
            "tombstone_similarity",
            "merge_similarity",
            "widen_repositories",
            "held_dangers",
        ],
    },
    Section {
        name: "context",
        doc: "Which memories agents are handed.",
        keys: &[
            "inject_weight_min",
            "inject_memories_max",
            "inject_newcomers",
            "inject_tokens_max",
            "withhold_permille",
        ],
    },
    Section {
        name: "rules",
        doc: "Rules that are learnt from reviews: how certain one has to be, and how many agents are handed.",
        keys: &[
            "rule_certainty_min",
            "rule_contradiction_similarity",
            "rule_presentations_max",
            "rule_inject_max",
            "rule_tokens_max",
        ],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::policy::Policy;

    #[test]
    fn each_key_is_in_exactly_one_section() {
        let mut sections: BTreeMap<&str, u32> = BTreeMap::new();
        for key in POLICY_SECTIONS.iter().flat_map(|section| section.keys) {
            *sections.entry(key).or_default() += 1;
        }
        let policy = serde_json::to_value(Policy::default()).unwrap();
        for key in policy.as_object().unwrap().keys() {
            assert_eq!(sections.remove(key.as_str()), Some(1), "{key}");
        }
        assert!(sections.is_empty(), "no such key: {sections:?}");
    }
}
