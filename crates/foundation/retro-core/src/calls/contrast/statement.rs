//! States the remedy that the runs past one error share.

use super::witness::{ReactionCounts, Witness, parts_of, to_count};
use crate::calls::reaction::{ChangedPart, FIRST_SLOT, VOLATILE_MARK};
use crate::id::RunId;

/// Minimum share of these runs that have a part of the remedy, in per cent.
const PART_SHARE_MIN: usize = 75;
/// Minimum share of the runs with a part that agree on its form, in per cent.
const FORM_SHARE_MIN: usize = 80;
/// Minimum number of runs that agree on a value which the task or an earlier answer names.
const VOLATILE_MIN: usize = 5;
/// Number of newest runs whose agreement is enough: a remedy may have been replaced by another in the same place.
const NEWEST: usize = 5;

/// Remedy that several runs share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedRemedy {
    /// Parts of the remedy in the order of the call, each in the most specific form in which the runs agree.
    pub parts: Vec<SharedPart>,
    /// Numbers behind it.
    pub counts: ReactionCounts,
    /// Runs that show it, the newest first.
    pub runs: Vec<RunId>,
}

/// Part of a shared remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedPart {
    /// Place of the part in the call.
    pub slot: String,
    /// Form of the part, as in `LessonCue::prefer`.
    pub form: String,
    /// What the failing calls have in this place, if all of them have the same.
    pub avoid: Option<String>,
}

impl SharedRemedy {
    /// Finds what the witnesses share of a run's own parts. Returns `None` if they share nothing that can be stated,
    /// or if a call before it cannot be: the rest would be the lesser half of the remedy.
    pub(super) fn find(
        tool: &str,
        own: &[&ChangedPart],
        alike: &[Witness<'_>],
        counts: ReactionCounts,
        may_drop: bool,
    ) -> Option<Self> {
        let mut parts = Vec::new();
        for part in own {
            let holders: Vec<&ChangedPart> =
                alike.iter().filter_map(|witness| find_part(witness, part, may_drop)).collect();
            if holders.len() * 100 < alike.len() * PART_SHARE_MIN {
                continue;
            }
            match shared_form(tool, part, &holders) {
                Some(form) => parts.push((
                    *part,
                    SharedPart { avoid: shared_avoid(part, &form, &holders), form, slot: part.slot.clone() },
                )),
                None if part.slot.starts_with(FIRST_SLOT) => return None,
                None => {}
            }
        }
        let shows_all = |witness: &&Witness<'_>| {
            parts.iter().all(|(own, shared)| {
                find_part(witness, own, may_drop).is_some_and(|part| has_form(part, &shared.form))
            })
        };
        let runs: Vec<RunId> = alike.iter().filter(shows_all).map(|witness| witness.run.clone()).collect();
        let counts = ReactionCounts { with_remedy: to_count(runs.len()), ..counts };
        let parts: Vec<SharedPart> = parts.into_iter().map(|(_, shared)| shared).collect();
        (!parts.is_empty()).then_some(Self { parts, counts, runs })
    }
}

/// Returns `true` if a part can be described in a form. What was called first has the words of the form.
fn has_form(part: &ChangedPart, form: &str) -> bool {
    let same = |other: &String| other.trim_start_matches(VOLATILE_MARK) == form;
    let command = form.strip_prefix("first `").and_then(|rest| rest.strip_suffix('`'));
    part.forms.iter().any(same)
        || command.is_some_and(|command| {
            let mut words = part.words.iter().map(|word| word.trim_start_matches(VOLATILE_MARK));
            command.split(' ').all(|wanted| words.any(|word| word == wanted))
        })
}

/// Returns what all holders had before, if the form is the most specific one: otherwise it is not what the form replaces.
fn shared_avoid(part: &ChangedPart, form: &str, holders: &[&ChangedPart]) -> Option<String> {
    let is_first = part.forms.first().is_some_and(|first| first == form);
    let avoid = part.avoid.as_ref().filter(|_| is_first)?;
    holders.iter().all(|one| one.avoid.as_ref() == Some(avoid)).then(|| avoid.clone())
}

/// Returns the part of a witness in the same place: of several calls before, the one that is most alike. What was only
/// dropped counts if the run ended well, or if runs do well without it (`may_drop`): an agent may have asked for less
/// and not got what it wanted.
fn find_part<'a>(witness: &Witness<'a>, part: &ChangedPart, may_drop: bool) -> Option<&'a ChangedPart> {
    let same = parts_of(witness.reaction).iter().filter(|other| other.slot == part.slot);
    let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
    let found = same.max_by_key(|other| common_words(&words, &other.words).len())?;
    (may_drop || !(found.dropped && witness.ended_badly)).then_some(found)
}

/// Returns the most specific form in which the holders of a part agree.
fn shared_form(tool: &str, part: &ChangedPart, holders: &[&ChangedPart]) -> Option<String> {
    let command = shared_command(tool, part, holders).map(|command| format!("first `{command}`"));
    let agree = |form: &&String, among: &[&ChangedPart], percent: usize| {
        let with = among.iter().filter(|one| one.forms.contains(form)).count();
        with * 100 >= among.len() * percent && (with >= VOLATILE_MIN || !form.starts_with(VOLATILE_MARK))
    };
    let newest = holders.get(..NEWEST).unwrap_or_default();
    let form = || {
        let is_shared = |form: &&String| {
            agree(form, holders, FORM_SHARE_MIN) || (!newest.is_empty() && agree(form, newest, 100))
        };
        part.forms.iter().find(is_shared)
    };
    command.or_else(|| form().map(|form| form.trim_start_matches(VOLATILE_MARK).to_owned()))
}

/// Returns the words that the calls of all holders have in common, in their order. The name of the failing tool alone
/// does not tell the call before from the failing one, so `None` is returned for it.
fn shared_command(tool: &str, part: &ChangedPart, holders: &[&ChangedPart]) -> Option<String> {
    let mut common: Vec<&str> = part.words.iter().map(String::as_str).collect();
    for holder in holders {
        common = common_words(&common, &holder.words);
    }
    if holders.len() < VOLATILE_MIN {
        common.retain(|word| !word.starts_with(VOLATILE_MARK));
    }
    // A mark without a word stands for a word that may not be shown.
    let words: Vec<&str> = common
        .iter()
        .map(|word| word.trim_start_matches(VOLATILE_MARK))
        .filter(|word| !word.is_empty())
        .collect();
    let starts = words.first().is_some_and(|first| part.words.first().is_some_and(|own| own == first));
    (starts && words != [tool]).then(|| words.join(" "))
}

/// Returns the longest common subsequence of words.
fn common_words<'a>(one: &[&'a str], other: &[String]) -> Vec<&'a str> {
    let mut longest = vec![vec![0usize; other.len() + 1]; one.len() + 1];
    for (i, word) in one.iter().enumerate().rev() {
        for (j, with) in other.iter().enumerate().rev() {
            longest[i][j] = if word == with {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut common) = (0, 0, Vec::new());
    while i < one.len() && j < other.len() {
        if one[i] == other[j] {
            common.push(one[i]);
            (i, j) = (i + 1, j + 1);
        } else if longest[i + 1][j] >= longest[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    common
}
