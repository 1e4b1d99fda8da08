//! Redacts the trajectory of a run, and the facts that its emitter wrote.

use bytes::Bytes;
use retro_core::json::{JsonBounds, JsonDocument, JsonNode};
use retro_core::run::RunFacts;
use retro_core::trajectory::{ToolCall, Trajectory};

use crate::marker::Masks;
use crate::{Redactor, TEXT_BYTES_MAX};

/// Redacts the parts of one run. Equal secrets get equal masks in all of them, and different secrets different
/// masks.
#[derive(Debug)]
pub struct RunRedactor<'r> {
    redactor: &'r Redactor,
    masks: Masks,
}

impl Redactor {
    /// Begins the redaction of a run. Redact its facts before its trajectory: their masks are then the same in
    /// every run with the same facts, whatever the trajectory contains.
    pub fn begin_run(&self) -> RunRedactor<'_> {
        RunRedactor { redactor: self, masks: Masks::default() }
    }

    /// Redacts a trajectory whose run has no other parts, as [`RunRedactor::redact_trajectory`] does.
    pub fn redact_trajectory(&self, trajectory: &mut Trajectory) -> usize {
        self.begin_run().redact_trajectory(trajectory)
    }

    /// Redacts the facts of a run without a trajectory, as [`RunRedactor::redact_facts`] does.
    pub fn redact_facts(&self, facts: &mut RunFacts) -> usize {
        self.begin_run().redact_facts(facts)
    }
}

impl RunRedactor<'_> {
    /// Redacts every message, reasoning, argument and answer of a trajectory, and its `AGENTS.md`, and returns the number of
    /// secrets. In the names of tools, only secrets that have a form of their own are replaced. The names of
    /// steps stay as they are.
    pub fn redact_trajectory(&mut self, trajectory: &mut Trajectory) -> usize {
        // Before any mask is given: a later text may contain a mask already.
        for turn in &trajectory.turns {
            self.masks.reserve_markers(&turn.message);
            self.masks.reserve_markers(&turn.reasoning);
            for call in &turn.calls {
                self.masks.reserve_markers(&call.arguments);
                self.masks.reserve_markers(call.answer.as_deref().unwrap_or_default());
            }
        }
        self.masks.reserve_markers(trajectory.agents_md.as_deref().unwrap_or_default());
        let mut secrets = 0;
        for turn in &mut trajectory.turns {
            secrets += self.redact_text(&mut turn.message) + self.redact_text(&mut turn.reasoning);
            secrets += turn.calls.iter_mut().map(|call| self.redact_call(call)).sum::<usize>();
        }
        secrets + trajectory.agents_md.as_mut().map_or(0, |text| self.redact_text(text))
    }

    /// Redacts every free text in the facts of a run, and returns the number of secrets. Ids, numbers and the
    /// outcome stay as they are. Redacting facts that are already redacted changes nothing, but reserves their
    /// masks.
    pub fn redact_facts(&mut self, facts: &mut RunFacts) -> usize {
        let agent =
            facts.agent.iter_mut().flat_map(|agent| [&mut agent.name, &mut agent.version, &mut agent.model]);
        let plain = [&mut facts.repo, &mut facts.user, &mut facts.prompt_version, &mut facts.task]
            .into_iter()
            .chain(agent)
            .flatten();
        let written = facts.self_feedback.iter_mut().map(|feedback| &mut feedback.text);
        let mut texts: Vec<&mut String> = plain.chain(written).collect();
        for text in &texts {
            self.masks.reserve_markers(text);
        }
        let secrets: usize = texts.iter_mut().map(|text| self.redact_text(text)).sum();
        let commit = facts.commit.as_mut();
        secrets + commit.map_or(0, |commit| self.redactor.redact_name(commit, &mut self.masks))
    }

    /// Redacts JSON that belongs to the run, as [`Redactor::redact_json`] does. Returns the JSON and the number of secrets.
    pub fn redact_json(&mut self, value: JsonNode<'_>) -> (String, usize) {
        self.redactor.redact_json_with(value, &mut self.masks)
    }

    fn redact_text(&mut self, text: &mut String) -> usize {
        self.redactor.redact_in_place(text, &mut self.masks)
    }

    fn redact_call(&mut self, call: &mut ToolCall) -> usize {
        let named = self.redactor.redact_name(&mut call.tool, &mut self.masks);
        let asked = self.redact_arguments(&mut call.arguments);
        named + asked + call.answer.as_mut().map_or(0, |answer| self.redact_text(answer))
    }

    /// Redacts the arguments of a call, and returns the number of secrets. Arguments are canonical JSON or
    /// plain text, and stay so.
    fn redact_arguments(&mut self, arguments: &mut String) -> usize {
        let object = arguments.starts_with('{').then(|| {
            let text = Bytes::copy_from_slice(arguments.as_bytes());
            JsonDocument::parse(&text, JsonBounds::with_bytes_max(TEXT_BYTES_MAX)).ok()
        });
        let Some(object) = object.flatten() else { return self.redact_text(arguments) };
        let (clean, secrets) = self.redactor.redact_json_with(object.root(), &mut self.masks);
        // Without secrets, the arguments stay as they are, byte for byte.
        if secrets > 0 {
            *arguments = clean;
        }
        secrets
    }
}
