//! Secrets in a run: its trajectory, and the facts that its emitter wrote.

use bytes::Bytes;
use retro_core::json::{Bounds, Document};
use retro_core::run::RunFacts;
use retro_core::trajectory::{ToolCall, Trajectory};

use crate::{Redactor, TEXT_BYTES_MAX};

impl Redactor {
    /// Replaces the secrets of every message, thought, argument and answer, and returns how many there were. Names
    /// of tools and steps stay.
    pub fn trajectory(&self, trajectory: &mut Trajectory) -> usize {
        trajectory
            .turns
            .iter_mut()
            .map(|turn| {
                let said = self.in_place(&mut turn.message) + self.in_place(&mut turn.reasoning);
                said + turn.calls.iter_mut().map(|call| self.call(call)).sum::<usize>()
            })
            .sum()
    }

    fn call(&self, call: &mut ToolCall) -> usize {
        let answered = call.answer.as_mut().map_or(0, |answer| self.in_place(answer));
        self.arguments(&mut call.arguments) + answered
    }

    /// Arguments are JSON in canonical form or a plain text; what changes stays what it was.
    fn arguments(&self, arguments: &mut String) -> usize {
        let object = arguments.starts_with('{').then(|| {
            let text = Bytes::copy_from_slice(arguments.as_bytes());
            Document::parse(&text, Bounds::bytes(TEXT_BYTES_MAX)).ok()
        });
        let Some(object) = object.flatten() else { return self.in_place(arguments) };
        let (clean, secrets) = self.json(object.root());
        if secrets > 0 {
            *arguments = clean;
        }
        secrets
    }

    /// Replaces the secrets of every free text among the facts, and returns how many there were. Ids, outcome and
    /// numbers stay.
    pub fn facts(&self, facts: &mut RunFacts) -> usize {
        let agent =
            facts.agent.iter_mut().flat_map(|agent| [&mut agent.name, &mut agent.version, &mut agent.model]);
        let plain = [&mut facts.repo, &mut facts.user, &mut facts.prompt_version, &mut facts.task]
            .into_iter()
            .chain(agent)
            .flatten();
        let written = facts.self_feedback.iter_mut().map(|feedback| &mut feedback.text);
        plain.chain(written).map(|text| self.in_place(text)).sum()
    }
}
