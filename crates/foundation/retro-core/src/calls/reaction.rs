//! What a run did about a call that failed: the part of a summary that a contrast counts.

use serde::{Deserialize, Serialize};

use crate::id::Step;

/// Maximum number of reactions in a summary, of parts in a reaction, and of forms of a part.
pub const REACTIONS_MAX: usize = 16;
/// Maximum number of parts in which a call may differ from the failing one. Nothing can be learnt from a call
/// that was written anew.
pub const PARTS_MAX: usize = 6;
/// Maximum number of ways in which a part is described.
pub const FORMS_MAX: usize = 6;
/// Maximum length of a form or of a word of a command, in characters.
pub const FORM_CHARS_MAX: usize = 96;
/// Maximum number of words of a preceding command.
pub const COMMAND_WORDS_MAX: usize = 12;

/// What a run did about a call that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reaction {
    /// Step of the call.
    pub step: Step,
    /// Tool, as named in the log.
    pub tool: String,
    /// Label of the call: the tool, or the program with its subcommands.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub call: String,
    /// Hash of what the failing call asked for ([`hash_label`](super::hash_label) of its shape): its words and values but
    /// those that differ from run to run. 0 if it is not known.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub shape: u32,
    /// Error with its changing parts masked, as in a lesson's cue.
    pub error: String,
    /// `true` if the words of the error say that it passes, such as "try again".
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub temporary: bool,
    /// `true` if the answer does not say that the call failed: the run changed and repeated the call at once, and
    /// was then answered in another way. Such a call may have succeeded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspected: bool,
    /// `true` if a suspected answer reads as a complaint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub complains: bool,
    /// Hashes of the names of the page or file that the error was read from: one page is one witness, however many
    /// runs read it. Empty if the tool itself reported the error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Number of times that the unchanged call failed again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeats_failed: u16,
    /// How the run went on.
    #[serde(flatten)]
    pub ending: ReactionEnding,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u16) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_unknown(hash: &u32) -> bool {
    *hash == 0
}

/// How a run went on after a failing call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "then", rename_all = "snake_case")]
pub enum ReactionEnding {
    /// No later call of the same kind succeeded.
    GaveUp,
    /// The identical call succeeded, and no other call came in between.
    Repeated,
    /// A call succeeded that differs in these parts, or the identical one after these calls.
    Changed {
        /// What is different.
        parts: Vec<ChangedPart>,
    },
}

/// One thing that is different in the call that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedPart {
    /// Place of the difference, equal in all runs: the path of a parameter, a program with its option, or the
    /// program or tool that was called before.
    pub slot: String,
    /// Descriptions of the difference, the most specific first, such as `` `day` = `2026-12-31` `` and
    /// `` `day` written YYYY-MM-DD ``. Empty if it cannot be described.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forms: Vec<String>,
    /// Words of a call that was made before: the program or tool, then what it was given. Empty for any other part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// What the failing call had in this place, in the form of the first of `forms`; `None` if there is nothing to
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid: Option<String>,
    /// `true` if the call that succeeded lacks what the failing call had. A smaller request may have succeeded
    /// only because it asked for less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
}

/// Beginning of the slot of a call that was made before.
pub const FIRST_SLOT: &str = "first ";
/// Beginning of the slot of another tool that was called instead.
pub const TOOL_SLOT: &str = "tool ";
/// End of the slot of another subcommand of the same program, and what stands before the subcommand in its form.
pub const SUBCOMMAND_SLOT: &str = " subcommand";
const PROGRAM_FORM: &str = "program `";

impl ChangedPart {
    /// Returns the label of another tool or subcommand that was called in the place of the failing one; `None` if the part
    /// is something else.
    pub fn replacement(&self) -> Option<String> {
        if let Some(tool) = self.slot.strip_prefix(TOOL_SLOT) {
            return Some(tool.to_owned());
        }
        let form = self.forms.first().filter(|_| self.slot.ends_with(SUBCOMMAND_SLOT))?;
        let command = form.strip_prefix(PROGRAM_FORM)?.strip_suffix('`')?;
        Some(label_of_words(&command.split(' ').map(str::to_owned).collect::<Vec<_>>()))
    }
}

/// Mark before a form, or before a word of a command, with a value that the task or an earlier answer names. Two runs
/// may have the same such value by accident, so more runs have to agree on it.
pub const VOLATILE_MARK: char = '…';

/// Maximum number of subcommands in the label of a command.
const SUBCOMMANDS_MAX: usize = 2;

/// Returns the label of a call that was made first, from its words: the tool, or the program with its subcommands.
pub fn label_of_words(words: &[String]) -> String {
    let is_subcommand = |word: &&String| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.len() <= 24
            && word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '_' || c == ':')
    };
    let (first, rest) = words.split_first().map_or((None, words), |(first, rest)| (Some(first), rest));
    let rest = rest.iter().skip_while(|word| word.starts_with('-'));
    let subcommands = rest.take_while(is_subcommand).take(SUBCOMMANDS_MAX);
    first.into_iter().chain(subcommands).map(String::as_str).collect::<Vec<_>>().join(" ")
}
