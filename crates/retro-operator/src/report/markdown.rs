//! The report as Markdown.

mod escape;

use std::fmt::{self, Write};

use retro_core::finding::{Finding, MemoryVerdict, Quote};
use retro_core::report::{Report, ReportedInvestigation};

use super::stands_out;
use super::story::{self, Story};
use crate::words;
use escape::{Place, escape};

/// The report as GitHub-flavoured Markdown. Texts from runs make neither links, mentions, images and HTML, nor table
/// cells.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    write_all(&mut out, &Story::of(report)).expect("a string takes everything");
    out
}

fn write_all(out: &mut String, story: &Story<'_>) -> fmt::Result {
    let report = story.report;
    writeln!(out, "# {}\n", text(&story.heading()))?;
    writeln!(out, "{}\n", story.headline())?;
    writeln!(
        out,
        "It {} on {}; its policy moment is {}. Its id is `{}`.",
        report.ended.as_str(),
        words::moment(report.closed_at),
        words::moment(report.as_of),
        report.id
    )?;
    proposed(out, story)?;
    changed(out, story)?;
    kept_out(out, story)?;
    memories(out, story)?;
    stands_out(out, report)?;
    evidence(out, story)?;
    requests(out, story)?;
    sample(out, story)?;
    cost(out, report)?;
    policy(out, story)
}

fn proposed(out: &mut String, story: &Story<'_>) -> fmt::Result {
    let all = &story.report.proposals;
    let question = story.question();
    if all.is_empty() && question.is_none() {
        return Ok(());
    }
    heading(out, "What is proposed")?;
    writeln!(out, "{}", text(&question.unwrap_or_default()))?;
    for one in all {
        let (title, step) = (text(&words::line(&one.lesson.title)), words::line(one.step.as_str()));
        writeln!(out, "\n- **{title}**  ")?;
        writeln!(out, "  proposal `{}`, in step {}:", one.id, text(&step))?;
        for shown in &one.evidence {
            let run = text(&words::line(shown.run.as_str()));
            writeln!(out, "\n  run {run}, {}:", at(&shown.quote))?;
            quote(out, &shown.quote)?;
        }
    }
    Ok(())
}

fn changed(out: &mut String, story: &Story<'_>) -> fmt::Result {
    let all = story.changed();
    if all.is_empty() {
        return Ok(());
    }
    heading(out, "What changed and why")?;
    head(out, &["memory", "change", "from → to", "why"])?;
    for told in all {
        let change = told.change;
        row(out, &[&told.title, change.effect.kind(), &words::movement(&change.effect), &change.reason])?;
    }
    Ok(())
}

fn kept_out(out: &mut String, story: &Story<'_>) -> fmt::Result {
    let all = story.kept_out();
    if all.is_empty() {
        return Ok(());
    }
    heading(out, "What was asked for and not done")?;
    head(out, &["about", "what stood against it", "why", "asked by"])?;
    for told in all {
        let change = told.change;
        let by = words::cause(&change.cause);
        row(out, &[&told.title, &words::movement(&change.effect), &change.reason, &by])?;
    }
    Ok(())
}

fn memories(out: &mut String, story: &Story<'_>) -> fmt::Result {
    let statuses = story.statuses();
    if statuses.is_empty() {
        return Ok(());
    }
    heading(out, "The memories of the workflow, before and after")?;
    head(out, &["status", "before", "after"])?;
    for (status, before, after) in statuses {
        row(out, &[status.as_str(), &before.to_string(), &after.to_string()])?;
    }
    writeln!(out)?;
    head(out, &["weight before", "after", "status", "about", "memory", "id"])?;
    for (before, after) in story.memories() {
        let was = before.map_or_else(|| "new".to_owned(), |line| line.weight.to_string());
        let (is, id) = (after.weight.to_string(), after.id.to_string());
        let (about, title) = (words::scope(&after.scope), words::line(&after.title));
        row(out, &[&was, &is, after.status.as_str(), &about, &title, &id])?;
    }
    Ok(())
}

fn stands_out(out: &mut String, report: &Report) -> fmt::Result {
    let all = stands_out::sentences(report);
    if all.is_empty() {
        return Ok(());
    }
    heading(out, "What stands out")?;
    all.iter().try_for_each(|sentence| writeln!(out, "- {}", text(sentence)))
}

fn evidence(out: &mut String, story: &Story<'_>) -> fmt::Result {
    heading(out, "What was seen")?;
    writeln!(out, "Turns and calls are counted from 0, as in the trajectory.")?;
    for one in &story.report.investigations {
        investigation(out, story, one)?;
    }
    Ok(())
}

fn investigation(out: &mut String, story: &Story<'_>, one: &ReportedInvestigation) -> fmt::Result {
    let run = story.report.sampled.iter().find(|run| run.ordinal == one.ordinal);
    let ended = text(&run.map(story::ended).unwrap_or_default());
    let name = text(&words::line(one.run.as_str()));
    writeln!(out, "\n### {}. Run {name} (ordinal {}, {ended})\n", one.number, one.ordinal)?;
    writeln!(out, "{}.", text(&story::result(one)))?;
    for found in &one.findings {
        finding(out, found)?;
    }
    for said in &one.verdicts {
        verdict(out, story, said)?;
    }
    if let Some(fault) = &one.fault {
        writeln!(out, "\n- {}; {}:", text(&stands_out::fault(fault)), at(&fault.quote))?;
        quote(out, &fault.quote)?;
    }
    for transient in &one.transients {
        writeln!(out, "\n- {}; {}:", text(&stands_out::transient(transient)), at(&transient.quote))?;
        quote(out, &transient.quote)?;
    }
    Ok(())
}

fn finding(out: &mut String, found: &Finding) -> fmt::Result {
    let (subject, step) = (words::line(&found.subject), words::line(found.step.as_str()));
    let title = text(&words::line(&found.title));
    writeln!(out, "\n- **{title}**  ")?;
    writeln!(
        out,
        "  {} about {} in step {}; {}:",
        story::kind(found.kind),
        text(&subject),
        text(&step),
        at(&found.quote)
    )?;
    quote(out, &found.quote)
}

fn verdict(out: &mut String, story: &Story<'_>, said: &MemoryVerdict) -> fmt::Result {
    let title = text(&story.title(said.memory));
    let reason = text(&words::line(&said.reason));
    writeln!(out, "\n- the memory “{title}” **{}**: {reason}", predicate(said))?;
    match &said.quote {
        Some(words) => {
            writeln!(out, "  ({})", at(words))?;
            quote(out, words)
        }
        None => Ok(()),
    }
}

fn predicate(said: &MemoryVerdict) -> &'static str {
    use retro_core::finding::Verdict;
    match said.verdict {
        Verdict::Harmed => "harmed",
        Verdict::Helped => "helped",
        Verdict::Applied => "was applied",
        Verdict::Ignored => "was ignored",
        Verdict::CueNotMet => "had no occasion",
    }
}

fn at(quote: &Quote) -> String {
    words::place(quote.place)
}

/// The words as a code block inside a list item; the fence is longer than any in them.
fn quote(out: &mut String, quote: &Quote) -> fmt::Result {
    let words = words::visible(&quote.text);
    let longest = words.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    writeln!(out, "\n  {fence}text")?;
    for line in words.lines() {
        writeln!(out, "  {line}")?;
    }
    writeln!(out, "  {fence}")
}

fn requests(out: &mut String, story: &Story<'_>) -> fmt::Result {
    heading(out, "Every request and what the writer did with it")?;
    head(out, &["asked", "by", "about", "did", "why"])?;
    for outcome in &story.report.mutations {
        let by =
            outcome.asked.run.as_ref().map_or("the retrospective".to_owned(), |run| format!("run {run}"));
        let (about, did) = (story.about(&outcome.asked.about), story::did(outcome));
        row(out, &[&outcome.asked.kind, &by, &about, &did, &outcome.why])?;
    }
    Ok(())
}

fn sample(out: &mut String, story: &Story<'_>) -> fmt::Result {
    let report = story.report;
    heading(out, "The sample, and what it can see")?;
    if report.asked.is_some() {
        writeln!(out, "Nothing was drawn: the runs were named.\n")?;
        return writeln!(out, "Looked into: {}.", text(&story::runs(&report.sampled)));
    }
    for sentence in story.power() {
        writeln!(out, "- {sentence}")?;
    }
    writeln!(out, "\nDrawn with the seed `{}`:", report.sample.seed)?;
    writeln!(out, "{} in that order; the first {} are the sample.\n", story.order(), report.sample.size)?;
    writeln!(out, "Looked into: {}.\n", text(&story::runs(&report.sampled)))?;
    writeln!(out, "Not looked into: {}.", text(&story::runs(&report.unsampled)))
}

fn cost(out: &mut String, report: &Report) -> fmt::Result {
    heading(out, "Time and cost")?;
    head(out, &["investigation", "attempts", "time", "US dollars"])?;
    for one in &report.investigations {
        let timing = &one.timing;
        let name = format!("{}. run {}", one.number, one.run);
        let time = words::duration(timing.duration_ms);
        row(out, &[&name, &timing.attempts.to_string(), &time, &format!("{:.4}", timing.cost_usd)])?;
    }
    let all = &report.total;
    let time = words::duration(all.duration_ms);
    writeln!(out, "| **all** | {} | {time} | {:.4} |", all.attempts, all.cost_usd)
}

fn policy(out: &mut String, story: &Story<'_>) -> fmt::Result {
    heading(out, "The policy")?;
    writeln!(
        out,
        "Hash `{}`; similarity judged by `{}`.\n",
        story.report.policy_hash, story.report.embedder
    )?;
    head(out, &["constant", "value"])?;
    for (key, value) in story.policy() {
        row(out, &[&key, &value])?;
    }
    Ok(())
}

fn heading(out: &mut String, title: &str) -> fmt::Result {
    writeln!(out, "\n## {title}\n")
}

fn head(out: &mut String, cells: &[&str]) -> fmt::Result {
    writeln!(out, "| {} |", cells.join(" | "))?;
    writeln!(out, "|{}", "---|".repeat(cells.len()))
}

fn row(out: &mut String, cells: &[&str]) -> fmt::Result {
    let cells: Vec<_> = cells.iter().map(|cell| escape(cell, Place::Cell)).collect();
    writeln!(out, "| {} |", cells.join(" | "))
}

/// A text in a line.
fn text(text: &str) -> String {
    escape(text, Place::Line)
}
