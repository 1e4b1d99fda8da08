//! Reviews: remarks on pull requests, and the decision on which of them become rules.
//!
//! A reader classifies each [`Remark`] ([`RemarkReading`]), and the caller screens its text ([`Screening`]).
//! For all remarks of a review together, [`settle_review`] then decides which mutations they request, or why
//! they request none. If in doubt, a remark is not treated as a rule. The writer applies the mutations in
//! `learn::rules`.

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

/// Relation of a person to the repository, as reported by GitHub (`author_association`). GitHub may report a
/// weaker relation for people whose membership is private.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthorAssociation {
    /// The person owns the repository.
    Owner,
    /// The person is a member of the organisation that owns the repository.
    Member,
    /// The person was invited to collaborate on the repository.
    Collaborator,
    /// The person has had a commit merged into the repository.
    Contributor,
    /// No relation, a first contribution, or a relation unknown to this version.
    #[default]
    None,
}

/// State of a review, as reported by GitHub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    /// The reviewer approved the pull request.
    Approved,
    /// The reviewer requested changes.
    ChangesRequested,
    /// The reviewer commented without approving or requesting changes.
    Commented,
    /// The review was dismissed.
    Dismissed,
    /// The review was started but not submitted, or its state is unknown.
    #[serde(other)]
    Pending,
}

/// Standing of a remark's author, from lowest to highest, which limits what the remark can do to rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthorStanding {
    /// The author is a program. Its remarks never create a rule and only add evidence to active rules that a
    /// person asked for.
    Bot,
    /// The author is unknown or contributes for the first time. Rules are quarantined until an operator
    /// promotes them.
    Outsider,
    /// The author has had a commit merged. Rules are tentative until requested again on another pull request.
    Contributor,
    /// The author is an owner, a member or a collaborator. Rules become active immediately.
    Insider,
}

impl AuthorStanding {
    /// Returns the standing of a person with this association, or of a bot.
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

    /// Returns the standing as it is stored and shown, such as `insider`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bot => "bot",
            Self::Outsider => "outsider",
            Self::Contributor => "contributor",
            Self::Insider => "insider",
        }
    }
}

/// A comment on a pull request, as collected, with secrets redacted. The author may be hostile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Key of the remark.
    pub key: RemarkKey,
    /// GitHub's id of the review that contains the remark; `None` if no review does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<u64>,
    /// State of the review that contains the remark; `None` if no review does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_state: Option<ReviewState>,
    /// For a reply, GitHub's id of the first comment of the thread; `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<u64>,
    /// Name of the author; empty if the account was deleted.
    pub by: String,
    /// `true` if GitHub marks the author as a bot.
    #[serde(default)]
    pub bot: bool,
    /// Relation of the author to the repository, as reported. The actual relation may be closer.
    #[serde(default)]
    pub association: AuthorAssociation,
    /// `true` if the author of the remark also opened the pull request.
    #[serde(default)]
    pub by_author: bool,
    /// Text of the remark in Markdown, with secrets redacted.
    pub body: String,
    /// Path of the file that the remark was made on; `None` if it was not made on a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Line in that file; `None` if the remark was not made on a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Time when the remark was written.
    pub at: Timestamp,
    /// URL of the remark's web page; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `true` if the text was edited later.
    #[serde(default)]
    pub edited: bool,
    /// `true` if the remark was deleted. Its text may still be stored, but it is ignored.
    #[serde(default)]
    pub deleted: bool,
}

impl Remark {
    /// Returns the standing of the author.
    pub const fn standing(&self) -> AuthorStanding {
        AuthorStanding::from_association(self.association, self.bot)
    }

    /// Returns a hash of the current text, as 16 hexadecimal digits. An edited remark is decided again, but
    /// the same text of a remark takes effect only once.
    pub fn edition(&self) -> String {
        content_hash(&serde_json::Value::from(self.body.as_str()))[..EDITION_DIGITS].to_owned()
    }
}

/// Number of hash digits that distinguish the editions of one remark. Few are enough: a remark has a handful
/// of editions, all by the same author.
const EDITION_DIGITS: usize = 16;

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
}

impl ReadingKind {
    /// All kinds, in display order.
    pub const ALL: [Self; 5] = [Self::Rule, Self::OneOff, Self::Question, Self::Praise, Self::Noise];

    /// Returns the kind as it is shown, such as `one-off`.
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
