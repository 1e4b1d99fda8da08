//! Redacts a run: its trajectory, and the facts that its emitter wrote.

use bytes::Bytes;
use retro_core::json::{JsonBounds, JsonDocument};
use retro_core::run::RunFacts;
use retro_core::trajectory::{ToolCall, Trajectory};

use crate::{Redactor, TEXT_BYTES_MAX};

impl Redactor {
    /// Redacts every message, reasoning, argument and answer, and returns the number of secrets. Names of tools
    /// and steps are not changed.
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

    /// Redacts arguments, which are canonical JSON or a plain text, and keeps their form.
    fn redact_arguments(&self, arguments: &mut String) -> usize {
        let object = arguments.starts_with('{').then(|| {
            let text = Bytes::copy_from_slice(arguments.as_bytes());
            JsonDocument::parse(&text, JsonBounds::with_bytes_max(TEXT_BYTES_MAX)).ok()
        });
        let Some(object) = object.flatten() else { return self.redact_in_place(arguments) };
        let (clean, secrets) = self.redact_json(object.root());
        if secrets > 0 {
            *arguments = clean;
        }
        secrets
    }

    /// Redacts every free text among the facts, and returns the number of secrets. Ids, the outcome and numbers
    /// are not changed.
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
