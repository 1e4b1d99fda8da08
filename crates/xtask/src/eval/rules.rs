//! Which remarks the reader calls rules, beside what they were called, and beside a baseline of four words.
//!
//! Set 04f has labels (made by one reader: a smoke test, not a benchmark). In 04a every thread became part of a rule that was
//! written down upstream, most of them by repetition: its first comment counts as a rule and its answers as none, which is true of
//! few of either, so that only comparisons mean something there. In 04c are kinds and no rules; of it only the share that is called
//! a rule can be told.
//!
//! Repositories (in 04f, those of the threads that its remarks come from) are split by a seed: the reader's signs were tuned while
//! remarks of the part *tune* of seed 1 were read, and the part *held* was only counted.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use clap::{Args, ValueEnum};
use retro_core::review::{
    Association, PullRequestRef, Reading, ReadingKind, Remark, RemarkKey, RemarkKind, Repository,
};
use retro_reviewer::Heuristics;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Data, rows};

/// Right and wrong readings that are drawn.
const EXAMPLES: usize = 10;

/// How the measurement is asked for.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    data: Data,
    /// What the parts are split by.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draws ten right and ten wrong readings by this seed, for a person to read.
    #[arg(long, value_name = "SEED")]
    examples: Option<u64>,
    /// Draws them of one part only.
    #[arg(long, value_enum)]
    part: Option<Part>,
}

/// A half of the repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Tune,
    Held,
}

impl Part {
    /// The part of a repository or thread: half of all, whatever their number.
    fn of(seed: u64, group: &str) -> Self {
        if Sha256::digest(format!("{seed}/{group}"))[0] < 128 { Self::Tune } else { Self::Held }
    }
}

/// A remark, what it is called, and what the reader makes of it.
struct Read {
    set: &'static str,
    id: String,
    text: String,
    /// Somebody says so, or its place in a thread.
    rule: bool,
    label: String,
    /// Whoever labelled it was sure.
    sure: bool,
    part: Part,
    reading: Reading,
}

impl Read {
    fn called(&self) -> bool {
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
struct Kind {
    text: String,
    category: String,
}

/// Reads every remark of the three sets and prints what the reader called them.
pub(crate) fn run(options: &Options) -> Result<()> {
    let threads: Vec<Discussion> = rows(&options.data.set("04a_review_rules")?.join("discussions.jsonl"))?;
    let labelled: Vec<Labelled> = rows(&options.data.set("04f_rule_vs_oneoff")?.join("comments.jsonl"))?;
    let kinds: Vec<Kind> = rows(&options.data.set("04c_review_kind")?.join("comments.jsonl"))?;
    let of_labels = labels(labelled, &threads, options.seed);
    let of_threads = remarks(&threads, options.seed);

    println!("04f: {} remarks with labels, of one reader", of_labels.len());
    table(&of_labels, true);
    println!("  read as:");
    confusion(of_labels.iter().map(|read| (read.label.as_str(), read.reading.kind)));
    println!(
        "04a: {} remarks; weak labels: the first of a thread is a rule, its answers are none",
        of_threads.len()
    );
    table(&of_threads, false);
    println!("04c: {} comments of one project, any kind, hardly a rule among them", kinds.len());
    share(kinds.iter().map(|one| one.text.as_str()));
    println!("  read as:");
    let asked = ["Question", "Praise", "Design discussion"];
    let told = kinds.iter().map(|one| {
        let category = asked.into_iter().find(|known| *known == one.category).unwrap_or("anything else");
        (category, reading(&one.text).kind)
    });
    confusion(told);
    if let Some(seed) = options.examples {
        let of_part = |read: &&Read| options.part.is_none_or(|part| part == read.part);
        examples(of_labels.iter().chain(&of_threads).filter(of_part), seed);
    }
    Ok(())
}

fn labels(labelled: Vec<Labelled>, threads: &[Discussion], seed: u64) -> Vec<Read> {
    let repositories: HashMap<&str, &str> =
        threads.iter().map(|thread| (thread.slug.as_str(), thread.repository.as_str())).collect();
    let read = |one: Labelled| {
        let group = repositories.get(one.source_label.as_str()).copied().unwrap_or(&one.source_id);
        Read {
            set: "04f",
            rule: one.label == "rule",
            sure: one.confidence == "high",
            part: Part::of(seed, group),
            reading: reading(&one.text),
            id: one.id,
            text: one.text,
            label: one.label,
        }
    };
    labelled.into_iter().map(read).collect()
}

fn remarks(threads: &[Discussion], seed: u64) -> Vec<Read> {
    let of_thread = |thread: &Discussion| {
        let part = Part::of(seed, &thread.repository);
        let id = thread.discussion_id.clone();
        let read = move |(nth, comment): (usize, &Comment)| Read {
            set: "04a",
            id: format!("{id}/{nth}"),
            text: comment.body.clone(),
            rule: nth == 0,
            label: if nth == 0 { "first".to_owned() } else { "answer".to_owned() },
            sure: false,
            part,
            reading: reading(&comment.body),
        };
        thread.comments.iter().enumerate().map(read).collect::<Vec<_>>()
    };
    threads.iter().flat_map(of_thread).collect()
}

/// Precision and recall of reader and baseline on each part.
fn table(all: &[Read], with_sure: bool) {
    for part in [Part::Tune, Part::Held] {
        for sure in [false, true].into_iter().filter(|sure| with_sure || !sure) {
            let of: Vec<_> = all.iter().filter(|read| read.part == part && (!sure || read.sure)).collect();
            let which = format!("{part:?}{}", if sure { ", sure labels" } else { "" }).to_lowercase();
            println!("  {which:18} reader   {}", score(of.iter().map(|read| (read.rule, read.called()))));
            println!(
                "  {which:18} baseline {}",
                score(of.iter().map(|read| (read.rule, baseline(&read.text))))
            );
        }
    }
}

/// What a team without a reader would write.
fn baseline(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    words.any(|word| ["always", "never", "should", "we"].contains(&word))
}

fn reading(text: &str) -> Reading {
    let pull_request = PullRequestRef { repo: Repository::new("eval/set").expect("a name"), number: 1 };
    Heuristics.read_now(&Remark {
        key: RemarkKey { pull_request, kind: RemarkKind::LineComment, id: 1 },
        review: None,
        verdict: None,
        reply_to: None,
        by: "reviewer".to_owned(),
        bot: false,
        association: Association::Member,
        by_author: false,
        body: text.to_owned(),
        path: None,
        line: None,
        at: jiff::Timestamp::UNIX_EPOCH,
        url: None,
        edited: false,
        deleted: false,
    })
}

fn score(pairs: impl Iterator<Item = (bool, bool)>) -> String {
    let (mut hits, mut alarms, mut missed) = (0u32, 0u32, 0u32);
    for (is, called) in pairs {
        match (is, called) {
            (true, true) => hits += 1,
            (false, true) => alarms += 1,
            (true, false) => missed += 1,
            (false, false) => {}
        }
    }
    let ratio = |part: u32, of: u32| {
        if of == 0 { "   –".to_owned() } else { format!("{:.2}", f64::from(part) / f64::from(of)) }
    };
    format!(
        "precision {} ({hits} of {})  recall {} ({hits} of {})",
        ratio(hits, hits + alarms),
        hits + alarms,
        ratio(hits, hits + missed),
        hits + missed
    )
}

fn share<'t>(texts: impl Iterator<Item = &'t str>) {
    let (mut all, mut reader, mut naive, mut phrased) = (0u32, 0u32, 0u32, 0u32);
    for text in texts {
        let read = reading(text);
        all += 1;
        reader += u32::from(read.kind == ReadingKind::Rule);
        phrased += u32::from(read.rule.is_some());
        naive += u32::from(baseline(text));
    }
    let percent = |part: u32| f64::from(part) * 100.0 / f64::from(all.max(1));
    println!(
        "  called a rule: reader {reader} ({:.1} %), baseline {naive} ({:.1} %); with a sentence that the same request elsewhere can confirm: {phrased} ({:.1} %)",
        percent(reader),
        percent(naive),
        percent(phrased)
    );
}

fn confusion<'l>(pairs: impl Iterator<Item = (&'l str, ReadingKind)>) {
    let mut table: BTreeMap<&str, BTreeMap<ReadingKind, u32>> = BTreeMap::new();
    for (label, kind) in pairs {
        *table.entry(label).or_default().entry(kind).or_default() += 1;
    }
    for (label, kinds) in table {
        let told =
            ReadingKind::ALL.map(|kind| format!("{} {:>4}", kind.as_str(), kinds.get(&kind).unwrap_or(&0)));
        println!("    {label:24} {}", told.join("   "));
    }
}

/// Draws right and wrong readings: the same seed always draws the same. Right is a rule that is called one; wrong is what is called
/// one and is none, and, where there is a label, a rule that is missed.
fn examples<'r>(read: impl Iterator<Item = &'r Read>, seed: u64) {
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for read in read {
        match (read.rule, read.called()) {
            (true, true) => right.push(read),
            (false, true) => wrong.push(read),
            (true, false) if read.set == "04f" => wrong.push(read),
            _ => {}
        }
    }
    for (title, mut drawn) in [("right", right), ("wrong", wrong)] {
        drawn.sort_by_cached_key(|read| Sha256::digest(format!("{seed}/{}/{}", read.set, read.id)));
        println!("{title}, {EXAMPLES} of {} (seed {seed}):", drawn.len());
        drawn.iter().take(EXAMPLES).for_each(|read| tell(read));
    }
}

fn tell(read: &Read) {
    let Read { set, id, label, text, reading, .. } = read;
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect();
    println!("  {set} {id}, {label}, read as {} [{}]: {text}", reading.kind.as_str(), reading.certainty);
    if let Some(rule) = &reading.rule {
        println!("      → {} ({})", rule.title, reading.why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_has_one_part_of_a_seed_and_remarks_of_its_threads_have_it_too() {
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
        let read = remarks(&threads, 1);
        assert_eq!(
            (read[0].rule, read[0].called(), read[1].rule, read[1].called()),
            (true, true, false, false)
        );
        assert!(
            read.iter().any(|read| read.part == Part::Tune)
                && read.iter().any(|read| read.part == Part::Held)
        );
        let label = Labelled {
            id: "x".to_owned(),
            text: "Hm".to_owned(),
            label: "rule".to_owned(),
            confidence: "low".to_owned(),
            source_id: "another".to_owned(),
            source_label: "rule-of-acme/3".to_owned(),
        };
        assert_eq!(labels(vec![label], &threads, 1)[0].part, Part::of(1, "acme/3"));
        assert!(baseline("We do it") && baseline("it should") && !baseline("Power, sweet"));
    }
}
