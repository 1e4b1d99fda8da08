//! Renders the report for a terminal.

use retro_core::finding::Quote;
use retro_core::memory::Proposal;
use retro_core::report::{Report, ReportedInvestigation};

use super::view::{self, ReportView};
use super::{calls, highlights, investigators};
use crate::proposals::render_evidence as evidence_of;
use crate::text;
use crate::text_table::render_table;

/// Renders the report as text with tables, wrapped to a width of `columns` characters.
pub fn render_text(report: &Report, columns: u16) -> String {
    let report_view = ReportView::from_report(report);
    let opening = format!("{}\n\n{}\n", underline_title(&report_view.heading(), '═'), report_view.headline());
    let parts = [
        render_section("Answer", render_focus(report)),
        render_section("Proposals", render_proposals(&report_view)),
        render_section("Held for a person", render_held(&report_view)),
        render_section("Changes", render_changes(&report_view, columns)),
        render_section("Requests not carried out", render_declined(&report_view, columns)),
        render_section("Memories before and after", render_memories(&report_view, columns)),
        render_section("Highlights", render_highlights(report)),
        render_section(calls::MISSED_TITLE, render_missed(report)),
        render_section(calls::CALLS_TITLE, render_calls(report, columns)),
        render_section("Findings (turns and calls are counted from 0)", render_evidence(&report_view)),
        render_section("All requests and their results", render_requests(&report_view, columns)),
        render_section("Sample and statistical power", render_sample(&report_view)),
        render_section("Investigations", render_effort(report, columns)),
        render_section("Policy", render_policy(&report_view, columns)),
    ];
    opening + &parts.concat()
}

fn render_section(title: &str, body: String) -> String {
    if body.is_empty() { body } else { format!("\n{}\n\n{body}", underline_title(title, '─')) }
}

fn underline_title(title: &str, line: char) -> String {
    format!("{title}\n{}", line.to_string().repeat(title.chars().count()))
}

fn render_changes(report_view: &ReportView<'_>, columns: u16) -> String {
    let row = |entry: view::TitledChange<'_>| {
        let change = entry.change;
        let why = text::single_line(&change.reason);
        [entry.title, change.effect.kind().to_owned(), text::describe_change(&change.effect), why]
    };
    let rows = report_view.applied_changes().into_iter().map(row).collect();
    render_table(columns, ["memory", "change", "from → to", "reason"], rows)
}

fn render_proposals(report_view: &ReportView<'_>) -> String {
    let one = |proposal: &Proposal| {
        let (title, step) =
            (text::single_line(&proposal.lesson.title), text::single_line(proposal.step.as_str()));
        let content = text::printable(&proposal.lesson.content);
        format!("• {title}\n  {} in step {step}\n  {content}\n{}", proposal.id, evidence_of(proposal))
    };
    let question = report_view.question().map(|sentence| format!("{sentence}\n\n")).unwrap_or_default();
    let all: Vec<_> = report_view.report.proposals.iter().map(one).collect();
    question + &all.join("\n")
}

fn render_focus(report: &Report) -> String {
    let Some(focus) = &report.focus else { return String::new() };
    let paragraphs = investigators::focus_paragraphs(focus).join("\n\n");
    let quotes = focus
        .quotes
        .iter()
        .map(|one| format!("\n• run {}\n{}", text::single_line(one.run.as_str()), render_quote(&one.quote)));
    format!("{paragraphs}\n{}", quotes.collect::<String>())
}

fn render_held(report_view: &ReportView<'_>) -> String {
    let all = report_view.held_memories();
    if all.is_empty() {
        return String::new();
    }
    let one = |held: &view::HeldMemory| {
        let [release, retire] = &held.commands;
        format!("• {}\n  {}\n  {release}\n  {retire}\n", held.title, held.why)
    };
    let all: Vec<_> = all.iter().map(one).collect();
    format!("{}\n\n{}", view::HELD_MEANS, all.join("\n"))
}

fn render_declined(report_view: &ReportView<'_>, columns: u16) -> String {
    let row = |entry: view::TitledChange<'_>| {
        let change = entry.change;
        [
            entry.title,
            text::describe_change(&change.effect),
            text::single_line(&change.reason),
            text::describe_cause(&change.cause),
        ]
    };
    let rows = report_view.declined_changes().into_iter().map(row).collect();
    render_table(columns, ["about", "outcome", "reason", "requested by"], rows)
}

fn render_memories(report_view: &ReportView<'_>, columns: u16) -> String {
    let statuses = report_view.status_counts();
    let counts = statuses.iter().map(|(status, before, after)| format!("{status} {before} → {after}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let rows = report_view.memory_lines().into_iter().map(|(before, after)| {
        let was = before.map_or_else(|| "new".to_owned(), |line| line.weight.to_string());
        let (about, title) =
            (text::single_line(&text::describe_scope(&after.scope)), text::single_line(&after.title));
        [was, after.weight.to_string(), after.status.to_string(), about, title]
    });
    let listed = render_table(columns, ["before", "after", "status", "about", "memory"], rows.collect());
    if statuses.is_empty() { String::new() } else { format!("{counts}\n\n{listed}") }
}

fn render_highlights(report: &Report) -> String {
    highlights::list_sentences(report).iter().map(|sentence| format!("• {sentence}\n")).collect()
}

fn render_missed(report: &Report) -> String {
    let Some(section) = calls::missed_section(report) else { return String::new() };
    let failures: Vec<_> = section
        .failures
        .iter()
        .map(|[failure, frequency, reason]| format!("• {failure}\n  {frequency}\n  {reason}\n"))
        .collect();
    failures.join("\n") + &render_more(&section.more)
}

fn render_calls(report: &Report, columns: u16) -> String {
    let Some(section) = calls::calls_section(report) else { return String::new() };
    let table = render_table(columns, calls::CALLS_HEAD, section.rows);
    let table = if table.is_empty() { table } else { format!("\n{table}") };
    format!("{}\n{table}{}", section.coverage, render_more(&section.more))
}

/// Renders the sentence about the items that are not shown, if there are any.
fn render_more(more: &str) -> String {
    if more.is_empty() { String::new() } else { format!("\n{more}\n") }
}

fn render_evidence(report_view: &ReportView<'_>) -> String {
    let all = report_view.report.investigations.iter().map(|one| render_investigation(report_view, one));
    all.collect::<Vec<_>>().join("\n")
}

fn render_investigation(report_view: &ReportView<'_>, one: &ReportedInvestigation) -> String {
    let run = report_view.report.sampled.iter().find(|run| run.ordinal == one.ordinal);
    let ended = run.map(view::describe_run_end).unwrap_or_default();
    let name = text::single_line(one.run.as_str());
    let mut out = format!(
        "{}. run {name} (ordinal {}, {ended}): {}\n",
        one.number,
        one.ordinal,
        view::describe_result(one)
    );
    for found in &one.checked.findings {
        let (kind, title) = (view::finding_kind_label(found.kind), text::single_line(&found.title));
        let step = text::single_line(found.step.as_str());
        out.push_str(&format!("   • {kind} in step {step}: {title}\n{}", render_quote(&found.quote)));
    }
    for judged in &one.checked.verdicts {
        let (title, reason) = (report_view.memory_title(judged.memory), text::single_line(&judged.reason));
        out.push_str(&format!("   • {}: {title}\n       {reason}\n", judged.verdict.as_str()));
        out.push_str(&judged.quote.as_ref().map(render_quote).unwrap_or_default());
    }
    for refutation in &one.checked.refutations {
        let title = text::single_line(&refutation.finding);
        out.push_str(&format!(
            "   • refuted by the language model: {title}: {}; {}\n{}       against the quote of the finding\n{}",
            refutation.reason.describe(),
            investigators::describe_refuted(report_view.report, one, refutation),
            render_quote(&refutation.quote),
            render_quote(&refutation.finding_quote)
        ));
    }
    if let Some(compaction) = &one.checked.compaction {
        out.push_str(&format!("   • {}\n", investigators::describe_compaction(compaction)));
        for line in &compaction.dropped_lines {
            out.push_str(&format!("       - {}\n", text::single_line(line)));
        }
    }
    for cause in &one.checked.causes {
        let text = text::single_line(&cause.text);
        out.push_str(&format!(
            "   • cause, in the words of the language model: {text}\n{}",
            render_quote(&cause.quote)
        ));
    }
    if let Some(fault) = &one.checked.fault {
        out.push_str(&format!("   • {}\n{}", highlights::describe_fault(fault), render_quote(&fault.quote)));
    }
    for transient in &one.checked.transients {
        out.push_str(&format!(
            "   • {}\n{}",
            highlights::describe_transient(transient),
            render_quote(&transient.quote)
        ));
    }
    out
}

fn render_quote(quote: &Quote) -> String {
    let text = text::printable(&quote.text);
    let lines: Vec<_> = text.lines().map(|line| format!("       │ {line}\n")).collect();
    format!("{}       └ {}\n", lines.concat(), text::describe_place(quote.place))
}

fn render_requests(report_view: &ReportView<'_>, columns: u16) -> String {
    let rows = report_view.report.mutations.iter().map(|outcome| {
        let by = outcome
            .request
            .run
            .as_ref()
            .map_or_else(|| "—".to_owned(), |run| text::single_line(run.as_str()));
        let about = report_view.describe_subject(&outcome.request.about);
        [
            outcome.request.kind.clone(),
            by,
            about,
            view::describe_outcome(outcome),
            text::single_line(&outcome.reason),
        ]
    });
    render_table(columns, ["request", "by run", "about", "changes", "reason"], rows.collect())
}

fn render_sample(report_view: &ReportView<'_>) -> String {
    let report = report_view.report;
    if report.manual_request.is_some() {
        let investigated = view::render_runs(&report.sampled);
        return format!("nothing was drawn: the runs were named\ninvestigated: {investigated}\n");
    }
    let power: Vec<_> =
        report_view.power_sentences().iter().map(|sentence| format!("• {sentence}\n")).collect();
    format!(
        "{}\ninvestigated: {}\nnot investigated: {}\nseed: {}\norder: {}\n",
        power.concat(),
        view::render_runs(&report.sampled),
        view::render_runs(&report.unsampled),
        report.sample.seed,
        report_view.draw_order()
    )
}

fn render_effort(report: &Report, columns: u16) -> String {
    let table = render_table(columns, investigators::EFFORT_HEAD, investigators::effort_rows(report));
    format!("{}\n\n{table}", investigators::describe_model_part(report))
}

fn render_policy(report_view: &ReportView<'_>, columns: u16) -> String {
    let rows = report_view.policy_constants().into_iter().map(|(key, value)| [key, value]).collect();
    let constants = render_table(columns, ["constant", "value"], rows);
    let pipeline = report_view.report.pipeline.as_ref().map_or_else(String::new, |version| {
        format!("pipeline {}\nprompts {}\n", version.pipeline, version.prompts)
    });
    format!(
        "{pipeline}hash {}\nsimilarity judged by {}\n\n{constants}",
        report_view.report.policy_hash, report_view.report.embedder
    )
}
