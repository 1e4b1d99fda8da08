//! Redacts the trajectory of a run, and the facts that its emitter wrote.

use bytes::Bytes;
use retro_core::json::{JsonBounds, JsonDocument};
use retro_core::run::RunFacts;
use retro_core::trajectory::{ToolCall, Trajectory};

use crate::{Redactor, TEXT_BYTES_MAX};

impl Redactor {
    /// Redacts every message, reasoning, argument and answer of a trajectory, and returns the number of
    /// secrets. Names of tools and steps stay as they are.
    pub fn redact_trajectory(&self, trajectory: &mut Trajectory) -> usize {
        trajectory
            .turns
            .iter_mut()
            .map(|turn| {
                let secrets =
                    self.redact_in_place(&mut turn.message) + self.redact_in_place(&mut turn.reasoning);
                secrets + turn.calls.iter_mut().map(|call| self.redact_call(call)).sum::<usize>()
            })
            .sum()
    }

    fn redact_call(&self, call: &mut ToolCall) -> usize {
        let answered = call.answer.as_mut().map_or(0, |answer| self.redact_in_place(answer));
        self.redact_arguments(&mut call.arguments) + answered
    }

    /// Redacts the arguments of a call, and returns the number of secrets. Arguments are canonical JSON or
    /// plain text, and stay so.
    fn redact_arguments(&self, arguments: &mut String) -> usize {
        let object = arguments.starts_with('{').then(|| {
            let text = Bytes::copy_from_slice(arguments.as_bytes());
            JsonDocument::parse(&text, JsonBounds::with_bytes_max(TEXT_BYTES_MAX)).ok()
        });
        let Some(object) = object.flatten() else { return self.redact_in_place(arguments) };
        let (clean, secrets) = self.redact_json(object.root());
        // Without secrets, the arguments stay as they are, byte for byte.
        if secrets > 0 {
            *arguments = clean;
        }
        secrets
    }

    /// Redacts every free text in the facts of a run, and returns the number of secrets. Ids, numbers and the
    /// outcome stay as they are.
    pub fn redact_facts(&self, facts: &mut RunFacts) -> usize {
        let agent =
            facts.agent.iter_mut().flat_map(|agent| [&mut agent.name, &mut agent.version, &mut agent.model]);
        let plain = [&mut facts.repo, &mut facts.user, &mut facts.prompt_version, &mut facts.task]
            .into_iter()
            .chain(agent)
            .flatten();
        let written = facts.self_feedback.iter_mut().map(|feedback| &mut feedback.text);
        plain.chain(written).map(|text| self.redact_in_place(text)).sum()
    }
}
