//! Are secrets cut out before anything is stored, and is what only looks like one left alone? Set 07 comes from the tests of
//! tools that do nothing else. A secret counts as found when anything of its text was cut out.

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
}

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
        let figure = |name: &str, truth: bool| {
            let of: Vec<_> = cases.iter().filter(|case| case.truth == truth).collect();
            let said = |by: fn(&Case) -> bool| share(of.iter().map(|case| by(case)));
            Figure::new(name, of.len(), said(|case| case.ours), said(|case| case.baseline))
        };
        vec![figure("recall", true).with_goal(0.95), figure("false alarms", false).within(0.0, 0.03)]
    }

    fn mistake(case: &Case) -> Option<String> {
        let wrong = if case.truth { "missed" } else { "false alarm" };
        (case.ours != case.truth).then(|| format!("{wrong}: {}", case.shown))
    }
}

fn case(text: Text) -> Case {
    let whole = text.parts.concat();
    Case {
        ours: Redactor::shared().redact(&whole).secrets > 0,
        baseline: NAMED.is_match(&whole),
        truth: text.label == "secret",
        shown: format!("{} {}: {whole:?}", text.id, text.kind),
        id: text.id,
    }
}

// What most people write first.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?i)(?:password|passwd|secret|token|api_?key)["']?\s*[:=]\s*\S{6,}"#)
        .expect("a constant pattern")
});
