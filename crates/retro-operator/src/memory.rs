//! One memory in full.

use retro_core::memory::Memory;

use crate::effect::WithEffect;
use crate::words;

/// A memory for a terminal: what it says, where it stands, what it does, when it applies, and the words behind it.
pub fn memory(shown: &WithEffect<Memory>) -> String {
    let WithEffect { of: memory, effect } = shown;
    format!("{}{}\n{}", opening(memory, effect.as_deref()), cue(memory), evidence(memory))
}

/// What it says, where it stands, and the line of its effect.
pub(crate) fn opening(memory: &Memory, effect: Option<&str>) -> String {
    let effect = effect.map(|told| format!("effect: {told}\n")).unwrap_or_default();
    format!(
        "{}\n{} · {} · weight {} · {} · shown by {}\ncreated {} · changed {}\n{effect}{}\n",
        words::line(&memory.lesson.title),
        memory.id,
        memory.status,
        memory.weight,
        words::line(&words::scope(&memory.scope)),
        words::count(memory.observed_runs.into(), "run"),
        words::moment(memory.created_at),
        words::moment(memory.changed_at),
        words::visible(&memory.lesson.content)
    )
}

/// The machine's side of the lesson, as far as it has one.
fn cue(memory: &Memory) -> String {
    let cue = &memory.lesson.cue;
    let parts = [("tool", &cue.tool), ("error", &cue.error), ("avoid", &cue.avoid), ("prefer", &cue.prefer)];
    let line = |(name, part): (&str, &Option<String>)| {
        part.as_ref().map(|part| format!("{name:<8}{}\n", words::line(part)))
    };
    let told: String = parts.into_iter().filter_map(line).collect();
    if told.is_empty() { told } else { format!("\n{told}") }
}

/// The most recent words behind it.
pub(crate) fn evidence(memory: &Memory) -> String {
    let told = memory.evidence.iter().map(|evidence| {
        let (run, place) = (words::line(evidence.run.as_str()), words::place(evidence.quote.place));
        format!("  {}\n    — run {run}, {place}\n", words::line(&evidence.quote.text))
    });
    let told: String = told.collect();
    if told.is_empty() { told } else { format!("shown by\n{told}") }
}

#[cfg(test)]
mod tests {
    use crate::world::rich;

    #[test]
    fn a_memory_is_shown_with_its_cue_and_the_words_behind_it() {
        let world = rich();
        let of = world.memory(world.about("unknown column")).clone();
        let effect = Some("no claim: 7 of 10 observations".to_owned());
        insta::assert_snapshot!(super::memory(&super::WithEffect { of, effect }));
    }
}
