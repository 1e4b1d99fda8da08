//! `cargo xtask eval`: measures what decides without a model on evaluation data, so that a figure in a manual can be
//! printed again by anybody who has the data.
//!
//! An evaluation calls the product's own functions and sees labels only to score what they answered. It decides
//! nothing itself.

mod findings;
mod hostile;
mod injection;
mod real;
mod rules;
mod webhooks;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// What is measured.
#[derive(Subcommand)]
pub(crate) enum Eval {
    /// The heuristics that look into runs, part by part: each figure beside a naive baseline and its goal.
    Findings(findings::Options),
    /// Hostile and genuine reviews through a running bridge: what became of each, and what an agent is shown in the end.
    Hostile(hostile::Options),
    /// The screen against hostile text: recall by kind, false alarms on real reviews, beside a one-line expression.
    Injection(injection::Options),
    /// Every real run through a running program: which memories it makes, some of them drawn by a seed to be read by a person.
    Memories(real::memories::Options),
    /// One retrospective over failed runs whose cause people know: its report, and what they say beside it.
    Report(real::beside::Options),
    /// Embedders: which sentences they call the same, beside what people called so; calibrates the scale of one.
    Paraphrases(findings::paraphrases::Options),
    /// The reader of reviews: which remarks it calls rules, beside what people called them.
    Rules(rules::Options),
    /// How long the heuristics look into a run, and into a megabyte of trace.
    Time(real::time::Options),
    /// GitHub's payloads: what the bridge reads in each; and posted to a running bridge.
    Webhooks(webhooks::Options),
}

/// Where the evaluation data lies.
#[derive(Args)]
struct Data {
    /// The folder of the evaluation data.
    #[arg(long, env = "RETRO_EVAL_DATA")]
    data: Option<PathBuf>,
}

impl Data {
    /// The folder of one set. Fails with what to do when it is not known or not there.
    fn set(&self, name: &str) -> Result<PathBuf> {
        let data = self.data.as_deref().context("evaluation data is not part of the project: say where it lies with `--data DIR` or in RETRO_EVAL_DATA")?;
        let folder = data.join(name);
        ensure!(
            folder.is_dir(),
            "{} is not there: `--data` names the folder that holds {name}",
            folder.display()
        );
        Ok(folder)
    }
}

/// A half of the evaluation data: what is tuned is tuned on one, and the other says whether that was honest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Part {
    /// Its texts were read while what is measured was written.
    Read,
    /// Its texts were only counted.
    Unread,
}

impl Part {
    /// The part of a group: half of all groups, whatever their number.
    fn of(group: &str) -> Self {
        if Sha256::digest(group.as_bytes())[0] < 128 { Self::Read } else { Self::Unread }
    }
}

/// Runs one evaluation and prints what it measured.
pub(crate) fn run(root: &Path, eval: &Eval) -> Result<()> {
    match eval {
        Eval::Findings(options) => findings::run(options),
        Eval::Hostile(options) => hostile::run(root, options),
        Eval::Injection(options) => injection::run(options),
        Eval::Memories(options) => real::memories::run(root, options),
        Eval::Report(options) => real::beside::run(root, options),
        Eval::Paraphrases(options) => findings::paraphrases::run(options),
        Eval::Rules(options) => rules::run(options),
        Eval::Time(options) => real::time::run(options),
        Eval::Webhooks(options) => webhooks::run(root, options),
    }
}

/// Every row of a file with a JSON document on each line.
fn rows<Row: DeserializeOwned>(file: &Path) -> Result<Vec<Row>> {
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines = BufReader::new(opened).lines().enumerate();
    lines
        .map(|(nth, line)| {
            let place = || format!("{}:{}", file.display(), nth + 1);
            serde_json::from_str(&line.with_context(place)?).with_context(place)
        })
        .collect()
}
