//! Summarises the calls of a run. Only what can be counted is kept; an investigation reads the run itself.

use retro_core::calls::{CallSummary, ObservedCall};
use retro_core::finding::BriefMemory;
use retro_core::run::RunFacts;
use retro_core::trajectory::Trajectory;

use crate::heuristics::{JudgedCall, observe_calls};

/// Summarises a run. `memories` are those of its workflow. Takes time linear in the length of the run, so call it on
/// a blocking thread.
pub(crate) fn summarize_run(
    facts: &RunFacts,
    trajectory: &Trajectory,
    memories: &[BriefMemory],
) -> CallSummary {
    let (calls, behaviour) = observe_calls(trajectory, memories);
    let observed = calls.iter().map(|call| to_observed(call, trajectory));
    let has_agents_md = trajectory.agents_md.is_some();
    CallSummary { has_agents_md, ..CallSummary::from_calls(facts, observed, behaviour) }
}

fn to_observed<'a>(call: &JudgedCall<'a>, trajectory: &Trajectory) -> ObservedCall<'a> {
    ObservedCall {
        step: call.step,
        tool: call.tool,
        program: call.program.clone().into_iter().collect(),
        goal: call.goal.clone(),
        error: call.error.clone(),
        took_ms: measure_ms(trajectory, call.turn),
    }
}

/// Returns the milliseconds from the entry of a call to the next entry of the log. Returns `None` if the log
/// does not tell both times, or if the entry has several calls, whose times cannot be told apart.
fn measure_ms(trajectory: &Trajectory, turn: u32) -> Option<u32> {
    let entry = trajectory.turns.get(turn as usize)?;
    let next = trajectory.turns.get(turn as usize + 1)?;
    let took = entry.at.zip(next.at).filter(|_| entry.calls.len() < 2)?;
    u32::try_from(took.1.duration_since(took.0).as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use retro_core::trajectory::{ToolCall, Turn, TurnSource};

    use super::*;

    fn entry(at: Option<&str>, calls: &[(&str, &str)]) -> Turn {
        Turn {
            step: retro_core::id::Step::main(),
            entry: None,
            agentic: true,
            at: at.map(|at| at.parse().unwrap()),
            source: TurnSource::Agent,
            message: String::new(),
            reasoning: String::new(),
            calls: calls
                .iter()
                .map(|(command, answer)| ToolCall {
                    tool: "bash".to_owned(),
                    arguments: serde_json::json!({ "command": command }).to_string(),
                    answer: Some((*answer).to_owned()),
                    failed: Some(answer.starts_with("error")),
                })
                .collect(),
        }
    }

    fn summarize(turns: Vec<Turn>) -> CallSummary {
        let facts = serde_json::json!({ "run_id": "a", "outcome": "failure" });
        summarize_run(&serde_json::from_value(facts).unwrap(), &turns.into(), &[])
    }

    #[test]
    fn a_command_is_counted_by_the_program_that_decides_its_answer() {
        let commands =
            ["cd app && git push origin", "git log | head -3", "A=1 git status", "/usr/bin/git gc"];
        let summary = summarize(commands.map(|command| entry(None, &[(command, "fine")])).into());
        assert_eq!(summary.operations.len(), 1, "{:?}", summary.operations);
        assert_eq!(
            (&*summary.operations[0].program, summary.operations[0].calls),
            (&["git".to_owned()][..], 4)
        );
    }

    #[test]
    fn another_subcommand_that_works_is_no_recovery() {
        let plan = |answer| entry(None, &[("terraform plan -out p", answer)]);
        let refused = "error: Backend initialization required";
        let init = entry(None, &[("terraform init", "done")]);
        assert!(!summarize(vec![plan(refused), init.clone()]).errors[0].recovered);
        assert!(summarize(vec![plan(refused), init, plan("done")]).errors[0].recovered);
    }

    #[test]
    fn a_call_takes_until_the_next_entry_if_its_entry_has_no_other_call() {
        let times = [Some("2026-11-20T12:00:00Z"), Some("2026-11-20T12:00:01.5Z"), None];
        let calls: &[(&str, &str)] = &[("ls", "a")];
        let took = |turns| summarize(turns).calls.iter().map(|call| call.took_ms).collect::<Vec<_>>();
        let one_each = times.map(|at| entry(at, calls)).into();
        assert_eq!(took(one_each), [Some(1500), None, None]);
        let two_at_once = vec![entry(times[0], &[calls[0], calls[0]]), entry(times[1], &[])];
        assert_eq!(took(two_at_once), [None, None]);
        // A clock that was set back.
        assert_eq!(took(vec![entry(times[1], calls), entry(times[0], &[])]), [None]);
    }
}
