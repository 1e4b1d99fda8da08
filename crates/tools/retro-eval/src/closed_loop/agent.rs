//! Simulates the run of an agent. The seed determines which failures the run encounters; the seed and the
//! memories in the prompt determine how the agent reacts.
//!
//! Each item of the world has its own random draws, so a run encounters the same failures with other memories
//! or with none, and the two runs can be compared.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::closed_loop::lesson::Lesson;
use crate::closed_loop::seeded_rng::SeededRng;
use crate::closed_loop::trajectory::Trajectory;
use crate::closed_loop::truth::{WorldItem, match_claim};
use crate::closed_loop::world::{
    AfterFix, AgentHabits, Cause, DrawnValues, Noise, Otherwise, Step, Trap, Workflow,
};

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
    /// Indices of the traps that looked true in this run.
    pub(crate) traps_seen: Vec<usize>,
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
        let mut playing = RunSimulator { run: self, keys, drawn, handed, result: RunResult::default() };
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
                self.record_successful_call(&step.name, "", &routine.tool, &routine.arguments, &answer);
            }
        }
        let workflow = self.run.workflow;
        for (at, cause) in workflow.causes.iter().enumerate() {
            if cause.get_ref().step == step.name {
                self.simulate_cause(at, cause.get_ref());
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
    }

    /// Opens some of the handed memories. Each draw is independent of whether the agent follows the memory.
    fn open_memories(&mut self) {
        for handed in self.handed.values() {
            for (id, _) in &handed.memories {
                if self.draw_bool(id, "read", self.run.agents.read) && !self.result.memories_read.contains(id)
                {
                    self.result.memories_read.push(id.clone());
                }
            }
        }
    }

    /// Records a call that succeeds.
    fn record_successful_call(
        &mut self,
        step: &str,
        words: &str,
        tool: &str,
        arguments: &Value,
        answer: &str,
    ) {
        self.record_call((step, words), tool, arguments, answer, false);
    }

    /// Records a call that fails.
    fn record_failed_call(&mut self, step: &str, words: &str, tool: &str, arguments: &Value, error: &str) {
        self.record_call((step, words), tool, arguments, error, true);
    }

    fn record_call(
        &mut self,
        (step, words): (&str, &str),
        tool: &str,
        arguments: &Value,
        answer: &str,
        failed: bool,
    ) {
        let (words, answer) = (self.drawn.fill_text(words), self.drawn.fill_text(answer));
        let arguments = self.drawn.fill_arguments(arguments);
        let flag = self.run.workflow.flags.then_some(failed);
        self.result.trace.add_call((step, &words), tool, &arguments, &answer, flag);
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

    fn simulate_cause(&mut self, at: usize, cause: &Cause) {
        let number = self.run.number;
        let drawn = self.draw_bool(&cause.id, "met", cause.chance);
        let (step, tool) = (cause.step.as_str(), cause.tool.as_str());
        let follows = self.follows_memory(WorldItem::Cause(at), step, &cause.id);
        if cause.until.is_some_and(|until| number > until) {
            return self.simulate_fixed_cause(at, cause, follows, drawn);
        }
        let in_rhythm = cause.rhythm.is_none_or(|rhythm| {
            let place = (number - 1) % rhythm.every + 1;
            (rhythm.runs[0]..=rhythm.runs[1]).contains(&place)
        });
        if number < cause.from || !in_rhythm || !drawn {
            if cause.otherwise == Otherwise::Works {
                let arguments = if follows { &cause.right } else { &cause.arguments };
                self.record_successful_call(step, "", tool, arguments, &cause.answer);
            }
            return;
        }
        self.result.causes_met.push(at);
        if follows {
            return self.apply_remedy(cause, &cause.minds);
        }
        let error = self.rng_for(&cause.id, "error").choose(&cause.errors).cloned().unwrap_or_default();
        for _ in 0..self.rng_for(&cause.id, "tries").choose(&cause.tries).copied().unwrap_or(1) {
            self.record_failed_call(step, "", tool, &cause.arguments, &error);
        }
        let found = self.finds_remedy(&cause.id, cause.finds_out);
        if found {
            self.apply_remedy(cause, "");
        }
        if !found || self.draw_bool(&cause.id, "costs", cause.costs) {
            self.record_failure(at);
        }
    }

    fn apply_remedy(&mut self, cause: &Cause, words: &str) {
        let mut words = words;
        if let Some(look_up) = &cause.look_up {
            self.record_successful_call(
                &cause.step,
                words,
                &look_up.tool,
                &look_up.arguments,
                &look_up.answer,
            );
            words = "";
        }
        self.record_successful_call(&cause.step, words, &cause.tool, &cause.right, &cause.answer);
    }

    fn record_failure(&mut self, cause: usize) {
        self.result.failed = true;
        self.result.failed_by.push(cause);
    }

    /// Simulates a cause that is already fixed. `drawn` is `true` if the run would have encountered the cause
    /// before the fix.
    fn simulate_fixed_cause(&mut self, at: usize, cause: &Cause, follows: bool, drawn: bool) {
        if cause.after == AfterFix::Gone || (cause.otherwise == Otherwise::Skips && !drawn) {
            return;
        }
        let (step, tool) = (cause.step.as_str(), cause.tool.as_str());
        match (&cause.harm, cause.after, follows) {
            (Some(harm), AfterFix::Harmful, true) => {
                self.record_failed_call(step, "", tool, &cause.right, harm);
                self.recover_or_fail(
                    WorldItem::Cause(at),
                    cause.finds_out,
                    &cause.id,
                    (step, tool, &cause.arguments, &cause.answer),
                );
            }
            (_, _, true) => self.apply_remedy(cause, &cause.minds),
            (_, _, false) => self.record_successful_call(step, "", tool, &cause.arguments, &cause.answer),
        }
    }

    /// Continues after a call that failed because of a memory. If the agent notices the mistake, it makes the
    /// plain call; otherwise the run fails.
    fn recover_or_fail(
        &mut self,
        about: WorldItem,
        finds_out: Option<f64>,
        id: &str,
        plain: (&str, &str, &Value, &str),
    ) {
        self.result.harmed_by.push(about);
        if self.finds_remedy(id, finds_out) {
            let (step, tool, arguments, answer) = plain;
            self.record_successful_call(step, "", tool, arguments, answer);
        } else {
            self.result.failed = true;
        }
    }

    fn simulate_trap(&mut self, at: usize, trap: &Trap) {
        let within = trap.periods.iter().any(|[first, last]| (*first..=*last).contains(&self.run.number));
        let looks_true = within && self.draw_bool(&trap.id, "met", trap.chance);
        let (step, tool) = (trap.step.as_str(), trap.tool.as_str());
        if looks_true {
            self.result.traps_seen.push(at);
            if let Some(remark) = &trap.remark {
                self.result.remarks.push((step.to_owned(), self.drawn.fill_text(remark)));
            }
        }
        if self.follows_memory(WorldItem::Trap(at), step, &trap.id) {
            let words = trap.remark.as_deref().unwrap_or("").to_owned();
            self.record_failed_call(step, &words, tool, &trap.superstition, &trap.harm);
            self.recover_or_fail(
                WorldItem::Trap(at),
                trap.finds_out,
                &trap.id,
                (step, tool, &trap.arguments, &trap.answer),
            );
            return;
        }
        let error = self.rng_for(&trap.id, "error").choose(&trap.errors).cloned();
        if let (true, Some(error)) = (looks_true, error) {
            self.record_failed_call(step, "", tool, &trap.arguments, &error);
            self.record_successful_call(step, "", tool, &trap.superstition, &trap.answer);
        } else {
            self.record_successful_call(step, "", tool, &trap.arguments, &trap.answer);
        }
    }

    fn simulate_noise(&mut self, noise: &Noise) {
        let met = match noise.burst.filter(|burst| self.is_in_burst(&noise.id, burst.every, burst.runs)) {
            Some(burst) => self.draw_bool(&noise.id, "met", burst.chance),
            None => self.draw_bool(&noise.id, "met", noise.chance),
        };
        let (step, tool) = (noise.step.as_str(), noise.tool.as_str());
        let advised = self.find_advised_change(noise).cloned();
        let first = advised.as_ref().unwrap_or(&noise.arguments);
        if met {
            let error = self.rng_for(&noise.id, "error").choose(&noise.errors).cloned().unwrap_or_default();
            self.record_failed_call(step, "", tool, first, &error);
            let changes = self.draw_bool(&noise.id, "changes", noise.changes);
            let changed = self.rng_for(&noise.id, "changed").choose(&noise.changed).cloned();
            let again = changed.filter(|_| changes).unwrap_or_else(|| first.clone());
            self.record_successful_call(step, "", tool, &again, &noise.answer);
        } else if noise.otherwise == Otherwise::Works {
            self.record_successful_call(step, "", tool, first, &noise.answer);
        }
    }

    /// Returns `true` if the run is in a burst. Each cycle has one burst, at a position drawn from the seed.
    fn is_in_burst(&self, id: &str, every: u32, runs: u32) -> bool {
        let (cycle, place) = ((self.run.number - 1) / every, (self.run.number - 1) % every);
        let mut chance =
            SeededRng::from_parts(&[&self.keys[0], &self.keys[1], id, "burst", &cycle.to_string()]);
        // Cannot underflow: validation rejects a burst that is not shorter than its cycle.
        let first = chance.random_below((every - runs + 1) as usize) as u32;
        (first..first + runs).contains(&place)
    }

    /// Returns the arguments of the changed call that a handed memory advises, although the change never
    /// helped. Such a memory names the tool and a parameter that only the changed call has. Returns `None` if
    /// there is no such memory or the agent does not follow it.
    fn find_advised_change<'n>(&self, noise: &'n Noise) -> Option<&'n Value> {
        let handed = self.handed.get(&noise.step)?;
        let named = |changed: &&Value| {
            let new = changed
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(key, _)| noise.arguments.get(key.as_str()).is_none());
            let names = |line: &str| {
                line.contains(&noise.tool) && new.clone().any(|(key, _)| line.contains(&format!("`{key}`")))
            };
            handed.memories.iter().any(|(_, lesson)| names(&lesson.line))
        };
        let advised = noise.changed.iter().find(named)?;
        self.draw_bool(&noise.id, "follow", self.run.agents.follow).then_some(advised)
    }
}

#[cfg(test)]
mod tests;
