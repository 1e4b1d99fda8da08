//! Reviews: what people say of a pull request, and what of it is worth keeping as a rule.
//!
//! A [`Remark`] comes in, a reader says what it is ([`Reading`]), the shell has its text screened ([`Screening`]), and
//! [`settle`] decides for all remarks of a review what is asked of memory, and why not for the others. When in doubt a
//! remark is no rule. What the writer makes of it is in `learn::rules`.

mod key;
mod report;
mod settle;
mod support;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::canonical::content_hash;

pub use key::{PullRequestRef, RemarkKey, RemarkKind, Repository, ReviewKey};
pub(crate) use report::Inputs;
pub use report::{ReportedRemark, ReviewReport};
pub use settle::{
    ACKNOWLEDGED_COUNTS, ASKED_AGAIN_COUNTS, Decided, OtherRequest, REMARKS_MAX, RESOLVED_COUNTS, ReadRemark,
    ReviewBatch, RuleAsk, RuleMutation, Settled, THUMBS_COUNT, settle,
};
pub use support::is_acknowledgement;

/// How somebody stands to the repository, as GitHub says (`author_association`). For private members it says less than is
/// true: a floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Association {
    /// Owns the repository.
    Owner,
    /// Member of the organisation that owns it.
    Member,
    /// Was invited to it.
    Collaborator,
    /// Has had a commit merged into it.
    Contributor,
    /// Anybody else, first-timers included, and every word that is not known.
    #[default]
    None,
}

/// The verdict of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    /// It may be merged.
    Approved,
    /// Something has to change first.
    ChangesRequested,
    /// Neither.
    Commented,
    /// Taken back.
    Dismissed,
    /// Begun and not sent, or a word that is not known.
    #[serde(other)]
    Pending,
}

/// What somebody's word counts for when rules are made, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// A program: never makes a rule; counts for an active one that a person asked for.
    Bot,
    /// Nobody we know, first-timers included: quarantined, and only a person promotes.
    Outsider,
    /// Has had a commit merged: tentative until asked again on another pull request.
    Contributor,
    /// Owner, member or collaborator: active at once.
    Insider,
}

impl Standing {
    /// What an association and being a bot come to.
    pub const fn of(association: Association, bot: bool) -> Self {
        match association {
            _ if bot => Self::Bot,
            Association::Owner | Association::Member | Association::Collaborator => Self::Insider,
            Association::Contributor => Self::Contributor,
            Association::None => Self::Outsider,
        }
    }

    /// The word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bot => "bot",
            Self::Outsider => "outsider",
            Self::Contributor => "contributor",
            Self::Insider => "insider",
        }
    }
}

/// A comment as it was collected, its body redacted. Whoever wrote it may be hostile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Which.
    pub key: RemarkKey,
    /// GitHub's id of the review that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<u64>,
    /// What that review came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ReviewState>,
    /// The first comment of the thread that it answers in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<u64>,
    /// Who wrote it; empty for a deleted account.
    pub by: String,
    /// Whether GitHub calls them a bot.
    #[serde(default)]
    pub bot: bool,
    /// How they stand to the repository, at least.
    #[serde(default)]
    pub association: Association,
    /// Whether they are the author of the pull request.
    #[serde(default)]
    pub by_author: bool,
    /// The text, Markdown, redacted.
    pub body: String,
    /// The file that it was made on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// When it was written.
    pub at: Timestamp,
    /// The page for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Whether its text has changed since it was written.
    #[serde(default)]
    pub edited: bool,
    /// Whether it was deleted since; its text may still stand here and counts for nothing.
    #[serde(default)]
    pub deleted: bool,
}

impl Remark {
    /// What the word of whoever wrote it counts for.
    pub const fn standing(&self) -> Standing {
        Standing::of(self.association, self.bot)
    }

    /// Names the text as it stands: an edited remark is decided anew, the same text never twice. 16 hexadecimal digits.
    pub fn edition(&self) -> String {
        content_hash(&serde_json::Value::from(self.body.as_str()))[..EDITION_DIGITS].to_owned()
    }
}

/// Digits of a hash that tell the editions of one remark apart: a handful of texts by one person.
const EDITION_DIGITS: usize = 16;

/// What speaks for a remark besides its own words, as known when it is decided. More may come later: then it is decided
/// again, and what has happened before happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Support {
    /// Its thread was resolved.
    #[serde(default)]
    pub resolved: bool,
    /// The author of the pull request said that it was done ([`is_acknowledgement`]).
    #[serde(default)]
    pub acknowledged: bool,
    /// How many 👍 it has.
    #[serde(default)]
    pub thumbs_up: u64,
}

/// What a remark is, in the eyes of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadingKind {
    /// States how things are to be done here, from now on.
    Rule,
    /// Asks for something in this change.
    OneOff,
    /// Asks, or thinks aloud.
    Question,
    /// Likes it.
    Praise,
    /// Nothing to learn from: acknowledgements, status, what programs post.
    Noise,
}

impl ReadingKind {
    /// Every kind, in the order in which people read them.
    pub const ALL: [Self; 5] = [Self::Rule, Self::OneOff, Self::Question, Self::Praise, Self::Noise];

    /// The words as shown.
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

/// Something about a remark that spoke for or against its being a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// What was seen: `imperative`, `always`, `suggestion block`, …
    pub name: String,
    /// What it counts for, in thousandths; negative: against.
    pub counts: i32,
    /// The words that show it; empty when the whole text does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seen: String,
}

/// A rule as a reader phrases it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleText {
    /// What it is about; contradiction stays within one subject.
    pub subject: String,
    /// One imperative sentence, at most `TITLE_CHARS_MAX` characters.
    pub title: String,
    /// What a reader gets on request, with the source: at most `CONTENT_CHARS_MAX` characters.
    pub content: String,
    /// The folder or file that it is confined to, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// What a reader makes of a remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// What it is.
    pub kind: ReadingKind,
    /// How sure it is that this is a rule, thousandths, 0 … 1000: the sum of its features.
    pub certainty: u16,
    /// What spoke for and against.
    pub features: Vec<Feature>,
    /// The rule that it states or would state if it were asked again: of a one-off, too, where it can be phrased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleText>,
    /// Why, in one sentence.
    pub why: String,
}

/// What screening said of a remark's body and of the title that a reader made of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Screening {
    /// Why the text is taken for hostile, one sentence each; empty: it is clean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostile: Vec<String>,
    /// Why the title is no instruction about code; `None`: it is one, or there is no title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_a_rule: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_is_the_association_and_a_bot_is_a_bot() {
        assert_eq!(Standing::of(Association::Owner, true), Standing::Bot);
        assert_eq!(Standing::of(Association::Collaborator, false), Standing::Insider);
        assert_eq!(Standing::of(Association::Contributor, false), Standing::Contributor);
        assert_eq!(Standing::of(Association::None, false), Standing::Outsider);
        assert!(Standing::Bot < Standing::Outsider && Standing::Contributor < Standing::Insider);
    }
}
