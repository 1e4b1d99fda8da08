//! Reviews: remarks of people on pull requests, and the decision which of them become rules.
//!
//! A reader classifies each [`Remark`] ([`RemarkReading`]), the caller has its text screened ([`Screening`]),
//! and [`settle_review`] decides for all remarks of a review which mutations they request, or why they
//! request no mutation. In doubt, a remark is not a rule. The writer's part is in `learn::rules`.

mod acknowledgement;
mod key;
mod report;
mod settle;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::canonical::content_hash;

pub use acknowledgement::is_acknowledgement;
pub use key::{RemarkKey, RemarkKind, Repository, ReviewKey, ReviewedPullRequest};
pub(crate) use report::ReviewReportInputs;
pub use report::{ReportedRemark, ReviewReport};
pub use settle::{
    ACKNOWLEDGED_COUNTS, ASKED_AGAIN_COUNTS, DecidedRemark, OtherRequest, REMARKS_MAX, RESOLVED_COUNTS,
    ReadRemark, ReviewBatch, RuleMutation, RuleMutationKind, SettledRemarks, THUMBS_COUNT, settle_review,
};

/// Relation of a person to the repository, as reported by GitHub (`author_association`). For private members it is a
/// lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthorAssociation {
    /// Owns the repository.
    Owner,
    /// Member of the organisation that owns the repository.
    Member,
    /// Was invited to collaborate on the repository.
    Collaborator,
    /// Has had a commit merged into the repository.
    Contributor,
    /// Everybody else, including first-time contributors and unknown values.
    #[default]
    None,
}

/// Verdict of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    /// The pull request may be merged.
    Approved,
    /// Changes are requested.
    ChangesRequested,
    /// Neither approved nor rejected.
    Commented,
    /// The review was dismissed.
    Dismissed,
    /// The review was begun and not submitted, or the value is unknown.
    #[serde(other)]
    Pending,
}

/// Trust in a person when rules are made, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthorStanding {
    /// A program: never creates a rule, and only adds evidence to an active one that a person asked for.
    Bot,
    /// Unknown, including first-time contributors: rules are quarantined until an operator promotes them.
    Outsider,
    /// Has had a commit merged: rules are tentative until asked for again on another pull request.
    Contributor,
    /// Owner, member or collaborator: rules are active immediately.
    Insider,
}

impl AuthorStanding {
    /// Returns the standing of a person or bot with this association.
    pub const fn from_association(association: AuthorAssociation, bot: bool) -> Self {
        match association {
            _ if bot => Self::Bot,
            AuthorAssociation::Owner | AuthorAssociation::Member | AuthorAssociation::Collaborator => {
                Self::Insider
            }
            AuthorAssociation::Contributor => Self::Contributor,
            AuthorAssociation::None => Self::Outsider,
        }
    }

    /// Returns the word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bot => "bot",
            Self::Outsider => "outsider",
            Self::Contributor => "contributor",
            Self::Insider => "insider",
        }
    }
}

/// A comment as collected, with its body redacted. The author may be hostile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Key of the remark.
    pub key: RemarkKey,
    /// GitHub's id of the review that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<u64>,
    /// Verdict of that review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ReviewState>,
    /// First comment of the thread that it replies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<u64>,
    /// Author; empty for a deleted account.
    pub by: String,
    /// True if GitHub marks the author as a bot.
    #[serde(default)]
    pub bot: bool,
    /// Relation of the author to the repository, a lower bound.
    #[serde(default)]
    pub association: AuthorAssociation,
    /// True if the author also wrote the pull request.
    #[serde(default)]
    pub by_author: bool,
    /// Text in Markdown, redacted.
    pub body: String,
    /// File that it was made on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Line in that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Time when it was written.
    pub at: Timestamp,
    /// Address of its web page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// True if its text was edited after it was written.
    #[serde(default)]
    pub edited: bool,
    /// True if the remark was deleted. Its text may still be stored here and is ignored.
    #[serde(default)]
    pub deleted: bool,
}

impl Remark {
    /// Returns the standing of the author.
    pub const fn standing(&self) -> AuthorStanding {
        AuthorStanding::from_association(self.association, self.bot)
    }

    /// Returns a hash of the current text, 16 hexadecimal digits. An edited remark is decided again, but the
    /// same text is never decided twice.
    pub fn edition(&self) -> String {
        content_hash(&serde_json::Value::from(self.body.as_str()))[..EDITION_DIGITS].to_owned()
    }
}

/// Number of hash digits that distinguish the editions of one remark, which has only a handful of texts by one
/// person.
const EDITION_DIGITS: usize = 16;

/// Evidence for a remark besides its own words, as known when it is decided. When more becomes known, it is decided
/// again, and changes that were already made are not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemarkSupport {
    /// True if its thread was resolved.
    #[serde(default)]
    pub resolved: bool,
    /// True if the author of the pull request answered that it was done ([`is_acknowledgement`]).
    #[serde(default)]
    pub acknowledged: bool,
    /// Number of 👍 reactions.
    #[serde(default)]
    pub thumbs_up: u64,
}

/// Classification of a remark by a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadingKind {
    /// States how things are done in this repository from now on.
    Rule,
    /// Asks for a change in this pull request.
    OneOff,
    /// Asks a question, or thinks aloud.
    Question,
    /// Praises the change.
    Praise,
    /// Contains nothing to learn: acknowledgements, status, posts of programs.
    Noise,
}

impl ReadingKind {
    /// Every kind, in the order shown to people.
    pub const ALL: [Self; 5] = [Self::Rule, Self::OneOff, Self::Question, Self::Praise, Self::Noise];

    /// Returns the words as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::OneOff => "one-off",
            Self::Question => "question",
            Self::Praise => "praise",
            Self::Noise => "noise",
        }
    }
}

/// A feature of a remark that is evidence for or against its being a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadingFeature {
    /// Name of the feature: `imperative`, `always`, `suggestion block`, …
    pub name: String,
    /// Contribution to the certainty, in thousandths; negative for evidence against a rule.
    pub counts: i32,
    /// Words that show the feature; empty when the whole text does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seen: String,
}

/// A rule as phrased by a reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleText {
    /// Subject; contradictions apply only within one subject.
    pub subject: String,
    /// One imperative sentence, at most `TITLE_CHARS_MAX` characters.
    pub title: String,
    /// Details that an agent gets on request, with the source; at most `CONTENT_CHARS_MAX` characters.
    pub content: String,
    /// Folder or file that the rule is limited to, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Result of reading a remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemarkReading {
    /// Classification of the remark.
    pub kind: ReadingKind,
    /// Certainty that the remark is a rule, 0 to 1000 thousandths: the sum of its features.
    pub certainty: u16,
    /// Evidence for and against.
    pub features: Vec<ReadingFeature>,
    /// Rule that the remark states. For a one-off, the rule that it would state if it were asked again, where it can
    /// be phrased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleText>,
    /// Reason in one sentence.
    pub why: String,
}

/// Result of screening a remark's body and the title that a reader made of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Screening {
    /// Reasons why the text is treated as hostile, one sentence each; empty when it is clean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostile: Vec<String>,
    /// Reason why the title is not an instruction about code; `None` when it is one, or when there is no title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_a_rule: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_follows_from_association_and_bot() {
        assert_eq!(AuthorStanding::from_association(AuthorAssociation::Owner, true), AuthorStanding::Bot);
        assert_eq!(
            AuthorStanding::from_association(AuthorAssociation::Collaborator, false),
            AuthorStanding::Insider
        );
        assert_eq!(
            AuthorStanding::from_association(AuthorAssociation::Contributor, false),
            AuthorStanding::Contributor
        );
        assert_eq!(
            AuthorStanding::from_association(AuthorAssociation::None, false),
            AuthorStanding::Outsider
        );
        assert!(
            AuthorStanding::Bot < AuthorStanding::Outsider
                && AuthorStanding::Contributor < AuthorStanding::Insider
        );
    }
}
