//! Loads the texts to post: each hostile text once by an outsider and once by a member, and genuine remarks
//! of maintainers.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::decisions::eval_data::{EvalData, read_rows};

/// Author under whose name a comment is posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Poster {
    /// Person outside the organisation, whose `author_association` is `NONE`.
    Outsider,
    /// Member of the organisation.
    Member,
}

impl Poster {
    pub(super) fn login(self) -> &'static str {
        match self {
            Self::Outsider => "eve",
            Self::Member => "ann",
        }
    }

    /// Returns the value of GitHub's `author_association` for this author.
    pub(super) fn association(self) -> &'static str {
        match self {
            Self::Outsider => "NONE",
            Self::Member => "MEMBER",
        }
    }
}

/// A text with its author and the repository to which it is posted.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Case {
    /// `true` if the data set labels the text as malicious.
    pub(super) malicious: bool,
    /// Kind of the text within its data set.
    pub(super) kind: String,
    pub(super) who: Poster,
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

/// Loads all cases, or at most `most` per kind and author. Skips blank texts, which cannot be remarks.
pub(super) fn load_cases(data: &EvalData, most: Option<usize>) -> Result<Vec<Case>> {
    let texts: Vec<Text> = read_rows(&data.set_folder("05_prompt_injection")?.join("texts.jsonl"))?;
    let reviews = data.set_folder("04a_review_rules")?;
    let threads: Vec<Thread> = read_rows(&reviews.join("discussions.jsonl"))?;
    let rules: Vec<Rule> = read_rows(&reviews.join("rules.jsonl"))?;
    let (malicious, benign): (Vec<_>, Vec<_>) = texts.into_iter().partition(|text| text.label == "malicious");
    let mut found = Vec::new();
    for who in [Poster::Outsider, Poster::Member] {
        found.extend(malicious.iter().map(|text| (true, text.kind.clone(), who, text.text.clone())));
    }
    let genuine = |kind: &str, text: String| (false, kind.to_owned(), Poster::Member, text);
    let real = benign.into_iter().filter(|text| text.kind == "real_review_comment");
    found.extend(real.map(|text| genuine("real_review_comment (05)", text.text)));
    let first = threads.into_iter().filter_map(|thread| thread.comments.into_iter().next());
    found.extend(first.map(|comment| genuine("first comment of a thread (04a)", comment.body)));
    found.extend(rules.into_iter().map(|rule| genuine("a rule as written down (04a)", rule.description)));
    found.retain(|(.., text)| !text.trim().is_empty());
    Ok(assign_repositories(draw_cases(found, most)))
}

type TextToPost = (bool, String, Poster, String);

/// Keeps up to `most` texts per kind and author, ordered by hash, so every machine draws the same texts.
fn draw_cases(mut found: Vec<TextToPost>, most: Option<usize>) -> Vec<TextToPost> {
    let Some(most) = most else { return found };
    found.sort_by_cached_key(|(.., text)| Sha256::digest(text.as_bytes()));
    let mut taken = BTreeMap::<(String, Poster), usize>::new();
    found.retain(|(_, kind, who, _)| {
        let taken = taken.entry((kind.clone(), *who)).or_default();
        *taken += 1;
        *taken <= most
    });
    found
}

fn assign_repositories(found: Vec<TextToPost>) -> Vec<Case> {
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
    fn texts_are_limited_by_kind_and_author_and_each_has_a_repository() {
        let one = |kind: &str, who: Poster, text: &str| (true, kind.to_owned(), who, text.to_owned());
        let found = vec![
            one("a", Poster::Member, "1"),
            one("a", Poster::Member, "2"),
            one("a", Poster::Outsider, "1"),
            one("b", Poster::Member, "3"),
        ];
        let cases = assign_repositories(draw_cases(found, Some(1)));
        assert_eq!(cases.len(), 3);
        let repos: std::collections::BTreeSet<_> = cases.iter().map(|case| &case.repo).collect();
        assert_eq!(repos.len(), 3);
    }
}
