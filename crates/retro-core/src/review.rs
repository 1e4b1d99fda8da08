//! Reviews: the remarks of people on pull requests, and the decision about which remarks become rules.
//!
//! A reader classifies each [`Remark`] ([`RemarkReading`]), and the caller has the text screened ([`Screening`]). Then
//! [`settle_review`] decides, for all remarks of a review together, which mutations they request, or why they request
//! none. If in doubt, a remark is not treated as a rule. The writer's part is in `learn::rules`.

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

/// Relation of a person to the repository, as reported by GitHub (`author_association`). GitHub may report a weaker
/// relation for people whose membership is private.
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
    /// The person has none of these relations, contributes for the first time, or has an unknown relation.
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
    /// The reviewer commented and neither approved the pull request nor requested changes.
    Commented,
    /// The review was dismissed.
    Dismissed,
    /// The review was begun and not submitted, or its state is unknown.
    #[serde(other)]
    Pending,
}

/// Standing of an author: how much a person is trusted when rules are made. The lowest standing comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthorStanding {
    /// The author is a program. It never creates a rule, and only adds evidence to an active rule that a person asked
    /// for.
    Bot,
    /// The author is unknown or contributes for the first time. Rules are quarantined until an operator promotes them.
    Outsider,
    /// The author has had a commit merged. Rules are tentative until they are asked for again on another pull request.
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

    /// Returns the standing as the word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bot => "bot",
            Self::Outsider => "outsider",
            Self::Contributor => "contributor",
            Self::Insider => "insider",
        }
    }
}

/// A comment on a pull request, as it was collected, with its body redacted. The author may be hostile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Key of the remark.
    pub key: RemarkKey,
    /// GitHub's id of the review that the remark belongs to; `None` if it belongs to no review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<u64>,
    /// State of the review that the remark belongs to; `None` if it belongs to no review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ReviewState>,
    /// GitHub's id of the first comment of the thread, if the remark is a reply; `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<u64>,
    /// Name of the author; empty if the account was deleted.
    pub by: String,
    /// True if GitHub marks the author as a bot.
    #[serde(default)]
    pub bot: bool,
    /// Relation of the author to the repository. The actual relation may be closer.
    #[serde(default)]
    pub association: AuthorAssociation,
    /// True if the author also wrote the pull request.
    #[serde(default)]
    pub by_author: bool,
    /// Text of the remark in Markdown, with secrets redacted.
    pub body: String,
    /// File on which the remark was made; `None` if it is not about a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Line of that file; `None` if the remark is not about a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Time when the remark was written.
    pub at: Timestamp,
    /// Address of the remark's web page; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// True if the text was edited after the remark was written.
    #[serde(default)]
    pub edited: bool,
    /// True if the remark was deleted. Its text may still be stored here, but it is ignored.
    #[serde(default)]
    pub deleted: bool,
}

impl Remark {
    /// Returns the standing of the author.
    pub const fn standing(&self) -> AuthorStanding {
        AuthorStanding::from_association(self.association, self.bot)
    }

    /// Returns a hash of the current text, as 16 hexadecimal digits. An edited remark is decided again, but no text of
    /// a remark is decided twice.
    pub fn edition(&self) -> String {
        content_hash(&serde_json::Value::from(self.body.as_str()))[..EDITION_DIGITS].to_owned()
    }
}

/// Number of hash digits that distinguish the editions of one remark. Few are enough, because one person wrote all
/// editions and there is only a handful of them.
const EDITION_DIGITS: usize = 16;

/// Evidence that a remark is a rule, apart from its words, as known at the time of the decision. When more evidence
/// becomes known, the remark is decided again, and changes that were already made are not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemarkSupport {
    /// True if the thread of the remark was resolved.
    #[serde(default)]
    pub resolved: bool,
    /// True if the author of the pull request answered that the request was done ([`is_acknowledgement`]).
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
    /// The remark states how things are done in this repository from now on.
    Rule,
    /// The remark asks for a change in this pull request only.
    OneOff,
    /// The remark asks a question, or its author thinks aloud.
    Question,
    /// The remark praises the change.
    Praise,
    /// The remark contains nothing to learn: it is an acknowledgement, a status, or a post of a program.
    Noise,
}

impl ReadingKind {
    /// All kinds, in the order in which they are shown to people.
    pub const ALL: [Self; 5] = [Self::Rule, Self::OneOff, Self::Question, Self::Praise, Self::Noise];

    /// Returns the kind as the words that are shown.
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

/// A feature of a remark that is evidence for or against the remark being a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadingFeature {
    /// Name of the feature, such as `imperative`, `always` or `suggestion block`.
    pub name: String,
    /// Contribution to the certainty, in thousandths; negative if the feature is evidence against a rule.
    pub counts: i32,
    /// Words that show the feature; empty when the whole text shows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seen: String,
}

/// A rule, as the reader phrased it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleText {
    /// Subject of the rule. Two rules can contradict each other only if they have the same subject.
    pub subject: String,
    /// Rule as one imperative sentence of at most `TITLE_CHARS_MAX` characters.
    pub title: String,
    /// Details that an agent gets when it opens the rule, including the source; at most `CONTENT_CHARS_MAX` characters.
    pub content: String,
    /// Folder or file to which the rule is limited; `None` for the whole repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Result of a reader's analysis of a remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemarkReading {
    /// Classification of the remark.
    pub kind: ReadingKind,
    /// Certainty that the remark is a rule, from 0 to 1000 thousandths. It is the sum of the contributions of
    /// `features`.
    pub certainty: u16,
    /// Evidence for and against the remark being a rule.
    pub features: Vec<ReadingFeature>,
    /// Rule that the remark states; `None` if none can be phrased. For a one-off, this is the rule that the remark
    /// would state if others asked for the same thing again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleText>,
    /// Reason for the classification, as one sentence.
    pub why: String,
}

/// Result of screening the body of a remark and the title that the reader made from it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Screening {
    /// Reasons why the text is treated as hostile, one sentence each; empty when it is clean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostile: Vec<String>,
    /// Reason why the title is not an instruction about code; `None` if it is one, or if there is no title.
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
