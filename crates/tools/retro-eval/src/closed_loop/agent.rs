//! Simulates the run of an agent. The seed determines which failures the run encounters; the seed and the
//! memories in the prompt determine how the agent reacts.
//!
//! Each item of the world has its own random draws, so a run encounters the same failures with other memories
//! or with none, and the two runs can be compared.

mod cause;
mod trap;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::closed_loop::lesson::Lesson;
use crate::closed_loop::seeded_rng::SeededRng;
use crate::closed_loop::trajectory::{RecordedCall, Trajectory};
use crate::closed_loop::truth::{WorldItem, match_claim};
use crate::closed_loop::world::{AgentHabits, DrawnValues, Step, Workflow};

/// Context that the agent was handed for a step.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepContext {
    /// Text that is added to the prompt; empty if there are no memories.
    pub(crate) text: String,
    /// Number of tokens in `text`.
    pub(crate) tokens: u64,
    /// ID and lesson of each memory in `text`.
    pub(crate) memories: Vec<(String, Lesson)>,
}

/// Identifies one run of one workflow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulatedRun<'a> {
    pub(crate) world: &'a str,
    pub(crate) agents: &'a AgentHabits,
    pub(crate) workflow: &'a Workflow,
    pub(crate) seed: u64,
    /// 1-based number of the run in its workflow.
    pub(crate) number: u32,
}

/// Result of a simulated run.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunResult {
    pub(crate) trace: Trajectory,
    pub(crate) failed: bool,
    /// Step and text of each remark that the agent made about the run.
    pub(crate) remarks: Vec<(String, String)>,
    /// IDs of the memories that the agent opened.
    pub(crate) memories_read: Vec<String>,
    /// Indices of the causes that the run encountered.
    pub(crate) causes_met: Vec<usize>,
    /// Indices of the causes that made the run fail.
    pub(crate) failed_by: Vec<usize>,
    /// Items whose memory misled the agent.
    pub(crate) harmed_by: Vec<WorldItem>,
    /// IDs of the memories about nothing in the world that cost the run something.
    pub(crate) misled_by: Vec<String>,
    /// Indices of the traps that looked true in this run.
    pub(crate) traps_seen: Vec<usize>,
}

/// A call of the simulated agent, before its values are filled in.
#[derive(Debug, Clone, Copy)]
struct PlayedCall<'a> {
    tool: &'a str,
    arguments: &'a Value,
    answer: &'a str,
    /// Message of the agent.
    says: &'a str,
}

impl<'a> PlayedCall<'a> {
    const fn new(tool: &'a str, arguments: &'a Value, answer: &'a str) -> Self {
        Self { tool, arguments, answer, says: "" }
    }

    const fn saying(self, says: &'a str) -> Self {
        Self { says, ..self }
    }
}

/// What a simulated call belongs to: a cause, or a fact that is used like one.
#[derive(Debug, Clone, Copy)]
enum PlayedItem {
    Cause(usize),
    Fact(usize),
}

impl PlayedItem {
    /// Returns the item of the world for the remedy with this index.
    const fn with_remedy(self, number: usize) -> WorldItem {
        match self {
            Self::Cause(at) => WorldItem::Cause(at, number),
            Self::Fact(at) => WorldItem::Fact(at),
        }
    }
}

/// State of a run while it is simulated.
struct RunSimulator<'a> {
    run: SimulatedRun<'a>,
    keys: [String; 3],
    drawn: DrawnValues,
    handed: &'a BTreeMap<String, StepContext>,
    result: RunResult,
}

impl SimulatedRun<'_> {
    /// Simulates the run with the context handed out for each step. An empty map simulates the run without
    /// memory.
    pub(crate) fn simulate(self, handed: &BTreeMap<String, StepContext>) -> RunResult {
        let keys = [
            self.seed.to_string(),
            format!("{}/{}", self.world, self.workflow.name),
            self.number.to_string(),
        ];
        let drawn = self.workflow.values.draw_values(&[&keys[0], &keys[1], &keys[2]]);
        let timed = self.workflow.causes.iter().any(|cause| cause.get_ref().waits());
        let trace = if timed { Trajectory::with_times(self.number) } else { Trajectory::default() };
        let result = RunResult { trace, ..RunResult::default() };
        let mut playing = RunSimulator { run: self, keys, drawn, handed, result };
        for step in &self.workflow.steps {
            playing.simulate_step(step.get_ref());
        }
        playing.open_memories();
        let anyway = playing.draw_bool("run", "fails_anyway", self.agents.fails_anyway);
        playing.result.failed |= anyway;
        playing.result
    }
}

impl RunSimulator<'_> {
    fn rng_for(&self, thing: &str, question: &str) -> SeededRng {
        SeededRng::from_parts(&[&self.keys[0], &self.keys[1], &self.keys[2], thing, question])
    }

    fn draw_bool(&self, thing: &str, question: &str, probability: f64) -> bool {
        self.rng_for(thing, question).random_bool(probability)
    }

    fn simulate_step(&mut self, step: &Step) {
        let handed = self.handed.get(&step.name);
        let task = self.drawn.fill_text(&step.task);
        self.result.trace.add_prompt(&step.name, &task, handed.map_or("", |handed| &handed.text));
        for (at, routine) in step.routines.iter().enumerate() {
            let name = format!("{}/{at}", step.name);
            if self.draw_bool(&name, "routine", routine.chance) {
                let answer =
                    self.rng_for(&name, "answer").choose(&routine.answers).cloned().unwrap_or_default();
                self.record_call(&step.name, PlayedCall::new(&routine.tool, &routine.arguments, &answer), 0);
            }
        }
        let workflow = self.run.workflow;
        for (at, cause) in workflow.causes.iter().enumerate() {
            if cause.get_ref().step == step.name {
                self.simulate_cause(PlayedItem::Cause(at), cause.get_ref());
            }
        }
        for (at, cause) in workflow.fact_causes.iter().enumerate() {
            if let Some(cause) = cause.as_ref().filter(|cause| cause.step == step.name) {
                self.simulate_cause(PlayedItem::Fact(at), cause);
            }
        }
        for (at, trap) in workflow.traps.iter().enumerate() {
            if trap.get_ref().step == step.name {
                self.simulate_trap(at, trap.get_ref());
            }
        }
        for noise in &workflow.noises {
            if noise.get_ref().step == step.name {
                self.simulate_noise(noise.get_ref());
            }
        }
        self.follow_wrong_memories(&step.name);
    }

    /// Opens some of the handed memories. Each draw is independent of whether the agent follows the memory.
    fn open_memories(&mut self) {
        for handed in self.handed.values() {
            for (id, _) in &handed.memories {
                if self.opens_memory(id) && !self.result.memories_read.contains(id) {
                    self.result.memories_read.push(id.clone());
                }
            }
        }
    }

    fn opens_memory(&self, id: &str) -> bool {
        self.draw_bool(id, "read", self.run.agents.read)
    }

    /// Records a call with its answer. `exit` is its exit code, 0 for a success.
    fn record_call(&mut self, step: &str, call: PlayedCall<'_>, exit: i32) {
        let workflow = self.run.workflow;
        let (says, mut answer) = (self.drawn.fill_text(call.says), self.drawn.fill_text(call.answer));
        if let Some(line) = &workflow.exit_line {
            let line = line.replace("{exit}", &exit.to_string());
            answer =
                if answer.is_empty() { line } else { format!("{}\n{line}", answer.trim_end_matches('\n')) };
        }
        let arguments = self.drawn.fill_arguments(call.arguments);
        let flag = workflow.flags.then_some(exit != 0);
        let (says, tool, answer) = (says.as_str(), call.tool, answer.as_str());
        self.result.trace.add_call(RecordedCall { step, says, tool, arguments: &arguments, answer, flag });
    }

    /// Returns `true` if a memory about the item was handed out for the step and the agent follows it. A
    /// memory from a remark belongs to the remark's step.
    fn follows_memory(&self, about: WorldItem, step: &str, id: &str) -> bool {
        let workflow = self.run.workflow;
        let is_about = |at: &str, lesson: &Lesson| match_claim(workflow, at, lesson).is_about(about);
        let handed = self
            .handed
            .get(step)
            .is_some_and(|handed| handed.memories.iter().any(|(_, lesson)| is_about(step, lesson)));
        // Every draw has its own key, so skipping one does not shift the others.
        handed && self.draw_bool(id, "follow", self.run.agents.follow)
    }

    fn finds_remedy(&self, id: &str, own: Option<f64>) -> bool {
        self.draw_bool(id, "finds_out", own.unwrap_or(self.run.agents.finds_out))
    }

    /// Continues after a call that failed because of a memory. If the agent notices the mistake, it makes the
    /// plain call; otherwise the run fails.
    fn recover_or_fail(&mut self, finds_out: Option<f64>, id: &str, plain: (&str, PlayedCall<'_>)) {
        if self.finds_remedy(id, finds_out) {
            let (step, call) = plain;
            self.record_call(step, call, 0);
        } else {
            self.result.failed = true;
        }
    }
}

#[cfg(test)]
mod tests;
