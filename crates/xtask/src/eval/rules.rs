//! Which remarks the reader calls rules, beside what they were called, and beside a baseline of three words.
//!
//! Set 04f has labels (made by one reader: a smoke test, not a benchmark). In 04a every thread became part of a rule that was
//! written down upstream, most of them by repetition; in 04c are kinds and no rules. Of those two only the share that is
//! called a rule can be told.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use retro_core::review::{
    Association, PullRequestRef, Reading, ReadingKind, Remark, RemarkKey, RemarkKind, Repository,
};
use retro_reviewer::Heuristics;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Data, rows};

/// How the measurement is asked for.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    data: Data,
    /// Shows so many right and so many wrong readings of 04f and 04a, drawn by the seed.
    #[arg(long, default_value_t = 0)]
    show: usize,
    /// What is shown is drawn by it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Deserialize)]
struct Labelled {
    id: String,
    text: String,
    label: String,
    confidence: String,
}

#[derive(Deserialize)]
struct Discussion {
    discussion_id: String,
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
    let labelled: Vec<Labelled> = rows(&options.data.set("04f_rule_vs_oneoff")?.join("comments.jsonl"))?;
    let read: Vec<_> = labelled.iter().map(|one| (one, reading(&one.text))).collect();
    println!("04f: {} remarks with labels", read.len());
    for high in [false, true] {
        let of: Vec<_> = read.iter().filter(|(one, _)| !high || one.confidence == "high").collect();
        let called = |by: fn(&str, &Reading) -> bool| {
            let pairs = of.iter().map(|(one, reading)| (one.label == "rule", by(&one.text, reading)));
            score(pairs)
        };
        let which = if high { "confidence high" } else { "all" };
        println!("  {which:16} reader   {}", called(|_, reading| is_rule(reading)));
        println!("  {which:16} baseline {}", called(|text, _| baseline(text)));
    }
    println!("  read as:");
    confusion(read.iter().map(|(one, reading)| (one.label.as_str(), reading.kind)));

    let threads: Vec<Discussion> = rows(&options.data.set("04a_review_rules")?.join("discussions.jsonl"))?;
    let first =
        |thread: &Discussion| thread.comments.first().map(|comment| comment.body.clone()).unwrap_or_default();
    let threads: Vec<_> =
        threads.iter().map(|thread| (thread.discussion_id.as_str(), first(thread))).collect();
    share("04a: first comments of threads that became rules", threads.iter().map(|(_, text)| text.as_str()));
    let kinds: Vec<Kind> = rows(&options.data.set("04c_review_kind")?.join("comments.jsonl"))?;
    share("04c: comments of one project, any kind", kinds.iter().map(|one| one.text.as_str()));
    println!("  read as:");
    let asked = ["Question", "Praise", "Design discussion"];
    let told = kinds.iter().map(|one| {
        let category = asked.into_iter().find(|known| *known == one.category).unwrap_or("anything else");
        (category, reading(&one.text).kind)
    });
    confusion(told);
    if options.show > 0 {
        show(options, &read, &threads);
    }
    Ok(())
}

/// What a team without a reader would write.
fn baseline(text: &str) -> bool {
    let lower = text.to_lowercase();
    ["always", "never", "should"].iter().any(|word| lower.contains(word))
}

fn is_rule(reading: &Reading) -> bool {
    reading.kind == ReadingKind::Rule
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

fn share<'t>(title: &str, texts: impl Iterator<Item = &'t str>) {
    let (mut all, mut reader, mut naive, mut phrased) = (0u32, 0u32, 0u32, 0u32);
    for text in texts {
        let read = reading(text);
        all += 1;
        reader += u32::from(is_rule(&read));
        phrased += u32::from(read.rule.is_some());
        naive += u32::from(baseline(text));
    }
    let percent = |part: u32| f64::from(part) * 100.0 / f64::from(all.max(1));
    println!("{title}: {all}");
    println!(
        "  called a rule: reader {reader} ({:.1} %), baseline {naive} ({:.1} %)",
        percent(reader),
        percent(naive)
    );
    println!(
        "  with a sentence that the same request elsewhere can confirm: {phrased} ({:.1} %)",
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

/// Shows right and wrong readings in an order drawn by the seed, so that anybody draws the same.
fn show(options: &Options, read: &[(&Labelled, Reading)], threads: &[(&str, String)]) {
    let order = |id: &str| Sha256::digest(format!("{}/{id}", options.seed)).to_vec();
    let mut drawn: Vec<_> = read.iter().collect();
    drawn.sort_by_key(|(one, _)| order(&one.id));
    for (title, is, called) in
        [("right", true, true), ("wrong: called a rule", false, true), ("wrong: missed", true, false)]
    {
        println!("04f, {title} (seed {}):", options.seed);
        let fitting =
            drawn.iter().filter(|(one, reading)| ((one.label == "rule") == is) && is_rule(reading) == called);
        for (one, reading) in fitting.take(options.show) {
            tell(&one.id, &one.text, reading);
        }
    }
    let mut drawn: Vec<_> = threads.iter().map(|(id, text)| (*id, text, reading(text))).collect();
    drawn.retain(|(_, _, reading)| is_rule(reading));
    drawn.sort_by_key(|(id, ..)| order(id));
    println!("04a, called a rule (seed {}):", options.seed);
    for (id, text, reading) in drawn.iter().take(options.show) {
        tell(id, text, reading);
    }
}

fn tell(id: &str, text: &str, reading: &Reading) {
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
    println!("  {id} [{}] {text}", reading.certainty);
    if let Some(rule) = &reading.rule {
        println!("      → {} ({})", rule.title, reading.why);
    }
}
