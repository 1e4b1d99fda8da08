//! Renders lists as tables, for a terminal of a given width or as Markdown, and an empty list as a sentence. Objects
//! are listed with short ids, which every command accepts; full ids would leave no space for the title.

use retro_core::id::short_id;
use retro_core::outcome::WorkflowOutcomes;
use retro_core::retrospective::{Retrospective, RetrospectiveState};
use retro_store::{ProposalRow, RetrospectiveRow, RunRow, WorkflowRow};

use crate::proposals::render_proposals;
use crate::retrospectives::RetrospectiveView;
use crate::text;
use crate::text_table::{Layout, render_table};
use crate::usage::{MemoryRow, USAGE_HEAD, usage_cell};

/// Renders workflows and the state of their windows, one workflow per line.
pub fn render_workflows(rows: &[WorkflowRow], layout: impl Into<Layout>) -> String {
    if rows.is_empty() {
        return "no workflows\n".to_owned();
    }
    let row = |row: &WorkflowRow| {
        let state = &row.state;
        let open =
            if state.open { format!("epoch {} is open", state.epoch) } else { "none is open".to_owned() };
        let paused = state
            .paused_until
            .map_or_else(String::new, |until| format!("until {}", text::format_timestamp(until)));
        let name = text::single_line(row.key.workflow.as_str());
        [
            name,
            row.recorded.to_string(),
            state.counted.to_string(),
            state.window_size().to_string(),
            state.epoch.to_string(),
            open,
            paused,
        ]
    };
    let head = ["workflow", "recorded", "counted", "in the window", "epochs", "retrospective", "paused"];
    render_table(layout, head, rows.iter().map(row).collect())
}

/// Renders runs, one per line.
pub fn render_runs(rows: &[RunRow], layout: impl Into<Layout>) -> String {
    if rows.is_empty() {
        return "no runs\n".to_owned();
    }
    let row = |row: &RunRow| {
        let reason = row.not_counted.map_or_else(String::new, |reason| format!(": {}", reason.describe()));
        let ordinal =
            row.ordinal.map_or_else(|| format!("not counted{reason}"), |ordinal| ordinal.to_string());
        let facts = &row.facts;
        let (workflow, run) =
            (text::single_line(row.key.workflow.as_str()), text::single_line(facts.run_id.as_str()));
        [
            workflow,
            ordinal,
            run,
            facts.outcome.as_str().to_owned(),
            facts.attempt.to_string(),
            text::format_timestamp(row.received_at),
        ]
    };
    render_table(
        layout,
        ["workflow", "ordinal", "run", "outcome", "attempt", "received"],
        rows.iter().map(row).collect(),
    )
}

/// Renders pull-request outcomes, one line per workflow.
pub fn render_outcomes(rows: &[WorkflowOutcomes], layout: impl Into<Layout>) -> String {
    if rows.is_empty() {
        return "no run belongs to a known pull request\n".to_owned();
    }
    let row = |row: &WorkflowOutcomes| {
        let rounds = row.review_rounds_mean_milli;
        let hours = |seconds: u64| format!("{}.{} h", seconds / 3600, seconds % 3600 / 360);
        [
            text::single_line(row.workflow.as_str()),
            row.runs.to_string(),
            row.approved.to_string(),
            row.changes_requested.to_string(),
            rounds.map_or_else(String::new, |milli| format!("{}.{:02}", milli / 1000, milli % 1000 / 10)),
            row.merged.to_string(),
            row.closed_unmerged.to_string(),
            row.reverted.to_string(),
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
        "reverted",
        "to merge (median)",
    ];
    render_table(layout, head, rows.iter().map(row).collect())
}

/// Renders memories with status, weight and title, one per line. The status says if a memory is held until a
/// person decides.
pub fn render_memories(rows: &[MemoryRow], layout: impl Into<Layout>) -> String {
    if rows.is_empty() {
        return "no memories\n".to_owned();
    }
    let row = |MemoryRow { memory, usage }: &MemoryRow| {
        let (home, title) = (
            text::single_line(&text::describe_full_scope(&memory.scope)),
            text::single_line(&memory.lesson.title),
        );
        let (weight, status) = (memory.weight.to_string(), text::describe_status(memory));
        let (runs, usage) = (memory.observed_runs.to_string(), usage_cell(*usage));
        [weight, status, runs, usage, title, home, memory.id.short_id()]
    };
    let head = ["weight", "status", "runs", USAGE_HEAD, "memory", "about", "id"];
    render_table(layout, head, rows.iter().map(row).collect())
}

/// Renders rules, one per line, each with its status and the author of the remark that it came from, or the person
/// who added it.
pub fn render_rules(rows: &[MemoryRow], layout: impl Into<Layout>) -> String {
    if rows.is_empty() {
        return "no rules\n".to_owned();
    }
    let row = |MemoryRow { memory, usage }: &MemoryRow| {
        let by = memory
            .evidence
            .iter()
            .find_map(|shown| Some(&shown.remark.as_ref()?.by))
            .or(memory.added_by.as_ref())
            .map(|by| text::single_line(by));
        let (home, title) = (
            text::single_line(&text::describe_full_scope(&memory.scope)),
            text::single_line(&memory.lesson.title),
        );
        let (weight, status) = (memory.weight.to_string(), text::describe_status(memory));
        [weight, status, by.unwrap_or_default(), usage_cell(*usage), title, home, memory.id.short_id()]
    };
    let head = ["weight", "status", "requested by", USAGE_HEAD, "rule", "about", "id"];
    render_table(layout, head, rows.iter().map(row).collect())
}

/// Renders retrospectives, one per line.
pub fn render_retrospectives(rows: &[RetrospectiveRow], layout: impl Into<Layout>) -> String {
    if rows.is_empty() {
        return "no retrospectives\n".to_owned();
    }
    let row = |row: &RetrospectiveRow| {
        let one = &row.retrospective;
        [
            text::single_line(one.key.workflow.as_str()),
            epoch_label(one),
            one.state.as_str().to_owned(),
            describe_runs(one),
            format!("{} of {}", row.investigated, one.window_runs()),
            row.changes.to_string(),
            short_id(one.id.0),
        ]
    };
    let head = ["workflow", "epoch", "state", "runs", "investigated", "changes", "id"];
    render_table(layout, head, rows.iter().map(row).collect())
}

fn epoch_label(retrospective: &Retrospective) -> String {
    retrospective
        .manual_request
        .as_ref()
        .map_or_else(|| retrospective.epoch.to_string(), |_| "manual".to_owned())
}

/// Describes the runs of a retrospective: the range of their ordinals, or for a manual retrospective the number of
/// named runs.
fn describe_runs(retrospective: &Retrospective) -> String {
    match &retrospective.manual_request {
        Some(request) => format!("{} named", request.runs.len()),
        None => format!("{} to {}", retrospective.first, retrospective.last),
    }
}

/// Renders the retrospectives that have a report, for `reports list`.
pub fn render_reports(rows: &[RetrospectiveRow], layout: impl Into<Layout>) -> String {
    let ended = |row: &&RetrospectiveRow| {
        matches!(row.retrospective.state, RetrospectiveState::Closed | RetrospectiveState::Failed)
    };
    let ended: Vec<_> = rows.iter().filter(ended).cloned().collect();
    if ended.is_empty() { "no reports yet\n".to_owned() } else { render_retrospectives(&ended, layout) }
}

/// Renders one retrospective with its sample, its investigations and, if it is manual, its proposals.
pub fn render_retrospective(detail: &RetrospectiveView, proposed: &[ProposalRow], columns: u16) -> String {
    let one = &detail.retrospective;
    let mut out = format!(
        "Retrospective {} of {} in tenant {}: {}\nid {}, runs {}, as of {}\n",
        epoch_label(one),
        text::single_line(one.key.workflow.as_str()),
        text::single_line(one.key.tenant.as_str()),
        one.state.as_str(),
        one.id,
        describe_runs(one),
        text::format_timestamp(one.as_of)
    );
    if let Some(request) = &one.manual_request {
        let focus = request.focus.as_ref().map(|focus| format!(": “{}”", text::single_line(focus)));
        let (by, request) = (text::single_line(&request.by), text::single_line(&request.request));
        let focus = focus.unwrap_or_default();
        let reason = one.manual_request.as_ref().and_then(|request| request.reason.as_deref());
        let reason =
            reason.map(|reason| format!("; reason: {}", text::single_line(reason))).unwrap_or_default();
        out.push_str(&format!("requested by {by} in request {request}{focus}{reason}\n"));
    } else if let Some(sample) = &detail.sample {
        let order: Vec<_> = sample.order.iter().map(ToString::to_string).collect();
        out.push_str(&format!("sample of {} from {}; seed {}\n", sample.size, order.join(", "), sample.seed));
    }
    let rows = detail.investigations.iter().map(|one| {
        let result = one.result.as_ref().map_or("not ended", |result| result.as_str()).replace('_', " ");
        let problem = one.result.as_ref().and_then(|result| result.problem()).map(text::single_line);
        let attempts = detail.attempts.iter().find(|attempts| attempts.number == one.number);
        let (failed, last_error) = attempts.filter(|_| one.result.is_none()).map_or((0, None), |attempts| {
            (attempts.attempts, attempts.last_error.as_deref().map(text::single_line))
        });
        let worker = attempts.and_then(|attempts| attempts.worker.as_deref()).map(text::single_line);
        let notes = [
            one.replacement.then(|| "replacement".to_owned()),
            (failed > 0).then(|| text::format_count(failed.into(), "attempt")),
        ];
        [
            one.number.to_string(),
            text::single_line(one.run.as_str()),
            one.ordinal.to_string(),
            result,
            problem.or(last_error).unwrap_or_default(),
            worker.unwrap_or_default(),
            notes.into_iter().flatten().collect::<Vec<_>>().join(", "),
        ]
    });
    let head = ["no.", "run", "ordinal", "result", "error", "worker", ""];
    let investigations = render_table(columns, head, rows.collect());
    for part in [
        investigations,
        if proposed.is_empty() { String::new() } else { render_proposals(proposed, columns) },
    ] {
        if !part.is_empty() {
            out.push_str(&format!("\n{part}"));
        }
    }
    out
}

/// Renders losses, each with its id, what was lost, and who closed it, as Markdown.
pub fn render_losses(rows: Vec<[String; 3]>) -> String {
    if rows.is_empty() {
        return "no losses\n".to_owned();
    }
    render_table(Layout::Markdown, ["id", "lost", "state"], rows)
}

#[cfg(test)]
mod tests;
