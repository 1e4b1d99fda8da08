//! Reviews: remarks on pull requests, and the decision on which of them become rules.
//!
//! A reader classifies each [`Remark`](crate::remark::Remark) ([`RemarkReading`]), and the caller screens its
//! text ([`Screening`]). For all remarks of a review together, [`settle_review`] then decides which mutations they request, or why
//! they request none. If in doubt, a remark is not treated as a rule. The writer applies the mutations in
//! `learn::rules`.

mod acknowledgement;
mod reading;
mod report;
mod settings;
mod settle;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray, VariantNames};

pub use acknowledgement::is_acknowledgement;
pub use reading::{ModelCosts, ModelReading, ModelReadingKind, ReviewReading};
pub(crate) use report::ReviewReportInputs;
pub use report::{ReportedRemark, ReviewReport};
pub use settings::{REVIEW_SECTIONS, ReviewSettings, ReviewSettingsError};
pub use settle::{
    ACKNOWLEDGED_COUNTS, ASKED_AGAIN_COUNTS, DecidedRemark, OtherRequest, REMARKS_MAX, RESOLVED_COUNTS,
    ReadRemark, ReviewBatch, RuleMutation, RuleMutationKind, SettledRemarks, THUMBS_COUNT, settle_review,
};
pub(crate) use settle::{build_lesson, remark_evidence, worded_requests};

/// Evidence that a remark states a rule, apart from its words, as known at the time of the decision. If more
/// evidence becomes known, the remark is decided again, and changes already made are not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemarkSupport {
    /// `true` if the thread of the remark was resolved.
    #[serde(default)]
    pub resolved: bool,
    /// `true` if the author of the pull request replied that the request was carried out
    /// ([`is_acknowledgement`]).
    #[serde(default)]
    pub acknowledged: bool,
    /// Number of 👍 reactions to the remark.
    #[serde(default)]
    pub thumbs_up: u64,
}

/// Classification of a remark by the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum ReadingKind {
    /// The remark states a convention that applies to this repository from now on.
    Rule,
    /// The remark asks for a change in this pull request only.
    OneOff,
    /// The remark asks a question, or its author is thinking aloud.
    Question,
    /// The remark praises the change.
    Praise,
    /// The remark contains nothing to learn: an acknowledgement, a status or a post by a program.
    Noise,
    /// The remark says what one person likes. It is kept with its kind for later, and nothing acts on it yet. Only a
    /// language model tells it from a rule.
    Preference,
}

impl ReadingKind {
    /// All kinds, in display order, which is the order of declaration.
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    /// Returns the kind as it is shown, such as `one-off`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A feature of a remark's text that is evidence for or against the remark stating a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadingFeature {
    /// Name of the feature, such as `imperative`, `always` or `suggestion block`.
    pub name: String,
    /// Contribution to the certainty, in thousandths; negative for evidence against a rule.
    pub contribution: i32,
    /// Words that show the feature; empty if the whole text shows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub matched_text: String,
}

/// A rule as phrased by the reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleText {
    /// Subject of the rule. Only rules with the same subject can contradict each other.
    pub subject: String,
    /// Rule as one imperative sentence of at most `TITLE_CHARS_MAX` characters.
    pub title: String,
    /// Details that an agent gets when it opens the rule, including the source; at most `CONTENT_CHARS_MAX`
    /// characters.
    pub content: String,
    /// Folder or file to which the rule is limited; `None` for the whole repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Result of reading a remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemarkReading {
    /// Classification of the remark.
    pub kind: ReadingKind,
    /// Certainty that the remark states a rule, 0 to 1000 thousandths: the sum of the contributions of
    /// `features`.
    pub certainty: u16,
    /// Evidence for and against the remark stating a rule.
    pub features: Vec<ReadingFeature>,
    /// Rule that the remark states; `None` if none can be phrased. For a one-off, the rule that the remark
    /// would state if others made the same request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleText>,
    /// Reason for the classification, in one sentence.
    pub reason: String,
    /// What a language model read in the remark; `None` if none read it, or if what it read was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelReading>,
}

/// Result of screening the body of a remark and the title that the reader made from it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Screening {
    /// Reasons why the text is treated as hostile, one sentence each; empty if it is clean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostile: Vec<String>,
    /// Reason why the title is not an instruction about code; `None` if it is one or there is no title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_a_rule: Option<String>,
}
