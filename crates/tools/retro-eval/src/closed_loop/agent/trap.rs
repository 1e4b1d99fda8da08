//! Simulates what is no cause: traps, whose lesson is false, and noise, which goes away by itself.

use serde_json::Value;

use super::{PlayedCall, RunSimulator};
use crate::closed_loop::seeded_rng::SeededRng;
use crate::closed_loop::truth::WorldItem;
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
            self.recover_or_fail(
                WorldItem::Trap(at),
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
