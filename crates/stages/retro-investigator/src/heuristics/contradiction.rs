//! Finds evidence against the memories in the brief. A run contradicts a memory if it shows that the opposite
//! helps, that the error disappears without the memory, or that the tool refuses exactly what the memory
//! prefers.

use std::sync::LazyLock;

use regex::Regex;
use retro_core::calls::ReactionEnding;
use retro_core::finding::{
    BriefMemory, Contradiction, Finding, FindingKind, MemoryVerdict, TransientError, VerdictRecord,
};
use retro_core::id::MemoryId;

use super::call::Call;
use super::manner::Manner;
use super::parts::{SEGMENT_SLOT, contains_value};
use super::reaction::SeenReaction;

/// Returns the memory of the same step and subject that a repair contradicts: the call made as the memory
/// advises failed, and the opposite call succeeded. A memory without `avoid` is contradicted by a repair that
/// avoids what the memory prefers.
pub(super) fn find_contradicted_memory(finding: &Finding, memories: &[BriefMemory]) -> Option<MemoryId> {
    let reversed = |memory: &&BriefMemory| {
        let prefers_the_failing = memory.cue.avoid.is_none()
            && memory.cue.tool == finding.cue.tool
            && memory.cue.prefer.is_some()
            && memory.cue.prefer == finding.cue.avoid;
        memory.step.as_ref() == Some(&finding.step)
            && memory.subject == finding.subject
            && (finding.cue.opposes(&memory.cue) || prefers_the_failing)
    };
    let shows = finding.kind == FindingKind::Repair;
    shows.then(|| memories.iter().find(reversed).map(|memory| memory.id))?
}

/// Returns the contradictions shown by transient errors and `harmed` verdicts. Contradictions shown by
/// findings are stored with the findings.
pub(super) fn find_contradictions(
    memories: &[BriefMemory],
    transients: &[TransientError],
    verdicts: &[VerdictRecord],
) -> Vec<Contradiction> {
    let passed = memories.iter().filter_map(|memory| {
        let about = |transient: &&TransientError| {
            memory.step.as_ref().is_some_and(|step| transient.matches_cue(step, &memory.cue))
        };
        let transient = transients.iter().find(about)?;
        let reason = format!("the very same call of `{}` got past “{}”", transient.tool, transient.error);
        build_contradiction(memory, reason, transient.quote.clone())
    });
    let harmed =
        verdicts.iter().filter(|judged| judged.verdict == MemoryVerdict::Harmed).filter_map(|judged| {
            let memory = memories.iter().find(|memory| memory.id == judged.memory)?;
            let quote = judged.quote.clone()?;
            let prefer = Manner::parse(memory.cue.prefer.as_deref()?);
            let refused = refuses_preference(&quote.text, &prefer);
            refused.then(|| {
                build_contradiction(memory, format!("called {prefer}, and the tool refuses just that"), quote)
            })?
        });
    passed.chain(harmed).collect()
}

/// Returns the contradictions shown by calls that followed a presented memory, failed, and succeeded without what the
/// memory says.
pub(super) fn find_undone_memories(
    memories: &[BriefMemory],
    seen: &[SeenReaction<'_>],
) -> Vec<Contradiction> {
    let undone = |memory: &BriefMemory| {
        let prefer = Manner::parse(memory.cue.prefer.as_deref()?);
        let follows = |call: &Call<'_>| prefer.applies_to(call) && prefer.matches_call(call);
        let found = seen.iter().find(|one| {
            one.worked.is_some_and(|worked| {
                memory.step.as_ref() == Some(&one.reaction.step)
                    && memory.cue.tool.as_deref() == Some(one.failing.tool)
                    // The subject of a lesson about calls begins with the tool.
                    && memory.subject.split(' ').next() == Some(one.failing.tool)
                    && worked.tool == one.failing.tool
                    && follows(one.failing)
                    && !prefer.matches_call(worked)
                    && !one.reaction.temporary
                    && matches!(&one.reaction.ending, ReactionEnding::Changed { parts } if parts.len() == 1)
            })
        })?;
        let reason = format!("called {prefer}, which failed; without it the call succeeded");
        build_contradiction(memory, reason, found.quote.clone()?)
    };
    let shown = memories.iter().filter(|memory| memory.presented);
    shown.filter(|memory| is_shown_by_call(memory)).filter_map(undone).collect()
}

/// Minimum length of a word that a remark names, in characters. Shorter ones stand in any sentence.
const NAMED_CHARS_MIN: usize = 3;

/// Returns the contradictions shown by calls with something that a presented remark names: they failed, and succeeded
/// once just that was removed.
pub(super) fn find_undone_remarks(memories: &[BriefMemory], seen: &[SeenReaction<'_>]) -> Vec<Contradiction> {
    let undone = |memory: &BriefMemory| {
        let of_step = seen.iter().filter(|one| memory.step.as_ref() == Some(&one.reaction.step));
        let (found, word) = of_step.into_iter().find_map(|one| {
            let named = removed_words(one).into_iter().find(|word| contains_value(&memory.title, word));
            Some((one, named?))
        })?;
        let reason = format!("called with `{word}`, which failed; without it the call succeeded");
        build_contradiction(memory, reason, found.quote.clone()?)
    };
    let remarks = memories.iter().filter(|memory| memory.presented && memory.cue.tool.is_none());
    remarks.filter_map(undone).collect()
}

/// Returns the only thing that a run removed from a failing call, such as an option, or the words of a command that it no
/// longer ran before. Empty if it did more.
fn removed_words<'s>(seen: &'s SeenReaction<'_>) -> Vec<&'s str> {
    let ReactionEnding::Changed { parts } = &seen.reaction.ending else { return Vec::new() };
    let [part] = parts.as_slice() else { return Vec::new() };
    // An answer that nothing says is wrong may just be followed by other work.
    if !part.dropped || (seen.reaction.suspected && !seen.reaction.complains) {
        return Vec::new();
    }
    // Just this was removed, so it matters little that the error reads as one that passes.
    let form = part.forms.first().and_then(|form| form.strip_suffix('`')?.split_once("without `"));
    let words: Vec<&str> = match (form, seen.worked.and_then(|worked| worked.arguments.as_command())) {
        (Some((_, word)), _) => vec![word],
        (None, Some(worked)) if part.slot.starts_with(SEGMENT_SLOT) => {
            let before = seen.failing.arguments.as_command().into_iter().flat_map(|command| &command.words);
            let removed = before.filter(|word| !worked.words.contains(word));
            removed.flat_map(|word| word.split(|c: char| !c.is_alphanumeric())).collect()
        }
        _ => Vec::new(),
    };
    words.into_iter().filter(|word| word.chars().count() >= NAMED_CHARS_MIN).collect()
}

fn is_shown_by_call(memory: &BriefMemory) -> bool {
    memory.cue.prefer.as_deref().is_some_and(|prefer| Manner::parse(prefer).shows_in_call())
}

fn build_contradiction(
    memory: &BriefMemory,
    reason: String,
    quote: retro_core::finding::Quote,
) -> Option<Contradiction> {
    let step = memory.step.clone()?;
    Some(Contradiction { memory: memory.id, step, subject: memory.subject.clone(), reason, quote })
}

/// Matches the words before a rejected name, such as "unknown argument". An error about the value of a known
/// name does not match.
static UNKNOWN_BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?:unknown|unexpected|unrecogni[sz]ed|unsupported|no such|extra|undefined|illegal|deprecated) (?:keyword )?",
        r"(?:argument|parameter|option|field|property|key|flag|input|attribute|value|choice|format|mode)s?:? ?$"
    ))
    .expect("constant patterns compile")
});
/// Matches the words after a rejected name, such as "is deprecated".
static REMOVED_AFTER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^ (?:(?:is|was|are|were|has been|have been) )?(?:no longer \w+|removed|retired|deprecated|disabled|forbidden|refused|",
        r"switched off|not (?:allowed|permitted))\b"
    ))
    .expect("constant patterns compile")
});
/// Matches the words after a rejected choice, option or tool. Not applied to parameters, because the words
/// after a parameter's name may be about its value.
static UNSUPPORTED_AFTER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^ (?:(?:is|was|are|were) )?(?:unknown|unsupported|unavailable|invalid|",
        r"not (?:an? )?(?:\w+ )?(?:supported|accepted|recogni[sz]ed|available|valid|known))\b"
    ))
    .expect("constant patterns compile")
});

/// Returns `true` if an error refuses exactly what a memory prefers.
fn refuses_preference(error: &str, prefer: &Manner) -> bool {
    let (name, is_parameter) = match prefer {
        Manner::WithParameter(name) => (name, true),
        Manner::Value(_, name)
        | Manner::WithOption(_, name)
        | Manner::Tool(name)
        | Manner::CalledFirst(name) => (name, false),
        _ => return false,
    };
    let error = normalize_text(error);
    let name = normalize_text(name.trim_start_matches('-'));
    let mut places = error.match_indices(name.as_str());
    !name.is_empty()
        && places.any(|(at, _)| {
            let (before, after) = (&error[..at], &error[at + name.len()..]);
            let is_whole_word =
                !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric);
            let removed =
                REMOVED_AFTER.is_match(after) || (!is_parameter && UNSUPPORTED_AFTER.is_match(after));
            is_whole_word && (UNKNOWN_BEFORE.is_match(before.trim_end_matches('-')) || removed)
        })
}

/// Returns the text in lower case, with each run of separators and quotation marks replaced by one space.
fn normalize_text(text: &str) -> String {
    let text = text.to_lowercase().replace(['_', '-', '`', '\'', '"', '“', '”', ':'], " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusing_a_preference_differs_from_refusing_a_value() {
        let with = |name: &str| Manner::WithParameter(name.to_owned());
        let value = |value: &str| Manner::Value("format".to_owned(), value.to_owned());
        let option = Manner::WithOption("tar".to_owned(), "--lzma".to_owned());
        for (error, prefer) in [
            ("Error: unknown argument drain", with("drain")),
            ("unexpected keyword argument 'skip_checks'", with("skip_checks")),
            ("skip_checks is not allowed on a production service", with("skip_checks")),
            ("Error: format csv was removed", value("csv")),
            ("`region` is no longer supported", with("region")),
            ("csv is not a supported format", value("csv")),
            ("tar: unrecognized option '--lzma'", option),
            ("open_session has been retired", Manner::CalledFirst("open_session".to_owned())),
        ] {
            assert!(refuses_preference(error, &prefer), "{error}");
        }
        for (error, prefer) in [
            ("Error: invalid region 'us-7'", with("region")),
            ("Error: region is not valid", with("region")),
            ("region is not available in your plan", with("region")),
            ("region unknown", with("region")),
            ("region us-7 is not allowed", with("region")),
            ("region is required", with("region")),
            ("unknown argument drained", with("drain")),
            ("drain is supported from version 3 on, this is 2", with("drain")),
            ("the node drain timed out", with("drain")),
        ] {
            assert!(!refuses_preference(error, &prefer), "{error}");
        }
    }
}
