//! A composed agent's run: what it meets comes from the seed, what it does from the seed and from what it was handed.
//!
//! Each thing of the world draws for itself, so that the same run with other memories, or with none, meets the same.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::chance::Chance;
use crate::trace::Trace;
use crate::truth::{About, Says, says};
use crate::world::{After, Agents, Cause, Drawn, Noise, Otherwise, Trap, Workflow};

/// What a step's context held.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handed {
    /// The block for the prompt.
    pub(crate) text: String,
    /// Tokens of it.
    pub(crate) tokens: u64,
    /// Ids and lines.
    pub(crate) memories: Vec<(String, String)>,
}

/// Which run of which workflow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) world: &'a str,
    pub(crate) agents: &'a Agents,
    pub(crate) workflow: &'a Workflow,
    pub(crate) seed: u64,
    /// From 1.
    pub(crate) number: u32,
}

/// What became of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Played {
    pub(crate) trace: Trace,
    pub(crate) failed: bool,
    /// Steps and the agent's own remarks.
    pub(crate) remarks: Vec<(String, String)>,
    /// Memories that the agent opened, by id.
    pub(crate) read: Vec<String>,
    /// Causes that it met.
    pub(crate) met: Vec<usize>,
    /// Causes that it met and failed by.
    pub(crate) failed_by: Vec<usize>,
    /// Things whose memory it followed to its harm.
    pub(crate) harmed_by: Vec<About>,
    /// Traps that looked true in it.
    pub(crate) shown: Vec<usize>,
}

/// A run under way.
struct Playing<'a> {
    run: Run<'a>,
    keys: [String; 3],
    drawn: Drawn,
    handed: &'a BTreeMap<String, Handed>,
    played: Played,
}

impl Run<'_> {
    /// Plays it with what each step was handed; with nothing, it is the run that there would have been without memory.
    pub(crate) fn play(self, handed: &BTreeMap<String, Handed>) -> Played {
        let keys = [
            self.seed.to_string(),
            format!("{}/{}", self.world, self.workflow.name),
            self.number.to_string(),
        ];
        let drawn = self.workflow.values.drawn(&[&keys[0], &keys[1], &keys[2]]);
        let mut playing = Playing { run: self, keys, drawn, handed, played: Played::default() };
        for step in &self.workflow.steps {
            playing.step(step.get_ref());
        }
        playing.read();
        let anyway = playing.draws("run", "fails_anyway", self.agents.fails_anyway);
        playing.played.failed |= anyway;
        playing.played
    }
}

impl Playing<'_> {
    fn chance(&self, thing: &str, question: &str) -> Chance {
        Chance::of(&[&self.keys[0], &self.keys[1], &self.keys[2], thing, question])
    }

    fn draws(&self, thing: &str, question: &str, probability: f64) -> bool {
        self.chance(thing, question).happens(probability)
    }

    fn step(&mut self, step: &crate::world::Step) {
        let handed = self.handed.get(&step.name);
        let task = self.drawn.text(&step.task);
        self.played.trace.prompt(&step.name, &task, handed.map_or("", |handed| &handed.text));
        for (at, routine) in step.routines.iter().enumerate() {
            let name = format!("{}/{at}", step.name);
            if self.draws(&name, "routine", routine.chance) {
                let answer =
                    self.chance(&name, "answer").one_of(&routine.answers).cloned().unwrap_or_default();
                self.call(&step.name, "", &routine.tool, &routine.arguments, &answer);
            }
        }
        let workflow = self.run.workflow;
        for (at, cause) in workflow.causes.iter().enumerate() {
            if cause.get_ref().step == step.name {
                self.cause(at, cause.get_ref());
            }
        }
        for (at, trap) in workflow.traps.iter().enumerate() {
            if trap.get_ref().step == step.name {
                self.trap(at, trap.get_ref());
            }
        }
        for noise in &workflow.noises {
            if noise.get_ref().step == step.name {
                self.noise(noise.get_ref());
            }
        }
    }

    /// Which of the memories that it was handed it opens. That is one draw a memory, whatever it then does.
    fn read(&mut self) {
        for handed in self.handed.values() {
            for (id, _) in &handed.memories {
                if self.draws(id, "read", self.run.agents.read) && !self.played.read.contains(id) {
                    self.played.read.push(id.clone());
                }
            }
        }
    }

    /// A call that works.
    fn call(&mut self, step: &str, words: &str, tool: &str, arguments: &Value, answer: &str) {
        self.calls((step, words), tool, arguments, answer, false);
    }

    /// A call that does not.
    fn fails(&mut self, step: &str, words: &str, tool: &str, arguments: &Value, error: &str) {
        self.calls((step, words), tool, arguments, error, true);
    }

    fn calls(
        &mut self,
        (step, words): (&str, &str),
        tool: &str,
        arguments: &Value,
        answer: &str,
        failed: bool,
    ) {
        let (words, answer) = (self.drawn.text(words), self.drawn.text(answer));
        let arguments = self.drawn.arguments(arguments);
        let flag = self.run.workflow.flags.then_some(failed);
        self.played.trace.call((step, &words), tool, &arguments, &answer, flag);
    }

    /// Whether it was handed a memory about this and does what it says. A remark's memory stands where remarks do.
    fn follows(&self, about: About, step: &str, id: &str) -> bool {
        let workflow = self.run.workflow;
        let is_about = |at: &str, line: &str| says(workflow, at, line) == Says::Whole(about);
        let handed = self
            .handed
            .get(step)
            .is_some_and(|handed| handed.memories.iter().any(|(_, line)| is_about(step, line)));
        handed && self.draws(id, "follow", self.run.agents.follow)
    }

    fn finds_out(&self, id: &str, own: Option<f64>) -> bool {
        self.draws(id, "finds_out", own.unwrap_or(self.run.agents.finds_out))
    }

    fn cause(&mut self, at: usize, cause: &Cause) {
        let number = self.run.number;
        let drawn = self.draws(&cause.id, "met", cause.chance);
        let (step, tool) = (cause.step.as_str(), cause.tool.as_str());
        let follows = self.follows(About::Cause(at), step, &cause.id);
        if cause.until.is_some_and(|until| number > until) {
            return self.fixed(at, cause, follows, drawn);
        }
        let in_rhythm = cause.rhythm.is_none_or(|rhythm| {
            let place = (number - 1) % rhythm.every + 1;
            (rhythm.runs[0]..=rhythm.runs[1]).contains(&place)
        });
        if number < cause.from || !in_rhythm || !drawn {
            if cause.otherwise == Otherwise::Works {
                let arguments = if follows { &cause.right } else { &cause.arguments };
                self.call(step, "", tool, arguments, &cause.answer);
            }
            return;
        }
        self.played.met.push(at);
        if follows {
            return self.way_out(cause, &cause.minds);
        }
        let error = self.chance(&cause.id, "error").one_of(&cause.errors).cloned().unwrap_or_default();
        for _ in 0..self.chance(&cause.id, "tries").one_of(&cause.tries).copied().unwrap_or(1) {
            self.fails(step, "", tool, &cause.arguments, &error);
        }
        let found = self.finds_out(&cause.id, cause.finds_out);
        if found {
            self.way_out(cause, "");
        }
        if !found || self.draws(&cause.id, "costs", cause.costs) {
            self.fail_by(at);
        }
    }

    fn way_out(&mut self, cause: &Cause, words: &str) {
        let mut words = words;
        if let Some(look_up) = &cause.look_up {
            self.call(&cause.step, words, &look_up.tool, &look_up.arguments, &look_up.answer);
            words = "";
        }
        self.call(&cause.step, words, &cause.tool, &cause.right, &cause.answer);
    }

    fn fail_by(&mut self, cause: usize) {
        self.played.failed = true;
        self.played.failed_by.push(cause);
    }

    /// A cause that is fixed. `drawn`: whether the run would have met it.
    fn fixed(&mut self, at: usize, cause: &Cause, follows: bool, drawn: bool) {
        if cause.after == After::Gone || (cause.otherwise == Otherwise::Skips && !drawn) {
            return;
        }
        let (step, tool) = (cause.step.as_str(), cause.tool.as_str());
        match (&cause.harm, cause.after, follows) {
            (Some(harm), After::Harmful, true) => {
                self.fails(step, "", tool, &cause.right, harm);
                self.harmed(
                    About::Cause(at),
                    cause.finds_out,
                    &cause.id,
                    (step, tool, &cause.arguments, &cause.answer),
                );
            }
            (_, _, true) => self.way_out(cause, &cause.minds),
            (_, _, false) => self.call(step, "", tool, &cause.arguments, &cause.answer),
        }
    }

    /// After a call that a memory spoilt: the plain call, if the agent sees it, else the run fails.
    fn harmed(&mut self, about: About, finds_out: Option<f64>, id: &str, plain: (&str, &str, &Value, &str)) {
        self.played.harmed_by.push(about);
        if self.finds_out(id, finds_out) {
            let (step, tool, arguments, answer) = plain;
            self.call(step, "", tool, arguments, answer);
        } else {
            self.played.failed = true;
        }
    }

    fn trap(&mut self, at: usize, trap: &Trap) {
        let within = trap.periods.iter().any(|[first, last]| (*first..=*last).contains(&self.run.number));
        let looks_true = within && self.draws(&trap.id, "met", trap.chance);
        let (step, tool) = (trap.step.as_str(), trap.tool.as_str());
        if looks_true {
            self.played.shown.push(at);
            if let Some(remark) = &trap.remark {
                self.played.remarks.push((step.to_owned(), self.drawn.text(remark)));
            }
        }
        if self.follows(About::Trap(at), step, &trap.id) {
            let words = trap.remark.as_deref().unwrap_or("").to_owned();
            self.fails(step, &words, tool, &trap.superstition, &trap.harm);
            self.harmed(
                About::Trap(at),
                trap.finds_out,
                &trap.id,
                (step, tool, &trap.arguments, &trap.answer),
            );
            return;
        }
        let error = self.chance(&trap.id, "error").one_of(&trap.errors).cloned();
        if let (true, Some(error)) = (looks_true, error) {
            self.fails(step, "", tool, &trap.arguments, &error);
            self.call(step, "", tool, &trap.superstition, &trap.answer);
        } else {
            self.call(step, "", tool, &trap.arguments, &trap.answer);
        }
    }

    fn noise(&mut self, noise: &Noise) {
        let met = match noise.burst.filter(|burst| self.in_burst(&noise.id, burst.every, burst.runs)) {
            Some(burst) => self.draws(&noise.id, "met", burst.chance),
            None => self.draws(&noise.id, "met", noise.chance),
        };
        let (step, tool) = (noise.step.as_str(), noise.tool.as_str());
        let told = self.told_change(noise).cloned();
        let first = told.as_ref().unwrap_or(&noise.arguments);
        if met {
            let error = self.chance(&noise.id, "error").one_of(&noise.errors).cloned().unwrap_or_default();
            self.fails(step, "", tool, first, &error);
            let changes = self.draws(&noise.id, "changes", noise.changes);
            let changed = self.chance(&noise.id, "changed").one_of(&noise.changed).cloned();
            let again = changed.filter(|_| changes).unwrap_or_else(|| first.clone());
            self.call(step, "", tool, &again, &noise.answer);
        } else if noise.otherwise == Otherwise::Works {
            self.call(step, "", tool, first, &noise.answer);
        }
    }

    /// Each cycle of runs holds one burst, at a place that the seed draws.
    fn in_burst(&self, id: &str, every: u32, runs: u32) -> bool {
        let (cycle, place) = ((self.run.number - 1) / every, (self.run.number - 1) % every);
        let mut chance = Chance::of(&[&self.keys[0], &self.keys[1], id, "burst", &cycle.to_string()]);
        let first = chance.below((every - runs + 1) as usize) as u32;
        (first..first + runs).contains(&place)
    }

    /// The changed call that a memory tells it to make though it never helped: the memory names the tool and a parameter
    /// that only that call has.
    fn told_change<'n>(&self, noise: &'n Noise) -> Option<&'n Value> {
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
            handed.memories.iter().any(|(_, line)| names(line))
        };
        let told = noise.changed.iter().find(named)?;
        self.draws(&noise.id, "follow", self.run.agents.follow).then_some(told)
    }
}

#[cfg(test)]
mod tests;
