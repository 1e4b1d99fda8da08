//! Measures the heuristics of the investigator one by one, and compares each figure with a naive baseline and
//! a goal.
//!
//! A measure first turns its data set into cases by calling the investigator, which sees no label, and then
//! scores them. Every figure is printed for all cases and for each half of the data. Cases of one group (a
//! task, a file) are in the same half, and only mistakes from the half on which the heuristics were tuned are
//! shown.

mod effect;
mod failing_line;
mod failing_step;
mod grouping;
pub(super) mod paraphrases;
mod runs;
mod score;
mod secrets;
mod signatures;
mod tool_errors;
mod tool_output;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::{DataHalf, EvalData};

/// Options of `cargo xtask eval findings`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    data: EvalData,
    /// Also writes the table to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Maximum number of mistakes to show per measure, from the half on which the heuristics were tuned.
    #[arg(long, default_value_t = 0)]
    wrong: usize,
}

/// Measures one heuristic on one data set.
trait Measure {
    /// Name of the measure in the printed table.
    const NAME: &'static str;
    /// Folder of the data set within the evaluation data.
    const SET: &'static str;
    /// Result of the investigator with its label.
    type Case;

    /// Loads all cases of the data set, with the results of the investigator and of the baseline.
    fn load_cases(data: &EvalData) -> Result<Vec<Self::Case>>;

    /// Returns the name of a case's group. Similar cases have the same group, which keeps them in the same
    /// half.
    fn group_key(case: &Self::Case) -> &str;

    /// Computes the figures for the given cases. The number and the order of the figures must not depend on
    /// the cases, because the figures of both halves share a row.
    fn compute_figures(cases: &[&Self::Case]) -> Vec<Figure>;

    /// Describes the mistake in a case. Returns `None` if the investigator's result is correct.
    fn describe_mistake(case: &Self::Case) -> Option<String>;
}

/// Measured value with the baseline's value and the goal.
#[derive(Debug, Clone, PartialEq)]
struct Figure {
    name: String,
    /// Number of cases from which the figure was computed.
    cases: usize,
    ours: f64,
    baseline: f64,
    goal: Option<f64>,
    /// Upper bound of a goal that is a range; `None` for all other goals.
    at_most: Option<f64>,
}

impl Figure {
    fn new(name: impl Into<String>, cases: usize, ours: f64, baseline: f64) -> Self {
        Self { name: name.into(), cases, ours, baseline, goal: None, at_most: None }
    }

    fn with_goal(self, goal: f64) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// Sets a range as the goal, including both bounds.
    fn with_range(self, goal: f64, at_most: f64) -> Self {
        Self { goal: Some(goal), at_most: Some(at_most), ..self }
    }

    fn is_goal_reached(&self) -> Option<bool> {
        self.goal.map(|goal| (goal..=self.at_most.unwrap_or(f64::INFINITY)).contains(&self.ours))
    }
}

/// Row of the printed table: one figure with its value for all cases and for each half.
#[derive(Debug, Serialize)]
struct Row {
    measure: String,
    set: &'static str,
    cases: usize,
    figure: String,
    ours: f64,
    read: f64,
    unread: f64,
    baseline: f64,
    goal: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    reached: Option<bool>,
}

/// Runs every measure whose data set exists, prints the table, and writes it to a file if requested. Fails if
/// no data set exists.
pub(super) fn run(options: &Options) -> Result<()> {
    let mut rows = Vec::new();
    for measured in [
        measure_rows::<grouping::Grouping>,
        measure_rows::<tool_errors::ToolErrors>,
        measure_rows::<signatures::Signatures>,
        measure_rows::<failing_line::FailingLine>,
        measure_rows::<failing_step::WhoAndWhen>,
        measure_rows::<failing_step::RootCause>,
        measure_rows::<tool_output::ToolOutput>,
        measure_rows::<effect::KnowledgeEffect>,
        measure_rows::<secrets::SecretRedaction>,
        measure_rows::<paraphrases::Paraphrases>,
    ] {
        rows.extend(measured(options)?);
    }
    ensure!(!rows.is_empty(), "nothing was measured: the folder in `--data` contains none of the data sets");
    report_rows(&rows, options.json.as_deref())
}

/// Prints the rows and, if a file is given, also writes them to it as JSON.
fn report_rows(rows: &[Row], json: Option<&Path>) -> Result<()> {
    print_table(rows);
    if let Some(file) = json {
        let place = || format!("cannot write {}", file.display());
        fs::write(file, serde_json::to_string_pretty(rows)? + "\n").with_context(place)?;
    }
    Ok(())
}

/// Runs one measure. If its data set is missing, prints a note and returns no rows.
fn measure_rows<M: Measure>(options: &Options) -> Result<Vec<Row>> {
    if options.data.data.is_some()
        && let Err(missing) = options.data.set_folder(M::SET)
    {
        eprintln!("not measured: {}: {missing}", M::NAME);
        return Ok(Vec::new());
    }
    let cases = M::load_cases(&options.data).with_context(|| format!("measuring {}", M::NAME))?;
    Ok(score_cases::<M>(M::NAME, &cases, options.wrong))
}

/// Computes the table rows for the cases of a measure, and prints up to `wrong` mistakes.
fn score_cases<M: Measure>(name: &str, cases: &[M::Case], wrong: usize) -> Vec<Row> {
    let part =
        |part| cases.iter().filter(|case| DataHalf::of_group(M::group_key(case)) == part).collect::<Vec<_>>();
    let (read, unread) = (part(DataHalf::Read), part(DataHalf::Unread));
    print_mistakes::<M>(name, &read, wrong);
    let figures = M::compute_figures(&cases.iter().collect::<Vec<_>>()).into_iter();
    let parts = M::compute_figures(&read).into_iter().zip(M::compute_figures(&unread));
    let row = |(figure, (read, unread)): (Figure, (Figure, Figure))| Row {
        measure: name.to_owned(),
        set: M::SET,
        cases: figure.cases,
        reached: figure.is_goal_reached(),
        figure: figure.name,
        ours: round_figure(figure.ours),
        read: round_figure(read.ours),
        unread: round_figure(unread.ours),
        baseline: round_figure(figure.baseline),
        goal: figure.goal,
        at_most: figure.at_most,
    };
    figures.zip(parts).map(row).collect()
}

fn print_mistakes<M: Measure>(name: &str, cases: &[&M::Case], wrong: usize) {
    for mistake in cases.iter().filter_map(|case| M::describe_mistake(case)).take(wrong) {
        println!("{name}: {mistake}");
    }
}

/// Rounds a figure to four decimal places, so the output does not depend on the order of summation.
fn round_figure(figure: f64) -> f64 {
    (figure * 10_000.0).round() / 10_000.0
}

fn print_table(rows: &[Row]) {
    println!(
        "{:<38} {:<28} {:>6}  {:>6} {:>6} {:>6} {:>8}  {:>5}",
        "measure", "figure", "cases", "ours", "read", "unread", "baseline", "goal"
    );
    for row in rows {
        let goal = match (row.goal, row.at_most) {
            (None, _) => String::new(),
            (Some(goal), None) => format!("{goal:.2}"),
            (Some(goal), Some(most)) => format!("{goal:.2} to {most:.2}"),
        };
        let reached = if row.reached == Some(false) { "  missed" } else { "" };
        println!(
            "{:<38} {:<28} {:>6}  {:>6.3} {:>6.3} {:>6.3} {:>8.3}  {goal:>5}{reached}",
            row.measure, row.figure, row.cases, row.ours, row.read, row.unread, row.baseline
        );
    }
}
