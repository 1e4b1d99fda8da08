//! Finds actions in a text that the policy holds for a person.
//!
//! A text is folded and read as words with what stands between them. Options, keys and sentences are then
//! recognised by the meaning of their few parts, not by the tools that they belong to: `switches` reads
//! options and values with `special` and `exposure`, `phrases` reads sentences with `nouns`, `pairs` reads
//! subcommands, `addresses` reads the role that an address is given, and `remote`, `secrets`, `deletion` (with
//! `identifiers`) and `powers` read commands. `polarity` decides if the text asks for what it mentions, so
//! "never commit the key" is no danger.

mod addresses;
mod deletion;
mod exposure;
mod identifiers;
mod nouns;
mod pairs;
mod patterns;
mod phrases;
mod polarity;
mod powers;
mod reading;
mod remote;
mod secrets;
mod special;
mod switches;
mod words;

#[cfg(test)]
mod tests;

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::TEXT_BYTES_MAX;
use crate::folded::FoldedViews;
use crate::reason::{Code, Reason, Strength};
use reading::{Reading, join_arrays};

/// Kind of action that a memory may lead to and that the policy can hold for a person.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    IntoStaticStr,
    VariantArray,
    EnumString,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Danger {
    /// Content of an address is run by an interpreter.
    RemoteContent,
    /// A package is installed from an explicit address.
    PackageAddress,
    /// Verification or signing is turned off.
    VerificationOff,
    /// A secret is written where it is kept or seen.
    SecretKept,
    /// Hooks, reviews or tests are switched off.
    ChecksOff,
    /// Something is deleted that the run did not make.
    ForeignDelete,
    /// A package is installed by its name. Not held by default.
    PackageInstall,
    /// A command gets the rights of an administrator. Not held by default.
    Privilege,
    /// A command is forced. Not held by default.
    Force,
}

impl Danger {
    /// All dangers, in the order of declaration.
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    /// Dangers that the default policy holds for a person.
    pub const HELD_BY_DEFAULT: &'static [Self] = &[
        Self::RemoteContent,
        Self::PackageAddress,
        Self::VerificationOff,
        Self::SecretKept,
        Self::ChecksOff,
        Self::ForeignDelete,
    ];

    /// Returns the danger as stored and shown, such as `remote-content`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Describes the danger in one sentence for people.
    pub const fn description(self) -> &'static str {
        match self {
            Self::RemoteContent => "Runs content of an address.",
            Self::PackageAddress => "Installs a package from an explicit address.",
            Self::VerificationOff => "Turns verification or signing off.",
            Self::SecretKept => "Writes a secret where it is kept or seen.",
            Self::ChecksOff => "Switches hooks, reviews or tests off.",
            Self::ForeignDelete => "Deletes something that the run did not make.",
            Self::PackageInstall => "Installs a package by its name.",
            Self::Privilege => "Gives a command the rights of an administrator.",
            Self::Force => "Forces a command.",
        }
    }
}

/// A dangerous action in a text, with an excerpt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DangerSign {
    /// Kind of the action.
    pub danger: Danger,
    /// Text of the action on one line, shortened, without invisible characters.
    pub excerpt: String,
}

/// A dangerous action in a folded text: its first and last word.
#[derive(Debug, Clone, Copy)]
struct Found {
    danger: Danger,
    first: usize,
    last: usize,
}

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
    addresses::find_addresses(&reading, &mut found);
    secrets::find_secrets(&reading, &mut found);
    exposure::find_exposures(&reading, &mut found);
    pairs::find_pairs(&reading, &mut found);
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
