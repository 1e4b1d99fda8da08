//! Describes calls that were made before the failing call was repeated: commands, calls of source code, and other calls.

use retro_core::calls::{
    COMMAND_WORDS_MAX, ChangedPart, FIRST_SLOT, FORM_CHARS_MAX, VOLATILE_MARK, label_of_words,
};
use retro_gate::is_plain_name;
use serde_json::Value;

use super::super::arguments::basename;
use super::super::call::Call;
use super::super::lookup;
use super::code;
use super::command_line::{command_of, split_segments};
use super::options::is_option;
use super::values::is_shareable;
use super::{ValueOrigins, plain_part};

/// Maximum length of a subcommand, in bytes.
const SUBCOMMAND_CHARS_MAX: usize = 24;
/// Minimum number of words of a command which an answer has in a row that is not a coincidence.
const DICTATED_WORDS_MIN: usize = 3;

/// Returns the part that a call was made first. Returns `None` if its name may not stand in a lesson. A call of the
/// tool that failed is told apart by what it was given.
pub(super) fn describe_first_call(
    call: &Call<'_>,
    tool: &str,
    origins: ValueOrigins<'_>,
) -> Option<ChangedPart> {
    if let Some(words) = command_of(call) {
        let segments = split_segments(&words);
        return describe_command(&segments.last()?.words, origins, Some(call));
    }
    if let Some(label) = lookup::lookup_label(call).filter(|_| call.arguments.as_command().is_some()) {
        let words = label.split(' ').map(str::to_owned).collect();
        return Some(ChangedPart { words, ..plain_part(format!("{FIRST_SLOT}{label}"), Vec::new()) });
    }
    let source = call.arguments.as_command().filter(|command| command.code);
    if let Some(name) = source.and_then(|command| code::first_called(&command.text)) {
        let part = plain_part(format!("{FIRST_SLOT}{name}"), Vec::new());
        return is_plain_name(name).then(|| ChangedPart { words: vec![name.to_owned()], ..part });
    }
    let map = call.arguments.parameters().filter(|_| is_plain_name(call.tool))?;
    let mut words = vec![call.tool.to_owned()];
    if call.tool == tool {
        let texts = map.values().filter_map(Value::as_str);
        let texts = texts.filter(|text| is_shareable(text) && !origins.error_names(text));
        let given = texts.flat_map(|text| basename(text).split_whitespace());
        words.extend(given.map(str::to_owned).take(COMMAND_WORDS_MAX - 1));
    }
    Some(ChangedPart { words, ..plain_part(format!("{FIRST_SLOT}{}", call.tool), Vec::new()) })
}

/// Returns the label of a call: its tool, or its program with the subcommands.
pub(in super::super) fn first_label(call: &Call<'_>) -> Option<String> {
    let nothing = ValueOrigins { task: "", error: "", failing: "", earlier: &[] };
    let part = describe_first_call(call, "", nothing)?;
    // A command whose words are not shown is still known by its program.
    let known = part.slot.strip_prefix(FIRST_SLOT).unwrap_or(&part.slot);
    Some(if part.words.is_empty() { known.to_owned() } else { label_of_words(&part.words) })
}

/// Returns the part that a command was run first, with its words. Words that the task names are marked. A command that
/// fetches, redirects or substitutes something has no words: a lesson must not repeat it.
pub(super) fn describe_command(
    words: &[String],
    origins: ValueOrigins<'_>,
    call: Option<&Call<'_>>,
) -> Option<ChangedPart> {
    let program = basename(words.first()?);
    if !is_plain_name(program) {
        return None;
    }
    let is_subcommand = |word: &&String| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.len() <= SUBCOMMAND_CHARS_MAX
            && word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '_')
    };
    let subcommand = words[1..].iter().find(|word| !is_option(word)).filter(is_subcommand);
    let slot = subcommand.map_or_else(|| program.to_owned(), |word| format!("{program} {word}"));
    let part = plain_part(format!("{FIRST_SLOT}{slot}"), Vec::new());
    let is_opaque = |word: &String| word.contains(['<', '>', '$', '|', '`']) || word.contains("://");
    if words.iter().any(is_opaque) {
        return Some(part);
    }
    let is_dictated = words.len() >= DICTATED_WORDS_MIN && origins.dictate(&words.join(" "), call);
    let rest = words.iter().skip(1).take(COMMAND_WORDS_MAX - 1);
    let shown = rest.map(|word| match subcommand {
        // The subcommand is what the command does, even if the task or the error says the same word.
        Some(subcommand) if word == subcommand => word.clone(),
        _ if is_dictated => VOLATILE_MARK.to_string(),
        _ => show_word(word, origins),
    });
    Some(ChangedPart { words: std::iter::once(program.to_owned()).chain(shown).collect(), ..part })
}

/// Returns `true` for a path of this machine, such as `/etc/krb5.keytab`.
fn is_local_path(word: &str) -> bool {
    word.starts_with('/') && !word.starts_with("//")
}

/// Returns `true` for the version of something with a plain name, such as `openmpi/4.1`. A package of somebody has a name
/// after the slash.
fn is_version(word: &str) -> bool {
    word.split_once('/').is_some_and(|(name, version)| {
        is_plain_name(name) && version.starts_with(|c: char| c.is_ascii_digit()) && !version.contains('/')
    })
}

/// Returns a word of a command as a lesson may show it: marked if the task names it, and only the mark if it is an
/// address, a package of somebody, or what the error demands.
fn show_word(word: &str, origins: ValueOrigins<'_>) -> String {
    let word = word.trim_matches(['"', '\'']);
    let is_option = is_option(word);
    let is_address = word.contains('@') || (word.contains('/') && !is_local_path(word) && !is_version(word));
    let is_anybodys = !is_option && (is_address || origins.error_names(word));
    if is_anybodys || !is_shareable(word) || word.chars().count() > FORM_CHARS_MAX {
        return VOLATILE_MARK.to_string();
    }
    if origins.task_names(word) { format!("{VOLATILE_MARK}{word}") } else { word.to_owned() }
}
