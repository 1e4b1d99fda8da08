//! Implements `cargo xtask eval`: measures the decisions that need no model on evaluation data. Anyone with
//! the data can reproduce the figures in the manuals.
//!
//! An evaluation calls the product's own functions and uses labels only to score the results.

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

/// Evaluation to run.
#[derive(Subcommand)]
pub(crate) enum Eval {
    /// Measures the heuristics of the investigator one by one, and compares each figure with a naive baseline
    /// and a goal.
    Findings(findings::Options),
    /// Posts hostile and genuine reviews to a running bridge, and shows each outcome and the lines that an
    /// agent sees.
    Hostile(hostile::Options),
    /// Measures the screen for hostile text: its recall by kind and its false alarms on real reviews,
    /// compared with a one-line regular expression.
    Injection(injection::Options),
    /// Emits every real run to a fresh instance, and prints a random sample of the learned memories for
    /// review.
    Memories(real::memories::Options),
    /// Runs one retrospective over failed runs with known causes, and prints its findings next to the causes.
    Report(real::comparison::Options),
    /// Measures which sentences an embedder considers similar, compared with human judgement; can also
    /// calibrate the scale of an embedder.
    Paraphrases(findings::paraphrases::Options),
    /// Measures which review remarks are classified as rules, compared with human labels.
    Rules(rules::Options),
    /// Measures the time of the heuristics per run and per megabyte of trajectory.
    Time(real::time::Options),
    /// Parses GitHub payloads as the bridge does, and can post them to a running bridge.
    Webhooks(webhooks::Options),
}

/// Option for the location of the evaluation data.
#[derive(Args)]
struct EvalData {
    /// Folder with the evaluation data.
    #[arg(long, env = "RETRO_EVAL_DATA")]
    data: Option<PathBuf>,
}

impl EvalData {
    /// Returns the folder of a data set. Fails with instructions if the data set is missing or the location
    /// of the evaluation data is unknown.
    fn set_folder(&self, name: &str) -> Result<PathBuf> {
        let data = self.data.as_deref().context("evaluation data is not part of the project: name its folder with `--data DIR` or in RETRO_EVAL_DATA")?;
        let folder = data.join(name);
        ensure!(
            folder.is_dir(),
            "{} does not exist: `--data` must name the folder that contains {name}",
            folder.display()
        );
        Ok(folder)
    }
}

/// One half of the evaluation data. Heuristics are tuned on one half, and the other half shows whether they
/// generalise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum DataHalf {
    /// Half whose cases were read while the heuristics were written.
    Read,
    /// Half whose cases were only counted and never read.
    Unread,
}

impl DataHalf {
    /// Assigns a group of cases to a half by the hash of its name.
    fn of_group(group: &str) -> Self {
        if Sha256::digest(group.as_bytes())[0] < 128 { Self::Read } else { Self::Unread }
    }
}

/// Runs the chosen evaluation and prints its results.
pub(crate) fn run(root: &Path, eval: &Eval) -> Result<()> {
    match eval {
        Eval::Findings(options) => findings::run(options),
        Eval::Hostile(options) => hostile::run(root, options),
        Eval::Injection(options) => injection::run(options),
        Eval::Memories(options) => real::memories::run(root, options),
        Eval::Report(options) => real::comparison::run(root, options),
        Eval::Paraphrases(options) => findings::paraphrases::run(options),
        Eval::Rules(options) => rules::run(options),
        Eval::Time(options) => real::time::run(options),
        Eval::Webhooks(options) => webhooks::run(root, options),
    }
}

/// Reads the rows of a JSON Lines file. Fails with the file and line number of a row that cannot be parsed.
fn read_rows<Row: DeserializeOwned>(file: &Path) -> Result<Vec<Row>> {
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines = BufReader::new(opened).lines().enumerate();
    lines
        .map(|(nth, line)| {
            let place = || format!("{}:{}", file.display(), nth + 1);
            serde_json::from_str(&line.with_context(place)?).with_context(place)
        })
        .collect()
}
