//! Contradictions: a run shows the reverse of what a known memory says, or that there is nothing to mind, or the tool itself
//! refuses what the memory prefers.

use std::sync::LazyLock;

use regex::Regex;
use retro_core::finding::{
    Contradiction, Finding, FindingKind, KnownMemory, MemoryVerdict, Transient, Verdict,
};
use retro_core::id::MemoryId;

use super::manner::Manner;

/// The memory of the same step and subject that a repair reverses: following it failed and doing the opposite
/// succeeded. A memory that names nothing to avoid is reversed by a repair that avoids what it prefers.
pub(super) fn contradicted(finding: &Finding, memories: &[KnownMemory]) -> Option<MemoryId> {
    let reversed = |memory: &&KnownMemory| {
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

/// What speaks against known memories, beside what findings contradict.
pub(super) fn beside_findings(
    memories: &[KnownMemory],
    transients: &[Transient],
    verdicts: &[MemoryVerdict],
) -> Vec<Contradiction> {
    let passed = memories.iter().filter_map(|memory| {
        let about = |transient: &&Transient| {
            memory.step.as_ref().is_some_and(|step| transient.is_subject_of(step, &memory.cue))
        };
        let transient = transients.iter().find(about)?;
        let reason = format!("the very same call of `{}` got past “{}”", transient.tool, transient.error);
        against(memory, reason, transient.quote.clone())
    });
    let harmed = verdicts.iter().filter(|said| said.verdict == Verdict::Harmed).filter_map(|said| {
        let memory = memories.iter().find(|memory| memory.id == said.memory)?;
        let quote = said.quote.clone()?;
        let prefer = Manner::read(memory.cue.prefer.as_deref()?);
        let refused = refuses(&quote.text, &prefer);
        refused.then(|| against(memory, format!("called {prefer}, and the tool refuses just that"), quote))?
    });
    passed.chain(harmed).collect()
}

fn against(memory: &KnownMemory, reason: String, quote: retro_core::finding::Quote) -> Option<Contradiction> {
    let step = memory.step.clone()?;
    Some(Contradiction { memory: memory.id, step, subject: memory.subject.clone(), reason, quote })
}

/// Words in front of a name that is refused as such, and behind it. A value of it that is wrong is not meant.
static UNKNOWN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?:unknown|unexpected|unrecogni[sz]ed|unsupported|no such|extra|undefined|illegal|deprecated) (?:keyword )?",
        r"(?:argument|parameter|option|field|property|key|flag|input|attribute|value|choice|format|mode)s?:? ?$"
    ))
    .expect("a constant pattern")
});
static GONE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^ (?:(?:is|was|are|were|has been|have been) )?(?:no longer \w+|removed|retired|deprecated|disabled|forbidden|refused|",
        r"switched off|not (?:allowed|permitted))\b"
    ))
    .expect("a constant pattern")
});
/// What is said behind a refused choice, option or tool. Behind a parameter it may be its value that is meant.
static NOT_ONE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^ (?:(?:is|was|are|were) )?(?:unknown|unsupported|unavailable|invalid|",
        r"not (?:an? )?(?:\w+ )?(?:supported|accepted|recogni[sz]ed|available|valid|known))\b"
    ))
    .expect("a constant pattern")
});

/// Whether an error refuses the very thing that a memory prefers.
fn refuses(error: &str, prefer: &Manner) -> bool {
    let (name, is_parameter) = match prefer {
        Manner::With(name) => (name, true),
        Manner::Value(_, name) | Manner::Option(_, name) | Manner::Tool(name) | Manner::First(name) => {
            (name, false)
        }
        _ => return false,
    };
    let error = plain(error);
    let name = plain(name.trim_start_matches('-'));
    let mut places = error.match_indices(name.as_str());
    !name.is_empty()
        && places.any(|(at, _)| {
            let (before, after) = (&error[..at], &error[at + name.len()..]);
            let whole = !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric);
            let gone = GONE.is_match(after) || (!is_parameter && NOT_ONE.is_match(after));
            whole && (UNKNOWN.is_match(before.trim_end_matches('-')) || gone)
        })
}

/// Lower case, and every joint and mark around names a blank, one at a time.
fn plain(text: &str) -> String {
    let text = text.to_lowercase().replace(['_', '-', '`', '\'', '"', '“', '”', ':'], " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_refuses_what_a_memory_prefers_is_told_from_one_that_refuses_a_value() {
        let with = |name: &str| Manner::With(name.to_owned());
        let value = |value: &str| Manner::Value("format".to_owned(), value.to_owned());
        let option = Manner::Option("tar".to_owned(), "--lzma".to_owned());
        for (error, prefer) in [
            ("Error: unknown argument drain", with("drain")),
            ("unexpected keyword argument 'skip_checks'", with("skip_checks")),
            ("skip_checks is not allowed on a production service", with("skip_checks")),
            ("Error: format csv was removed", value("csv")),
            ("`region` is no longer supported", with("region")),
            ("csv is not a supported format", value("csv")),
            ("tar: unrecognized option '--lzma'", option),
            ("open_session has been retired", Manner::First("open_session".to_owned())),
        ] {
            assert!(refuses(error, &prefer), "{error}");
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
            assert!(!refuses(error, &prefer), "{error}");
        }
    }
}
