//! What is posted: hostile texts by an outsider and by a member, and what maintainers really said.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::eval::{Data, rows};

/// Who posts a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Who {
    /// Anybody: `author_association` is `NONE`.
    Outsider,
    /// Somebody of the organisation.
    Member,
}

impl Who {
    pub(super) fn login(self) -> &'static str {
        match self {
            Self::Outsider => "eve",
            Self::Member => "ann",
        }
    }

    /// As GitHub writes it.
    pub(super) fn association(self) -> &'static str {
        match self {
            Self::Outsider => "NONE",
            Self::Member => "MEMBER",
        }
    }
}

/// A text, whose it is, and the repository that it alone is posted to.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Case {
    /// It was written to do harm, as its source says.
    pub(super) malicious: bool,
    /// The kind of its set.
    pub(super) kind: String,
    pub(super) who: Who,
    pub(super) repo: String,
    pub(super) text: String,
}

#[derive(Deserialize)]
struct Text {
    label: String,
    kind: String,
    text: String,
}

#[derive(Deserialize)]
struct Thread {
    comments: Vec<Comment>,
}

#[derive(Deserialize)]
struct Comment {
    body: String,
}

#[derive(Deserialize)]
struct Rule {
    description: String,
}

/// Every case, or so many of each kind and poster. A text without words is no remark and is left out.
pub(super) fn all(data: &Data, most: Option<usize>) -> Result<Vec<Case>> {
    let texts: Vec<Text> = rows(&data.set("05_prompt_injection")?.join("texts.jsonl"))?;
    let reviews = data.set("04a_review_rules")?;
    let threads: Vec<Thread> = rows(&reviews.join("discussions.jsonl"))?;
    let rules: Vec<Rule> = rows(&reviews.join("rules.jsonl"))?;
    let (malicious, benign): (Vec<_>, Vec<_>) = texts.into_iter().partition(|text| text.label == "malicious");
    let mut found = Vec::new();
    for who in [Who::Outsider, Who::Member] {
        found.extend(malicious.iter().map(|text| (true, text.kind.clone(), who, text.text.clone())));
    }
    let genuine = |kind: &str, text: String| (false, kind.to_owned(), Who::Member, text);
    let real = benign.into_iter().filter(|text| text.kind == "real_review_comment");
    found.extend(real.map(|text| genuine("real_review_comment (05)", text.text)));
    let first = threads.into_iter().filter_map(|thread| thread.comments.into_iter().next());
    found.extend(first.map(|comment| genuine("first comment of a thread (04a)", comment.body)));
    found.extend(rules.into_iter().map(|rule| genuine("a rule as written down (04a)", rule.description)));
    found.retain(|(.., text)| !text.trim().is_empty());
    Ok(numbered(drawn(found, most)))
}

type Unplaced = (bool, String, Who, String);

/// So many of each kind and poster, by the hash of the text: the same for everybody.
fn drawn(mut found: Vec<Unplaced>, most: Option<usize>) -> Vec<Unplaced> {
    let Some(most) = most else { return found };
    found.sort_by_cached_key(|(.., text)| Sha256::digest(text.as_bytes()));
    let mut taken = BTreeMap::<(String, Who), usize>::new();
    found.retain(|(_, kind, who, _)| {
        let taken = taken.entry((kind.clone(), *who)).or_default();
        *taken += 1;
        *taken <= most
    });
    found
}

fn numbered(found: Vec<Unplaced>) -> Vec<Case> {
    let placed = found.into_iter().enumerate().map(|(nth, (malicious, kind, who, text))| {
        let repo = format!("acme/of-{}-{nth}", who.login());
        Case { malicious, kind, who, repo, text }
    });
    placed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_of_each_kind_and_poster_are_drawn_and_each_has_a_repository() {
        let one = |kind: &str, who: Who, text: &str| (true, kind.to_owned(), who, text.to_owned());
        let found = vec![
            one("a", Who::Member, "1"),
            one("a", Who::Member, "2"),
            one("a", Who::Outsider, "1"),
            one("b", Who::Member, "3"),
        ];
        let cases = numbered(drawn(found, Some(1)));
        assert_eq!(cases.len(), 3);
        let repos: std::collections::BTreeSet<_> = cases.iter().map(|case| &case.repo).collect();
        assert_eq!(repos.len(), 3);
    }
}
