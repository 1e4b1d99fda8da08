//! Measures which review remarks are read as rules, compared with their labels and with a baseline of four
//! words.
//!
//! Set 04f was labelled by a single reader, so it is a smoke test and not a benchmark. Every thread of 04a
//! became part of a rule that was written down upstream, most of them by repetition. The first comment of a
//! thread counts as a rule, and the replies do not. Both are only roughly true, so only comparisons are
//! meaningful for this set. Set 04c has labels for kinds but not for rules, so only the share of remarks read
//! as rules is reported.
//!
//! A seed splits the repositories into halves (in 04f, the repositories of the remarks' threads). The reader
//! was tuned on the half *tune* of seed 1; the half *held* was only counted.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use clap::{Args, ValueEnum};
use retro_core::review::{ReadingKind, RemarkReading};
use retro_reviewer::HeuristicReader;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::decisions::eval_data::{EvalData, read_rows};
use crate::decisions::rule_model::{LabelledRemark, ModelOptions, build_remark, format_score, run_model};

/// Number of correct readings, and of wrong ones, that are printed as examples.
const EXAMPLES: usize = 10;

/// Options of `cargo xtask eval rules`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
    /// Seed that assigns repositories to halves.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints ten correct and ten wrong readings for review, drawn at random with this seed.
    #[arg(long, value_name = "SEED")]
    examples: Option<u64>,
    /// Half of the repositories from which the examples are drawn [default: both].
    #[arg(long, value_enum)]
    part: Option<RepositoryHalf>,
    #[command(flatten)]
    model: ModelOptions,
}

/// One half of the repositories, by which remarks are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RepositoryHalf {
    Tune,
    Held,
}

impl RepositoryHalf {
    /// Assigns a repository or thread to a half by the hash of its name and the seed.
    fn of_group(seed: u64, group: &str) -> Self {
        if Sha256::digest(format!("{seed}/{group}"))[0] < 128 { Self::Tune } else { Self::Held }
    }
}

/// A remark with its label and the reader's result.
struct ReadRemark {
    set: &'static str,
    id: String,
    text: String,
    /// `true` if the remark counts as a rule, by its label or by its position in the thread.
    rule: bool,
    label: String,
    /// `true` if the annotator was sure of the label.
    sure: bool,
    part: RepositoryHalf,
    reading: RemarkReading,
}

impl ReadRemark {
    fn is_called_rule(&self) -> bool {
        self.reading.kind == ReadingKind::Rule
    }
}

#[derive(Deserialize)]
struct Labelled {
    id: String,
    text: String,
    label: String,
    confidence: String,
    source_id: String,
    source_label: String,
}

#[derive(Deserialize)]
struct Discussion {
    discussion_id: String,
    slug: String,
    repository: String,
    comments: Vec<Comment>,
}

#[derive(Deserialize)]
struct Comment {
    body: String,
}

#[derive(Deserialize)]
struct CategorizedComment {
    text: String,
    category: String,
}

/// Classifies every remark of the three data sets and prints the results next to the labels.
pub(crate) fn run(options: &Options) -> Result<()> {
    let threads: Vec<Discussion> =
        read_rows(&options.data.set_folder("04a_review_rules")?.join("discussions.jsonl"))?;
    let labelled: Vec<Labelled> =
        read_rows(&options.data.set_folder("04f_rule_vs_oneoff")?.join("comments.jsonl"))?;
    let kinds: Vec<CategorizedComment> =
        read_rows(&options.data.set_folder("04c_review_kind")?.join("comments.jsonl"))?;
    let of_labels = read_labelled(labelled, &threads, options.seed);
    let of_threads = read_threads(&threads, options.seed);

    println!("04f: {} remarks, labelled by one person", of_labels.len());
    print_accuracy(&of_labels, true);
    println!("  read as:");
    print_confusion(of_labels.iter().map(|read| (read.label.as_str(), read.reading.kind)));
    println!(
        "04a: {} remarks; weak labels: the first of a thread is a rule, its replies are not",
        of_threads.len()
    );
    print_accuracy(&of_threads, false);
    println!("04c: {} comments of one project, of any kind, hardly any rules", kinds.len());
    print_share(kinds.iter().map(|one| one.text.as_str()));
    println!("  read as:");
    let asking_kinds = ["Question", "Praise", "Design discussion"];
    let counted = kinds.iter().map(|one| {
        let category =
            asking_kinds.into_iter().find(|known| *known == one.category).unwrap_or("anything else");
        (category, read_remark(&one.text).kind)
    });
    print_confusion(counted);
    if let Some(seed) = options.examples {
        let of_part = |read: &&ReadRemark| options.part.is_none_or(|part| part == read.part);
        print_examples(of_labels.iter().chain(&of_threads).filter(of_part), seed);
    }
    let labelled = |read: ReadRemark| {
        let ReadRemark { set, id, text, rule, .. } = read;
        LabelledRemark { set, id, text, is_rule: rule }
    };
    run_model(&options.model, of_labels.into_iter().chain(of_threads).map(labelled).collect())
}

fn read_labelled(labelled: Vec<Labelled>, threads: &[Discussion], seed: u64) -> Vec<ReadRemark> {
    let repositories: HashMap<&str, &str> =
        threads.iter().map(|thread| (thread.slug.as_str(), thread.repository.as_str())).collect();
    let read = |one: Labelled| {
        let group = repositories.get(one.source_label.as_str()).copied().unwrap_or(&one.source_id);
        ReadRemark {
            set: "04f",
            rule: one.label == "rule",
            sure: one.confidence == "high",
            part: RepositoryHalf::of_group(seed, group),
            reading: read_remark(&one.text),
            id: one.id,
            text: one.text,
            label: one.label,
        }
    };
    labelled.into_iter().map(read).collect()
}

fn read_threads(threads: &[Discussion], seed: u64) -> Vec<ReadRemark> {
    let of_thread = |thread: &Discussion| {
        let part = RepositoryHalf::of_group(seed, &thread.repository);
        let id = thread.discussion_id.clone();
        let read = move |(nth, comment): (usize, &Comment)| ReadRemark {
            set: "04a",
            id: format!("{id}/{nth}"),
            text: comment.body.clone(),
            rule: nth == 0,
            label: if nth == 0 { "first".to_owned() } else { "answer".to_owned() },
            sure: false,
            part,
            reading: read_remark(&comment.body),
        };
        thread.comments.iter().enumerate().map(read).collect::<Vec<_>>()
    };
    threads.iter().flat_map(of_thread).collect()
}

/// Prints the precision and recall of the reader and of the baseline on each half.
fn print_accuracy(all: &[ReadRemark], with_sure: bool) {
    for part in [RepositoryHalf::Tune, RepositoryHalf::Held] {
        for sure in [false, true].into_iter().filter(|sure| with_sure || !sure) {
            let of: Vec<_> = all.iter().filter(|read| read.part == part && (!sure || read.sure)).collect();
            let which = format!("{part:?}{}", if sure { ", sure labels" } else { "" }).to_lowercase();
            println!(
                "  {which:18} reader   {}",
                format_score(of.iter().map(|read| (read.rule, read.is_called_rule())))
            );
            println!(
                "  {which:18} baseline {}",
                format_score(of.iter().map(|read| (read.rule, baseline_says_rule(&read.text))))
            );
        }
    }
}

/// Returns `true` if the baseline considers the text a rule: it contains "always", "never", "should" or "we".
fn baseline_says_rule(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    words.any(|word| ["always", "never", "should", "we"].contains(&word))
}

fn read_remark(text: &str) -> RemarkReading {
    HeuristicReader.read_now(&build_remark(1, text))
}

fn print_share<'t>(texts: impl Iterator<Item = &'t str>) {
    let (mut all, mut reader, mut naive, mut phrased) = (0u32, 0u32, 0u32, 0u32);
    for text in texts {
        let read = read_remark(text);
        all += 1;
        reader += u32::from(read.kind == ReadingKind::Rule);
        phrased += u32::from(read.rule.is_some());
        naive += u32::from(baseline_says_rule(text));
    }
    let percent = |part: u32| f64::from(part) * 100.0 / f64::from(all.max(1));
    println!(
        "  read as a rule: reader {reader} ({:.1} %), baseline {naive} ({:.1} %); with a sentence that a repeated request can confirm: {phrased} ({:.1} %)",
        percent(reader),
        percent(naive),
        percent(phrased)
    );
}

fn print_confusion<'l>(pairs: impl Iterator<Item = (&'l str, ReadingKind)>) {
    let mut table: BTreeMap<&str, BTreeMap<ReadingKind, u32>> = BTreeMap::new();
    for (label, kind) in pairs {
        *table.entry(label).or_default().entry(kind).or_default() += 1;
    }
    for (label, kinds) in table {
        let counted = ReadingKind::ALL
            .iter()
            .map(|kind| format!("{} {:>4}", kind.as_str(), kinds.get(kind).unwrap_or(&0)))
            .collect::<Vec<_>>();
        println!("    {label:24} {}", counted.join("   "));
    }
}

/// Prints correct and wrong readings, drawn at random with the seed. A reading is correct if a rule was read
/// as a rule. It is wrong if any other text was read as a rule or, in the labelled set 04f, if a rule was
/// missed.
fn print_examples<'r>(read: impl Iterator<Item = &'r ReadRemark>, seed: u64) {
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for read in read {
        match (read.rule, read.is_called_rule()) {
            (true, true) => right.push(read),
            (false, true) => wrong.push(read),
            (true, false) if read.set == "04f" => wrong.push(read),
            _ => {}
        }
    }
    for (title, mut drawn) in [("right", right), ("wrong", wrong)] {
        drawn.sort_by_cached_key(|read| Sha256::digest(format!("{seed}/{}/{}", read.set, read.id)));
        println!("{title}, {EXAMPLES} of {} (seed {seed}):", drawn.len());
        drawn.iter().take(EXAMPLES).for_each(|read| print_example(read));
    }
}

fn print_example(read: &ReadRemark) {
    let ReadRemark { set, id, label, text, reading, .. } = read;
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect();
    println!("  {set} {id}, {label}, read as {} [{}]: {text}", reading.kind.as_str(), reading.certainty);
    if let Some(rule) = &reading.rule {
        println!("      → {} ({})", rule.title, reading.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_in_the_half_of_their_repository() {
        let thread = |repository: &str| Discussion {
            discussion_id: "1".to_owned(),
            slug: format!("rule-of-{repository}"),
            repository: repository.to_owned(),
            comments: vec![
                Comment { body: "We do not use sleeping in tests.".to_owned() },
                Comment { body: "Done".to_owned() },
            ],
        };
        let threads: Vec<_> = (0..32).map(|nth| thread(&format!("acme/{nth}"))).collect();
        let read = read_threads(&threads, 1);
        assert_eq!(
            (read[0].rule, read[0].is_called_rule(), read[1].rule, read[1].is_called_rule()),
            (true, true, false, false)
        );
        assert!(
            read.iter().any(|read| read.part == RepositoryHalf::Tune)
                && read.iter().any(|read| read.part == RepositoryHalf::Held)
        );
        let label = Labelled {
            id: "x".to_owned(),
            text: "Hm".to_owned(),
            label: "rule".to_owned(),
            confidence: "low".to_owned(),
            source_id: "another".to_owned(),
            source_label: "rule-of-acme/3".to_owned(),
        };
        assert_eq!(read_labelled(vec![label], &threads, 1)[0].part, RepositoryHalf::of_group(1, "acme/3"));
        assert!(
            baseline_says_rule("We do it")
                && baseline_says_rule("it should")
                && !baseline_says_rule("Power, sweet")
        );
    }
}
