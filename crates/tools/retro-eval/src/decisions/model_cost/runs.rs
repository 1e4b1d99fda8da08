//! Makes long runs of real ones: the turns of real trajectories, one after the other, until a run is long enough. Each real
//! trajectory becomes a step of the long run.

use anyhow::{Context, Result, ensure};
use retro_core::id::Step;
use retro_core::trajectory::{Trajectory, Turn};
use retro_events::atif;
use serde_json::Value;

use crate::decisions::eval_data::EvalData;
use crate::decisions::real::runs::{group_by_workflow, read_runs_file};

/// Files whose runs make the five runs of the window, one each.
const WINDOW_FILES: [&str; 5] = [
    "02d_intercode/sql_runs.jsonl",
    "02d_intercode/bash_runs.jsonl",
    "02e_aider_swebench/runs.jsonl",
    "02a_tau_bench_airline/runs.jsonl",
    "02b_agentrx/magentic_runs.jsonl",
];

/// A long run.
pub(super) struct LongRun {
    pub(super) name: String,
    /// What it is made of, for people.
    pub(super) source: String,
    /// Size of the texts of its turns, in bytes: what would be pasted.
    pub(super) text_bytes: usize,
    pub(super) turns: usize,
    /// The trajectory as the database stores it.
    pub(super) body: Vec<u8>,
}

/// Builds the five runs of the window, each of about `bytes` from one file.
pub(super) fn build_window(data: &EvalData, bytes: usize) -> Result<Vec<LongRun>> {
    let build = |file: &&str| build_run(file, &load_trajectories(data, &[file])?, bytes);
    WINDOW_FILES.iter().map(build).collect()
}

/// Builds one run of about `bytes` from all files.
pub(super) fn build_long_run(data: &EvalData, bytes: usize) -> Result<LongRun> {
    build_run("all five sets", &load_trajectories(data, &WINDOW_FILES)?, bytes)
}

/// Loads the trajectories of files, as their emitters would have sent them, in an order that does not depend on the files.
fn load_trajectories(data: &EvalData, files: &[&str]) -> Result<Vec<Trajectory>> {
    let mut all = Vec::new();
    for file in files {
        for (_, runs) in group_by_workflow(read_runs_file(data, file)?) {
            for run in runs {
                let document: Value = run.to_event()["data"]["trajectory"].take();
                let parsed = atif::from_slice(&document.to_string().into());
                all.push(parsed.map_err(|rejection| anyhow::anyhow!("{file}: {rejection}"))?);
            }
        }
    }
    Ok(all)
}

/// Concatenates trajectories until their texts have `bytes`. If there are not enough of them, they begin again.
fn build_run(source: &str, trajectories: &[Trajectory], bytes: usize) -> Result<LongRun> {
    ensure!(trajectories.iter().any(|one| text_bytes(&one.turns) > 0), "{source} has no text");
    let (mut turns, mut size): (Vec<Turn>, usize) = (Vec::new(), 0);
    let mut used = 0;
    for trajectory in trajectories.iter().cycle() {
        if size >= bytes {
            break;
        }
        let step = Step::new(format!("part-{}", used + 1)).context("a valid name")?;
        for turn in &trajectory.turns {
            // The last trajectory ends in the middle, so that the run is as long as it says.
            if size >= bytes {
                break;
            }
            size += text_bytes(std::slice::from_ref(turn));
            turns.push(Turn { step: step.clone(), ..turn.clone() });
        }
        used += 1;
    }
    let again = if used > trajectories.len() { ", which repeat" } else { "" };
    let (count, body) = (turns.len(), serde_json::to_vec(&Trajectory::from(turns))?);
    Ok(LongRun {
        name: source.replace(['/', '.', ' '], "-"),
        source: format!("{used} trajectories of {source}{again}"),
        text_bytes: size,
        turns: count,
        body,
    })
}

/// Returns the size of everything that turns say.
fn text_bytes(turns: &[Turn]) -> usize {
    let of_turn = |turn: &Turn| {
        let calls = turn
            .calls
            .iter()
            .map(|call| call.tool.len() + call.arguments.len() + call.answer.as_ref().map_or(0, String::len));
        turn.message.len() + turn.reasoning.len() + calls.sum::<usize>()
    };
    turns.iter().map(of_turn).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trajectory(words: &str) -> Trajectory {
        let turn =
            |message: &str| json!({"step": "main", "agentic": true, "source": "agent", "message": message});
        serde_json::from_value(json!({"turns": [turn(words), turn(words)]})).unwrap()
    }

    #[test]
    fn a_long_run_is_as_long_as_it_says_and_each_trajectory_is_a_step() {
        let run = build_run("02x/some.jsonl", &[trajectory("abcde"), trajectory("fghij")], 32).unwrap();
        assert_eq!((run.text_bytes, run.turns), (35, 7));
        assert!(run.source.contains("4 trajectories of 02x/some.jsonl, which repeat"), "{}", run.source);
        let stored: Trajectory = serde_json::from_slice(&run.body).unwrap();
        let steps: Vec<&str> = stored.turns.iter().map(|turn| turn.step.as_str()).collect();
        assert_eq!(steps, ["part-1", "part-1", "part-2", "part-2", "part-3", "part-3", "part-4"]);
        assert!(build_run("x", &[trajectory("")], 10).is_err());
    }
}
