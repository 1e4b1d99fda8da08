//! Renders one run in full.

use retro_core::run::{RunFacts, Usage};

use super::memories::RunMemoryView;
use super::trajectory::{CallView, TrajectoryView, TurnView};
use super::view::{QuoteView, RunRetrospectiveView, RunView};
use crate::document::Document;
use crate::text;
use crate::text_table::Layout;

impl RunView {
    /// Renders the run for a terminal or as Markdown: facts, counting, pull requests, memories, what was seen, and the
    /// trajectory. Text from the run is shown as data.
    pub fn render(&self, layout: impl Into<Layout>) -> String {
        let mut out = Document::new(layout.into());
        out.title(&format!("Run {} of {}", self.run, self.workflow));
        write_facts(&mut out, self);
        write_pull_requests(&mut out, self);
        write_checks(&mut out, self);
        write_memories(&mut out, &self.memories);
        write_retrospectives(&mut out, self);
        write_trajectory(&mut out, &self.trajectory);
        out.into_text()
    }
}

fn write_facts(out: &mut Document, run: &RunView) {
    let ordinal = run.ordinal.map_or_else(String::new, |ordinal| format!(" as number {ordinal}"));
    let received = text::format_timestamp(run.received_at);
    let rows = [
        Some(("counting", format!("{}{ordinal}", run.counting.describe()))),
        Some(("attempt", run.attempt.to_string())),
        Some(("received", received)),
    ];
    let by_commits: Vec<&str> = run.commit_prompt_versions.iter().map(String::as_str).collect();
    let by_commits = (!by_commits.is_empty()).then(|| ("prompt version (commits)", by_commits.join(", ")));
    let rows = rows.into_iter().flatten().chain(run.facts.iter().flat_map(list_facts)).chain(by_commits);
    out.table(
        ["fact", "value"],
        rows.map(|(name, value)| [name.to_owned(), text::single_line(&value)]).collect(),
    );
    if run.facts.is_none() {
        out.line("The other facts of the run were deleted by retention.");
    }
}

fn list_facts(facts: &RunFacts) -> Vec<(&'static str, String)> {
    let agent = facts.agent.as_ref().map(|agent| {
        let version = agent.version.as_ref().map(|version| format!("version {version}"));
        let model = agent.model.as_ref().map(|model| format!("model {model}"));
        [agent.name.clone(), version, model].into_iter().flatten().collect::<Vec<_>>().join(", ")
    });
    let visibility = facts
        .repo_visibility
        .map(|visibility| format!(" ({})", <&str>::from(visibility)))
        .unwrap_or_default();
    let rows = [
        ("outcome", Some(facts.outcome.as_str().to_owned())),
        ("task", facts.task.clone()),
        ("started", facts.started_at.map(text::format_timestamp)),
        ("finished", facts.finished_at.map(text::format_timestamp)),
        ("repository", facts.repo.as_ref().map(|repo| format!("{repo}{visibility}"))),
        ("pull request", facts.pull_request.map(|number| format!("#{number}"))),
        ("commit", facts.commit.clone()),
        ("user", facts.user.clone()),
        ("agent", agent),
        ("prompt version", facts.prompt_version.clone()),
        ("usage", facts.usage.as_ref().and_then(describe_usage)),
    ];
    rows.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn describe_usage(usage: &Usage) -> Option<String> {
    let parts = [
        usage.input_tokens.map(|tokens| format!("{tokens} input tokens")),
        usage.output_tokens.map(|tokens| format!("{tokens} output tokens")),
        usage.cost_usd.map(|cost| format!("{cost} US dollars")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn write_pull_requests(out: &mut Document, run: &RunView) {
    if run.pull_requests.is_empty() {
        return;
    }
    out.section("What became of its pull requests");
    let row = |one: &retro_core::pull_request::PullRequestOutcome| {
        [
            text::single_line(&one.pull_request.to_string()),
            if one.reverted { "merged, then reverted" } else { one.state.as_str() }.to_owned(),
            if one.approved { "yes" } else { "no" }.to_owned(),
            one.review_rounds.to_string(),
        ]
    };
    out.table(
        ["pull request", "state", "approved", "changes requested"],
        run.pull_requests.iter().map(row).collect(),
    );
}

fn write_checks(out: &mut Document, run: &RunView) {
    if run.checks.is_empty() {
        return;
    }
    out.section("What CI said of it");
    let row = |one: &retro_core::check::CheckConclusion| {
        [
            text::single_line(one.workflow.as_str()),
            one.outcome.as_str().to_owned(),
            text::single_line(one.run.as_str()),
            one.attempt.to_string(),
            one.finished_at.map(|at| at.to_string()).unwrap_or_default(),
        ]
    };
    out.table(["workflow", "outcome", "run", "attempt", "finished"], run.checks.iter().map(row).collect());
}

fn write_memories(out: &mut Document, memories: &[RunMemoryView]) {
    if memories.is_empty() {
        return;
    }
    out.section("Memories that it met");
    let row = |one: &RunMemoryView| {
        let states = [
            (one.presented, "presented"),
            (one.read, "read"),
            (one.applied, "applied"),
            (one.withheld == Some(true), "withheld by chance"),
        ];
        let states: Vec<_> = states.into_iter().filter(|(is_so, _)| *is_so).map(|(_, state)| state).collect();
        let title = one.title.as_deref().unwrap_or("(not a memory of this tenant)");
        [states.join(", "), text::single_line(title), one.memory.short_id()]
    };
    out.table(["it was", "memory", "id"], memories.iter().map(row).collect());
}

fn write_retrospectives(out: &mut Document, run: &RunView) {
    out.section("What was seen in it");
    if run.retrospectives.is_empty() {
        out.line(if run.ordinal.is_some() {
            "Nothing yet: it waits in the window, and no retrospective has claimed it."
        } else {
            "Nothing: only counted runs are looked at."
        });
    }
    for look in &run.retrospectives {
        write_look(out, look);
    }
}

fn write_look(out: &mut Document, look: &RunRetrospectiveView) {
    let id = retro_core::id::short_id(look.id.0);
    let name = match (look.epoch, look.window) {
        (Some(epoch), Some([first, last])) => {
            format!("Retrospective {epoch} ({id}) over runs {first} to {last}")
        }
        _ => format!("Manual retrospective {id}"),
    };
    out.part(&format!("{name}, {}", look.state.as_str()));
    let result = match (&look.result, &look.problem) {
        (None, _) => String::new(),
        (Some(result), None) => format!("; result: {}", result.replace('_', " ")),
        (Some(result), Some(problem)) => format!("; result: {}: {problem}", result.replace('_', " ")),
    };
    out.line(&format!("{}{result}", look.sampling.describe()));
    for seen in &look.seen {
        out.item(&format!(
            "{}: {} (step {}, {})",
            seen.kind,
            seen.title,
            seen.step,
            describe_place(&seen.quote)
        ));
        out.words(&seen.quote.text);
    }
    for judged in &look.verdicts {
        let title = judged.title.clone().unwrap_or_else(|| judged.memory.to_string());
        let place = judged.quote.as_ref().map(|quote| format!(" ({})", describe_place(quote)));
        out.item(&format!(
            "verdict on memory {} “{title}”: {}: {}{}",
            judged.memory.short_id(),
            judged.verdict,
            judged.reason,
            place.unwrap_or_default()
        ));
        if let Some(quote) = &judged.quote {
            out.words(&quote.text);
        }
    }
}

/// Describes the place of a quote, with the number that the emitter gave the entry.
fn describe_place(quote: &QuoteView) -> String {
    let entry = quote.entry.map(|entry| format!(", the emitter's step_id {entry}"));
    format!("{}{}", text::describe_place(quote.place), entry.unwrap_or_default())
}

fn write_trajectory(out: &mut Document, trajectory: &TrajectoryView) {
    out.section("Trajectory");
    if let Some(note) = &trajectory.note {
        out.line(&format!("{note}."));
        return;
    }
    let total = trajectory.turns_total.unwrap_or_default();
    match (trajectory.turns.first(), trajectory.turns.last()) {
        (Some(first), Some(last)) if (trajectory.turns.len() as u64) < total => out.line(&format!(
            "Turns {} to {} of {total}, counted from 0; --from-turn shows the others.",
            first.turn, last.turn
        )),
        (Some(_), _) => out.line(&format!("{}, counted from 0.", text::format_count(total, "turn"))),
        (None, _) => out.line(&format!("No turn to show, of {total}.")),
    }
    if let Some(agents_md) = &trajectory.agents_md {
        out.line("AGENTS.md, as the run had it");
        out.words(agents_md);
    }
    for turn in &trajectory.turns {
        write_turn(out, turn);
    }
}

fn write_turn(out: &mut Document, turn: &TurnView) {
    let entry = turn.entry.map(|entry| format!(" (step_id {entry})")).unwrap_or_default();
    let at = turn.at.map(|at| format!(" · {}", text::format_timestamp(at))).unwrap_or_default();
    let source = match turn.source {
        retro_core::trajectory::TurnSource::System => "system",
        retro_core::trajectory::TurnSource::User => "user",
        retro_core::trajectory::TurnSource::Agent => "agent",
    };
    out.part(&format!("turn {}{entry} · step {} · {source}{at}", turn.turn, turn.step));
    for seen in &turn.seen {
        out.line(&format!("seen here: {seen}"));
    }
    out.words(&turn.message);
    if !turn.reasoning.is_empty() {
        out.line("reasoning");
        out.words(&turn.reasoning);
    }
    for call in &turn.calls {
        write_call(out, call);
    }
    if turn.calls_left_out > 0 {
        out.line(&format!("and {}", text::format_count(turn.calls_left_out, "more call")));
    }
}

fn write_call(out: &mut Document, call: &CallView) {
    out.line(&format!("call of {}", call.tool));
    out.words(&call.arguments);
    let failed = if call.failed == Some(true) { ", which the log marks as failed" } else { "" };
    match &call.answer {
        Some(answer) => {
            out.line(&format!("answer{failed}"));
            out.words(answer);
        }
        None => out.line(&format!("no answer is recorded{failed}")),
    }
}
