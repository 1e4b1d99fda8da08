//! Measures whether an embedder recognises sentences with the same meaning. Set 06a contains pairs of issues
//! reported by review tools, matched by judges against verified issues. Most of the differing pairs come from
//! a single pull request, so both sentences use the same names.
//!
//! `cargo xtask eval paraphrases` measures any embedder. With `--calibrate`, it prints the scale of the
//! embedder: three cosines, computed by the same rule for every embedder from the half on which the
//! heuristics were tuned.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use retro_core::finding::LessonCue;
use retro_core::memory::Lesson;
use retro_core::similarity::{
    Embedder, KnownVectors, NgramEmbedder, SimilarityScale, cosine_similarity, lesson_similarity,
};
use retro_embed::DirectoryEmbedder;
use retro_store::EmbeddingSource as _;
use serde::Deserialize;

use super::measure::{Figure, Measure};
use super::score::{binary_accuracy, ratio, share_of_true};
use super::table::{Row, report_rows, score_cases};
use crate::decisions::eval_data::{DataHalf, EvalData, read_rows};

/// Options of `cargo xtask eval paraphrases`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
    /// Also writes the table to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Maximum number of mistakes to show per embedder, from the half on which the heuristics were tuned.
    #[arg(long, default_value_t = 0)]
    wrong: usize,
    /// Also measures the embedder whose Model2Vec weights are in this directory.
    #[arg(long)]
    embedder_dir: Option<PathBuf>,
    /// Prints the scale of each embedder, calibrated on the half on which the heuristics were tuned.
    #[arg(long)]
    calibrate: bool,
}

/// Measures how well the built-in embedder recognises paraphrases.
pub(super) struct Paraphrases;

/// Maximum share of hard differing pairs that a tombstone may stop. A lesson that was stopped wrongly can be
/// learned again after the tombstone has expired.
const STOPPED_WRONGLY_MAX: f64 = 0.05;

/// A pair of sentences in the data set.
#[derive(Deserialize)]
struct Pair {
    a: String,
    b: String,
    label: u8,
    kind: String,
    pr: String,
}

/// A pair with its similarity by embedder and by common words.
pub(super) struct Case {
    pair: Pair,
    /// Cosine similarity computed by the embedder, in thousandths.
    cosine: u16,
    /// Similarity on the scale that all embedders share, in thousandths.
    ours: u16,
    baseline: f64,
}

impl Measure for Paraphrases {
    const NAME: &'static str = "paraphrases (built-in)";
    const SET: &'static str = "06a_paraphrase_review_issues";
    type Case = Case;

    fn load_cases(data: &EvalData) -> Result<Vec<Case>> {
        build_cases(data, &NgramEmbedder)
    }

    fn group_key(case: &Case) -> &str {
        &case.pair.pr
    }

    fn compute_figures(cases: &[&Case]) -> Vec<Figure> {
        let hard: Vec<_> = cases.iter().copied().filter(|case| case.is_same() || case.is_hard()).collect();
        let issues: Vec<_> =
            cases.iter().copied().filter(|case| case.is_same() || case.pair.kind == OTHER_ISSUE).collect();
        let at = |name: &str, threshold: u16| {
            let said = |case: &&Case| (case.ours >= threshold, case.is_same());
            let words = |case: &&Case| (case.baseline >= COMMON_WORDS_MIN, case.is_same());
            let (ours, baseline) =
                (binary_accuracy(cases.iter().map(said)), binary_accuracy(cases.iter().map(words)));
            [
                Figure::new(format!("F1 to {name}"), cases.len(), ours.f1(), baseline.f1()),
                Figure::new(format!("precision to {name}"), cases.len(), ours.precision, baseline.precision),
                Figure::new(format!("recall to {name}"), cases.len(), ours.recall, baseline.recall),
            ]
        };
        let area = |name: &str, cases: &[&Case]| {
            Figure::new(
                name,
                cases.len(),
                roc_area(cases, |case| f64::from(case.cosine)),
                roc_area(cases, |case| case.baseline),
            )
        };
        let mut figures = vec![
            area("AUC", cases).with_goal(0.96),
            area("AUC, same pull request", &hard),
            area("AUC, its other issues", &issues),
        ];
        figures.extend(at("contradict", SimilarityScale::CONTRADICTION));
        figures.extend(at("be stopped", SimilarityScale::TOMBSTONE));
        figures.extend(at("merge", SimilarityScale::MERGE));
        figures
    }

    fn describe_mistake(case: &Case) -> Option<String> {
        let wrong = match (case.ours >= SimilarityScale::TOMBSTONE, case.is_same()) {
            (true, false) => "stopped",
            (false, true) => "let through",
            _ => return None,
        };
        Some(format!("{wrong} at {}: {:?} / {:?}", case.ours, case.pair.a, case.pair.b))
    }
}

/// Kind of pairs that describe different issues in one pull request.
const OTHER_ISSUE: &str = "same_pr_other_issue";
/// Kind of pairs that come from two projects and have nothing in common.
const OTHER_PROJECT: &str = "other_project";
/// Minimum share of common words at which the baseline considers two sentences the same. This value has the
/// best F1 on the half on which the heuristics were tuned.
const COMMON_WORDS_MIN: f64 = 0.09;

impl Case {
    fn is_same(&self) -> bool {
        self.pair.label == 1
    }

    fn is_hard(&self) -> bool {
        !self.is_same() && self.pair.kind != OTHER_PROJECT
    }
}

/// Measures every available embedder, prints the table, and writes it to a file if requested.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut all: Vec<Row> = Vec::new();
    for embedder in build_embedders(options)? {
        let cases = build_cases(&options.data, &*embedder)?;
        if options.calibrate {
            let scale =
                calibrate_scale(&cases).with_context(|| format!("calibrating {}", embedder.name()))?;
            println!("{}: {}", embedder.name(), serde_json::to_string(&scale)?);
        }
        all.extend(score_cases::<Paraphrases>(
            &format!("paraphrases {}", embedder.name()),
            &cases,
            options.wrong,
        ));
    }
    report_rows(&all, options.json.as_deref())
}

/// Returns the built-in embedder and, if `--embedder-dir` is given, the embedder in that directory.
fn build_embedders(options: &Options) -> Result<Vec<Box<dyn Embedder>>> {
    let mut embedders: Vec<Box<dyn Embedder>> = vec![Box::new(NgramEmbedder)];
    if let Some(dir) = &options.embedder_dir {
        let weights = DirectoryEmbedder::load_for_calibration(dir)?;
        let texts: BTreeSet<String> =
            load_pairs(&options.data)?.into_iter().flat_map(|pair| [pair.a, pair.b]).collect();
        let texts: Vec<String> = texts.into_iter().collect();
        let made = weights.embed_texts(&texts)?.into_iter().map(Some);
        let vectors = texts.into_iter().zip(made).collect();
        let (name, scale) = (weights.name().to_owned(), weights.scale());
        embedders.push(Box::new(KnownVectors { name, scale, vectors }));
    }
    Ok(embedders)
}

/// Computes the scale of an embedder from the half on which the heuristics were tuned.
///
/// The contradiction threshold is the cosine that separates matching from differing pairs best (F1). The
/// tombstone threshold is the lowest cosine from there at which at most [`STOPPED_WRONGLY_MAX`] of the hard
/// differing pairs would be stopped. The merge threshold is the lowest cosine at which none of them would be
/// merged. Fails if the three thresholds do not increase.
fn calibrate_scale(cases: &[Case]) -> Result<SimilarityScale> {
    let read: Vec<_> = cases
        .iter()
        .filter(|case| DataHalf::of_group(Paraphrases::group_key(case)) == DataHalf::Read)
        .collect();
    ensure!(!read.is_empty(), "the half that may be read has no pairs");
    let f1 = |from: u16| binary_accuracy(read.iter().map(|case| (case.cosine >= from, case.is_same()))).f1();
    // Of equal scores, the lowest cosine wins; `max_by` alone would return the highest.
    let contradiction =
        (1..1000u16).max_by(|a, b| f1(*a).total_cmp(&f1(*b)).then(b.cmp(a))).expect("the range is not empty");
    let wrongly =
        |from: u16| share_of_true(read.iter().filter(|case| case.is_hard()).map(|case| case.cosine >= from));
    // Searched upwards from the contradiction threshold, so the three thresholds cannot cross.
    let first = |most: f64| (contradiction..1000).find(|from| wrongly(*from) <= most).unwrap_or(1000);
    let scale = SimilarityScale { contradiction, tombstone: first(STOPPED_WRONGLY_MAX), merge: first(0.0) };
    Ok(scale.validate()?)
}

fn load_pairs(data: &EvalData) -> Result<Vec<Pair>> {
    read_rows(&data.set_folder(Paraphrases::SET)?.join("pairs.jsonl"))
}

fn build_cases(data: &EvalData, embedder: &dyn Embedder) -> Result<Vec<Case>> {
    let case = |pair: Pair| {
        let vector = |text: &str| embedder.embed(text).unwrap_or_default();
        Case {
            cosine: cosine_similarity(&vector(&pair.a), &vector(&pair.b)),
            ours: lesson_similarity(embedder, &to_lesson(&pair.a), &to_lesson(&pair.b)),
            baseline: common_words(&pair.a, &pair.b),
            pair,
        }
    };
    Ok(load_pairs(data)?.into_iter().map(case).collect())
}

fn to_lesson(text: &str) -> Lesson {
    Lesson {
        subject: String::new(),
        title: text.to_owned(),
        content: String::new(),
        cue: LessonCue::default(),
        worded_by: None,
    }
}

/// Returns the share of all words that occur in both strings (Jaccard index). Serves as the baseline.
fn common_words(a: &str, b: &str) -> f64 {
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    };
    let (a, b) = (words(a), words(b));
    ratio(a.intersection(&b).count() as f64, a.union(&b).count() as f64)
}

/// Returns the area under the ROC curve: the probability that a matching pair is more similar than a
/// differing pair, where a tie counts as half.
fn roc_area(cases: &[&Case], nearness: impl Fn(&Case) -> f64) -> f64 {
    let (same, other): (Vec<&Case>, Vec<&Case>) = cases.iter().copied().partition(|case| case.is_same());
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

    /// Builds a case in the half that may be read.
    fn case(label: u8, kind: &str, cosine: u16) -> Case {
        let pair = Pair { a: String::new(), b: String::new(), label, kind: kind.into(), pr: "b".into() };
        Case { pair, cosine, ours: cosine, baseline: 0.0 }
    }

    #[test]
    fn the_area_counts_pairs_in_the_right_order() {
        let cases = [case(1, "", 900), case(1, "", 500), case(0, "", 500), case(0, "", 100)];
        let all: Vec<_> = cases.iter().collect();
        assert_eq!(roc_area(&all, |case| f64::from(case.cosine)), 0.875);
        assert_eq!(roc_area(&all, |case| case.baseline), 0.5, "who says the same of all knows nothing");
    }

    #[test]
    fn a_scale_is_calibrated_by_its_error_limits() {
        let same = [900, 500, 400, 350].map(|cosine| case(1, "", cosine));
        let far = (0..17).map(|_| case(0, "", 100));
        let near = [300, 380, 480].map(|cosine| case(0, OTHER_ISSUE, cosine));
        let cases: Vec<_> = same.into_iter().chain(far).chain(near).collect();
        // From 301, all four matching pairs are found along with two differing ones. From 381, one of twenty
        // is stopped; from 481, none.
        let scale = calibrate_scale(&cases).unwrap();
        assert_eq!(scale, SimilarityScale { contradiction: 301, tombstone: 381, merge: 481 });
    }

    #[test]
    fn inseparable_pairs_have_no_scale() {
        let cases = [case(1, "", 900), case(0, OTHER_ISSUE, 999)];
        assert!(calibrate_scale(&cases).is_err());
    }
}
