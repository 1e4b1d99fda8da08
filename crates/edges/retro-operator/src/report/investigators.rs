//! Describes who investigated, what a language model cost, and what it answered to people.

use retro_core::report::{FocusAnswer, HEURISTICS, InvestigationTiming, Report, ReportedInvestigation};

use crate::text::{self, format_count};

/// Heads of the table of investigations.
pub(super) const EFFORT_HEAD: [&str; 7] =
    ["investigation", "by", "attempts", "time", "model calls", "tokens (cached)", "cost"];

/// Rows of the table of investigations, the last one with the sums.
pub(super) fn effort_rows(report: &Report) -> Vec<[String; 7]> {
    let each = report.investigations.iter().map(|one| {
        let name = format!("{}. run {}", one.number, text::single_line(one.run.as_str()));
        effort_row(name, &one.checked.engine, &one.timing)
    });
    each.chain([effort_row("all".to_owned(), "", &report.total)]).collect()
}

fn effort_row(name: String, engine: &str, timing: &InvestigationTiming) -> [String; 7] {
    let tokens = timing.tokens;
    let (calls, used) = match timing.model_calls {
        0 => (String::new(), String::new()),
        calls => (calls.to_string(), format!("{} ({})", tokens.total(), tokens.cached_tokens)),
    };
    let attempts = timing.attempts.to_string();
    let time = text::format_duration(timing.duration_ms);
    [name, text::single_line(engine), attempts, time, calls, used, describe_cost(timing)]
}

/// Formats a cost; empty if no model was called. Calls without a known price are named, since a sum without them misleads.
fn describe_cost(timing: &InvestigationTiming) -> String {
    match (timing.model_calls, timing.unpriced_calls) {
        (0, _) => String::new(),
        (_, 0) => format!("${:.4}", timing.cost_usd),
        (calls, unpriced) if calls == unpriced => "price not known".to_owned(),
        (_, unpriced) => {
            format!("${:.4} and {} of unknown price", timing.cost_usd, format_count(unpriced.into(), "call"))
        }
    }
}

/// Says which part a language model took in the investigations, in one sentence.
pub(super) fn describe_model_part(report: &Report) -> String {
    let answered = |one: &&ReportedInvestigation| one.error.is_none();
    let all = report.investigations.iter().filter(answered).count() as u64;
    let alone = report.investigations.iter().filter(answered).filter(|one| one.checked.model_note.is_some());
    let (alone, asked) = (alone.count() as u64, report.total.model_calls > 0);
    let by_model =
        |one: &&ReportedInvestigation| one.checked.engine != HEURISTICS && !one.checked.engine.is_empty();
    let with_model = report.investigations.iter().filter(answered).filter(by_model).count() as u64;
    match (with_model, alone) {
        (0, 0) if !asked => "By the heuristics alone: no language model was configured.".to_owned(),
        (0, 0) => "A language model was asked, and gave no answer that could be used.".to_owned(),
        (_, 0) => format!("A language model took part in {with_model} of {}.", format_count(all, "answer")),
        _ => format!(
            "A language model took part in {with_model} of {}; {alone} by the heuristics alone, each with its reason.",
            format_count(all, "answer")
        ),
    }
}

/// Heading of the answer to a question, and its paragraphs in plain text.
pub(super) fn focus_paragraphs(focus: &FocusAnswer) -> Vec<String> {
    let mut all = vec![
        format!("Asked: “{}”", text::single_line(&focus.question)),
        format!(
            "{} (by {}; for people, no agent is shown it)",
            text::single_line(&focus.text),
            text::single_line(&focus.answered_by)
        ),
    ];
    all.extend(focus.open.iter().map(|open| format!("What would settle it: {}", text::single_line(open))));
    if focus.quotes.is_empty() {
        all.push("No quote from the runs supports it.".to_owned());
    }
    all
}
