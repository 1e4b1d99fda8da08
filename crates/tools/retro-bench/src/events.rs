//! Composes run events of about 2 KB, the same ones in every measurement.

use retro_core::id::{Tenant, Workflow, WorkflowKey};
use serde_json::{Value, json};

/// Tenant of all events.
pub(crate) const TENANT: &str = "default";

/// Words from which tool results are composed, so that a trajectory compresses about as well as a real one.
const WORDS: &[&str] = &[
    "error",
    "module",
    "found",
    "line",
    "expected",
    "value",
    "test",
    "passed",
    "failed",
    "import",
    "config",
    "timeout",
    "request",
    "response",
    "server",
    "client",
    "branch",
    "commit",
    "merge",
    "schema",
    "table",
    "index",
    "query",
    "result",
    "warning",
    "deprecated",
    "build",
    "target",
    "release",
    "debug",
    "package",
    "version",
];

/// Number of words of the tool results of one run. Sized so that an event has about 2 KB.
const WORDS_PER_RESULT: u64 = 55;

/// An event with the subject that it is published to.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) key: WorkflowKey,
    pub(crate) payload: Vec<u8>,
}

impl Event {
    /// Serializes an event of this workflow.
    pub(crate) fn from_json(workflow: &str, event: &Value) -> Self {
        let key = WorkflowKey {
            tenant: TENANT.parse::<Tenant>().expect("a valid tenant"),
            workflow: workflow.parse::<Workflow>().expect("a valid workflow"),
        };
        Self { key, payload: event.to_string().into_bytes() }
    }
}

/// Composes `number` events that are spread evenly over `workflows` workflows.
pub(crate) fn compose_events(number: u64, workflows: u64) -> impl Iterator<Item = Event> {
    compose_later_events(0, number, workflows)
}

/// Composes `number` events that follow the first `earlier` events.
pub(crate) fn compose_later_events(earlier: u64, number: u64, workflows: u64) -> impl Iterator<Item = Event> {
    (earlier..earlier + number).map(move |nth| compose_event(nth, nth % workflows))
}

fn compose_event(nth: u64, workflow: u64) -> Event {
    let workflow = format!("workflow-{workflow}");
    let mut chance = Chance(nth);
    let event = json!({
        "specversion": "1.0",
        "type": "dev.retrospect.run.completed.v1",
        "source": "/engines/bench",
        "id": format!("{nth:08}-{:016x}", chance.next()),
        "data": {
            "workflow": workflow,
            "run_id": format!("run-{nth:08}-{:08x}", chance.next() >> 32),
            "outcome": if chance.next().is_multiple_of(4) { "failure" } else { "success" },
            "started_at": "2026-11-01T10:00:00Z",
            "finished_at": "2026-11-01T10:03:20Z",
            "task": format!("Repair the build of service {}", chance.next() % 500),
            "trajectory": {
                "schema_version": "ATIF-v1.4",
                "session_id": format!("{:016x}", chance.next()),
                "agent": {"name": "bench-agent", "version": "1.0.0", "model_name": "some-model"},
                "steps": [
                    {"step_id": 1, "source": "user", "message": "Make the failing checks of this branch pass."},
                    compose_turn(2, &mut chance),
                    compose_turn(3, &mut chance),
                    {"step_id": 4, "source": "agent", "message": "The checks pass now."},
                ],
            },
        },
    });
    Event::from_json(&workflow, &event)
}

fn compose_turn(step: u64, chance: &mut Chance) -> Value {
    let words: Vec<&str> = (0..WORDS_PER_RESULT).map(|_| WORDS[(chance.next() % 32) as usize]).collect();
    json!({
        "step_id": step,
        "source": "agent",
        "message": "I run the checks again.",
        "tool_calls": [{
            "tool_call_id": format!("call-{step}"),
            "function_name": "bash",
            "arguments": {"command": format!("pytest -q tests/test_{}.py --maxfail=1", chance.next() % 900)},
        }],
        "observation": {"results": [{"source_call_id": format!("call-{step}"), "content": words.join(" ")}]},
    })
}

/// Deterministic sequence of numbers (SplitMix64), so that every measurement has the same events.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_about_two_kilobytes_and_a_valid_form() {
        for event in compose_events(200, 7) {
            assert!((1600..2400).contains(&event.payload.len()), "{} bytes", event.payload.len());
            let delivery = crate::parts::delivery(&event, 1);
            let hosts = retro_events::hosts::DatarefHosts::default();
            retro_events::run_completed::parse_delivery(&delivery, &hosts).expect("a valid event");
        }
    }
}
