//! Says what is understood of a run: its steps, its calls, and which of them failed.

use retro_core::dead_letter::Rejection;
use retro_core::run::{NotCountedReason, RunOutcome};
use retro_core::trajectory::{Trajectory, Turn};
use retro_events::atif;
use retro_events::run_completed::{INLINE_BYTES_MAX, RunEvent};
use retro_investigator::heuristics::{CallOutcome, judge_call};
use retro_redact::Redactor;
use serde::Serialize;

/// Maximum number of characters of a quoted failure.
const FAILURE_CHARS_MAX: usize = 160;

/// What is understood of a run.
#[derive(Debug, Serialize)]
pub(super) struct RunOverview {
    /// Location in the file, such as `line 3`; empty if the file has only this run.
    #[serde(skip_serializing_if = "String::is_empty")]
    location: String,
    workflow: String,
    run_id: String,
    outcome: &'static str,
    /// Reason why the run is not counted; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_counted: Option<&'static str>,
    /// Size of the trajectory in bytes; absent if the event has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    trajectory_bytes: Option<usize>,
    /// Size of what the repository's `AGENTS.md` said, in bytes; absent if the run does not carry it.
    #[serde(skip_serializing_if = "Option::is_none")]
    agents_md_bytes: Option<usize>,
    /// Steps of the workflow, in the order in which they begin.
    steps: Vec<StepOverview>,
    /// What will keep the run from being useful, and how to mend it.
    notes: Vec<String>,
}

/// What is understood of a step.
#[derive(Debug, Default, Serialize)]
struct StepOverview {
    step: String,
    turns: usize,
    /// Number of turns in which a model decided something. Others are not looked at.
    agentic_turns: usize,
    calls: usize,
    /// Number of calls without a result.
    unanswered: usize,
    /// Number of calls that failed.
    failed: usize,
    /// Number of those whose result says so by a flag.
    failed_by_flag: usize,
    /// First failure, as the log has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failure: Option<String>,
}

impl RunOverview {
    /// Reads the trajectory of an event as the counter and the investigator do, without its secrets. `names_steps` is
    /// `true` if the format can name the steps of a workflow. Fails if the trajectory is invalid.
    pub(super) fn of_event(location: &str, event: &RunEvent, names_steps: bool) -> Result<Self, Rejection> {
        let document = event.trajectory();
        let trajectory =
            document.map(|document| atif::parse_trajectory(document, "data.trajectory")).transpose()?;
        let has_reference = event.envelope.data.root().get_non_null("dataref").is_some()
            || event.envelope.extensions.contains_key("dataref");
        let mut overview = Self {
            location: location.to_owned(),
            workflow: event.workflow.to_string(),
            run_id: event.run.run_id.to_string(),
            outcome: event.run.outcome.as_str(),
            not_counted: event.run.not_counted_reason().map(NotCountedReason::describe),
            trajectory_bytes: document.map(|document| document.sorted_json().len()),
            agents_md_bytes: None,
            steps: Vec::new(),
            notes: Vec::new(),
        };
        match trajectory {
            Some(mut trajectory) => {
                Redactor::shared().redact_trajectory(&mut trajectory);
                overview.agents_md_bytes = trajectory.agents_md.as_ref().map(String::len);
                overview.steps = list_steps(&trajectory);
            }
            None if has_reference => {
                overview.notes.push("its trajectory is elsewhere and was not read".to_owned());
                return Ok(overview);
            }
            None => {}
        }
        overview.add_notes(event.run.outcome, names_steps);
        Ok(overview)
    }

    /// Notes what will keep the run from being useful.
    fn add_notes(&mut self, outcome: RunOutcome, names_steps: bool) {
        let sum = |count: fn(&StepOverview) -> usize| self.steps.iter().map(count).sum::<usize>();
        let (calls, failed) = (sum(|step| step.calls), sum(|step| step.failed));
        let (agentic, unanswered) = (sum(|step| step.agentic_turns), sum(|step| step.unanswered));
        let mut notes = Vec::new();
        if outcome == RunOutcome::Unknown {
            notes.push("the outcome is unknown: the run teaches what its calls show, but not whether a memory helped. Set `outcome` (`--outcome` for a file that names none)");
        }
        if self.trajectory_bytes.is_none() {
            notes.push("there is no trajectory, so nothing can be learnt from the run");
        } else if agentic == 0 {
            notes.push("no turn is agentic: neither an agent's message nor a call of a tool was found, so no step is looked at");
        } else if calls == 0 {
            notes.push("no call of a tool was found: `tool_calls` with `function_name`");
        } else if unanswered == calls {
            notes.push("no call has a result, so no failure can be seen: `observation.results` with `source_call_id`");
        } else if failed == 0 && outcome.succeeded() == Some(false) {
            notes.push("the run did not succeed, and no failing call was found: set `is_error` in the results of calls that failed");
        }
        if names_steps
            && let [step] = self.steps.as_slice()
            && step.step == "main"
            && step.turns > 1
        {
            notes.push("every turn is in the step `main`: `step` on an entry names another, by which its context is asked for");
        }
        self.notes = notes.into_iter().map(str::to_owned).collect();
    }

    /// Appends the overview as text.
    pub(super) fn render(&self, text: &mut String) {
        let place = if self.location.is_empty() { String::new() } else { format!("{}: ", self.location) };
        let body = match self.trajectory_bytes {
            None => String::new(),
            Some(bytes) if bytes > INLINE_BYTES_MAX => {
                format!(", trajectory of {} KiB, stored beside the event", bytes.div_ceil(1024))
            }
            Some(bytes) => format!(", trajectory of {} KiB", bytes.div_ceil(1024)),
        };
        let agents_md =
            self.agents_md_bytes.map_or_else(String::new, |bytes| format!(", AGENTS.md of {bytes} bytes"));
        let counted = self.not_counted.map_or_else(String::new, |reason| format!(", not counted: {reason}"));
        text.push_str(&format!(
            "  {place}run {} of {}: {}{counted}{body}{agents_md}\n",
            self.run_id, self.workflow, self.outcome
        ));
        for step in &self.steps {
            text.push_str(&format!(
                "    step {}: {} turns, {} agentic; {} calls, {} without a result, {} failed ({} by a flag)\n",
                step.step,
                step.turns,
                step.agentic_turns,
                step.calls,
                step.unanswered,
                step.failed,
                step.failed_by_flag
            ));
            if let Some(failure) = &step.first_failure {
                text.push_str(&format!("      first failure: {failure}\n"));
            }
        }
        self.notes.iter().for_each(|note| text.push_str(&format!("    note: {note}\n")));
    }
}

fn list_steps(trajectory: &Trajectory) -> Vec<StepOverview> {
    let mut steps: Vec<StepOverview> = Vec::new();
    for turn in &trajectory.turns {
        let at = steps.iter().position(|step| step.step == turn.step.as_str()).unwrap_or_else(|| {
            steps.push(StepOverview { step: turn.step.to_string(), ..StepOverview::default() });
            steps.len() - 1
        });
        steps[at].add_turn(turn);
    }
    steps
}

impl StepOverview {
    fn add_turn(&mut self, turn: &Turn) {
        self.turns += 1;
        self.agentic_turns += usize::from(turn.agentic);
        for call in &turn.calls {
            self.calls += 1;
            match judge_call(call) {
                CallOutcome::Succeeded => {}
                CallOutcome::Unanswered => self.unanswered += 1,
                CallOutcome::Failed(failure) => {
                    self.failed += 1;
                    self.failed_by_flag += usize::from(call.failed == Some(true));
                    let quoted: String = failure.line.chars().take(FAILURE_CHARS_MAX).collect();
                    self.first_failure.get_or_insert_with(|| format!("{}: {}", call.tool, quoted.trim()));
                }
            }
        }
    }
}
