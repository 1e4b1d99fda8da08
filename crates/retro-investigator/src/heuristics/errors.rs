//! Which errors of a run are worth a lesson, and which have one already.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;
use retro_core::finding::Brief;
use retro_core::id::Step;

use super::call::Call;
use super::manner::is_name;
use super::screen::commands_agents;

/// The least weight, in thousandths, of a memory whose way out counts as known: below it memories are archived.
const WAY_WEIGHT_MIN: u16 = 50;

/// The errors of a run that have been dealt with: one lesson an error, tool and step.
#[derive(Debug, Default)]
pub(super) struct Errors {
    closed: HashSet<Key>,
    /// Errors out of which a way is known already, from a memory or an earlier run.
    way_known: HashSet<Key>,
}

type Key = (Step, String, String);

/// Errors that pass by themselves. They say nothing about how to make the call.
static PASSING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)rate.?limit|too many requests|\b429\b|\b50[234]\b|try again|temporar|overloaded|unavailable$|",
        r"connection (?:reset|refused|aborted|closed)|(?:request|connection|gateway|read|connect) time(?:d[ -])?out|",
        r"deadlock|lock wait|name resolution|bad gateway|gateway time-?out|lost connection|tls handshake|handshake\(?\)? failed|",
        r"\b(?:EAI_AGAIN|ETIMEDOUT|ECONNRESET|ECONNABORTED|EPIPE|ERR_NETWORK\w*)\b|network (?:is )?(?:changed|unreachable)|",
        r"operation was cancell?ed|stale element|not attached to the (?:DOM|page)"
    ))
    .expect("a constant pattern")
});

impl Errors {
    /// Nothing dealt with yet; ways out that memories and earlier findings know.
    pub(super) fn of(brief: &Brief) -> Self {
        let living = brief.memories.iter().filter(|memory| memory.weight.get() >= WAY_WEIGHT_MIN);
        let memories = living.filter_map(|memory| Some((memory.step.as_ref()?, &memory.cue)));
        let earlier = brief.earlier.iter().map(|one| (&one.finding.step, &one.finding.cue));
        let known = memories.chain(earlier).filter(|(_, cue)| cue.prefer.is_some());
        let keyed =
            known.filter_map(|(step, cue)| Some((step.clone(), cue.tool.clone()?, cue.error.clone()?)));
        Self { closed: HashSet::new(), way_known: keyed.collect() }
    }

    /// Like [`Self::open`], for what is said only while no way out of the error is known.
    pub(super) fn open_without_way(&self, step: &Step, call: &Call<'_>) -> bool {
        self.open(step, call) && !self.way_known.contains(&key(step, call))
    }

    /// Whether the call failed with an error in words that a lesson can be about and that has none yet.
    pub(super) fn open(&self, step: &Step, call: &Call<'_>) -> bool {
        let error = call.error();
        !error.is_empty()
            && !passes(error)
            && !commands_agents(error)
            && is_name(call.tool)
            && !commands_agents(call.tool)
            && !self.closed.contains(&key(step, call))
    }

    /// The error has its lesson.
    pub(super) fn close(&mut self, step: &Step, call: &Call<'_>) {
        self.closed.insert(key(step, call));
    }
}

/// Whether an error passes by itself. Work that runs into its time limit does not.
pub(super) fn passes(error: &str) -> bool {
    PASSING.is_match(error)
}

fn key(step: &Step, call: &Call<'_>) -> Key {
    (step.clone(), call.tool.to_owned(), call.error().to_owned())
}
