//! Describes who investigated, what a language model cost, what it objected to, and what it answered to people.

use retro_core::finding::{Compaction, Refutation, RefutedFinding};
use retro_core::policy::InvestigationStage;
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
    if !report.policy.has_stage(InvestigationStage::Model) {
        return "By the heuristics alone: the pipeline lists no language model for this workflow (`stages`)."
            .to_owned();
    }
    if !report.policy.has_stage(InvestigationStage::Heuristics) && all == 0 {
        return "By nobody: the pipeline lists only a language model for this workflow (`stages`), and none answered."
            .to_owned();
    }
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

/// Says what a finding counts that a language model refutes, in one clause.
pub(super) fn describe_refuted(
    report: &Report,
    one: &ReportedInvestigation,
    refutation: &Refutation,
) -> &'static str {
    if report.manual_request.is_some() {
        return match report.policy.model_refutes {
            RefutedFinding::Neutral => "it is not proposed",
            RefutedFinding::Ignore => "it is proposed all the same (`model_refutes`)",
        };
    }
    let observed = report.mutations.iter().any(|outcome| {
        outcome.request.kind == "observe"
            && outcome.request.run.as_ref() == Some(&one.run)
            && outcome.request.about == refutation.finding
    });
    match report.policy.model_refutes {
        // The contrast states the lesson of an error in the place of the finding.
        _ if !observed => {
            "the calls of many runs support a lesson about this error, which stands in its place"
        }
        RefutedFinding::Neutral => "heuristics and model disagree, so it counts neither for nor against",
        RefutedFinding::Ignore => "it counts all the same (`model_refutes`)",
    }
}

/// Says how the list of earlier findings was shortened for an investigation, in one sentence.
pub(super) fn describe_compaction(compaction: &Compaction) -> String {
    let Compaction { by, problem, given, told, dropped, dropped_lines } = compaction;
    let by = by.as_ref().map_or("the program's rule".to_owned(), |by| text::single_line(by));
    let problem = problem.as_ref().map_or(String::new(), |problem| {
        format!(" The language model's answer was not used: {}.", text::single_line(problem))
    });
    let shown = dropped_lines.len() as u32;
    let more = if *dropped > shown { format!(" The first {shown} of them:") } else { String::new() };
    format!(
        "Of {} by earlier runs it was told {} after {by} merged and dropped lines; {dropped} were dropped.{problem}{more}",
        format_count((*given).into(), "finding"),
        format_count((*told).into(), "line"),
    )
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
