//! Renders the report as Markdown.

use std::fmt::{self, Write};

use retro_core::finding::{Finding, Quote, Refutation, VerdictRecord};
use retro_core::report::{Report, ReportedInvestigation};

use super::view::{self, ReportView};
use super::{calls, highlights, investigators};
use crate::markdown::{EscapeContext, escape_markdown, escape_text, render_code_block};
use crate::text;

/// Renders the report as GitHub-flavoured Markdown. Text from runs is escaped so that it cannot produce
/// links, mentions, images, HTML or table cells.
pub fn render_markdown(report: &Report) -> String {
    let mut out = String::new();
    write_report(&mut out, &ReportView::from_report(report)).expect("writing to a String does not fail");
    out
}

fn write_report(out: &mut String, report_view: &ReportView<'_>) -> fmt::Result {
    let report = report_view.report;
    writeln!(out, "# {}\n", escape_text(&report_view.heading()))?;
    writeln!(out, "{}\n", report_view.headline())?;
    writeln!(
        out,
        "It {} on {}; its policy moment is {}. Its id is `{}`.",
        report.ended.as_str(),
        text::format_timestamp(report.closed_at),
        text::format_timestamp(report.as_of),
        report.id
    )?;
    write_focus(out, report)?;
    write_proposals(out, report_view)?;
    write_held(out, report_view)?;
    write_changes(out, report_view)?;
    write_declined(out, report_view)?;
    write_memories(out, report_view)?;
    write_highlights(out, report)?;
    write_missed(out, report)?;
    write_calls(out, report)?;
    write_evidence(out, report_view)?;
    write_requests(out, report_view)?;
    write_sample(out, report_view)?;
    write_effort(out, report)?;
    write_policy(out, report_view)
}

fn write_focus(out: &mut String, report: &Report) -> fmt::Result {
    let Some(focus) = &report.focus else { return Ok(()) };
    write_heading(out, "Answer")?;
    let paragraphs = investigators::focus_paragraphs(focus);
    let paragraphs: Vec<_> = paragraphs.iter().map(|paragraph| escape_text(paragraph)).collect();
    writeln!(out, "{}", paragraphs.join("\n\n"))?;
    for one in &focus.quotes {
        let run = escape_text(&text::single_line(one.run.as_str()));
        writeln!(out, "\n- run {run}, {}:", quote_place(&one.quote))?;
        write_quote(out, &one.quote)?;
    }
    Ok(())
}

fn write_proposals(out: &mut String, report_view: &ReportView<'_>) -> fmt::Result {
    let all = &report_view.report.proposals;
    let question = report_view.question();
    if all.is_empty() && question.is_none() {
        return Ok(());
    }
    write_heading(out, "Proposals")?;
    writeln!(out, "{}", escape_text(&question.unwrap_or_default()))?;
    for one in all {
        let (title, step) =
            (escape_text(&text::single_line(&one.lesson.title)), text::single_line(one.step.as_str()));
        writeln!(out, "\n- **{title}**  ")?;
        writeln!(out, "  proposal `{}`, in step {}:", one.id, escape_text(&step))?;
        for shown in &one.evidence {
            let run = escape_text(&text::single_line(shown.run.as_str()));
            writeln!(out, "\n  run {run}, {}:", quote_place(&shown.quote))?;
            write_quote(out, &shown.quote)?;
        }
    }
    Ok(())
}

fn write_held(out: &mut String, report_view: &ReportView<'_>) -> fmt::Result {
    let all = report_view.held_memories();
    if all.is_empty() {
        return Ok(());
    }
    write_heading(out, "Held for a person")?;
    writeln!(out, "{}", view::HELD_MEANS)?;
    for held in all {
        writeln!(out, "\n- **{}**  ", escape_text(&held.title))?;
        writeln!(out, "  {}  ", escape_text(&held.why))?;
        let [release, retire] = held.commands.map(|command| escape_text(&command));
        writeln!(out, "  To hand it out: {release}  ")?;
        writeln!(out, "  To delete it: {retire}")?;
    }
    Ok(())
}

fn write_changes(out: &mut String, report_view: &ReportView<'_>) -> fmt::Result {
    let all = report_view.applied_changes();
    if all.is_empty() {
        return Ok(());
    }
    write_heading(out, "Changes")?;
    write_table_header(out, &["memory", "change", "from → to", "reason"])?;
    for entry in all {
        let change = entry.change;
        write_row(
            out,
            &[&entry.title, change.effect.kind(), &text::describe_change(&change.effect), &change.reason],
        )?;
    }
    Ok(())
}

fn write_declined(out: &mut String, report_view: &ReportView<'_>) -> fmt::Result {
    let all = report_view.declined_changes();
    if all.is_empty() {
        return Ok(());
    }
    write_heading(out, "Requests not carried out")?;
    write_table_header(out, &["about", "outcome", "reason", "requested by"])?;
    for entry in all {
        let change = entry.change;
        let by = text::describe_cause(&change.cause);
        write_row(out, &[&entry.title, &text::describe_change(&change.effect), &change.reason, &by])?;
    }
    Ok(())
}

fn write_memories(out: &mut String, report_view: &ReportView<'_>) -> fmt::Result {
    let statuses = report_view.status_counts();
    if statuses.is_empty() {
        return Ok(());
    }
    write_heading(out, "Memories before and after")?;
    write_table_header(out, &["status", "before", "after"])?;
    for (status, before, after) in statuses {
        write_row(out, &[status.as_str(), &before.to_string(), &after.to_string()])?;
    }
    writeln!(out)?;
    write_table_header(out, &["weight before", "after", "status", "about", "memory", "id"])?;
    for (before, after) in report_view.memory_lines() {
        let was = before.map_or_else(|| "new".to_owned(), |line| line.weight.to_string());
        let (is, id) = (after.weight.to_string(), after.id.to_string());
        let (about, title) = (text::describe_scope(&after.scope), text::single_line(&after.title));
        write_row(out, &[&was, &is, after.status.as_str(), &about, &title, &id])?;
    }
    Ok(())
}

fn write_highlights(out: &mut String, report: &Report) -> fmt::Result {
    let all = highlights::list_sentences(report);
    if all.is_empty() {
        return Ok(());
    }
    write_heading(out, "Highlights")?;
    all.iter().try_for_each(|sentence| writeln!(out, "- {}", escape_text(sentence)))
}

fn write_missed(out: &mut String, report: &Report) -> fmt::Result {
    let Some(section) = calls::missed_section(report) else { return Ok(()) };
    write_heading(out, calls::MISSED_TITLE)?;
    for lines in section.failures {
        let [failure, frequency, reason] = lines.map(|line| escape_text(&line));
        writeln!(out, "- {failure}  \n  {frequency}  \n  {reason}")?;
    }
    write_more(out, &section.more)
}

fn write_calls(out: &mut String, report: &Report) -> fmt::Result {
    let Some(section) = calls::calls_section(report) else { return Ok(()) };
    write_heading(out, calls::CALLS_TITLE)?;
    writeln!(out, "{}", section.coverage)?;
    if section.rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    write_table_header(out, &calls::CALLS_HEAD)?;
    for row in &section.rows {
        write_row(out, &row.each_ref().map(String::as_str))?;
    }
    write_more(out, &section.more)
}

/// Writes the sentence about the items that are not shown, if there are any.
fn write_more(out: &mut String, more: &str) -> fmt::Result {
    if more.is_empty() { Ok(()) } else { writeln!(out, "\n{more}") }
}

fn write_evidence(out: &mut String, report_view: &ReportView<'_>) -> fmt::Result {
    write_heading(out, "Findings")?;
    writeln!(out, "Turns and calls are counted from 0, as in the trajectory.")?;
    for one in &report_view.report.investigations {
        write_investigation(out, report_view, one)?;
    }
    Ok(())
}

fn write_investigation(
    out: &mut String,
    report_view: &ReportView<'_>,
    one: &ReportedInvestigation,
) -> fmt::Result {
    let run = report_view.report.sampled.iter().find(|run| run.ordinal == one.ordinal);
    let ended = escape_text(&run.map(view::describe_run_end).unwrap_or_default());
    let name = escape_text(&text::single_line(one.run.as_str()));
    writeln!(out, "\n### {}. Run {name} (ordinal {}, {ended})\n", one.number, one.ordinal)?;
    writeln!(out, "{}.", escape_text(&view::describe_result(one)))?;
    for found in &one.checked.findings {
        write_finding(out, found)?;
    }
    for judged in &one.checked.verdicts {
        write_verdict(out, report_view, judged)?;
    }
    for refutation in &one.checked.refutations {
        write_refutation(out, report_view, one, refutation)?;
    }
    if let Some(compaction) = &one.checked.compaction {
        writeln!(out, "\n- {}", escape_text(&investigators::describe_compaction(compaction)))?;
        for line in &compaction.dropped_lines {
            writeln!(out, "  - {}", escape_text(&text::single_line(line)))?;
        }
    }
    for cause in &one.checked.causes {
        let text = escape_text(&text::single_line(&cause.text));
        writeln!(
            out,
            "\n- cause, in the words of the language model: {text}; {}:",
            quote_place(&cause.quote)
        )?;
        write_quote(out, &cause.quote)?;
    }
    if let Some(fault) = &one.checked.fault {
        writeln!(
            out,
            "\n- {}; {}:",
            escape_text(&highlights::describe_fault(fault)),
            quote_place(&fault.quote)
        )?;
        write_quote(out, &fault.quote)?;
    }
    for transient in &one.checked.transients {
        writeln!(
            out,
            "\n- {}; {}:",
            escape_text(&highlights::describe_transient(transient)),
            quote_place(&transient.quote)
        )?;
        write_quote(out, &transient.quote)?;
    }
    Ok(())
}

fn write_finding(out: &mut String, found: &Finding) -> fmt::Result {
    let (subject, step) = (text::single_line(&found.subject), text::single_line(found.step.as_str()));
    let title = escape_text(&text::single_line(&found.title));
    writeln!(out, "\n- **{title}**  ")?;
    writeln!(
        out,
        "  {} about {} in step {}; {}:",
        view::finding_kind_label(found.kind),
        escape_text(&subject),
        escape_text(&step),
        quote_place(&found.quote)
    )?;
    write_quote(out, &found.quote)
}

/// Writes an objection with both quotes: that of the finding, and that of the model.
fn write_refutation(
    out: &mut String,
    report_view: &ReportView<'_>,
    one: &ReportedInvestigation,
    refutation: &Refutation,
) -> fmt::Result {
    let title = escape_text(&text::single_line(&refutation.finding));
    writeln!(out, "\n- refuted by the language model: “{title}”: {}  ", refutation.reason.describe())?;
    writeln!(
        out,
        "  {}; {}:",
        investigators::describe_refuted(report_view.report, one, refutation),
        quote_place(&refutation.quote)
    )?;
    write_quote(out, &refutation.quote)?;
    writeln!(out, "\n  against the quote of the finding, {}:", quote_place(&refutation.finding_quote))?;
    write_quote(out, &refutation.finding_quote)
}

fn write_verdict(out: &mut String, report_view: &ReportView<'_>, judged: &VerdictRecord) -> fmt::Result {
    let title = escape_text(&report_view.memory_title(judged.memory));
    let reason = escape_text(&text::single_line(&judged.reason));
    writeln!(out, "\n- the memory “{title}” **{}**: {reason}", verdict_phrase(judged))?;
    match &judged.quote {
        Some(words) => {
            writeln!(out, "  ({})", quote_place(words))?;
            write_quote(out, words)
        }
        None => Ok(()),
    }
}

fn verdict_phrase(judged: &VerdictRecord) -> &'static str {
    use retro_core::finding::MemoryVerdict;
    match judged.verdict {
        MemoryVerdict::Harmed => "harmed",
        MemoryVerdict::Helped => "helped",
        MemoryVerdict::Applied => "was applied",
        MemoryVerdict::Ignored => "was ignored",
        MemoryVerdict::CueNotMet => "had no occasion",
    }
}

fn quote_place(quote: &Quote) -> String {
    text::describe_place(quote.place)
}

/// Writes a quote as a code block inside a list item.
fn write_quote(out: &mut String, quote: &Quote) -> fmt::Result {
    write!(out, "\n{}", render_code_block(&quote.text, "  "))
}

fn write_requests(out: &mut String, report_view: &ReportView<'_>) -> fmt::Result {
    write_heading(out, "All requests and their results")?;
    write_table_header(out, &["request", "by", "about", "changes", "reason"])?;
    for outcome in &report_view.report.mutations {
        let by =
            outcome.request.run.as_ref().map_or("the retrospective".to_owned(), |run| format!("run {run}"));
        let (about, changes) =
            (report_view.describe_subject(&outcome.request.about), view::describe_outcome(outcome));
        write_row(out, &[&outcome.request.kind, &by, &about, &changes, &outcome.reason])?;
    }
    Ok(())
}

fn write_sample(out: &mut String, report_view: &ReportView<'_>) -> fmt::Result {
    let report = report_view.report;
    write_heading(out, "Sample and statistical power")?;
    if report.manual_request.is_some() {
        writeln!(out, "Nothing was drawn: the runs were named.\n")?;
        return writeln!(out, "Investigated: {}.", escape_text(&view::render_runs(&report.sampled)));
    }
    for sentence in report_view.power_sentences() {
        writeln!(out, "- {sentence}")?;
    }
    writeln!(out, "\nDrawn with the seed `{}`:", report.sample.seed)?;
    writeln!(
        out,
        "{} in that order; the first {} are the sample.\n",
        report_view.draw_order(),
        report.sample.size
    )?;
    writeln!(out, "Investigated: {}.\n", escape_text(&view::render_runs(&report.sampled)))?;
    writeln!(out, "Not investigated: {}.", escape_text(&view::render_runs(&report.unsampled)))
}

fn write_effort(out: &mut String, report: &Report) -> fmt::Result {
    write_heading(out, "Investigations")?;
    writeln!(out, "{}\n", investigators::describe_model_part(report))?;
    write_table_header(out, &investigators::EFFORT_HEAD)?;
    for row in investigators::effort_rows(report) {
        write_row(out, &row.each_ref().map(String::as_str))?;
    }
    Ok(())
}

fn write_policy(out: &mut String, report_view: &ReportView<'_>) -> fmt::Result {
    write_heading(out, "Policy")?;
    writeln!(
        out,
        "Hash `{}`; similarity judged by `{}`.\n",
        report_view.report.policy_hash, report_view.report.embedder
    )?;
    if let Some(version) = &report_view.report.pipeline {
        writeln!(out, "Pipeline `{}`, prompts `{}`.\n", version.pipeline, version.prompts)?;
    }
    write_table_header(out, &["constant", "value"])?;
    for (key, value) in report_view.policy_constants() {
        write_row(out, &[&key, &value])?;
    }
    Ok(())
}

fn write_heading(out: &mut String, title: &str) -> fmt::Result {
    writeln!(out, "\n## {title}\n")
}

fn write_table_header(out: &mut String, cells: &[&str]) -> fmt::Result {
    writeln!(out, "| {} |", cells.join(" | "))?;
    writeln!(out, "|{}", "---|".repeat(cells.len()))
}

fn write_row(out: &mut String, cells: &[&str]) -> fmt::Result {
    let cells: Vec<_> = cells.iter().map(|cell| escape_markdown(cell, EscapeContext::Cell)).collect();
    writeln!(out, "| {} |", cells.join(" | "))
}
