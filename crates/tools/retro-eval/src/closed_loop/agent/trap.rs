//! Simulates what is no cause: traps, whose lesson is false, and noise, which goes away by itself.

use serde_json::Value;

use super::{PlayedCall, RunSimulator};
use crate::closed_loop::lesson::Lesson;
use crate::closed_loop::remedy::{Agreement, PlannedCall, Remedy};
use crate::closed_loop::seeded_rng::SeededRng;
use crate::closed_loop::truth::{WorldItem, match_claim};
use crate::closed_loop::world::{Noise, Otherwise, Trap};

impl RunSimulator<'_> {
    pub(super) fn simulate_trap(&mut self, at: usize, trap: &Trap) {
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
            let call = PlayedCall::new(tool, &trap.superstition, &trap.harm).saying(&words);
            self.record_call(step, call, trap.exit);
            self.result.harmed_by.push(WorldItem::Trap(at));
            self.recover_or_fail(
                trap.finds_out,
                &trap.id,
                (step, PlayedCall::new(tool, &trap.arguments, &trap.answer)),
            );
            return;
        }
        let error = self.rng_for(&trap.id, "error").choose(&trap.errors).cloned();
        if let (true, Some(error)) = (looks_true, error) {
            self.record_call(step, PlayedCall::new(tool, &trap.arguments, &error), trap.exit);
            self.record_call(step, PlayedCall::new(tool, &trap.superstition, &trap.answer), 0);
        } else {
            self.record_call(step, PlayedCall::new(tool, &trap.arguments, &trap.answer), 0);
        }
    }

    pub(super) fn simulate_noise(&mut self, noise: &Noise) {
        let met = match noise.burst.filter(|burst| self.is_in_burst(&noise.id, burst.every, burst.runs)) {
            Some(burst) => self.draw_bool(&noise.id, "met", burst.chance),
            None => self.draw_bool(&noise.id, "met", noise.chance),
        };
        let (step, tool) = (noise.step.as_str(), noise.tool.as_str());
        let advised = self.find_advised_change(noise).cloned();
        if let (Some(advised), Some(harm)) = (&advised, &noise.harm) {
            if !met && noise.otherwise == Otherwise::Skips {
                return;
            }
            self.record_call(step, PlayedCall::new(tool, advised, harm), noise.exit);
            self.result.misled_by.push(noise.id.clone());
            let plain = PlayedCall::new(tool, &noise.arguments, &noise.answer);
            return self.recover_or_fail(None, &noise.id, (step, plain));
        }
        let first = advised.as_ref().unwrap_or(&noise.arguments);
        if met {
            let error = self.rng_for(&noise.id, "error").choose(&noise.errors).cloned().unwrap_or_default();
            self.record_call(step, PlayedCall::new(tool, first, &error), noise.exit);
            let changes = self.draw_bool(&noise.id, "changes", noise.changes);
            let changed = self.rng_for(&noise.id, "changed").choose(&noise.changed).cloned();
            let again = changed.filter(|_| changes).unwrap_or_else(|| first.clone());
            self.record_call(step, PlayedCall::new(tool, &again, &noise.answer), 0);
        } else if noise.otherwise == Otherwise::Works {
            self.record_call(step, PlayedCall::new(tool, first, &noise.answer), 0);
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

    /// Follows the memories that are about nothing in the world. Each costs some runs their success, in a way
    /// that no call shows.
    pub(super) fn follow_wrong_memories(&mut self, step: &str) {
        let Some(handed) = self.handed.get(step) else { return };
        for (id, lesson) in &handed.memories {
            let follows = self.draw_bool(id, "follow", self.run.agents.follow);
            let costs = self.draw_bool(id, "wrong_costs", self.run.agents.wrong_costs);
            // A change of noise whose calls answer `harm` costs something there.
            let harmful = |noise: &Noise| noise.harm.is_some() && advised_change(noise, lesson).is_some();
            let counted = self.run.workflow.noises.iter().map(|noise| noise.get_ref());
            let counted = counted.filter(|noise| noise.step == step).any(harmful);
            if follows && costs && !counted && match_claim(self.run.workflow, step, lesson).is_empty() {
                self.result.misled_by.push(id.clone());
                self.result.failed = true;
            }
        }
    }

    /// Returns the arguments of the changed call that a handed memory advises, although the change never
    /// helped. Returns `None` if there is no such memory or the agent does not follow it.
    fn find_advised_change<'n>(&self, noise: &'n Noise) -> Option<&'n Value> {
        let handed = self.handed.get(&noise.step)?;
        let advised = handed.memories.iter().find_map(|(_, lesson)| advised_change(noise, lesson))?;
        self.draw_bool(&noise.id, "follow", self.run.agents.follow).then_some(advised)
    }
}

/// Returns the changed call that a lesson advises: the structure of the lesson is the change, or it names the
/// tool and a parameter that only the changed call has.
fn advised_change<'n>(noise: &'n Noise, lesson: &Lesson) -> Option<&'n Value> {
    let call = |arguments| PlannedCall { tool: &noise.tool, arguments };
    noise.changed.iter().find(|changed| {
        let change = Remedy {
            wrong: call(&noise.arguments),
            right: call(changed),
            first: Vec::new(),
            waits: false,
            values: None,
        };
        let mut new = changed.as_object().into_iter().flatten();
        let names_new = new
            .any(|(key, _)| noise.arguments.get(key).is_none() && lesson.line.contains(&format!("`{key}`")));
        matches!(change.compare(lesson), Agreement::Whole | Agreement::Part)
            || names_new && lesson.line.contains(&noise.tool)
    })
}
