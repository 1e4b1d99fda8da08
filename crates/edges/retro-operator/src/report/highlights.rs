//! Describes the highlights of a window in sentences that claim no more than the data shows.

use retro_core::finding::{Fault, TransientError};
use retro_core::report::{ErrorAssociation, Outlier, Report, SpendingMeasure};

use crate::text::{self, format_count};

/// Returns one sentence per outlier run and one per error associated with failure.
pub(super) fn list_sentences(report: &Report) -> Vec<String> {
    report
        .outliers
        .iter()
        .map(describe_outlier)
        .chain(report.associations.iter().map(describe_association))
        .collect()
}

fn describe_outlier(one: &Outlier) -> String {
    let Outlier { ordinal, value, median, runs, .. } = one;
    let verb = match one.measure {
        SpendingMeasure::CostUsdMicros => "cost",
        SpendingMeasure::Tokens => "used",
        SpendingMeasure::DurationMs => "took",
    };
    // In tenths, rounded down. A median of 0 never makes an outlier; `max(1)` only guards the division.
    let tenths = u128::from(*value) * 10 / u128::from(*median).max(1);
    format!(
        "run {} ({ordinal}) {verb} {}.{} × the workflow's median: {}, where half of the newest {} take {} or less",
        text::single_line(one.run.as_str()),
        tenths / 10,
        tenths % 10,
        format_amount(one.measure, *value),
        format_count((*runs).into(), "run"),
        format_amount(one.measure, *median)
    )
}

fn format_amount(measure: SpendingMeasure, value: u64) -> String {
    match measure {
        SpendingMeasure::CostUsdMicros => {
            format!("{}.{:04} US dollars", value / 1_000_000, value % 1_000_000 / 100)
        }
        SpendingMeasure::Tokens => format_count(value, "token"),
        SpendingMeasure::DurationMs => text::format_duration(value),
    }
}

fn describe_association(one: &ErrorAssociation) -> String {
    let ErrorAssociation { error, failed, succeeded, p_micros, tested } = one;
    // Three digits, rounded down: a smaller p-value would read as 0.000, which claims certainty.
    let p = if *p_micros < 1000 { "p < 0.001".to_owned() } else { format!("p = 0.{:03}", p_micros / 1000) };
    format!(
        "{} was found in {} of {} and in {} of {}: {p} (Fisher's exact test, {} tried)",
        text::describe_error(&error.step, &error.tool, &error.error),
        failed[0],
        format_count(failed[1].into(), "failed run"),
        succeeded[0],
        format_count(succeeded[1].into(), "successful run"),
        format_count((*tested).into(), "error")
    )
}

/// Describes the step in which a failed run probably went wrong.
pub(super) fn describe_fault(fault: &Fault) -> String {
    format!(
        "probably went wrong in step {}: {}",
        text::single_line(fault.step.as_str()),
        text::single_line(&fault.sign)
    )
}

/// Describes an error that disappeared although the call stayed the same.
pub(super) fn describe_transient(transient: &TransientError) -> String {
    format!(
        "{} disappeared by itself: the same call succeeded later",
        text::describe_error(&transient.step, &transient.tool, &transient.error)
    )
}

#[cfg(test)]
mod tests {
    use retro_core::finding::Quote;
    use retro_core::id::{RunId, Step};
    use retro_core::report::ErrorSignature;
    use retro_core::trajectory::QuotePlace;

    use super::*;
    use crate::report::{render_markdown, render_text};
    use crate::world::rich_world;

    fn strange() -> Report {
        let mut report = rich_world().reports.remove(2);
        let run = RunId::new("run-<07>").unwrap();
        let outlier = |measure, value, median| Outlier {
            ordinal: 27,
            run: run.clone(),
            measure,
            value,
            median,
            runs: 60,
        };
        report.outliers = vec![
            outlier(SpendingMeasure::CostUsdMicros, 423_456, 103_000),
            outlier(SpendingMeasure::Tokens, 90_000, 1000),
            outlier(SpendingMeasure::DurationMs, 600_000, 60_000),
        ];
        let error =
            ErrorSignature { step: Step::main(), tool: "mysql".to_owned(), error: "no table\n|".to_owned() };
        report.associations =
            vec![ErrorAssociation { error, failed: [5, 6], succeeded: [0, 6], p_micros: 15_152, tested: 1 }];
        let quote = Quote { place: QuotePlace::Message { turn: 4 }, text: "There are 7.".to_owned() };
        report.investigations[0].checked.fault = Some(Fault {
            step: Step::new("counter").unwrap(),
            sign: "the first contribution".to_owned(),
            quote: quote.clone(),
        });
        report.investigations[0].checked.transients = vec![TransientError {
            step: Step::main(),
            tool: "post_message".to_owned(),
            error: "<nonce> expired".to_owned(),
            quote,
        }];
        report
    }

    #[test]
    fn an_outlier_is_shown_with_the_median_of_its_workflow() {
        insta::assert_snapshot!(list_sentences(&strange()).join("\n"));
    }

    #[test]
    fn both_renderings_show_highlights_and_mark_guesses() {
        let (report, plain) = (strange(), rich_world().reports.remove(2));
        for rendered in [render_markdown(&report), render_text(&report, 130)] {
            assert!(
                rendered.contains("Highlights") && rendered.contains("× the workflow's median"),
                "{rendered}"
            );
            assert!(rendered.contains("p = 0.015") && rendered.contains("There are 7."), "{rendered}");
            assert!(rendered.contains("the same call succeeded later"), "{rendered}");
            assert!(
                rendered.contains("probably went wrong in step counter: the first contribution"),
                "{rendered}"
            );
        }
        assert!(
            !render_markdown(&strange()).contains("run-<07>")
                && !render_markdown(&strange()).contains("<nonce>"),
            "text from a run produces no tag"
        );
        for silent in [render_markdown(&plain), render_text(&plain, 130)] {
            assert!(!silent.contains("Highlights") && !silent.contains("probably"), "{silent}");
        }
    }
}
