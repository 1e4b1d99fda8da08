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
mod measure;
pub(super) mod paraphrases;
mod runs;
mod score;
mod secrets;
mod signatures;
mod table;
mod tool_errors;
mod tool_output;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

use measure::Measure;
use table::{Row, report_rows, score_cases};

use crate::decisions::eval_data::EvalData;

/// Options of `cargo xtask eval findings`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
    /// Also writes the table to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Maximum number of mistakes to show per measure, from the half on which the heuristics were tuned.
    #[arg(long, default_value_t = 0)]
    wrong: usize,
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
