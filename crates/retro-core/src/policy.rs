//! The constants and choices of learning, per workflow. Every report shows the policy it was made under.

use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, to_value};

use crate::canonical::content_hash;
use crate::id::WorkflowKey;
use crate::memory::CONTRADICTIONS_KEPT_MAX;
use crate::similar::Scale;

/// The policy of one workflow. Weights and deltas are thousandths; a field left out takes its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Counted runs since the last retrospective that open the next one.
    #[schemars(range(min = 1, max = 100_000))]
    pub threshold_runs: u32,
    /// Share of the window that is sampled, per mille.
    #[schemars(range(min = 1, max = 1000))]
    pub sample_permille: u32,
    /// Most runs that one retrospective samples.
    #[schemars(range(min = 1, max = 1000))]
    pub sample_runs_max: u32,
    /// How the sample is drawn.
    pub sample_order: SampleOrder,
    /// Weight of a memory when it is confirmed, thousandths.
    #[schemars(range(min = 1, max = 1000))]
    pub confirmed_weight: u16,
    /// Distinct runs of one step that confirm a finding; 1 does without the tentative stage.
    #[schemars(range(min = 1, max = 100))]
    pub confirm_runs: u32,
    /// Per run in which a memory helped, thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub helped_delta: i32,
    /// Per run in which a memory harmed, thousandths. More than helped: skeptical on purpose.
    #[schemars(range(min = -1000, max = 0))]
    pub harmed_delta: i32,
    /// Per retrospective in which a memory was presented and never used, thousandths.
    #[schemars(range(min = -1000, max = 0))]
    pub ignored_delta: i32,
    /// Once for each run in which a memory was applied and whose pull request was merged, thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub merged_delta: i32,
    /// Once for each run in which a memory was applied and whose pull request was closed without a merge, thousandths.
    #[schemars(range(min = -1000, max = 0))]
    pub closed_unmerged_delta: i32,
    /// For a memory in limbo that its retrospective observed again, thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub limbo_observed_delta: i32,
    /// Retrospectives in a row that "cue not met" exempts from ignored.
    #[schemars(range(min = 0, max = 1000))]
    pub cue_not_met_max: u32,
    /// Least weight that is injected, thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub inject_weight_min: u16,
    /// Most memories in one context answer.
    #[schemars(range(min = 1, max = 100))]
    pub inject_memories_max: u32,
    /// Of those places, how many go to the least presented when more are eligible.
    #[schemars(range(min = 0, max = 100))]
    pub inject_newcomers: u32,
    /// Most tokens of one context answer.
    #[schemars(range(min = 50, max = 100_000))]
    pub inject_tokens_max: u32,
    /// An active memory below this weight is archived, thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub archive_weight: u16,
    /// Seconds for which a tombstone forbids anything similar.
    #[schemars(range(min = 1, max = SECONDS_MAX))]
    pub tombstone_s: u64,
    /// Distinct runs whose contradiction deletes an active memory.
    #[schemars(range(min = 1, max = CONTRADICTIONS_KEPT_MAX))]
    pub contradiction_runs: u32,
    /// Similarity from which two texts are one memory, thousandths. 700 is where the embedder in use was calibrated to be right;
    /// less joins more.
    #[schemars(range(min = 1, max = 1000))]
    pub merge_similarity: u16,
    /// Similarity from which a tombstone stops a text, thousandths. 600 is where the embedder in use was calibrated to be right;
    /// less stops more.
    #[schemars(range(min = 1, max = 1000))]
    pub tombstone_similarity: u16,
    /// Attempts of one investigation before it is given up.
    #[schemars(range(min = 1, max = 100))]
    pub investigation_attempts_max: u32,
    /// Pause of a workflow after a retrospective without success, seconds; doubles each time.
    #[schemars(range(min = 0, max = SECONDS_MAX))]
    pub failure_pause_s: u64,
    /// Longest such pause, seconds.
    #[schemars(range(min = 0, max = SECONDS_MAX))]
    pub failure_pause_max_s: u64,
    /// How sure it has to be that a remark is a rule, thousandths; below, it is none.
    #[schemars(range(min = 1, max = 1000))]
    pub rule_certainty_min: u16,
    /// Similarity from which opposite advice about one subject is a contradiction, thousandths. 500 is where the embedder in use
    /// was calibrated to be right; less finds more.
    #[schemars(range(min = 1, max = 1000))]
    pub rule_contradiction_similarity: u16,
    /// Investigated runs that ignore a rule they were presented with, since it was last asked for or used, before it is archived. That
    /// nobody looked into a run says nothing against a rule, nor does a run in which its situation never came up.
    #[schemars(range(min = 1, max = 100_000))]
    pub rule_presentations_max: u32,
    /// Most rules in one context answer.
    #[schemars(range(min = 1, max = 100))]
    pub rule_inject_max: u32,
    /// Most tokens of the rules in one context answer; memories have their own.
    #[schemars(range(min = 50, max = 100_000))]
    pub rule_tokens_max: u32,
}

/// Keys that came after the first policies were stored. One that has its default is left out of what is stored and hashed:
/// a report from before keeps its bytes and its hash.
const KEYS_ADDED: &[&str] = &[
    "merged_delta",
    "closed_unmerged_delta",
    "rule_certainty_min",
    "rule_contradiction_similarity",
    "rule_presentations_max",
    "rule_inject_max",
    "rule_tokens_max",
];

/// Which runs of a window are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SampleOrder {
    /// A seeded shuffle of the whole window.
    Random,
    /// The most recent first. For comparison only: it is what the random sample protects from.
    MostRecent,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            threshold_runs: 10,
            sample_permille: 400,
            sample_runs_max: 5,
            sample_order: SampleOrder::Random,
            confirmed_weight: 300,
            confirm_runs: 2,
            helped_delta: 100,
            harmed_delta: -150,
            ignored_delta: -20,
            merged_delta: 50,
            closed_unmerged_delta: -75,
            limbo_observed_delta: 100,
            cue_not_met_max: 5,
            inject_weight_min: 100,
            inject_memories_max: 10,
            inject_newcomers: 2,
            inject_tokens_max: 500,
            archive_weight: 50,
            tombstone_s: 30 * 24 * 3600,
            contradiction_runs: 2,
            merge_similarity: Scale::MERGE,
            tombstone_similarity: Scale::TOMBSTONE,
            investigation_attempts_max: 3,
            failure_pause_s: 3600,
            failure_pause_max_s: 24 * 3600,
            rule_certainty_min: 600,
            rule_contradiction_similarity: Scale::CONTRADICTION,
            rule_presentations_max: 50,
            rule_inject_max: 5,
            rule_tokens_max: 200,
        }
    }
}

/// A policy value that cannot work, with its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {value}; it must be {low} to {high}{}", self.because())]
pub struct PolicyError {
    /// The key, as written in `pipeline.toml`.
    pub key: String,
    /// Its value.
    pub value: i64,
    /// The least that would be right.
    pub low: i64,
    /// The greatest that would be right.
    pub high: i64,
    /// The key whose value makes it so.
    pub beside: Option<&'static str>,
}

impl PolicyError {
    fn because(&self) -> String {
        self.beside.map_or(String::new(), |other| format!(", because of `{other}`"))
    }
}

/// The longest time that a policy may name: ten years, so that a slip of the pen is found.
const SECONDS_MAX: i64 = 10 * 365 * 24 * 3600;

impl Policy {
    /// Fails with every value that cannot work: out of the bounds that stand at its field, or beside another.
    pub fn check(&self) -> Result<(), Vec<PolicyError>> {
        let mut found = self.out_of_bounds();
        found.extend(self.at_odds());
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    fn out_of_bounds(&self) -> Vec<PolicyError> {
        let schema = schema_for!(Self).to_value();
        let values = to_value(self).expect("a policy is plain data");
        let fields = schema["properties"].as_object().into_iter().flatten();
        let out = fields.filter_map(|(key, field)| {
            let (low, high) = (field["minimum"].as_i64()?, field["maximum"].as_i64()?);
            let value = whole(&values[key])?;
            let out = !(low..=high).contains(&value);
            out.then(|| PolicyError { key: key.clone(), value, low, high, beside: None })
        });
        out.collect()
    }

    /// What works by itself and not beside another value.
    fn at_odds(&self) -> Vec<PolicyError> {
        let weight_min = i64::from(self.inject_weight_min);
        let rules = [
            (
                "inject_newcomers",
                self.inject_newcomers.into(),
                0,
                self.inject_memories_max.into(),
                "inject_memories_max",
            ),
            ("archive_weight", self.archive_weight.into(), 0, weight_min, "inject_weight_min"),
            // Below the injection weight, a confirmed memory would begin where nobody could ever read it.
            ("confirmed_weight", self.confirmed_weight.into(), weight_min, 1000, "inject_weight_min"),
        ];
        let odd = |(_, value, low, high, _): &(_, i64, i64, i64, _)| !(low..=high).contains(&value);
        let told = |(key, value, low, high, other): (&str, _, _, _, _)| PolicyError {
            key: key.to_owned(),
            value,
            low,
            high,
            beside: Some(other),
        };
        rules.into_iter().filter(odd).map(told).collect()
    }

    /// SHA-256 of the policy in canonical JSON; two policies are the same if and only if their hashes are.
    pub fn hash(&self) -> String {
        content_hash(&self.stored())
    }

    /// The policy as it is stored with what was made under it: every key but those that were added later and have their
    /// default.
    pub fn stored(&self) -> Value {
        let mut value = to_value(self).expect("a policy is plain data");
        let defaults = to_value(Self::default()).expect("a policy is plain data");
        if let Value::Object(keys) = &mut value {
            keys.retain(|key, value| !KEYS_ADDED.contains(&key.as_str()) || *value != defaults[key]);
        }
        value
    }
}

/// Writes a policy as [`Policy::stored`] says.
pub(crate) fn serialize_stored<S: Serializer>(policy: &Policy, to: S) -> Result<S::Ok, S::Error> {
    policy.stored().serialize(to)
}

/// A number of a policy. One that is too large for an `i64` is out of every bound, and told as the greatest.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_u64().map(|_| i64::MAX))
}

/// Where a shell gets the policy of a workflow from.
pub trait Policies: Send + Sync {
    /// The policy in force for the workflow now. A retrospective under way keeps the one it began with.
    fn of(&self, key: &WorkflowKey) -> Policy;
}

/// One policy for every workflow.
impl Policies for Policy {
    fn of(&self, _key: &WorkflowKey) -> Policy {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_a_bad_value_is_named() {
        assert_eq!(Policy::default().check(), Ok(()));
        let error = Policy { harmed_delta: 5, ..Policy::default() }.check().unwrap_err();
        assert_eq!(error[0].to_string(), "`harmed_delta` is 5; it must be -1000 to 0");
    }

    #[test]
    fn every_value_that_cannot_work_is_told_at_once() {
        let policy =
            Policy { inject_weight_min: 20, threshold_runs: 0, tombstone_s: u64::MAX, ..Policy::default() };
        let told: Vec<_> = policy.check().unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "`threshold_runs` is 0; it must be 1 to 100000",
                "`tombstone_s` is 9223372036854775807; it must be 1 to 315360000",
                "`archive_weight` is 50; it must be 0 to 20, because of `inject_weight_min`",
            ]
        );
    }

    #[test]
    fn every_number_has_bounds() {
        let schema = schema_for!(Policy).to_value();
        for (key, field) in schema["properties"].as_object().unwrap() {
            let bounded = field["minimum"].is_i64() && field["maximum"].is_i64();
            assert!(bounded || key == "sample_order", "{key}: {field}");
        }
    }

    #[test]
    fn the_hash_tells_policies_apart() {
        let other = Policy { threshold_runs: 11, ..Policy::default() };
        assert_eq!(Policy::default().hash(), Policy::default().hash());
        assert_ne!(Policy::default().hash(), other.hash());
    }
}
