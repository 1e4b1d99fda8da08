//! Measures what a new lesson is said to have to do with an older one of the same scope, on pairs of sentences whose
//! relation people stated: replaced, paraphrased, narrowed or unrelated.
//!
//! A pair is judged as the writer judges it. To replace a lesson that still holds is the worst mistake: it is no longer
//! handed to agents. With `--data`, the pairs of set 06a are judged, too: issues that review tools reported in their own
//! words, of which none takes the place of another.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use retro_core::finding::LessonCue;
use retro_core::memory::Lesson;
use retro_core::policy::Policy;
use retro_core::similarity::{LessonRelation, NgramEmbedder, relate_lessons};
use serde::Deserialize;

use crate::decisions::eval_data::{DataHalf, EvalData, read_rows};

/// Options of `cargo xtask eval relations`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
    /// File with the pairs, as JSON Lines: `id`, `kind` (`rule` or `memory`), `older`, `newer`, `relation`.
    #[arg(long, value_name = "FILE", default_value = "crates/tools/retro-eval/relations/pairs.jsonl")]
    pairs: PathBuf,
    /// Maximum number of wrong answers to show, from the half that may be read.
    #[arg(long, default_value_t = 0)]
    wrong: usize,
}

#[derive(Deserialize)]
struct Pair {
    id: String,
    kind: String,
    older: String,
    newer: String,
    relation: StatedRelation,
}

/// Pair of set 06a.
#[derive(Deserialize)]
struct ReportedPair {
    a: String,
    b: String,
    /// 1 if both are about the same issue, otherwise 0.
    label: u8,
}

/// Relation of a pair as stated by the author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StatedRelation {
    Replaced,
    Paraphrased,
    Narrowed,
    Unrelated,
}

impl StatedRelation {
    const ALL: [Self; 4] = [Self::Replaced, Self::Paraphrased, Self::Narrowed, Self::Unrelated];

    const fn name(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Paraphrased => "paraphrased",
            Self::Narrowed => "narrowed",
            Self::Unrelated => "unrelated",
        }
    }

    const fn expected(self) -> LessonRelation {
        match self {
            Self::Replaced => LessonRelation::Replaces,
            Self::Paraphrased => LessonRelation::Same,
            Self::Narrowed | Self::Unrelated => LessonRelation::Separate,
        }
    }
}

/// Judges every pair and prints the answers by kind, half and stated relation.
pub(crate) fn run(options: &Options) -> Result<()> {
    let pairs: Vec<Pair> = read_rows(&options.pairs)?;
    let judged: Vec<(&Pair, LessonRelation)> = pairs.iter().map(|pair| (pair, judge(pair))).collect();
    let mut kinds: Vec<&str> = pairs.iter().map(|pair| pair.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        for half in [DataHalf::Read, DataHalf::Unread] {
            let of_part = |pair: &Pair| pair.kind == kind && DataHalf::of_group(&pair.id) == half;
            let part: Vec<_> = judged.iter().filter(|(pair, _)| of_part(pair)).copied().collect();
            println!("{kind}, {half:?}: {} pairs", part.len());
            print_part(&part);
        }
    }
    if options.data.data.is_some() {
        let set = options.data.set_folder("06a_paraphrase_review_issues")?;
        print_reported(&read_rows(&set.join("pairs.jsonl"))?);
    }
    let readable = judged.iter().filter(|(pair, found)| {
        DataHalf::of_group(&pair.id) == DataHalf::Read && *found != pair.relation.expected()
    });
    for (pair, found) in readable.take(options.wrong) {
        println!("{} {}: {found:?}", pair.id, pair.relation.name());
        println!("  {}\n  {}", pair.older, pair.newer);
    }
    Ok(())
}

/// Prints how reported issues are judged: the same one is to confirm, and another one to stand.
fn print_reported(pairs: &[ReportedPair]) {
    println!("06a: {} pairs\n  {:<12} {:>5} {:>9} {:>9}", pairs.len(), "", "same", "replaces", "separate");
    for (label, name) in [(1, "same issue"), (0, "other issue")] {
        let of_label = pairs.iter().filter(|pair| pair.label == label);
        let found: Vec<LessonRelation> = of_label.map(|pair| relate(&pair.a, &pair.b)).collect();
        let count = |relation| found.iter().filter(|one| **one == relation).count();
        let [same, replaces, separate] =
            [LessonRelation::Same, LessonRelation::Replaces, LessonRelation::Separate].map(count);
        println!("  {name:<12} {same:>5} {replaces:>9} {separate:>9}");
    }
}

fn judge(pair: &Pair) -> LessonRelation {
    relate(&pair.older, &pair.newer)
}

fn relate(known: &str, new: &str) -> LessonRelation {
    relate_lessons(&NgramEmbedder, &Policy::default(), &lesson(known), &lesson(new))
}

fn lesson(text: &str) -> Lesson {
    Lesson {
        subject: String::new(),
        title: text.to_owned(),
        content: String::new(),
        cue: LessonCue::default(),
        worded_by: None,
    }
}

fn print_part(part: &[(&Pair, LessonRelation)]) {
    println!("  {:<12} {:>5} {:>9} {:>9}", "", "same", "replaces", "separate");
    for stated in StatedRelation::ALL {
        let count = |relation: LessonRelation| {
            part.iter().filter(|(pair, found)| pair.relation == stated && *found == relation).count()
        };
        println!(
            "  {:<12} {:>5} {:>9} {:>9}",
            stated.name(),
            count(LessonRelation::Same),
            count(LessonRelation::Replaces),
            count(LessonRelation::Separate)
        );
    }
    for relation in [LessonRelation::Same, LessonRelation::Replaces] {
        let said = part.iter().filter(|(_, found)| *found == relation).count();
        let meant = part.iter().filter(|(pair, _)| pair.relation.expected() == relation).count();
        let right = part
            .iter()
            .filter(|(pair, found)| *found == relation && pair.relation.expected() == relation)
            .count();
        println!("  {relation:?}: {right} of {said} right, {right} of {meant} found");
    }
}
