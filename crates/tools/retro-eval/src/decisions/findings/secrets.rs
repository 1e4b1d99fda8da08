//! Measures whether secrets are redacted before anything is stored, and whether similar clean texts are left
//! unchanged. Set 07 comes from the tests of secret scanners. A secret counts as found if any part of it was
//! redacted.
//!
//! Each label follows one rule of one scanner. A token that is one digit short is clean by its issuer's rule,
//! and some scanners call network addresses and bucket names secrets. Each figure is therefore printed twice:
//! for all texts, and for the unambiguous ones, which are real credentials and texts that do not mention
//! credentials.
//!
//! The texts of one scanner resemble each other, so a rule written for one is likely to find the next. The
//! unambiguous figures are therefore also printed for each scanner. A scanner whose mistakes were never read
//! ([`READ_SOURCES`] names the others) tells what to expect of texts from elsewhere.

use std::sync::LazyLock;

use anyhow::{Context, Result};
use regex::Regex;
use retro_redact::Redactor;
use serde::Deserialize;

use super::measure::{Figure, Measure};
use super::score::share_of_true;
use crate::decisions::eval_data::{EvalData, read_rows};

/// Measures recall and false alarms of the redactor.
pub(super) struct SecretRedaction;

/// A labelled text, split into parts so that no secret scanner reports the data set itself.
#[derive(Deserialize)]
struct Text {
    id: String,
    label: String,
    kind: String,
    parts: Vec<String>,
    /// Project and collection that the text comes from, such as `Yelp/detect-secrets tests`.
    source: String,
}

/// A text with the results of the redactor and of the baseline, and the label.
pub(super) struct Case {
    id: String,
    description: String,
    ours: bool,
    baseline: bool,
    truth: bool,
    /// `true` for a real credential, and for a clean text that does not mention credentials.
    is_unambiguous: bool,
    source: Source,
}

/// Scanner from whose tests a text comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    DetectSecrets,
    Secretlint,
    Gitleaks,
    NoseyParker,
}

impl Source {
    const ALL: [Self; 4] = [Self::DetectSecrets, Self::Secretlint, Self::Gitleaks, Self::NoseyParker];

    const fn project(self) -> &'static str {
        match self {
            Self::DetectSecrets => "Yelp/detect-secrets",
            Self::Secretlint => "secretlint/secretlint",
            Self::Gitleaks => "gitleaks/gitleaks",
            Self::NoseyParker => "praetorian-inc/noseyparker",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::DetectSecrets => "yelp",
            Self::Secretlint => "secretlint",
            Self::Gitleaks => "gitleaks",
            Self::NoseyParker => "noseyparker",
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let project = |source: &Self| text.starts_with(source.project());
        Self::ALL.into_iter().find(project).with_context(|| format!("unknown source `{text}`"))
    }
}

/// Sources whose mistakes were read while the present rules were written. Rules that are older were written
/// with all sources at hand, so the figures of the other two are no clean first contact for those.
const READ_SOURCES: [Source; 2] = [Source::DetectSecrets, Source::Gitleaks];

/// Kinds of texts that `retro-redact` does not treat as credentials: public addresses, names of buckets,
/// folders and resources, and texts that only test a scanner's own comments.
const NO_CREDENTIAL: &[&str] = &[
    "ip_public",
    "no-homedir",
    "filter-comments",
    "AWS S3 Bucket",
    "Google Cloud Storage Bucket",
    "Amazon Resource Name",
    "no-k8s-kind-secret",
];

impl Measure for SecretRedaction {
    const NAME: &'static str = "secrets redacted";
    const SET: &'static str = "07_secrets";
    type Case = Case;

    fn load_cases(data: &EvalData) -> Result<Vec<Case>> {
        let texts: Vec<Text> = read_rows(&data.set_folder(Self::SET)?.join("cases.jsonl"))?;
        texts.into_iter().map(build_case).collect()
    }

    fn group_key(case: &Case) -> &str {
        &case.id
    }

    fn compute_figures(cases: &[&Case]) -> Vec<Figure> {
        let figure = |name: &str, truth: bool, all: bool| {
            let of: Vec<_> =
                cases.iter().filter(|case| case.truth == truth && (all || case.is_unambiguous)).collect();
            let said = |by: fn(&Case) -> bool| share_of_true(of.iter().map(|case| by(case)));
            Figure::new(name, of.len(), said(|case| case.ours), said(|case| case.baseline))
        };
        vec![
            figure("recall", true, true).with_goal(0.95),
            figure("recall, real credentials", true, false),
            figure("false alarms", false, true).with_range(0.0, 0.03),
            figure("false alarms, none named", false, false),
        ]
        .into_iter()
        .chain(Source::ALL.into_iter().flat_map(|source| figures_of_source(cases, source)))
        .collect()
    }

    fn describe_mistake(case: &Case) -> Option<String> {
        let wrong = if case.truth { "missed" } else { "false alarm" };
        (case.ours != case.truth).then(|| format!("{wrong}: {}", case.description))
    }
}

/// Computes recall and false alarms on the unambiguous texts of one source. A source without such texts has no
/// goal.
fn figures_of_source(cases: &[&Case], source: Source) -> [Figure; 2] {
    let read = if READ_SOURCES.contains(&source) { ", read" } else { "" };
    let figure = |name: &str, truth: bool| {
        let is_of_source =
            |case: &&&Case| case.source == source && case.truth == truth && case.is_unambiguous;
        let of: Vec<_> = cases.iter().filter(is_of_source).collect();
        let said = |by: fn(&Case) -> bool| share_of_true(of.iter().map(|case| by(case)));
        let name = format!("{name}, {}{read}", source.name());
        Figure::new(name, of.len(), said(|case| case.ours), said(|case| case.baseline))
    };
    let (recall, alarms) = (figure("recall", true), figure("false alarms", false));
    [
        if recall.cases > 0 { recall.with_goal(0.85) } else { recall },
        if alarms.cases > 0 { alarms.with_range(0.0, 0.05) } else { alarms },
    ]
}

fn build_case(text: Text) -> Result<Case> {
    let whole = text.parts.concat();
    let truth = text.label == "secret";
    let opens = !NO_CREDENTIAL.contains(&text.kind.as_str());
    Ok(Case {
        source: Source::parse(&text.source)?,
        is_unambiguous: if truth { opens } else { !CREDENTIAL_WORDS.is_match(&whole) },
        ours: Redactor::shared().redact(&whole).secrets > 0,
        baseline: BASELINE.is_match(&whole),
        truth,
        description: format!("{} {}: {whole:?}", text.id, text.kind),
        id: text.id,
    })
}

// The usual first attempt, used as a baseline.
static BASELINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?i)(?:password|passwd|secret|token|api_?key)["']?\s*[:=]\s*\S{6,}"#)
        .expect("a constant pattern")
});

// Words that name a credential.
static CREDENTIAL_WORDS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)pass(?:word|wd|phrase)|secret|token|key|credential|auth").expect("a constant pattern")
});
