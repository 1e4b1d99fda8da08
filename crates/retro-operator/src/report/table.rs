//! The report for a terminal.

use retro_core::finding::Quote;
use retro_core::manual::Proposal;
use retro_core::report::{Report, ReportedInvestigation};

use super::stands_out;
use super::story::{self, Story};
use crate::grid::grid;
use crate::proposals::evidence as evidence_of;
use crate::words;

/// The report as text with tables, wrapped to `columns`.
pub fn table(report: &Report, columns: u16) -> String {
    let story = Story::of(report);
    let opening = format!("{}\n\n{}\n", underlined(&story.heading(), '═'), story.headline());
    let parts = [
        section("What is proposed", proposed(&story)),
        section("What changed and why", changed(&story, columns)),
        section("What was asked for and not done", kept_out(&story, columns)),
        section("The memories of the workflow, before and after", memories(&story, columns)),
        section("What stands out", stands_out(report)),
        section("What was seen (turns and calls are counted from 0)", evidence(&story)),
        section("Every request and what the writer did with it", requests(&story, columns)),
        section("The sample, and what it can see", sample(&story)),
        section("Time and cost", cost(report, columns)),
        section("The policy", policy(&story, columns)),
    ];
    opening + &parts.concat()
}

fn section(title: &str, body: String) -> String {
    if body.is_empty() { body } else { format!("\n{}\n\n{body}", underlined(title, '─')) }
}

fn underlined(title: &str, line: char) -> String {
    format!("{title}\n{}", line.to_string().repeat(title.chars().count()))
}

fn changed(story: &Story<'_>, columns: u16) -> String {
    let row = |told: story::Told<'_>| {
        let change = told.change;
        let why = words::line(&change.reason);
        [told.title, change.effect.kind().to_owned(), words::movement(&change.effect), why]
    };
    let rows = story.changed().into_iter().map(row).collect();
    grid(columns, ["memory", "change", "from → to", "why"], rows)
}

fn proposed(story: &Story<'_>) -> String {
    let one = |proposal: &Proposal| {
        let (title, step) = (words::line(&proposal.lesson.title), words::line(proposal.step.as_str()));
        let content = words::visible(&proposal.lesson.content);
        format!("• {title}\n  {} in step {step}\n  {content}\n{}", proposal.id, evidence_of(proposal))
    };
    let question = story.question().map(|sentence| format!("{sentence}\n\n")).unwrap_or_default();
    let all: Vec<_> = story.report.proposals.iter().map(one).collect();
    question + &all.join("\n")
}

fn kept_out(story: &Story<'_>, columns: u16) -> String {
    let row = |told: story::Told<'_>| {
        let change = told.change;
        [
            told.title,
            words::movement(&change.effect),
            words::line(&change.reason),
            words::cause(&change.cause),
        ]
    };
    let rows = story.kept_out().into_iter().map(row).collect();
    grid(columns, ["about", "what stood against it", "why", "asked by"], rows)
}

fn memories(story: &Story<'_>, columns: u16) -> String {
    let statuses = story.statuses();
    let counts = statuses.iter().map(|(status, before, after)| format!("{status} {before} → {after}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let rows = story.memories().into_iter().map(|(before, after)| {
        let was = before.map_or_else(|| "new".to_owned(), |line| line.weight.to_string());
        let (about, title) = (words::line(&words::scope(&after.scope)), words::line(&after.title));
        [was, after.weight.to_string(), after.status.to_string(), about, title]
    });
    let listed = grid(columns, ["before", "after", "status", "about", "memory"], rows.collect());
    if statuses.is_empty() { String::new() } else { format!("{counts}\n\n{listed}") }
}

fn stands_out(report: &Report) -> String {
    stands_out::sentences(report).iter().map(|sentence| format!("• {sentence}\n")).collect()
}

fn evidence(story: &Story<'_>) -> String {
    let all = story.report.investigations.iter().map(|one| investigation(story, one));
    all.collect::<Vec<_>>().join("\n")
}

fn investigation(story: &Story<'_>, one: &ReportedInvestigation) -> String {
    let run = story.report.sampled.iter().find(|run| run.ordinal == one.ordinal);
    let ended = run.map(story::ended).unwrap_or_default();
    let name = words::line(one.run.as_str());
    let mut out =
        format!("{}. run {name} (ordinal {}, {ended}): {}\n", one.number, one.ordinal, story::result(one));
    for found in &one.findings {
        let (kind, title) = (story::kind(found.kind), words::line(&found.title));
        let step = words::line(found.step.as_str());
        out.push_str(&format!("   • {kind} in step {step}: {title}\n{}", quoted(&found.quote)));
    }
    for said in &one.verdicts {
        let (title, reason) = (story.title(said.memory), words::line(&said.reason));
        out.push_str(&format!("   • {}: {title}\n       {reason}\n", said.verdict.as_str()));
        out.push_str(&said.quote.as_ref().map(quoted).unwrap_or_default());
    }
    if let Some(fault) = &one.fault {
        out.push_str(&format!("   • {}\n{}", stands_out::fault(fault), quoted(&fault.quote)));
    }
    for transient in &one.transients {
        out.push_str(&format!("   • {}\n{}", stands_out::transient(transient), quoted(&transient.quote)));
    }
    out
}

fn quoted(quote: &Quote) -> String {
    let text = words::visible(&quote.text);
    let lines: Vec<_> = text.lines().map(|line| format!("       │ {line}\n")).collect();
    format!("{}       └ {}\n", lines.concat(), words::place(quote.place))
}

fn requests(story: &Story<'_>, columns: u16) -> String {
    let rows = story.report.mutations.iter().map(|outcome| {
        let by = outcome.asked.run.as_ref().map_or_else(|| "—".to_owned(), |run| words::line(run.as_str()));
        let about = story.about(&outcome.asked.about);
        [outcome.asked.kind.clone(), by, about, story::did(outcome), words::line(&outcome.why)]
    });
    grid(columns, ["asked", "by run", "about", "did", "why"], rows.collect())
}

fn sample(story: &Story<'_>) -> String {
    let report = story.report;
    if report.asked.is_some() {
        let looked = story::runs(&report.sampled);
        return format!("nothing was drawn: the runs were named\nlooked into: {looked}\n");
    }
    let power: Vec<_> = story.power().iter().map(|sentence| format!("• {sentence}\n")).collect();
    format!(
        "{}\nlooked into: {}\nnot looked into: {}\nseed: {}\norder: {}\n",
        power.concat(),
        story::runs(&report.sampled),
        story::runs(&report.unsampled),
        report.sample.seed,
        story.order()
    )
}

fn cost(report: &Report, columns: u16) -> String {
    let row = |name: String, timing: &retro_core::report::Timing| {
        let time = words::duration(timing.duration_ms);
        [name, timing.attempts.to_string(), time, format!("{:.4}", timing.cost_usd)]
    };
    let each = report
        .investigations
        .iter()
        .map(|one| row(format!("{}. run {}", one.number, words::line(one.run.as_str())), &one.timing));
    let rows = each.chain([row("all".to_owned(), &report.total)]).collect();
    grid(columns, ["investigation", "attempts", "time", "US dollars"], rows)
}

fn policy(story: &Story<'_>, columns: u16) -> String {
    let rows = story.policy().into_iter().map(|(key, value)| [key, value]).collect();
    let constants = grid(columns, ["constant", "value"], rows);
    format!(
        "hash {}\nsimilarity judged by {}\n\n{constants}",
        story.report.policy_hash, story.report.embedder
    )
}
