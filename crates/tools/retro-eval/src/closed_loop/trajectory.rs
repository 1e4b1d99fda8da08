//! Builds the trajectory of a run as an ATIF document, and the event that contains it.

use serde_json::{Value, json};

/// CloudEvents type of the sent events.
const EVENT_TYPE: &str = "dev.retrospect.run.completed.v1";

/// A trajectory while it is recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trajectory {
    turns: Vec<Value>,
    /// Number of recorded calls.
    pub(crate) calls: u32,
    /// Seconds since 1970 at the next turn; `None` if the harness records no times.
    clock: Option<u64>,
}

/// A call with its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedCall<'a> {
    pub(crate) step: &'a str,
    /// The agent's message.
    pub(crate) says: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a Value,
    pub(crate) answer: &'a str,
    /// The harness's own error flag, or `None` if the harness sets no flag.
    pub(crate) flag: Option<bool>,
}

/// Start of the first run of a workflow that records times: 2026-01-05T08:00:00Z.
const FIRST_RUN_AT_S: u64 = 1_767_600_000;
/// Seconds between the starts of two runs.
const RUN_EVERY_S: u64 = 3600;
/// Seconds that every turn takes.
const TURN_S: u64 = 7;

impl Trajectory {
    /// Creates an empty trajectory that records times, for the run with this 1-based number.
    pub(crate) fn with_times(number: u32) -> Self {
        let clock = FIRST_RUN_AT_S + u64::from(number - 1) * RUN_EVERY_S;
        Self { clock: Some(clock), ..Self::default() }
    }

    /// Lets time pass before the next turn.
    pub(crate) fn pass_time(&mut self, seconds: u32) {
        self.clock = self.clock.map(|clock| clock + u64::from(seconds));
    }

    /// Adds the agent's prompt for a step: the task and the handed context.
    pub(crate) fn add_prompt(&mut self, step: &str, task: &str, handed: &str) {
        let message = if handed.is_empty() { task.to_owned() } else { format!("{task}\n\n{handed}") };
        self.push_turn(json!({"source": "user", "step": step, "message": message}));
    }

    /// Adds a call with the agent's message and the answer.
    pub(crate) fn add_call(&mut self, call: RecordedCall<'_>) {
        let RecordedCall { step, says, tool, arguments, answer, flag } = call;
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        let mut result = json!({"source_call_id": id, "content": answer});
        if let Some(failed) = flag {
            result["is_error"] = failed.into();
        }
        self.push_turn(json!({
            "source": "agent",
            "step": step,
            "message": says,
            "tool_calls": [{"tool_call_id": id, "function_name": tool, "arguments": arguments}],
            "observation": {"results": [result]},
        }));
    }

    fn push_turn(&mut self, mut turn: Value) {
        turn["step_id"] = (self.turns.len() + 1).into();
        if let Some(clock) = &mut self.clock {
            turn["timestamp"] = format_time(*clock).into();
            *clock += TURN_S;
        }
        self.turns.push(turn);
    }
}

/// Formats seconds since 1970 as RFC 3339 in UTC. The date is computed as in "chrono-Compatible Low-Level Date
/// Algorithms" (Hinnant 2013), for days after 1970.
fn format_time(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// Fields of the event besides the trajectory.
#[derive(Debug)]
pub(crate) struct EventFacts<'a> {
    pub(crate) workflow: &'a str,
    pub(crate) run: &'a str,
    pub(crate) failed: bool,
    pub(crate) presented: Vec<&'a str>,
    pub(crate) read: Vec<&'a str>,
    /// Step and text of each remark that the agent made about the run.
    pub(crate) remarks: &'a [(String, String)],
}

/// Builds the event of a run.
pub(crate) fn build_event(facts: &EventFacts<'_>, trace: &Trajectory) -> Value {
    let remarks: Vec<Value> =
        facts.remarks.iter().map(|(step, text)| json!({"step": step, "text": text})).collect();
    json!({
        "specversion": "1.0",
        "id": facts.run,
        "source": "/loop/composed",
        "type": EVENT_TYPE,
        "datacontenttype": "application/json",
        "data": {
            "workflow": facts.workflow,
            "run_id": facts.run,
            "outcome": if facts.failed { "failure" } else { "success" },
            "agent": {"name": "composed-agent", "version": "1"},
            "memories": {"presented": facts.presented, "read": facts.read},
            "self_feedback": remarks,
            "trajectory": {
                "schema_version": "ATIF-v1.6",
                "session_id": facts.run,
                "agent": {"name": "composed-agent", "version": "1", "model_name": "none"},
                "steps": trace.turns,
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_calendar_dates_and_grow_with_every_turn() {
        for (seconds, time) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (FIRST_RUN_AT_S, "2026-01-05T08:00:00Z"),
        ] {
            assert_eq!(format_time(seconds), time);
        }
        let mut trace = Trajectory::with_times(2);
        trace.add_prompt("s", "task", "");
        trace.pass_time(60);
        trace.add_prompt("s", "task", "");
        assert_eq!(trace.turns[0]["timestamp"], "2026-01-05T09:00:00Z");
        assert_eq!(trace.turns[1]["timestamp"], "2026-01-05T09:01:07Z");
        let mut trace = Trajectory::default();
        trace.add_prompt("s", "task", "");
        assert!(trace.turns[0]["timestamp"].is_null(), "no times unless asked for");
    }
}
