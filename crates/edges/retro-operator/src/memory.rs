//! Renders one memory in full.

use retro_core::memory::Memory;
use serde::Serialize;

use crate::text;

/// A memory together with its effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryWithEffect {
    /// The memory.
    #[serde(flatten)]
    pub memory: Memory,
    /// Effect in one line; `None` if there are no runs of one workflow to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

/// Renders a memory for a terminal, with its lesson, status, effect, cue and evidence.
pub fn render_memory(memory_with_effect: &MemoryWithEffect) -> String {
    let MemoryWithEffect { memory, effect } = memory_with_effect;
    format!(
        "{}{}\n{}",
        render_summary(memory, effect.as_deref()),
        render_cue(memory),
        render_evidence(memory)
    )
}

/// Renders the lesson, the status and, if known, the effect.
pub(crate) fn render_summary(memory: &Memory, effect: Option<&str>) -> String {
    let effect = effect.map(|line| format!("effect: {line}\n")).unwrap_or_default();
    format!(
        "{}\n{} · {} · weight {} · {} · seen in {}\ncreated {} · changed {}\n{effect}{}\n",
        text::single_line(&memory.lesson.title),
        memory.id,
        memory.status,
        memory.weight,
        text::single_line(&text::describe_scope(&memory.scope)),
        text::format_count(memory.observed_runs.into(), "run"),
        text::format_timestamp(memory.created_at),
        text::format_timestamp(memory.changed_at),
        text::printable(&memory.lesson.content)
    )
}

/// Renders the cue, the machine-readable part of the lesson. Returns an empty string if the lesson has no
/// cue.
fn render_cue(memory: &Memory) -> String {
    let cue = &memory.lesson.cue;
    let parts = [("tool", &cue.tool), ("error", &cue.error), ("avoid", &cue.avoid), ("prefer", &cue.prefer)];
    let line = |(name, part): (&str, &Option<String>)| {
        part.as_ref().map(|part| format!("{name:<8}{}\n", text::single_line(part)))
    };
    let lines: String = parts.into_iter().filter_map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Renders the evidence: the most recent quotes that support the memory.
pub(crate) fn render_evidence(memory: &Memory) -> String {
    let quotes = memory.evidence.iter().map(|evidence| {
        let (run, place) =
            (text::single_line(evidence.run.as_str()), text::describe_place(evidence.quote.place));
        format!("  {}\n    — run {run}, {place}\n", text::single_line(&evidence.quote.text))
    });
    let quotes: String = quotes.collect();
    if quotes.is_empty() { quotes } else { format!("evidence\n{quotes}") }
}

#[cfg(test)]
mod tests {
    use crate::world::rich_world;

    #[test]
    fn a_memory_is_shown_with_its_cue_and_the_words_behind_it() {
        let world = rich_world();
        let memory = world.memory(world.memory_about("unknown column")).clone();
        let effect = Some("no claim: 7 of 10 observations".to_owned());
        insta::assert_snapshot!(super::render_memory(&super::MemoryWithEffect { memory, effect }));
    }
}
