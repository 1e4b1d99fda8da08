//! Measures the decisions that need no model on evaluation data. Anyone with the data can reproduce the
//! figures in the manuals.
//!
//! An evaluation calls the product's own functions and uses labels only to score the results.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "evaluations for people at a terminal: what they print is what they are for"
)]

mod eval_data;
mod findings;
mod gate;
mod hostile;
mod injection;
mod model_cost;
mod observations;
mod real;
mod relations;
mod relevance;
mod rule_model;
mod rules;
mod webhooks;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

/// Evaluation to run.
#[derive(Subcommand)]
pub enum Eval {
    /// Measures the heuristics of the investigator one by one, and compares each figure with a naive baseline
    /// and a goal.
    Findings(findings::Options),
    /// Scores the gate on lines about dangerous and harmless actions: its recall by category, its false alarms,
    /// and its time per text.
    Gate(gate::Options),
    /// Sends hostile text through a running program, as reviews and in every place of a run, and shows each
    /// outcome and the lines that an agent sees.
    Hostile(hostile::Options),
    /// Measures the screen for hostile text: its recall by kind and its false alarms on real reviews,
    /// compared with a one-line regular expression.
    Injection(injection::Options),
    /// Emits every real run to a fresh instance, and prints a random sample of the learned memories for
    /// review; can also count what the gate does to genuine lessons.
    Memories(real::memories::Options),
    /// Measures calls, tokens, money and time of a retrospective over long runs with a language model, beside pasting the
    /// runs whole; a script plays the model.
    ModelCost(model_cost::Options),
    /// Runs one retrospective over failed runs with known causes, and prints its findings next to the causes.
    Report(real::comparison::Options),
    /// Measures which sentences an embedder considers similar, compared with human judgement; can also
    /// calibrate the scale of an embedder.
    Paraphrases(findings::paraphrases::Options),
    /// Measures whether a new lesson is told to confirm, to replace or to stand beside an older one, on pairs whose
    /// relation is known.
    Relations(relations::Options),
    /// Measures whether the memory that belongs to a task comes first among those of its step.
    Relevance(relevance::Options),
    /// Measures which review remarks are classified as rules, compared with human labels.
    Rules(rules::Options),
    /// Measures the time of the heuristics per run and per megabyte of trajectory.
    Time(real::time::Options),
    /// Parses GitHub payloads as the bridge does, and can post them to a running bridge.
    Webhooks(webhooks::Options),
}

/// Runs the chosen evaluation and prints its results. An evaluation that starts the program does so in a
/// fresh folder below the workspace root `root`.
///
/// Fails if the evaluation data is missing, or if the program misbehaves.
pub fn run(root: &Path, eval: &Eval) -> Result<()> {
    match eval {
        Eval::Findings(options) => findings::run(options),
        Eval::Gate(options) => gate::run(options),
        Eval::Hostile(options) => hostile::run(root, options),
        Eval::Injection(options) => injection::run(options),
        Eval::Memories(options) => real::memories::run(root, options),
        Eval::ModelCost(options) => model_cost::run(options),
        Eval::Report(options) => real::comparison::run(root, options),
        Eval::Paraphrases(options) => findings::paraphrases::run(options),
        Eval::Relations(options) => relations::run(options),
        Eval::Relevance(options) => relevance::run(options),
        Eval::Rules(options) => rules::run(options),
        Eval::Time(options) => real::time::run(options),
        Eval::Webhooks(options) => webhooks::run(root, options),
    }
}
