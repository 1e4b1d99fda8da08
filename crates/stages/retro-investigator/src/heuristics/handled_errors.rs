//! Tracks which errors of a run deserve a lesson and which already have one.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;
use retro_core::finding::InvestigationBrief;
use retro_core::id::Step;
use retro_gate::is_plain_name;

use super::call::Call;

/// Minimum weight, in thousandths, of a memory whose fix counts as known. Memories with a lower weight are
/// archived.
const FIX_WEIGHT_MIN: u16 = 50;

/// Errors of a run that already have a lesson. Each combination of step, tool and error gets at most one.
#[derive(Debug, Default)]
pub(super) struct HandledErrors {
    handled: HashSet<ErrorKey>,
    /// Errors whose fix is already known from a memory or from an earlier run of the retrospective.
    known_fixes: HashSet<ErrorKey>,
}

type ErrorKey = (Step, String, String);

/// Matches transient errors, which say nothing about how to make the call.
static TRANSIENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)rate.?limit|too many requests|\b429\b|\b50[234]\b|try again|temporar|overloaded|unavailable$|",
        r"connection (?:reset|refused|aborted|closed)|(?:request|connection|gateway|read|connect) time(?:d[ -])?out|",
        r"deadlock|lock wait|name resolution|bad gateway|gateway time-?out|lost connection|tls handshake|handshake\(?\)? failed|",
        r"\b(?:EAI_AGAIN|ETIMEDOUT|ECONNRESET|ECONNABORTED|EPIPE|ERR_NETWORK\w*)\b|network (?:is )?(?:changed|unreachable)|",
        r"operation was cancell?ed|stale element|not attached to the (?:DOM|page)"
    ))
    .expect("constant patterns compile")
});

impl HandledErrors {
    /// Creates a set without handled errors that knows the fixes in the brief's memories and earlier
    /// findings.
    pub(super) fn from_brief(brief: &InvestigationBrief) -> Self {
        let living = brief.memories.iter().filter(|memory| memory.weight.get() >= FIX_WEIGHT_MIN);
        let memories = living.filter_map(|memory| Some((memory.step.as_ref()?, &memory.cue)));
        let earlier = brief.earlier.iter().map(|one| (&one.finding.step, &one.finding.cue));
        let known = memories.chain(earlier).filter(|(_, cue)| cue.prefer.is_some());
        let keyed =
            known.filter_map(|(step, cue)| Some((step.clone(), cue.tool.clone()?, cue.error.clone()?)));
        Self { handled: HashSet::new(), known_fixes: keyed.collect() }
    }

    /// Returns `true` if the error needs a lesson and no fix for it is known. Retry loops and failures yield
    /// only warnings, which are pointless if a fix is known.
    pub(super) fn needs_warning(&self, step: &Step, call: &Call<'_>) -> bool {
        self.needs_lesson(step, call) && !self.known_fixes.contains(&error_key(step, call))
    }

    /// Returns `true` if the call failed with an error that has text, has no lesson yet, and may have one,
    /// because it is not transient. What the error says is judged by the gate when the lesson is stored.
    pub(super) fn needs_lesson(&self, step: &Step, call: &Call<'_>) -> bool {
        let error = call.error();
        !error.is_empty()
            && !is_transient_error(error)
            // The tool's name comes from the log and becomes part of a lesson.
            && is_plain_name(call.tool)
            && !self.handled.contains(&error_key(step, call))
    }

    /// Records that the error has a lesson.
    pub(super) fn mark_handled(&mut self, step: &Step, call: &Call<'_>) {
        self.handled.insert(error_key(step, call));
    }
}

/// Returns `true` if an error is transient. A timeout of the work itself is not transient.
pub(super) fn is_transient_error(error: &str) -> bool {
    TRANSIENT.is_match(error)
}

fn error_key(step: &Step, call: &Call<'_>) -> ErrorKey {
    (step.clone(), call.tool.to_owned(), call.error().to_owned())
}
