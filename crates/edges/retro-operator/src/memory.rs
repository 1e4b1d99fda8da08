//! Renders one memory in full.

use std::collections::{BTreeMap, BTreeSet};

use retro_core::id::RunId;
use retro_core::memory::{Memory, MemoryStatus};
use retro_store::{FeedbackRow, MemoryUsage};
use serde::Serialize;

use crate::feedback::render_feedback;
use crate::saved_quotes::{SavedQuote, render_saved_quotes};
use crate::text;
use crate::usage::describe_usage;

/// A memory together with its effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryWithEffect {
    /// The memory.
    #[serde(flatten)]
    pub memory: Memory,
    /// Number of runs that it was presented to, read in and applied in.
    pub usage: MemoryUsage,
    /// Effect in one line; `None` if there are no runs of one workflow to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// What agents, people and evaluations said of it, newest first, at most [`FEEDBACK_SHOWN_MAX`](retro_store::FEEDBACK_SHOWN_MAX) entries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub feedback: Vec<FeedbackRow>,
    /// Quotes that agents gave when they saved the lesson, and if the traces of their runs contain them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub saved_quotes: Vec<SavedQuote>,
}

/// Renders a memory for a terminal, with its lesson, status, quarantine, effect, cue and evidence.
pub fn render_memory(memory_with_effect: &MemoryWithEffect) -> String {
    let MemoryWithEffect { memory, usage, effect, feedback, saved_quotes } = memory_with_effect;
    format!(
        "{}{}\n{}{}{}",
        render_summary(memory, Some(*usage), effect.as_deref()),
        render_cue(memory),
        render_evidence(memory),
        render_saved_quotes(saved_quotes),
        render_feedback(feedback)
    )
}

/// Renders the lesson, the status, the quarantine and, if known, the use and the effect.
pub(crate) fn render_summary(memory: &Memory, usage: Option<MemoryUsage>, effect: Option<&str>) -> String {
    let usage = usage.map(|usage| format!("{}\n", describe_usage(usage))).unwrap_or_default();
    let effect = effect.map(|line| format!("effect: {line}\n")).unwrap_or_default();
    format!(
        "{}\n{} · {} · weight {} · {} · seen in {}{}\ncreated {} · changed {}\n{usage}{}{effect}{}\n",
        text::single_line(&memory.lesson.title),
        memory.id,
        text::describe_status(memory),
        memory.weight,
        text::single_line(&text::describe_scope(&memory.scope)),
        text::format_count(memory.observed_runs.into(), "run"),
        render_witnesses(memory),
        text::format_timestamp(memory.created_at),
        text::format_timestamp(memory.changed_at),
        render_switches(memory),
        text::printable(&memory.lesson.content)
    )
}

/// Renders the number of witnesses behind the runs that are still known by name, which are the newest ones and
/// those that count towards a confirmation. Returns an empty string if each of them is a witness of its own.
fn render_witnesses(memory: &Memory) -> String {
    let tentative = memory.tentative_runs.iter().map(|run| {
        let names = memory.witnesses_of_run(run).into_iter().map(str::to_owned);
        (run, names.collect::<Vec<_>>())
    });
    let shown = memory.evidence.iter().map(|evidence| (&evidence.run, evidence.witnesses()));
    let runs: BTreeMap<&RunId, Vec<String>> = tentative.chain(shown).collect();
    let mut seen = BTreeSet::new();
    let mut separate = 0;
    for names in runs.values() {
        separate += usize::from(names.iter().all(|name| !seen.contains(name)));
        seen.extend(names);
    }
    if separate == runs.len() {
        return String::new();
    }
    let noun = if separate == 1 { "witness" } else { "witnesses" };
    format!(" ({separate} separate {noun} behind {} of them)", runs.len())
}

/// Renders the reason why the memory is held and what a person can do, and who released it. Returns an empty
/// string if it was never held.
fn render_quarantine(memory: &Memory) -> String {
    let held = memory.quarantine.as_ref().map(|why| {
        let id = memory.id.short_id();
        // An outsider's rule is tentative: released, it would still be shown to nobody.
        let promotes = memory.status == MemoryStatus::Tentative && memory.authority.is_some();
        let open = if promotes { "rules promote" } else { "memories release" };
        let options =
            format!("use `retro {open} {id} --reason …` or `retro memories retire {id} --reason …`");
        let options = if memory.status.is_living() { format!("; {options}") } else { String::new() };
        format!("held for a person: {}{options}\n", text::single_line(why))
    });
    let released = memory.released_by.as_ref().map(|by| format!("released by {}\n", text::single_line(by)));
    held.into_iter().chain(released).collect()
}

/// Renders what people have decided about the memory: quarantine, disabling, pin and words. Returns an empty string if
/// they have decided nothing.
fn render_switches(memory: &Memory) -> String {
    let line = |by: &Option<String>, did: &str| {
        by.as_ref().map(|by| format!("{did} by {}\n", text::single_line(by)))
    };
    let lines = [
        line(&memory.disabled_by, "disabled"),
        line(&memory.pinned_by, "pinned"),
        line(&memory.added_by, "added"),
        line(&memory.lesson.worded_by, "worded"),
    ];
    let decided: String = lines.into_iter().flatten().collect();
    format!("{}{decided}", render_quarantine(memory))
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

/// Renders the evidence: the most recent quotes that support the memory, each with its origin.
pub(crate) fn render_evidence(memory: &Memory) -> String {
    let quotes = memory.evidence.iter().map(|evidence| {
        let (run, place) =
            (text::single_line(evidence.run.as_str()), text::describe_place(evidence.quote.place));
        let origin = text::describe_origin(&evidence.origin);
        format!("  {}\n    — run {run}, {place}{origin}\n", text::single_line(&evidence.quote.text))
    });
    let quotes: String = quotes.collect();
    if quotes.is_empty() { quotes } else { format!("evidence\n{quotes}") }
}

#[cfg(test)]
mod tests {
    use retro_core::finding::EvidenceOrigin;
    use retro_store::MemoryUsage;

    use crate::world::rich_world;

    #[test]
    fn a_held_memory_is_shown_with_the_reason_and_the_origins_of_its_evidence() {
        let world = rich_world();
        let mut memory = world.memory(world.memory_about("unknown column")).clone();
        memory.quarantine = Some("a person decides: Runs content of an address (“curl x | sh”)".to_owned());
        for evidence in &mut memory.evidence {
            let (user, task) = (Some("anna".to_owned()), Some("17".to_owned()));
            evidence.origin = EvidenceOrigin { user, task, source: None, repository: None };
        }
        memory.tentative_runs.clear();
        memory.tentative_witnesses.clear();
        let id = memory.id.short_id();
        let (usage, effect) = (MemoryUsage { presented: 7, read: 2, applied: 1 }, None);
        let shown = super::render_memory(&super::MemoryWithEffect {
            memory: memory.clone(),
            usage,
            effect,
            feedback: Vec::new(),
            saved_quotes: Vec::new(),
        });
        assert!(shown.contains("\npresented to 7 runs, read in 2, applied in 1\n"), "{shown}");
        for part in [
            " · active, held · ".to_owned(),
            "seen in 3 runs (1 separate witness behind 3 of them)".to_owned(),
            format!(
                "(“curl x | sh”); use `retro memories release {id} --reason …` or `retro memories retire {id} --reason …`\n"
            ),
            "— run run-10, answer to call 0 of turn 3, user anna, task 17\n".to_owned(),
        ] {
            assert!(shown.contains(&part), "{part:?} is not in\n{shown}");
        }
        (memory.quarantine, memory.released_by) = (None, Some("ann".to_owned()));
        let shown = super::render_memory(&super::MemoryWithEffect {
            memory,
            usage,
            effect: None,
            feedback: Vec::new(),
            saved_quotes: Vec::new(),
        });
        assert!(shown.contains("\nreleased by ann\n") && !shown.contains("held"), "{shown}");
    }

    #[test]
    fn a_memory_is_shown_with_its_cue_and_the_words_behind_it() {
        let world = rich_world();
        let memory = world.memory(world.memory_about("unknown column")).clone();
        let effect = Some("not known yet: handed to 7 and by chance withheld from 0 runs".to_owned());
        insta::assert_snapshot!(super::render_memory(&super::MemoryWithEffect {
            memory,
            usage: MemoryUsage::default(),
            effect,
            feedback: Vec::new(),
            saved_quotes: Vec::new(),
        }));
    }
}
