//! Describes operations, failures and coverage in the words that commands, HTTP and reports share. All text is
//! printable on one line; Markdown escapes it as well.

use retro_core::calls::{MissedReason, OperationStatistics, RecurringFailure, SummaryCoverage};
use retro_core::id::Tenant;

use crate::text::{self, format_count};

/// Headers of the table of operations.
pub(crate) const OPERATION_HEAD: [&str; 8] =
    ["step", "operation", "runs", "calls", "failed", "share failed", "median", "95 % within"];

/// Returns the cells of an operation, in the order of [`OPERATION_HEAD`]. Times that no log tells are empty.
pub(crate) fn operation_cells(one: &OperationStatistics) -> [String; 8] {
    let format_time = |ms: Option<u32>| ms.map(|ms| text::format_duration(ms.into())).unwrap_or_default();
    [
        text::single_line(one.step.as_str()),
        describe_operation(one),
        one.runs.to_string(),
        one.calls.to_string(),
        one.failed.to_string(),
        format_share(one.failed, one.calls),
        format_time(one.median_ms),
        format_time(one.p95_ms),
    ]
}

/// Names the tool of an operation and, for a command, its program: `bash: git push`.
fn describe_operation(one: &OperationStatistics) -> String {
    let tool = text::single_line(&one.tool);
    if one.program.is_empty() {
        tool
    } else {
        format!("{tool}: {}", text::single_line(&one.program.join(" ")))
    }
}

/// Formats a share in per cent with one decimal, rounded down; empty for a share of nothing.
fn format_share(part: u32, whole: u32) -> String {
    let share = (u64::from(part) * 1000).checked_div(whole.into());
    share.map_or_else(String::new, |permille| format!("{}.{} %", permille / 10, permille % 10))
}

/// Describes in one sentence how many runs were counted, and why others were not.
pub(crate) fn describe_coverage(coverage: SummaryCoverage) -> String {
    let SummaryCoverage { runs, counted, unreadable, uncounted_calls } = coverage;
    let other_version = runs.saturating_sub(counted).saturating_sub(unreadable);
    let mut sentence = format!("Counted the calls of {counted} of {}", format_count(runs.into(), "run"));
    if unreadable > 0 {
        sentence.push_str(&format!("; {} could not be read", format_count(unreadable.into(), "run")));
    }
    if other_version > 0 {
        let runs = format_count(other_version.into(), "run");
        sentence.push_str(&format!("; for {runs}, there is no summary of this version"));
    }
    if uncounted_calls > 0 {
        let calls = format_count(uncounted_calls.into(), "call");
        sentence.push_str(&format!("; not counted: {calls} of runs with too many different operations"));
    }
    sentence + "."
}

/// Names a recurring failure: its error, tool and step.
pub(crate) fn describe_failure(failure: &RecurringFailure) -> String {
    text::describe_error(&failure.step, &failure.tool, &failure.error)
}

/// Describes how often a failure occurred, and in which run last.
pub(crate) fn describe_frequency(failure: &RecurringFailure) -> String {
    let RecurringFailure { runs, witnesses, recovered, failed_runs, investigated, last_run, .. } = failure;
    let witnesses = match witnesses {
        same if same == runs => String::new(),
        fewer => format!(" ({})", format_count((*fewer).into(), "witness")),
    };
    format!(
        "met by {}{witnesses}: {recovered} got past it, {failed_runs} failed in the end, {investigated} investigated; last by {}",
        format_count((*runs).into(), "run"),
        text::single_line(last_run.as_str())
    )
}

/// Explains in one sentence why no memory that agents get is about a failure, and what a person can do.
pub(crate) fn explain_reason(reason: &MissedReason, tenant: &Tenant) -> String {
    let retro = text::command_of_tenant(tenant);
    match reason {
        MissedReason::NotSampled => format!(
            "no run that met it was investigated: `{retro} retrospectives trigger` investigates runs \
             that a person names"
        ),
        MissedReason::NotRecovered => {
            "no run got past it, so none shows a remedy: a person has to find its cause".to_owned()
        }
        MissedReason::Transient => {
            "it passes by itself: the same call worked when it was repeated, so there is nothing to learn"
                .to_owned()
        }
        MissedReason::Refuted { repeated, changed } => format!(
            "it passes by itself: of the newest {} that got past it, {repeated} repeated the identical call",
            format_count((*repeated + *changed).into(), "run")
        ),
        MissedReason::NoRemedyFound => format!(
            "runs got past it, but no investigated one shows what it changed: `{retro} retrospectives trigger` \
             investigates others"
        ),
        MissedReason::Unconfirmed { memory } => {
            let id = memory.short_id();
            format!(
                "its memory {id} waits for another run that confirms it: `{retro} memories show {id}` shows what \
                 is known"
            )
        }
        MissedReason::Held { memory } => {
            let id = memory.short_id();
            format!(
                "its memory {id} is held for a person: `{retro} memories release {id} --reason …` hands it out, \
                 `{retro} memories retire {id} --reason …` deletes it"
            )
        }
        MissedReason::Disabled { memory } => {
            let id = memory.short_id();
            format!(
                "its memory {id} was disabled by a person: `{retro} memories enable {id} --reason …` hands it out again"
            )
        }
        MissedReason::Suppressed { memory } => {
            let id = memory.short_id();
            format!(
                "its memory {id} was deleted and must not be learnt again for a time: `{retro} memories why {id}` \
                 shows the reason"
            )
        }
        MissedReason::Archived { memory } => {
            let id = memory.short_id();
            format!(
                "its memory {id} faded and is no longer handed out until a run shows it again: `{retro} memories \
                 why {id}` shows how"
            )
        }
    }
}
