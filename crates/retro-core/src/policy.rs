//! The policy of a workflow: the constants and choices by which Retrospect learns. Every report contains the policy
//! under which it was made.

use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, to_value};

use crate::canonical::content_hash;
use crate::id::WorkflowKey;
use crate::memory::CONTRADICTIONS_KEPT_MAX;
use crate::similarity::SimilarityScale;

/// The policy of one workflow. Weights and weight changes are in thousandths. A field that is missing in the
/// configuration takes its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Number of counted runs in the window that opens the next retrospective.
    #[schemars(range(min = 1, max = 100_000))]
    pub threshold_runs: u32,
    /// Share of the runs in the window that a retrospective samples, per mille.
    #[schemars(range(min = 1, max = 1000))]
    pub sample_permille: u32,
    /// Maximum number of runs that one retrospective samples.
    #[schemars(range(min = 1, max = 1000))]
    pub sample_runs_max: u32,
    /// Order in which the sampled runs are chosen from the window.
    pub sample_order: SampleOrder,
    /// Weight that a memory gets when it is confirmed, in thousandths.
    #[schemars(range(min = 1, max = 1000))]
    pub confirmed_weight: u16,
    /// Number of distinct runs of one step that have to show a finding to confirm it. With 1, memories skip the
    /// tentative stage.
    #[schemars(range(min = 1, max = 100))]
    pub confirm_runs: u32,
    /// Weight change for each run in which a memory helped, in thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub helped_delta: i32,
    /// Weight change for each run in which a memory harmed, in thousandths. Intentionally larger than `helped_delta`,
    /// because harm outweighs help.
    #[schemars(range(min = -1000, max = 0))]
    pub harmed_delta: i32,
    /// Weight change for each retrospective in which a memory was presented and never used, in thousandths.
    #[schemars(range(min = -1000, max = 0))]
    pub ignored_delta: i32,
    /// Weight change for each run in which a memory was applied and whose pull request was merged, in
    /// thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub merged_delta: i32,
    /// Weight change for each run in which a memory was applied and whose pull request was closed without a
    /// merge, in thousandths.
    #[schemars(range(min = -1000, max = 0))]
    pub closed_unmerged_delta: i32,
    /// Weight change of a memory in limbo for each retrospective that observed its lesson again, in thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub limbo_observed_delta: i32,
    /// Maximum number of consecutive retrospectives in which "cue not met" exempts a memory from `ignored_delta`.
    #[schemars(range(min = 0, max = 1000))]
    pub cue_not_met_max: u32,
    /// Minimum weight at which a memory is presented, in thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub inject_weight_min: u16,
    /// Maximum number of memories in one context answer, which an agent gets before a step.
    #[schemars(range(min = 1, max = 100))]
    pub inject_memories_max: u32,
    /// Number of places in a context answer that are reserved for the least presented memories when more memories are
    /// eligible than fit.
    #[schemars(range(min = 0, max = 100))]
    pub inject_newcomers: u32,
    /// Maximum number of tokens of all memories in one context answer.
    #[schemars(range(min = 50, max = 100_000))]
    pub inject_tokens_max: u32,
    /// Weight below which an active memory is archived, in thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub archive_weight: u16,
    /// Number of seconds for which a tombstone forbids similar lessons.
    #[schemars(range(min = 1, max = SECONDS_MAX))]
    pub tombstone_s: u64,
    /// Number of distinct contradicting runs after which an active memory is deleted.
    #[schemars(range(min = 1, max = CONTRADICTIONS_KEPT_MAX))]
    pub contradiction_runs: u32,
    /// Minimum similarity at which two lessons are merged into one memory, in thousandths. Every embedder is calibrated
    /// so that 700 is right; a lower value merges more.
    #[schemars(range(min = 1, max = 1000))]
    pub merge_similarity: u16,
    /// Minimum similarity at which a tombstone forbids a lesson, in thousandths. Every embedder is calibrated so that
    /// 600 is right; a lower value forbids more.
    #[schemars(range(min = 1, max = 1000))]
    pub tombstone_similarity: u16,
    /// Maximum number of attempts at one investigation.
    #[schemars(range(min = 1, max = 100))]
    pub investigation_attempts_max: u32,
    /// Number of seconds for which a workflow pauses after a retrospective without a successful investigation. It
    /// doubles with each consecutive failure.
    #[schemars(range(min = 0, max = SECONDS_MAX))]
    pub failure_pause_s: u64,
    /// Maximum number of seconds for which a workflow pauses after a failed retrospective.
    #[schemars(range(min = 0, max = SECONDS_MAX))]
    pub failure_pause_max_s: u64,
    /// Minimum certainty that a remark states a rule, in thousandths. Below it, no rule is created.
    #[schemars(range(min = 1, max = 1000))]
    pub rule_certainty_min: u16,
    /// Minimum similarity at which opposite advice about one subject is a contradiction, in thousandths. Every embedder
    /// is calibrated so that 500 is right; a lower value finds more contradictions.
    #[schemars(range(min = 1, max = 1000))]
    pub rule_contradiction_similarity: u16,
    /// Number of investigated runs that ignored a presented rule since it was last asked for, promoted or used, after
    /// which the rule is archived. Runs that were not investigated do not count, and neither do runs in which the
    /// situation of the rule did not occur.
    #[schemars(range(min = 1, max = 100_000))]
    pub rule_presentations_max: u32,
    /// Maximum number of rules in one context answer.
    #[schemars(range(min = 1, max = 100))]
    pub rule_inject_max: u32,
    /// Maximum number of tokens of all rules in one context answer. Memories have a separate maximum.
    #[schemars(range(min = 50, max = 100_000))]
    pub rule_tokens_max: u32,
}

/// Keys that were added after the first policies were stored. While such a key has its default value, it is omitted
/// from the stored and hashed form, so that the bytes and the hash of older reports do not change.
const KEYS_ADDED: &[&str] = &[
    "merged_delta",
    "closed_unmerged_delta",
    "rule_certainty_min",
    "rule_contradiction_similarity",
    "rule_presentations_max",
    "rule_inject_max",
    "rule_tokens_max",
];

/// Order in which the runs of a window are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SampleOrder {
    /// The runs are sampled in a random order: a seeded shuffle of the whole window.
    Random,
    /// The most recent runs are sampled first. It is for comparison only, because it is biased.
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
            merge_similarity: SimilarityScale::MERGE,
            tombstone_similarity: SimilarityScale::TOMBSTONE,
            investigation_attempts_max: 3,
            failure_pause_s: 3600,
            failure_pause_max_s: 24 * 3600,
            rule_certainty_min: 600,
            rule_contradiction_similarity: SimilarityScale::CONTRADICTION,
            rule_presentations_max: 50,
            rule_inject_max: 5,
            rule_tokens_max: 200,
        }
    }
}

/// Describes a policy value that is out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {value}; it must be {low} to {high}{}", self.because())]
pub struct PolicyError {
    /// Key of the value, as written in `pipeline.toml`.
    pub key: String,
    /// Value that is out of bounds.
    pub value: i64,
    /// Minimum allowed value.
    pub low: i64,
    /// Maximum allowed value.
    pub high: i64,
    /// Another key whose value determines the bound; `None` if the bound is fixed.
    pub because_of: Option<&'static str>,
}

impl PolicyError {
    fn because(&self) -> String {
        self.because_of.map_or(String::new(), |other| format!(", because of `{other}`"))
    }
}

/// Maximum number of seconds in a policy: ten years, so that typing errors are detected.
const SECONDS_MAX: i64 = 10 * 365 * 24 * 3600;

impl Policy {
    /// Checks that every value is within the bounds of its field and does not conflict with other values. Fails with a
    /// list of all violations.
    pub fn validate(&self) -> Result<(), Vec<PolicyError>> {
        let mut found = self.range_errors();
        found.extend(self.cross_field_errors());
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    fn range_errors(&self) -> Vec<PolicyError> {
        // The bounds are read from the schema, so that the documented bounds and the checked ones cannot differ.
        let schema = schema_for!(Self).to_value();
        let values = to_value(self).expect("a policy is plain data");
        let fields = schema["properties"].as_object().into_iter().flatten();
        let out = fields.filter_map(|(key, field)| {
            let (low, high) = (field["minimum"].as_i64()?, field["maximum"].as_i64()?);
            let value = integer_value(&values[key])?;
            let out = !(low..=high).contains(&value);
            out.then(|| PolicyError { key: key.clone(), value, low, high, because_of: None })
        });
        out.collect()
    }

    /// Returns errors for the values that are within their own bounds but conflict with another value.
    fn cross_field_errors(&self) -> Vec<PolicyError> {
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
            // Below the injection weight, a confirmed memory would begin in limbo and never be presented.
            ("confirmed_weight", self.confirmed_weight.into(), weight_min, 1000, "inject_weight_min"),
        ];
        let violates = |(_, value, low, high, _): &(_, i64, i64, i64, _)| !(low..=high).contains(&value);
        let to_error = |(key, value, low, high, other): (&str, _, _, _, _)| PolicyError {
            key: key.to_owned(),
            value,
            low,
            high,
            because_of: Some(other),
        };
        rules.into_iter().filter(violates).map(to_error).collect()
    }

    /// Returns the SHA-256 of the stored form of the policy as canonical JSON. Two policies are equal if and only if
    /// their hashes are equal.
    pub fn content_hash(&self) -> String {
        content_hash(&self.stored_value())
    }

    /// Returns the policy in the form that is stored with reports: all keys except those that were added later and have
    /// their default value.
    pub fn stored_value(&self) -> Value {
        let mut value = to_value(self).expect("a policy is plain data");
        let defaults = to_value(Self::default()).expect("a policy is plain data");
        if let Value::Object(keys) = &mut value {
            keys.retain(|key, value| !KEYS_ADDED.contains(&key.as_str()) || *value != defaults[key]);
        }
        value
    }
}

/// Serializes a policy in its stored form, see [`Policy::stored_value`].
pub(crate) fn serialize_stored<S: Serializer>(policy: &Policy, to: S) -> Result<S::Ok, S::Error> {
    policy.stored_value().serialize(to)
}

/// Returns a policy value as an integer, or `None` if it is not one. An integer that is too large for an `i64` becomes
/// `i64::MAX`, which exceeds every bound.
fn integer_value(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_u64().map(|_| i64::MAX))
}

/// Provides the policies of workflows. It is implemented outside the core.
pub trait Policies: Send + Sync {
    /// Returns the policy that is currently in force for the workflow. An open retrospective keeps the policy under
    /// which it was opened.
    fn policy_for(&self, key: &WorkflowKey) -> Policy;
}

/// The same policy for every workflow.
impl Policies for Policy {
    fn policy_for(&self, _key: &WorkflowKey) -> Policy {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_a_bad_value_is_named() {
        assert_eq!(Policy::default().validate(), Ok(()));
        let error = Policy { harmed_delta: 5, ..Policy::default() }.validate().unwrap_err();
        assert_eq!(error[0].to_string(), "`harmed_delta` is 5; it must be -1000 to 0");
    }

    #[test]
    fn all_invalid_values_are_reported_together() {
        let policy =
            Policy { inject_weight_min: 20, threshold_runs: 0, tombstone_s: u64::MAX, ..Policy::default() };
        let told: Vec<_> = policy.validate().unwrap_err().iter().map(ToString::to_string).collect();
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
    fn different_policies_have_different_hashes() {
        let other = Policy { threshold_runs: 11, ..Policy::default() };
        assert_eq!(Policy::default().content_hash(), Policy::default().content_hash());
        assert_ne!(Policy::default().content_hash(), other.content_hash());
    }
}
