//! What is kept, as tables for a terminal of so many columns. Each says so when there is nothing. Memories stand there
//! with the short form of their ids, which every command takes: a whole one leaves the title no room.

use retro_core::memory::Memory;
use retro_core::outcome::WorkflowOutcomes;
use retro_core::recall::Recalled;
use retro_core::retrospective::{Retrospective, State};
use retro_store::{ProposalRow, RetrospectiveDetail, RetrospectiveRow, RunRow, WorkflowRow};

use crate::grid::grid;
use crate::proposals::proposals;
use crate::words;

/// Workflows and their windows.
pub fn workflows(rows: &[WorkflowRow], columns: u16) -> String {
    if rows.is_empty() {
        return "no workflows\n".to_owned();
    }
    let row = |row: &WorkflowRow| {
        let state = &row.state;
        let open =
            if state.open { format!("epoch {} is open", state.epoch) } else { "none is open".to_owned() };
        let paused =
            state.paused_until.map_or_else(String::new, |until| format!("until {}", words::moment(until)));
        let name = words::line(row.key.workflow.as_str());
        [
            name,
            row.recorded.to_string(),
            state.counted.to_string(),
            state.window().to_string(),
            state.epoch.to_string(),
            open,
            paused,
        ]
    };
    let head = ["workflow", "recorded", "counted", "in the window", "epochs", "retrospective", "paused"];
    grid(columns, head, rows.iter().map(row).collect())
}

/// Runs.
pub fn runs(rows: &[RunRow], columns: u16) -> String {
    if rows.is_empty() {
        return "no runs\n".to_owned();
    }
    let row = |row: &RunRow| {
        let ordinal = row.ordinal.map_or_else(|| "not counted".to_owned(), |ordinal| ordinal.to_string());
        let facts = &row.facts;
        let (workflow, run) = (words::line(row.key.workflow.as_str()), words::line(facts.run_id.as_str()));
        [
            workflow,
            ordinal,
            run,
            facts.outcome.as_str().to_owned(),
            facts.attempt.to_string(),
            words::moment(row.received_at),
        ]
    };
    grid(
        columns,
        ["workflow", "ordinal", "run", "outcome", "attempt", "received"],
        rows.iter().map(row).collect(),
    )
}

/// What became of runs, a workflow a line.
pub fn outcomes(rows: &[WorkflowOutcomes], columns: u16) -> String {
    if rows.is_empty() {
        return "no run belongs to a pull request that was heard of\n".to_owned();
    }
    let row = |row: &WorkflowOutcomes| {
        let rounds = row.review_rounds_mean_milli;
        let hours = |seconds: u64| format!("{}.{} h", seconds / 3600, seconds % 3600 / 360);
        [
            words::line(row.workflow.as_str()),
            row.runs.to_string(),
            row.approved.to_string(),
            row.changes_requested.to_string(),
            rounds.map_or_else(String::new, |milli| format!("{}.{:02}", milli / 1000, milli % 1000 / 10)),
            row.merged.to_string(),
            row.closed_unmerged.to_string(),
            row.time_to_merge_median_s.map_or_else(String::new, hours),
        ]
    };
    let head = [
        "workflow",
        "runs with a pull request",
        "approved",
        "changes requested",
        "rounds (mean)",
        "merged",
        "closed unmerged",
        "to merge (median)",
    ];
    grid(columns, head, rows.iter().map(row).collect())
}

/// Memories, with where they stand and what they say.
pub fn memories(rows: &[Memory], columns: u16) -> String {
    if rows.is_empty() {
        return "no memories\n".to_owned();
    }
    let row = |memory: &Memory| {
        let (home, title) = (words::line(&words::home(&memory.scope)), words::line(&memory.lesson.title));
        let (weight, status) = (memory.weight.to_string(), memory.status.to_string());
        [weight, status, memory.observed_runs.to_string(), title, home, memory.id.short()]
    };
    let head = ["weight", "status", "runs", "memory", "about", "id"];
    grid(columns, head, rows.iter().map(row).collect())
}

/// Rules, with where they stand, who asked for them, and whether one is quarantined.
pub fn rules(rows: &[Memory], columns: u16) -> String {
    if rows.is_empty() {
        return "no rules\n".to_owned();
    }
    let row = |memory: &Memory| {
        let status = match &memory.quarantine {
            Some(_) => "quarantined".to_owned(),
            None => memory.status.to_string(),
        };
        let by = memory
            .evidence
            .iter()
            .find_map(|shown| shown.remark.as_ref())
            .map(|source| words::line(&source.by));
        let (home, title) = (words::line(&words::home(&memory.scope)), words::line(&memory.lesson.title));
        [memory.weight.to_string(), status, by.unwrap_or_default(), title, home, memory.id.short()]
    };
    let head = ["weight", "status", "asked by", "rule", "about", "id"];
    grid(columns, head, rows.iter().map(row).collect())
}

/// Retrospectives, one a line.
pub fn retrospectives(rows: &[RetrospectiveRow], columns: u16) -> String {
    if rows.is_empty() {
        return "no retrospectives\n".to_owned();
    }
    let row = |row: &RetrospectiveRow| {
        let one = &row.retrospective;
        [
            words::line(one.key.workflow.as_str()),
            epoch(one),
            one.state.as_str().to_owned(),
            about(one),
            format!("{} of {}", row.investigated, one.window_runs()),
            row.changes.to_string(),
            one.id.to_string(),
        ]
    };
    let head = ["workflow", "epoch", "state", "runs", "looked into", "changes", "id"];
    grid(columns, head, rows.iter().map(row).collect())
}

fn epoch(one: &Retrospective) -> String {
    one.asked.as_ref().map_or_else(|| one.epoch.to_string(), |_| "manual".to_owned())
}

/// The runs that it is about.
fn about(one: &Retrospective) -> String {
    match &one.asked {
        Some(asked) => format!("{} named", asked.runs.len()),
        None => format!("{} to {}", one.first, one.last),
    }
}

/// The retrospectives that have a report: `reports list`.
pub fn reports(rows: &[RetrospectiveRow], columns: u16) -> String {
    let ended = |row: &&RetrospectiveRow| matches!(row.retrospective.state, State::Closed | State::Failed);
    let ended: Vec<_> = rows.iter().filter(ended).cloned().collect();
    if ended.is_empty() { "no reports yet\n".to_owned() } else { retrospectives(&ended, columns) }
}

/// One retrospective with its sample and investigations, and what a manual one has proposed.
pub fn retrospective(detail: &RetrospectiveDetail, proposed: &[ProposalRow], columns: u16) -> String {
    let one = &detail.retrospective;
    let mut out = format!(
        "Retrospective {} of {} in tenant {}: {}\nid {}, runs {}, as of {}\n",
        epoch(one),
        words::line(one.key.workflow.as_str()),
        words::line(one.key.tenant.as_str()),
        one.state.as_str(),
        one.id,
        about(one),
        words::moment(one.as_of)
    );
    if let Some(asked) = &one.asked {
        let focus = asked.focus.as_ref().map(|focus| format!(": “{}”", words::line(focus)));
        let (by, request) = (words::line(&asked.by), words::line(&asked.request));
        out.push_str(&format!("asked for by {by} in request {request}{}\n", focus.unwrap_or_default()));
    } else if let Some(sample) = &detail.sample {
        let order: Vec<_> = sample.order.iter().map(ToString::to_string).collect();
        out.push_str(&format!("sample of {} from {}; seed {}\n", sample.size, order.join(", "), sample.seed));
    }
    let rows = detail.investigations.iter().map(|one| {
        let result = one.result.as_ref().map_or("not ended", |result| result.as_str()).replace('_', " ");
        let problem =
            one.result.as_ref().and_then(|result| result.problem()).map(words::line).unwrap_or_default();
        let replacement = if one.replacement { "replacement" } else { "" };
        [
            one.number.to_string(),
            words::line(one.run.as_str()),
            one.ordinal.to_string(),
            result,
            problem,
            replacement.to_owned(),
        ]
    });
    let head = ["no.", "run", "ordinal", "result", "problem", ""];
    let investigations = grid(columns, head, rows.collect());
    for part in
        [investigations, if proposed.is_empty() { String::new() } else { proposals(proposed, columns) }]
    {
        if !part.is_empty() {
            out.push_str(&format!("\n{part}"));
        }
    }
    out
}

/// What a step's next run would be handed.
pub fn context(memories: &[Recalled], columns: u16) -> String {
    if memories.is_empty() {
        return "nothing to hand out\n".to_owned();
    }
    let row = |memory: &Recalled| {
        let place = if memory.newcomer { "newcomer" } else { "" };
        [memory.weight.to_string(), words::line(&memory.title), place.to_owned(), memory.id.short()]
    };
    grid(columns, ["weight", "memory", "place", "id"], memories.iter().map(row).collect())
}

#[cfg(test)]
mod tests;
