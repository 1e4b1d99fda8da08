//! Finds actions in a text that the policy holds for a person.
//!
//! A text is folded and read as words with what stands between them. Options, keys and sentences are then
//! recognised by the meaning of their few parts, not by the tools that they belong to: `switches` reads
//! options and values with `special` and `exposure`, `phrases` reads sentences with `nouns`, `decisions` reads
//! what a person has to decide, `excuses` and `weakening` read what makes a check pass or find less, `pairs` reads subcommands,
//! `pipes` reads what a pipe hands on, `requests` reads what a request deletes or carries, `addresses` reads
//! the role that an address is given, and `remote`, `secrets`, `disclosure`, `deletion` (with `identifiers`)
//! and `powers` read commands. `polarity` and `refusal` decide if the text asks for what it mentions, so
//! "never commit the key" and "DROP TABLE permission denied" are no dangers.

mod addresses;
mod decisions;
mod deletion;
mod disclosure;
mod excuses;
mod exposure;
mod identifiers;
mod kind;
mod nouns;
mod pairs;
mod patterns;
mod phrases;
mod pipes;
mod polarity;
mod powers;
mod reading;
mod refusal;
mod remote;
mod requests;
mod secrets;
mod special;
mod switches;
mod weakening;
mod words;

#[cfg(test)]
mod tests;

pub use kind::{Danger, DangerSign};
pub(crate) use words::is_one_of;

use std::ops::Range;

use crate::TEXT_BYTES_MAX;
use crate::folded::FoldedViews;
use crate::reason::{Code, Reason, Strength};
use kind::Found;
use reading::{Reading, join_arrays};

/// Maximum length of an excerpt, in characters.
const EXCERPT_CHARS_MAX: usize = 120;

/// Finds the dangerous actions that a text leads to, at most one of each kind, sorted by kind. Takes time
/// linear in the text. Of a text longer than [`TEXT_BYTES_MAX`] only the first part is read.
pub fn find_dangers(text: &str) -> Vec<DangerSign> {
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    let views = FoldedViews::new(text);
    let joined = join_arrays(&views.plain.text);
    let reading = Reading::new(&joined);
    let mut found = Vec::new();
    switches::find_switches(&reading, &mut found);
    phrases::find_phrases(&reading, &mut found);
    remote::find_remote(&reading, &mut found);
    pipes::find_pipes(&reading, &mut found);
    requests::find_requests(&reading, &mut found);
    addresses::find_addresses(&reading, &mut found);
    secrets::find_secrets(&reading, &mut found);
    disclosure::find_disclosures(&reading, &mut found);
    exposure::find_exposures(&reading, &mut found);
    pairs::find_pairs(&reading, &mut found);
    decisions::find_decisions(&reading, &mut found);
    excuses::find_excuses(&reading, &mut found);
    weakening::find_weakening(&reading, &mut found);
    deletion::find_deletions(&reading, &mut found);
    powers::find_powers(&reading, &mut found);
    found.sort_by_key(|found| (found.danger, found.first));
    found.dedup_by_key(|found| found.danger);
    let sign = |found: &Found| {
        let place = reading.words[found.first].start..reading.words[found.last.max(found.first)].end;
        DangerSign { danger: found.danger, excerpt: format_excerpt(text, views.plain.source_range(place)) }
    };
    found.iter().map(sign).collect()
}

/// Formats the place of a danger as the reasons of the screen are formatted.
fn format_excerpt(text: &str, place: Range<usize>) -> String {
    let excerpt = Reason::new(Code::CommandToRun, Strength::Hint, text, place).excerpt;
    // Invisible characters are written out, which makes an excerpt longer.
    match excerpt.char_indices().nth(EXCERPT_CHARS_MAX - 1) {
        Some((end, last)) if end + last.len_utf8() < excerpt.len() => format!("{}…", &excerpt[..end]),
        _ => excerpt,
    }
}
