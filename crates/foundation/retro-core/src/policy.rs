//! The policy of a workflow: the constants and choices that control learning. Every report contains the
//! policy under which it was made.

mod budget;
mod sections;
mod stage;
mod stage_order;
mod validation;

use retro_gate::Danger;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, to_value};

use crate::canonical::content_hash;
use crate::finding::RefutedFinding;
use crate::id::WorkflowKey;
use crate::memory::CONTRADICTIONS_KEPT_MAX;
use crate::pipeline::PipelineVersion;
use crate::similarity::SimilarityScale;
pub use sections::POLICY_SECTIONS;
pub use stage::InvestigationStage;
pub use validation::PolicyError;

/// Policy of one workflow. Weights and weight changes are in thousandths. A field that is missing in the
/// configuration takes its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Number of counted runs in the window that opens the next retrospective.
    #[schemars(range(min = 1, max = 100_000))]
    pub threshold_runs: u32,
    /// Maximum number of runs that one retrospective claims, unless `threshold_runs` or a share of the backlog is more.
    #[schemars(range(min = 1, max = 100_000))]
    pub window_runs_max: u32,
    /// Share of the runs that wait which one retrospective may claim, per mille. Of a backlog of 10,000 runs, the first
    /// window has 1,000 by default. With 1000, it has all of them.
    #[schemars(range(min = 0, max = 1000))]
    pub window_backlog_permille: u32,
    /// Share of the runs in the window that a retrospective samples, per mille.
    #[schemars(range(min = 1, max = 1000))]
    pub sample_permille: u32,
    /// Maximum number of runs that one retrospective samples.
    #[schemars(range(min = 1, max = 1000))]
    pub sample_runs_max: u32,
    /// Whether a lesson that two repositories have shown becomes one of all repositories. A lesson that a private
    /// repository has shown is then handed to private ones only.
    pub widen_repositories: bool,
    /// Order in which runs are drawn from the window.
    pub sample_order: SampleOrder,
    /// Weight of a memory when it is confirmed, in thousandths.
    #[schemars(range(min = 1, max = 1000))]
    pub confirmed_weight: u16,
    /// Number of distinct runs of a step that must show a finding to confirm it. With 1, memories skip the
    /// tentative stage.
    #[schemars(range(min = 1, max = 100))]
    pub confirm_runs: u32,
    /// Weight change for each run in which a memory helped, in thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub helped_delta: i32,
    /// Weight change for each run in which a memory harmed, in thousandths. By default larger in magnitude
    /// than `helped_delta`, because harm outweighs help.
    #[schemars(range(min = -1000, max = 0))]
    pub harmed_delta: i32,
    /// Weight change for each retrospective in which a memory was presented and never used, in thousandths.
    #[schemars(range(min = -1000, max = 0))]
    pub ignored_delta: i32,
    /// Weight change for each retrospective that shows that calls work as well without a memory, in thousandths. 0 keeps
    /// the memories of causes that are gone.
    #[schemars(range(min = -1000, max = 0))]
    pub unneeded_delta: i32,
    /// Minimum number of calls that did not follow a memory which show that it is not needed. At most one in ten of such
    /// calls fails then, with 95 % confidence.
    #[schemars(range(min = 29, max = 46))]
    pub unneeded_calls_min: u32,
    /// Weight change for each run that applied a memory and whose pull request was merged, in thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub merged_delta: i32,
    /// Weight change for each run that applied a memory and whose pull request was closed without a merge, in
    /// thousandths.
    #[schemars(range(min = -1000, max = 0))]
    pub closed_unmerged_delta: i32,
    /// Weight change for each run that applied a memory and on whose pull request somebody who may merge it requested
    /// changes, in thousandths. Several requests count once.
    #[schemars(range(min = -1000, max = 0))]
    pub changes_requested_delta: i32,
    /// Weight change for each run that applied a memory and whose merged pull request was reverted, in thousandths. It
    /// comes on top of `merged_delta`.
    #[schemars(range(min = -1000, max = 0))]
    pub reverted_delta: i32,
    /// Weight change for a memory in limbo when a retrospective observes its lesson again, in thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub limbo_observed_delta: i32,
    /// Maximum number of consecutive retrospectives in which "cue not met" exempts a memory from
    /// `ignored_delta`.
    #[schemars(range(min = 0, max = 1000))]
    pub cue_not_met_max: u32,
    /// Minimum weight at which a memory is presented, in thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub inject_weight_min: u16,
    /// Maximum number of memories in one context response.
    #[schemars(range(min = 1, max = 100))]
    pub inject_memories_max: u32,
    /// Number of places in a context response that are reserved for the least presented memories if not all
    /// eligible memories fit.
    #[schemars(range(min = 0, max = 100))]
    pub inject_newcomers: u32,
    /// Maximum number of tokens of all memories in one context response.
    #[schemars(range(min = 50, max = 100_000))]
    pub inject_tokens_max: u32,
    /// Share of runs that are not handed an eligible memory, per mille, decided by chance for each memory and
    /// run. Their outcomes show the effect of the memory. 0 hands out every memory and shows no effect.
    #[schemars(range(min = 0, max = 500))]
    pub withhold_permille: u16,
    /// Weight below which an active memory is archived, in thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub archive_weight: u16,
    /// Lifetime of a tombstone, during which it forbids similar lessons, in seconds.
    #[schemars(range(min = 1, max = SECONDS_MAX))]
    pub tombstone_s: u64,
    /// Number of distinct contradicting runs after which an active memory is deleted.
    #[schemars(range(min = 1, max = CONTRADICTIONS_KEPT_MAX))]
    pub contradiction_runs: u32,
    /// Minimum similarity at which two lessons are merged into one memory, in thousandths. Every embedder is
    /// calibrated for 700; a lower value merges more.
    #[schemars(range(min = 1, max = 1000))]
    pub merge_similarity: u16,
    /// Minimum similarity at which a tombstone forbids a lesson, in thousandths. Every embedder is calibrated
    /// for 600; a lower value forbids more.
    #[schemars(range(min = 1, max = 1000))]
    pub tombstone_similarity: u16,
    /// Who investigates a run, in order. What a later stage is told includes what the earlier ones found. Without
    /// `"heuristics"`, their findings in the run are not used; without `"model"`, no language model is asked.
    pub stages: Vec<InvestigationStage>,
    /// Maximum number of attempts at one investigation.
    #[schemars(range(min = 1, max = 100))]
    pub investigation_attempts_max: u32,
    /// Pause of a workflow after a retrospective without a successful investigation, in seconds. Doubles with
    /// each consecutive failure.
    #[schemars(range(min = 0, max = SECONDS_MAX))]
    pub failure_pause_s: u64,
    /// Maximum pause of a workflow after a failed retrospective, in seconds.
    #[schemars(range(min = 0, max = SECONDS_MAX))]
    pub failure_pause_max_s: u64,
    /// Minimum certainty that a remark states a rule, in thousandths. A remark with a lower certainty creates
    /// no rule.
    #[schemars(range(min = 1, max = 1000))]
    pub rule_certainty_min: u16,
    /// Minimum similarity at which a rule that cannot be followed together with an older one replaces it, in
    /// thousandths. Every embedder is calibrated for 500; a lower value replaces more rules.
    #[schemars(range(min = 1, max = 1000))]
    pub rule_contradiction_similarity: u16,
    /// Number of investigated runs that may ignore a presented rule before it is archived, counted since the
    /// rule was last requested, promoted or used. Runs in which the situation of the rule did not occur do
    /// not count.
    #[schemars(range(min = 1, max = 100_000))]
    pub rule_presentations_max: u32,
    /// Maximum number of rules in one context response.
    #[schemars(range(min = 1, max = 100))]
    pub rule_inject_max: u32,
    /// Maximum number of tokens of all rules in one context response. Memories have a separate limit.
    #[schemars(range(min = 50, max = 100_000))]
    pub rule_tokens_max: u32,
    /// Dangers for which the gate puts a memory into quarantine until a person releases it.
    pub held_dangers: Vec<Danger>,
    /// What counts as one witness when runs confirm a memory.
    pub witness: WitnessRule,
    /// Maximum number of tokens of one investigation; 0 for no bound. A call that might exceed a budget is not made: the run
    /// is investigated by the heuristics alone, and the report says so.
    #[schemars(range(min = 0, max = TOKENS_MAX))]
    pub investigation_tokens_max: u64,
    /// Maximum number of tokens of all investigations of one retrospective; 0 for no bound.
    #[schemars(range(min = 0, max = TOKENS_MAX))]
    pub retrospective_tokens_max: u64,
    /// Maximum cost of one investigation, in hundredths of a US dollar; 0 for no bound. Needs the price of the model in
    /// `model_prices` of the configuration.
    #[schemars(range(min = 0, max = CENTS_MAX))]
    pub investigation_cents_max: u64,
    /// Maximum cost of all investigations of one retrospective, in hundredths of a US dollar; 0 for no bound. Needs the
    /// price of the model.
    #[schemars(range(min = 0, max = CENTS_MAX))]
    pub retrospective_cents_max: u64,
    /// Maximum number of calls of the model in one investigation. In the last one it must answer.
    #[schemars(range(min = 2, max = 64))]
    pub model_turns_max: u32,
    /// Share of what one investigation may use (tokens, money, number of calls) that a language model may spend on a
    /// question about one step, per mille. With 0, it cannot ask about single steps.
    #[schemars(range(min = 0, max = 1000))]
    pub step_share_permille: u16,
    /// What a finding of the heuristics counts that a language model refutes with a quote from the run. What the call
    /// summaries of many runs support counts in either case.
    pub model_refutes: RefutedFinding,
    /// Version of the pipeline from which the policy was read; `None` if it was read from none. A retrospective that opens
    /// under the policy keeps the version, which is stored beside the policy.
    #[serde(skip)]
    #[schemars(skip)]
    pub pipeline: Option<PipelineVersion>,
}

/// Keys that were added after the first policies were stored. While such a key has its default value, it is
/// omitted from the stored and hashed form, so the bytes and hashes of older reports do not change.
const KEYS_ADDED: &[&str] = &[
    "merged_delta",
    "closed_unmerged_delta",
    "changes_requested_delta",
    "reverted_delta",
    "rule_certainty_min",
    "rule_contradiction_similarity",
    "rule_presentations_max",
    "rule_inject_max",
    "rule_tokens_max",
    "held_dangers",
    "witness",
    "withhold_permille",
    "unneeded_delta",
    "unneeded_calls_min",
    "widen_repositories",
    "window_runs_max",
    "window_backlog_permille",
    "model_refutes",
    "step_share_permille",
    "stages",
    "investigation_tokens_max",
    "retrospective_tokens_max",
    "investigation_cents_max",
    "retrospective_cents_max",
    "model_turns_max",
];

/// Order in which runs are sampled from a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SampleOrder {
    /// Random order: a seeded shuffle of the whole window.
    Random,
    /// Most recent runs first. For comparison only, because such a sample is biased.
    MostRecent,
}

/// What counts as one witness when runs confirm a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WitnessRule {
    /// Runs of one task by one user are one witness, and so is a page or file, in however many runs it was
    /// read. A run without a user or a task is a witness of its own.
    Origin,
    /// Every run is a witness.
    Run,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            threshold_runs: 10,
            window_runs_max: 50,
            window_backlog_permille: 100,
            sample_permille: 400,
            sample_runs_max: 5,
            widen_repositories: true,
            sample_order: SampleOrder::Random,
            confirmed_weight: 300,
            confirm_runs: 2,
            helped_delta: 100,
            harmed_delta: -150,
            ignored_delta: -20,
            unneeded_delta: -100,
            unneeded_calls_min: 40,
            merged_delta: 50,
            closed_unmerged_delta: -75,
            changes_requested_delta: -20,
            reverted_delta: -100,
            limbo_observed_delta: 100,
            cue_not_met_max: 5,
            inject_weight_min: 100,
            inject_memories_max: 10,
            inject_newcomers: 2,
            inject_tokens_max: 500,
            withhold_permille: 100,
            archive_weight: 50,
            tombstone_s: 30 * 24 * 3600,
            contradiction_runs: 2,
            merge_similarity: SimilarityScale::MERGE,
            tombstone_similarity: SimilarityScale::TOMBSTONE,
            stages: InvestigationStage::ALL.to_vec(),
            investigation_attempts_max: 3,
            failure_pause_s: 3600,
            failure_pause_max_s: 24 * 3600,
            rule_certainty_min: 600,
            rule_contradiction_similarity: SimilarityScale::CONTRADICTION,
            rule_presentations_max: 50,
            rule_inject_max: 5,
            rule_tokens_max: 200,
            held_dangers: Danger::HELD_BY_DEFAULT.to_vec(),
            witness: WitnessRule::Origin,
            investigation_tokens_max: 200_000,
            retrospective_tokens_max: 1_000_000,
            investigation_cents_max: 0,
            retrospective_cents_max: 0,
            model_turns_max: 12,
            step_share_permille: 250,
            model_refutes: RefutedFinding::Neutral,
            pipeline: None,
        }
    }
}

/// Maximum duration in a policy, in seconds: ten years, to catch typing errors.
const SECONDS_MAX: i64 = 10 * 365 * 24 * 3600;
/// Maximum number of tokens in a budget, to catch typing errors.
const TOKENS_MAX: i64 = 1_000_000_000;
/// Maximum cost in a budget, in hundredths of a US dollar: a million dollars, to catch typing errors.
const CENTS_MAX: i64 = 100_000_000;

impl Policy {
    /// Returns the SHA-256 of the stored form of the policy as canonical JSON. Equal policies have equal
    /// hashes.
    pub fn content_hash(&self) -> String {
        content_hash(&self.stored_value())
    }

    /// Returns the policy as it is stored with reports: all keys except those that were added later and still
    /// have their default value.
    pub fn stored_value(&self) -> Value {
        let mut value = to_value(self).expect("a policy is plain data");
        let defaults = to_value(Self::default()).expect("a policy is plain data");
        if let Value::Object(keys) = &mut value {
            keys.retain(|key, value| !KEYS_ADDED.contains(&key.as_str()) || *value != defaults[key]);
        }
        value
    }
}

/// Serializes a policy in its stored form ([`Policy::stored_value`]).
pub(crate) fn serialize_stored<S: Serializer>(policy: &Policy, to: S) -> Result<S::Ok, S::Error> {
    policy.stored_value().serialize(to)
}

/// Source of the policies of workflows, implemented outside the core.
pub trait Policies: Send + Sync {
    /// Returns the policy currently in force for the workflow. An open retrospective keeps the policy under
    /// which it was opened.
    fn policy_for(&self, key: &WorkflowKey) -> Policy;
}

/// Uses the same policy for every workflow.
impl Policies for Policy {
    fn policy_for(&self, _key: &WorkflowKey) -> Policy {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_policies_have_different_hashes() {
        let other = Policy { threshold_runs: 11, ..Policy::default() };
        assert_eq!(Policy::default().content_hash(), Policy::default().content_hash());
        assert_ne!(Policy::default().content_hash(), other.content_hash());
    }
}
