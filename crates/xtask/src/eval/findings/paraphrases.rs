//! Do two sentences say the same? Pairs of set 06a: what several review tools reported, matched by judges against issues that
//! people verified. Those that differ stand mostly under the same pull request, so they share its names.
//!
//! `cargo xtask eval paraphrases` measures any embedder so and, asked to calibrate, prints the scale that belongs to it: from
//! the part that may be read, three cosines by one rule for every embedder.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use retro_core::finding::Cue;
use retro_core::memory::Lesson;
use retro_core::similar::{Embedder, KnownVectors, NgramEmbedder, Scale, cosine, similarity};
use retro_embed::Directory;
use retro_store::VectorSource as _;
use serde::Deserialize;

use super::super::{Data, Part, rows};
use super::score::{ratio, saying_yes, share};
use super::{Figure, Measure, Row};

/// How the measurement of embedders is asked for.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    data: Data,
    /// Also writes the table as a JSON document into this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Shows so many mistakes of each embedder, of the part that may be read.
    #[arg(long, default_value_t = 0)]
    wrong: usize,
    /// Also measures the Model2Vec weights in this directory.
    #[arg(long)]
    embedder_dir: Option<PathBuf>,
    /// Prints the scale of each embedder, calibrated on the part that may be read.
    #[arg(long)]
    calibrate: bool,
}

/// The nearness of paraphrases, by the built-in embedder.
pub(super) struct Paraphrases;

/// Of the pairs that are different and hard to tell apart, so many may be kept away by a tombstone: what is stopped wrongly
/// comes again as soon as the tombstone has expired.
const STOPPED_WRONGLY_MAX: f64 = 0.05;

/// A line of the set.
#[derive(Deserialize)]
struct Pair {
    a: String,
    b: String,
    label: u8,
    kind: String,
    pr: String,
}

/// A pair with what the embedder, and the share of common words, made of it.
pub(super) struct Case {
    pair: Pair,
    /// Thousandths of the embedder's own cosine.
    cosine: u16,
    /// Thousandths of the common scale.
    ours: u16,
    baseline: f64,
}

impl Measure for Paraphrases {
    const NAME: &'static str = "paraphrases (built-in)";
    const SET: &'static str = "06a_paraphrase_review_issues";
    type Case = Case;

    fn cases(data: &Data) -> Result<Vec<Case>> {
        cases(data, &NgramEmbedder)
    }

    fn group(case: &Case) -> &str {
        &case.pair.pr
    }

    fn figures(cases: &[&Case]) -> Vec<Figure> {
        let hard: Vec<_> = cases.iter().copied().filter(|case| case.same() || case.hard()).collect();
        let issues: Vec<_> =
            cases.iter().copied().filter(|case| case.same() || case.pair.kind == OTHER_ISSUE).collect();
        let at = |name: &str, threshold: u16| {
            let said = |case: &&Case| (case.ours >= threshold, case.same());
            let words = |case: &&Case| (case.baseline >= WORDS_IN_COMMON, case.same());
            let (ours, baseline) = (saying_yes(cases.iter().map(said)), saying_yes(cases.iter().map(words)));
            [
                Figure::new(format!("F1 to {name}"), cases.len(), ours.f1(), baseline.f1()),
                Figure::new(format!("precision to {name}"), cases.len(), ours.precision, baseline.precision),
            ]
        };
        let area = |name: &str, cases: &[&Case]| {
            Figure::new(
                name,
                cases.len(),
                area(cases, |case| f64::from(case.cosine)),
                area(cases, |case| case.baseline),
            )
        };
        let mut figures = vec![
            area("AUC", cases).with_goal(0.96),
            area("AUC, same pull request", &hard),
            area("AUC, its other issues", &issues),
        ];
        figures.extend(at("contradict", Scale::CONTRADICTION));
        figures.extend(at("be stopped", Scale::TOMBSTONE));
        figures.extend(at("merge", Scale::MERGE));
        figures
    }

    fn mistake(case: &Case) -> Option<String> {
        let wrong = match (case.ours >= Scale::TOMBSTONE, case.same()) {
            (true, false) => "stopped",
            (false, true) => "let through",
            _ => return None,
        };
        Some(format!("{wrong} at {}: {:?} / {:?}", case.ours, case.pair.a, case.pair.b))
    }
}

/// Pairs of different issues of one pull request.
const OTHER_ISSUE: &str = "same_pr_other_issue";
/// Pairs of two projects, which share nothing.
const OTHER_PROJECT: &str = "other_project";
/// The baseline says "the same" when so much of all words is in both: what is best for it (F1) on the part that may be read.
const WORDS_IN_COMMON: f64 = 0.09;

impl Case {
    fn same(&self) -> bool {
        self.pair.label == 1
    }

    fn hard(&self) -> bool {
        !self.same() && self.pair.kind != OTHER_PROJECT
    }
}

/// Measures every embedder that is at hand, prints the table and writes it.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut all: Vec<Row> = Vec::new();
    for embedder in embedders(options)? {
        let cases = cases(&options.data, &*embedder)?;
        if options.calibrate {
            let scale = calibrate(&cases).with_context(|| format!("calibrating {}", embedder.name()))?;
            println!("{}: {}", embedder.name(), serde_json::to_string(&scale)?);
        }
        all.extend(super::rows_of::<Paraphrases>(
            &format!("paraphrases {}", embedder.name()),
            &cases,
            options.wrong,
        ));
    }
    super::tell(&all, options.json.as_deref())
}

/// The built-in one, and the weights that are named.
fn embedders(options: &Options) -> Result<Vec<Box<dyn Embedder>>> {
    let mut embedders: Vec<Box<dyn Embedder>> = vec![Box::new(NgramEmbedder)];
    if let Some(dir) = &options.embedder_dir {
        let weights = Directory::to_calibrate(dir)?;
        let texts: BTreeSet<String> =
            pairs(&options.data)?.into_iter().flat_map(|pair| [pair.a, pair.b]).collect();
        let texts: Vec<String> = texts.into_iter().collect();
        let made = weights.vectors(&texts)?.into_iter().map(Some);
        let vectors = texts.into_iter().zip(made).collect();
        let (name, scale) = (weights.name().to_owned(), weights.scale());
        embedders.push(Box::new(KnownVectors { name, scale, vectors }));
    }
    Ok(embedders)
}

/// The scale of an embedder, from the part of the cases that may be read: two texts are about one thing from the cosine that
/// separates best (F1); a tombstone stops from where at most [`STOPPED_WRONGLY_MAX`] of what is different and hard is
/// stopped; and two texts are merged from where nothing that is different would be. Fails when these do not grow.
fn calibrate(cases: &[Case]) -> Result<Scale> {
    let read: Vec<_> = cases.iter().filter(|case| Part::of(Paraphrases::group(case)) == Part::Read).collect();
    ensure!(!read.is_empty(), "the set has no pair that may be read");
    let f1 = |from: u16| saying_yes(read.iter().map(|case| (case.cosine >= from, case.same()))).f1();
    let contradiction =
        (1..1000u16).max_by(|a, b| f1(*a).total_cmp(&f1(*b)).then(b.cmp(a))).expect("a thousand of them");
    let wrongly = |from: u16| share(read.iter().filter(|case| case.hard()).map(|case| case.cosine >= from));
    let first = |most: f64| (contradiction..1000).find(|from| wrongly(*from) <= most).unwrap_or(1000);
    let scale = Scale { contradiction, tombstone: first(STOPPED_WRONGLY_MAX), merge: first(0.0) };
    Ok(scale.check()?)
}

fn pairs(data: &Data) -> Result<Vec<Pair>> {
    rows(&data.set(Paraphrases::SET)?.join("pairs.jsonl"))
}

fn cases(data: &Data, embedder: &dyn Embedder) -> Result<Vec<Case>> {
    let case = |pair: Pair| {
        let vector = |text: &str| embedder.embed(text).unwrap_or_default();
        Case {
            cosine: cosine(&vector(&pair.a), &vector(&pair.b)),
            ours: similarity(embedder, &lesson(&pair.a), &lesson(&pair.b)),
            baseline: common_words(&pair.a, &pair.b),
            pair,
        }
    };
    Ok(pairs(data)?.into_iter().map(case).collect())
}

fn lesson(text: &str) -> Lesson {
    Lesson { subject: String::new(), title: text.to_owned(), content: String::new(), cue: Cue::default() }
}

/// The baseline: the share of all words of two texts that is in both (Jaccard).
fn common_words(a: &str, b: &str) -> f64 {
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    };
    let (a, b) = (words(a), words(b));
    ratio(a.intersection(&b).count() as f64, a.union(&b).count() as f64)
}

/// The chance that a pair that is the same is nearer than one that is not, ties as half (the area under the ROC curve).
fn area(cases: &[&Case], nearness: impl Fn(&Case) -> f64) -> f64 {
    let (same, other): (Vec<&Case>, Vec<&Case>) = cases.iter().copied().partition(|case| case.same());
    let mut apart: Vec<f64> = other.into_iter().map(&nearness).collect();
    apart.sort_by(f64::total_cmp);
    let below = |near: f64| {
        let (less, at_most) = (apart.partition_point(|x| *x < near), apart.partition_point(|x| *x <= near));
        (less + at_most) as f64 / 2.0
    };
    let sum: f64 = same.iter().map(|case| below(nearness(case))).sum();
    ratio(sum, (same.len() * apart.len()) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The group of these may be read.
    fn case(label: u8, kind: &str, cosine: u16) -> Case {
        let pair = Pair { a: String::new(), b: String::new(), label, kind: kind.into(), pr: "b".into() };
        Case { pair, cosine, ours: cosine, baseline: 0.0 }
    }

    #[test]
    fn the_area_counts_pairs_in_the_right_order() {
        let cases = [case(1, "", 900), case(1, "", 500), case(0, "", 500), case(0, "", 100)];
        let all: Vec<_> = cases.iter().collect();
        assert_eq!(area(&all, |case| f64::from(case.cosine)), 0.875);
        assert_eq!(area(&all, |case| case.baseline), 0.5, "who says the same of all knows nothing");
    }

    #[test]
    fn a_scale_is_calibrated_by_what_must_not_happen() {
        let same = [900, 500, 400, 350].map(|cosine| case(1, "", cosine));
        let far = (0..17).map(|_| case(0, "", 100));
        let near = [300, 380, 480].map(|cosine| case(0, OTHER_ISSUE, cosine));
        let cases: Vec<_> = same.into_iter().chain(far).chain(near).collect();
        // From 301 on all four are found and two others with them; one of twenty is stopped from 381 on, none from 481 on.
        let scale = calibrate(&cases).unwrap();
        assert_eq!(scale, Scale { contradiction: 301, tombstone: 381, merge: 481 });
    }

    #[test]
    fn what_cannot_be_told_apart_has_no_scale() {
        let cases = [case(1, "", 900), case(0, OTHER_ISSUE, 999)];
        assert!(calibrate(&cases).is_err());
    }
}
