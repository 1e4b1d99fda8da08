//! What stands out in a window, said so that nobody takes it for more than it is.

use retro_core::finding::{Fault, Transient};
use retro_core::report::{Association, Measure, Outlier, Report};

use crate::words::{self, count};

/// A sentence for each run that took far more than others, and for each error that goes with failure.
pub(super) fn sentences(report: &Report) -> Vec<String> {
    report.outliers.iter().map(outlier).chain(report.associations.iter().map(association)).collect()
}

fn outlier(one: &Outlier) -> String {
    let Outlier { ordinal, value, median, runs, .. } = one;
    let did = match one.measure {
        Measure::CostUsdMicros => "cost",
        Measure::Tokens => "used",
        Measure::TookMs => "took",
    };
    // In tenths, rounded down: a median of nothing never stands out.
    let tenths = u128::from(*value) * 10 / u128::from(*median).max(1);
    format!(
        "run {} ({ordinal}) {did} {}.{} × the workflow's median: {}, where half of the newest {} take {} or less",
        words::line(one.run.as_str()),
        tenths / 10,
        tenths % 10,
        amount(one.measure, *value),
        count((*runs).into(), "run"),
        amount(one.measure, *median)
    )
}

fn amount(measure: Measure, value: u64) -> String {
    match measure {
        Measure::CostUsdMicros => format!("{}.{:04} US dollars", value / 1_000_000, value % 1_000_000 / 100),
        Measure::Tokens => count(value, "token"),
        Measure::TookMs => words::duration(value),
    }
}

fn association(one: &Association) -> String {
    let Association { error, failed, succeeded, p_micros, tested } = one;
    let p = if *p_micros < 1000 { "p < 0.001".to_owned() } else { format!("p = 0.{:03}", p_micros / 1000) };
    format!(
        "“{}” of `{}` in step {} was found in {} of {} and in {} of {}: {p} (Fisher's exact test, {} tried)",
        words::line(&error.error),
        words::line(&error.tool),
        words::line(error.step.as_str()),
        failed[0],
        count(failed[1].into(), "failed run"),
        succeeded[0],
        count(succeeded[1].into(), "successful run"),
        count((*tested).into(), "error")
    )
}

/// Where a failed run probably went wrong.
pub(super) fn fault(fault: &Fault) -> String {
    format!("probably went wrong in step {}: {}", words::line(fault.step.as_str()), words::line(&fault.sign))
}

/// An error that passed by itself.
pub(super) fn transient(transient: &Transient) -> String {
    format!(
        "“{}” of `{}` in step {} passed by itself: the very same call got past it",
        words::line(&transient.error),
        words::line(&transient.tool),
        words::line(transient.step.as_str())
    )
}

#[cfg(test)]
mod tests {
    use retro_core::finding::Quote;
    use retro_core::id::{RunId, Step};
    use retro_core::report::ErrorSeen;
    use retro_core::trajectory::Place;

    use super::*;
    use crate::report::{markdown, table};
    use crate::world::rich;

    fn strange() -> Report {
        let mut report = rich().reports.remove(2);
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
            outlier(Measure::CostUsdMicros, 423_456, 103_000),
            outlier(Measure::Tokens, 90_000, 1000),
            outlier(Measure::TookMs, 600_000, 60_000),
        ];
        let error =
            ErrorSeen { step: Step::main(), tool: "mysql".to_owned(), error: "no table\n|".to_owned() };
        report.associations =
            vec![Association { error, failed: [5, 6], succeeded: [0, 6], p_micros: 15_152, tested: 1 }];
        let quote = Quote { place: Place::Message { turn: 4 }, text: "There are 7.".to_owned() };
        report.investigations[0].fault = Some(Fault {
            step: Step::new("counter").unwrap(),
            sign: "the first contribution".to_owned(),
            quote: quote.clone(),
        });
        report.investigations[0].transients = vec![Transient {
            step: Step::main(),
            tool: "post_message".to_owned(),
            error: "<nonce> expired".to_owned(),
            quote,
        }];
        report
    }

    #[test]
    fn what_stands_out_is_told_with_what_it_is_held_against() {
        insta::assert_snapshot!(sentences(&strange()).join("\n"));
    }

    #[test]
    fn both_renderings_tell_it_and_say_a_guess_as_one() {
        let (report, plain) = (strange(), rich().reports.remove(2));
        for told in [markdown(&report), table(&report, 130)] {
            assert!(told.contains("What stands out") && told.contains("× the workflow's median"), "{told}");
            assert!(told.contains("p = 0.015") && told.contains("There are 7."), "{told}");
            assert!(told.contains("the very same call got past it"), "{told}");
            assert!(told.contains("probably went wrong in step counter: the first contribution"), "{told}");
        }
        assert!(
            !markdown(&strange()).contains("run-<07>") && !markdown(&strange()).contains("<nonce>"),
            "a text from a run makes no tag"
        );
        for silent in [markdown(&plain), table(&plain, 130)] {
            assert!(!silent.contains("stands out") && !silent.contains("probably"), "{silent}");
        }
    }
}
