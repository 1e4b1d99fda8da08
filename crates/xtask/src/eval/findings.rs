//! The heuristics that look into runs, measured part by part, each figure beside a naive baseline and its goal.
//!
//! A measure turns its set into cases by calling the investigator, which sees no label; only then are they scored. Every
//! figure is printed of all cases and of each part: cases are drawn into parts by their group (a task, a file), and mistakes
//! are only ever shown of the part that may be read.

mod effect;
mod failing_line;
mod failing_step;
mod grouping;
mod runs;
mod score;
mod secrets;
mod signatures;
mod tool_errors;
mod tool_output;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::{Data, Part};

/// How the measurement is asked for.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    data: Data,
    /// Also writes the table as a JSON document into this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Shows so many mistakes of each measure, of the part that may be read.
    #[arg(long, default_value_t = 0)]
    wrong: usize,
}

/// One thing that is measured, on one set.
trait Measure {
    /// What it is called in the table.
    const NAME: &'static str;
    /// The folder of its set.
    const SET: &'static str;
    /// One answer of the investigator beside what people, or a script, called right.
    type Case;

    /// Every case of the set, with the investigator's answer and the baseline's.
    fn cases(data: &Data) -> Result<Vec<Self::Case>>;

    /// What keeps cases that resemble each other in one part.
    fn group(case: &Self::Case) -> &str;

    /// The figures of some cases; always the same ones in the same order.
    fn figures(cases: &[&Self::Case]) -> Vec<Figure>;

    /// A mistake in words; `None` when the case is right.
    fn mistake(case: &Self::Case) -> Option<String>;
}

/// One number, the same number of the baseline, and what it should reach.
#[derive(Debug, Clone, PartialEq)]
struct Figure {
    name: String,
    /// How many cases it is about.
    cases: usize,
    ours: f64,
    baseline: f64,
    goal: Option<f64>,
    /// What it should not exceed.
    at_most: Option<f64>,
}

impl Figure {
    fn new(name: impl Into<String>, cases: usize, ours: f64, baseline: f64) -> Self {
        Self { name: name.into(), cases, ours, baseline, goal: None, at_most: None }
    }

    fn with_goal(self, goal: f64) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// Both ends included.
    fn within(self, goal: f64, at_most: f64) -> Self {
        Self { goal: Some(goal), at_most: Some(at_most), ..self }
    }

    fn reached(&self) -> Option<bool> {
        self.goal.map(|goal| (goal..=self.at_most.unwrap_or(f64::INFINITY)).contains(&self.ours))
    }
}

/// A line of the table.
#[derive(Debug, Serialize)]
struct Row {
    measure: &'static str,
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

/// Measures everything whose set is there, prints the table and writes it. Fails when no set is there.
pub(super) fn run(options: &Options) -> Result<()> {
    let mut rows = Vec::new();
    for measured in [
        of::<grouping::Grouping>,
        of::<tool_errors::ToolErrors>,
        of::<signatures::Signatures>,
        of::<failing_line::FailingLine>,
        of::<failing_step::WhoAndWhen>,
        of::<failing_step::RootCause>,
        of::<tool_output::ToolOutput>,
        of::<effect::Knowledge>,
        of::<secrets::Secrets>,
    ] {
        rows.extend(measured(options)?);
    }
    ensure!(!rows.is_empty(), "`--data` names a folder that holds none of the sets: nothing was measured");
    print(&rows);
    if let Some(file) = &options.json {
        let place = || format!("cannot write {}", file.display());
        fs::write(file, serde_json::to_string_pretty(&rows)? + "\n").with_context(place)?;
    }
    Ok(())
}

/// The rows of one measure; none, and a word about it, when its set is not there.
fn of<M: Measure>(options: &Options) -> Result<Vec<Row>> {
    if options.data.data.is_some()
        && let Err(missing) = options.data.set(M::SET)
    {
        eprintln!("not measured: {}: {missing}", M::NAME);
        return Ok(Vec::new());
    }
    let cases = M::cases(&options.data).with_context(|| format!("measuring {}", M::NAME))?;
    let part = |part| cases.iter().filter(|case| Part::of(M::group(case)) == part).collect::<Vec<_>>();
    let (read, unread) = (part(Part::Read), part(Part::Unread));
    show::<M>(&read, options.wrong);
    let figures = M::figures(&cases.iter().collect::<Vec<_>>()).into_iter();
    let parts = M::figures(&read).into_iter().zip(M::figures(&unread));
    let row = |(figure, (read, unread)): (Figure, (Figure, Figure))| Row {
        measure: M::NAME,
        set: M::SET,
        cases: figure.cases,
        reached: figure.reached(),
        figure: figure.name,
        ours: rounded(figure.ours),
        read: rounded(read.ours),
        unread: rounded(unread.ours),
        baseline: rounded(figure.baseline),
        goal: figure.goal,
        at_most: figure.at_most,
    };
    Ok(figures.zip(parts).map(row).collect())
}

fn show<M: Measure>(cases: &[&M::Case], wrong: usize) {
    for mistake in cases.iter().filter_map(|case| M::mistake(case)).take(wrong) {
        println!("{}: {mistake}", M::NAME);
    }
}

/// To four places: what is printed does not depend on how a machine adds.
fn rounded(figure: f64) -> f64 {
    (figure * 10_000.0).round() / 10_000.0
}

fn print(rows: &[Row]) {
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
