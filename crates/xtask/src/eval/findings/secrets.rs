//! Are secrets cut out before anything is stored, and is what only looks like one left alone? Set 07 comes from the tests of
//! tools that do nothing else. A secret counts as found when anything of its text was cut out.
//!
//! Its labels are those of one rule of one tool at a time: a token that is a digit short is clean to the rule of its issuer, and
//! addresses of networks and names of buckets are secrets to others. So the figures stand twice: over everything, and over
//! what opens something and what nobody named a credential.

use std::sync::LazyLock;

use anyhow::Result;
use regex::Regex;
use retro_redact::Redactor;
use serde::Deserialize;

use super::super::{Data, rows};
use super::score::share;
use super::{Figure, Measure};

/// Recall and false alarms of the redactor.
pub(super) struct Secrets;

/// A text and its label, in pieces so that no scanner stops at the set itself.
#[derive(Deserialize)]
struct Text {
    id: String,
    label: String,
    kind: String,
    parts: Vec<String>,
}

/// One text: whether something was cut out, and whether it should have been.
pub(super) struct Case {
    id: String,
    shown: String,
    ours: bool,
    baseline: bool,
    truth: bool,
    /// A secret that opens something, or a clean text in which nothing is named a credential.
    plain: bool,
}

/// Kinds whose "secrets" open nothing, as `retro-redact` says of itself: public addresses, names of buckets, folders and
/// resources, and texts that only test a scanner's own comments.
const NO_CREDENTIAL: &[&str] = &[
    "ip_public",
    "no-homedir",
    "filter-comments",
    "AWS S3 Bucket",
    "Google Cloud Storage Bucket",
    "Amazon Resource Name",
    "no-k8s-kind-secret",
];

impl Measure for Secrets {
    const NAME: &'static str = "secrets cut out";
    const SET: &'static str = "07_secrets";
    type Case = Case;

    fn cases(data: &Data) -> Result<Vec<Case>> {
        let texts: Vec<Text> = rows(&data.set(Self::SET)?.join("cases.jsonl"))?;
        Ok(texts.into_iter().map(case).collect())
    }

    fn group(case: &Case) -> &str {
        &case.id
    }

    fn figures(cases: &[&Case]) -> Vec<Figure> {
        let figure = |name: &str, truth: bool, all: bool| {
            let of: Vec<_> = cases.iter().filter(|case| case.truth == truth && (all || case.plain)).collect();
            let said = |by: fn(&Case) -> bool| share(of.iter().map(|case| by(case)));
            Figure::new(name, of.len(), said(|case| case.ours), said(|case| case.baseline))
        };
        vec![
            figure("recall", true, true).with_goal(0.95),
            figure("recall, what opens something", true, false),
            figure("false alarms", false, true).within(0.0, 0.03),
            figure("false alarms, none is named", false, false),
        ]
    }

    fn mistake(case: &Case) -> Option<String> {
        let wrong = if case.truth { "missed" } else { "false alarm" };
        (case.ours != case.truth).then(|| format!("{wrong}: {}", case.shown))
    }
}

fn case(text: Text) -> Case {
    let whole = text.parts.concat();
    let truth = text.label == "secret";
    let opens = !NO_CREDENTIAL.contains(&text.kind.as_str());
    Case {
        plain: if truth { opens } else { !CREDENTIAL.is_match(&whole) },
        ours: Redactor::shared().redact(&whole).secrets > 0,
        baseline: NAMED.is_match(&whole),
        truth,
        shown: format!("{} {}: {whole:?}", text.id, text.kind),
        id: text.id,
    }
}

// What most people write first.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?i)(?:password|passwd|secret|token|api_?key)["']?\s*[:=]\s*\S{6,}"#)
        .expect("a constant pattern")
});

// Words by which people name a credential.
static CREDENTIAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)pass(?:word|wd|phrase)|secret|token|key|credential|auth").expect("a constant pattern")
});
