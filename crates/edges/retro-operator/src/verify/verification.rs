//! The result of `retro verify`, with its rendering as text.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::text::format_count;

/// Maximum number of violations in the result: more than anybody reads, and a bound on memory if a whole
/// store is damaged.
pub const VIOLATIONS_MAX: usize = 1_000;

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verification {
    /// Violations that were found, at most [`VIOLATIONS_MAX`]; empty for a sound store.
    pub violations: Vec<Violation>,
    /// Number of violations that were found beyond [`VIOLATIONS_MAX`] and left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// Numbers of objects that were checked. An empty store proves nothing.
    pub checked: CheckedCounts,
    /// Number of unsent messages in the outbox. Unsent messages are not a violation, but the number should
    /// decrease.
    pub outbox_unsent: u64,
    /// Number of open dead letters of all tenants.
    pub dead_letters_open: u64,
}

/// Violation of an invariant at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Violation {
    /// Check that failed.
    pub check: Check,
    /// Place of the violation: tenant, workflow, and the object within the workflow.
    pub location: String,
    /// Description of the problem in one sentence.
    pub detail: String,
}

/// A check of `retro verify`. Each variant documents the invariant that must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Check {
    /// Ordinals run from 1 to the number of counted runs, without a gap or a duplicate.
    Ordinals,
    /// Windows that were not released are contiguous and disjoint, and the last one ends at the ordinal stored in the
    /// workflow's row.
    Windows,
    /// Epochs run from 1 without a gap.
    Epochs,
    /// At most one retrospective of a workflow is open, and the workflow's row says whether one is.
    #[strum(serialize = "open retrospective")]
    Open,
    /// A closed or failed retrospective has a report that agrees with the change log.
    #[strum(serialize = "report")]
    Reports,
    /// The sample in a report can be drawn again from its seed, and the policy in it has the recorded hash.
    #[strum(serialize = "sample")]
    Samples,
    /// Each stored memory equals the fold of its changes.
    #[strum(serialize = "memory")]
    Fold,
    /// A change has the id derived from its effect key and is stored once.
    #[strum(serialize = "change")]
    EffectKeys,
    /// A manual retrospective names only counted runs, and its proposals are supported by these runs and decided at
    /// most once.
    #[strum(serialize = "manual retrospective")]
    Manual,
    /// A tombstone belongs to a deleted memory and expires at the time that its deletion set.
    #[strum(serialize = "tombstone")]
    Tombstones,
    /// Feedback that was weighed stands behind a change of its memory, and each is stored once.
    Feedback,
}

/// Numbers of objects that a verification checked, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckedCounts {
    /// Number of tenants checked.
    pub tenants: u64,
    /// Number of workflows checked, rule scopes not included.
    pub workflows: u64,
    /// Number of counted runs checked.
    pub runs: u64,
    /// Number of retrospectives checked.
    pub retrospectives: u64,
    /// Number of reports checked.
    pub reports: u64,
    /// Number of memories that were folded and compared.
    pub memories: u64,
    /// Number of changes checked.
    pub changes: u64,
    /// Number of tombstones checked.
    pub tombstones: u64,
    /// Number of proposals of manual retrospectives checked.
    #[serde(default)]
    pub proposals: u64,
    /// Number of feedback entries checked.
    #[serde(default)]
    pub feedback: u64,
}

impl CheckedCounts {
    pub(super) fn add_counts(&mut self, other: &Self) {
        self.tenants += other.tenants;
        self.workflows += other.workflows;
        self.runs += other.runs;
        self.retrospectives += other.retrospectives;
        self.reports += other.reports;
        self.memories += other.memories;
        self.changes += other.changes;
        self.tombstones += other.tombstones;
        self.proposals += other.proposals;
        self.feedback += other.feedback;
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Verification {
    pub(super) fn add_violations(&mut self, found: Vec<Violation>) {
        let room = VIOLATIONS_MAX - self.violations.len();
        self.omitted += found.len().saturating_sub(room) as u64;
        self.violations.extend(found.into_iter().take(room));
    }

    /// Returns `true` if there are no violations and at least one counted run was checked.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && self.checked.runs > 0
    }

    /// Renders the result for people: the verdict, the violations with their places, and the numbers of checked
    /// objects.
    pub fn render_text(&self) -> String {
        let CheckedCounts {
            tenants,
            workflows,
            runs,
            retrospectives,
            reports,
            memories,
            changes,
            tombstones,
            proposals,
            feedback,
        } = self.checked;
        let verdict = match (self.violations.len() as u64 + self.omitted, runs) {
            (0, 0) => "NOTHING PROVED: the store holds no counted run".to_owned(),
            (0, _) => "sound".to_owned(),
            (n, _) => format!("NOT SOUND: {}", format_count(n, "violation")),
        };
        let lines = self
            .violations
            .iter()
            .map(|one| format!("  {} at {}: {}\n", one.check.as_str(), one.location, one.detail));
        format!(
            "{verdict}\n{}{}checked {} with {}: {}, {}, {}, {}, {}, {}, {}{}\n{} waiting to be sent, {} open\n",
            lines.collect::<String>(),
            if self.omitted > 0 { format!("  and {} more\n", self.omitted) } else { String::new() },
            format_count(tenants, "tenant"),
            format_count(workflows, "workflow"),
            format_count(runs, "counted run"),
            format_count(retrospectives, "retrospective"),
            format_count(reports, "report"),
            format_count(memories, "memory"),
            format_count(changes, "change"),
            format_count(tombstones, "tombstone"),
            format_count(proposals, "proposal"),
            // Few stores have any.
            if feedback > 0 {
                format!(", {}", format_count(feedback, "feedback entry"))
            } else {
                String::new()
            },
            format_count(self.outbox_unsent, "message"),
            format_count(self.dead_letters_open, "dead letter"),
        )
    }
}

impl Check {
    /// Returns the name for text output. JSON uses the name of the variant in snake case instead.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
