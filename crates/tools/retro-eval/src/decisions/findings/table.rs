//! Scores the cases of a measure as rows of a table, and prints and writes the table.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::measure::{Figure, Measure};
use crate::decisions::eval_data::DataHalf;

/// Row of the printed table: one figure with its value for all cases and for each half.
#[derive(Debug, Serialize)]
pub(super) struct Row {
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

/// Computes the table rows for the cases of a measure, and prints up to `wrong` mistakes.
pub(super) fn score_cases<M: Measure>(name: &str, cases: &[M::Case], wrong: usize) -> Vec<Row> {
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

/// Prints the rows and, if a file is given, also writes them to it as JSON.
pub(super) fn report_rows(rows: &[Row], json: Option<&Path>) -> Result<()> {
    print_table(rows);
    if let Some(file) = json {
        let place = || format!("cannot write {}", file.display());
        fs::write(file, serde_json::to_string_pretty(rows)? + "\n").with_context(place)?;
    }
    Ok(())
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
