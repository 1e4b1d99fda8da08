//! Remarks on pull requests, with the standing of their authors.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::canonical::content_hash;
use crate::id::RemarkKey;

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
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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
    pub fn as_str(self) -> &'static str {
        self.into()
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
    /// `true` if the text is only the beginning of what the author wrote.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
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
