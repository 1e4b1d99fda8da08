//! Splits a command line into its parts, by the conventions of shells.

use serde_json::{Map, Value};

use super::super::arguments::{Arguments, Command, basename, is_assignment};
use super::super::call::Call;
use super::options::is_option;

/// Part of a command line between two separators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// Variable assignments before the program.
    pub(super) assignments: Vec<String>,
    /// Program and its words.
    pub(super) words: Vec<String>,
    /// `true` if the segment gets the output of the one before it.
    pub(super) piped: bool,
}

impl Segment {
    pub(super) fn program(&self) -> &str {
        self.words.first().map_or("", |word| basename(word))
    }
}

/// Joins the words of each command substitution, as in `kill $(lsof -ti:80)`, to one word: it is a value.
fn join_substitutions(words: &[String]) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    let mut inner: Option<Vec<&str>> = None;
    for word in words {
        match (&mut inner, word.as_str()) {
            (None, "$(") => inner = Some(Vec::new()),
            (Some(within), ")") => {
                joined.push(format!("$({})", within.join(" ")));
                inner = None;
            }
            (Some(within), word) => within.push(word),
            (None, word) => joined.push(word.to_owned()),
        }
    }
    joined
}

/// Splits the words of a command line at `&&`, `||`, `;`, `|` and `&`.
pub(super) fn split_segments(words: &[String]) -> Vec<Segment> {
    let words = join_substitutions(words);
    let mut segments = Vec::new();
    let mut piped = false;
    for part in words.split_inclusive(|word| is_separator(word)) {
        let (own, separator) = match part.split_last() {
            Some((last, before)) if is_separator(last) => (before, Some(last.as_str())),
            _ => (part, None),
        };
        let own: Vec<&String> = own.iter().filter(|word| !matches!(word.as_str(), "(" | ")")).collect();
        let at = own.iter().position(|word| !is_assignment(word)).unwrap_or(own.len());
        let copy = |words: &[&String]| words.iter().map(|word| (*word).clone()).collect::<Vec<_>>();
        if at < own.len() {
            segments.push(Segment { assignments: copy(&own[..at]), words: copy(&own[at..]), piped });
        }
        piped = separator == Some("|");
    }
    segments
}

/// Returns the only parameter that is a list of words, as `["git", "push"]`, with the words.
pub(super) fn argument_list(map: &Map<String, Value>) -> Option<(String, Vec<String>)> {
    let words = |value: &Value| -> Option<Vec<String>> {
        let items = value.as_array().filter(|items| items.len() > 1)?;
        items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let mut lists = map.iter().filter_map(|(key, value)| Some((key, words(value)?)));
    let (key, list) = lists.next().filter(|_| lists.next().is_none())?;
    // A list of values has no options. The first word of a command is a program.
    let has_options = list.iter().skip(1).any(|word| word.starts_with('-'));
    let named = matches!(key.as_str(), "argv" | "args" | "command" | "cmd" | "arguments");
    ((has_options || named) && is_program(&list[0])).then(|| (key.clone(), list))
}

/// Returns `true` if a word can be the name of a program. A point reads a file of settings.
fn is_program(word: &str) -> bool {
    let name = basename(word);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.+-".contains(c));
    is_name || word == "."
}

fn is_separator(word: &str) -> bool {
    matches!(word, "&&" | "||" | ";" | "|" | "&")
}

/// Returns the words of a call that is a command; empty for any other call.
pub(in super::super) fn words_of(call: &Call<'_>) -> Vec<String> {
    command_of(call).unwrap_or_default()
}

/// Returns `true` if a text is a command line: it stands under a name for one, or looks like one. A query may be any
/// words.
pub(super) fn is_command_line(command: &Command) -> bool {
    let named = command
        .parameters
        .as_ref()
        .is_none_or(|map| ["command", "cmd", "script", "commands"].iter().any(|key| map.contains_key(*key)));
    let looks = || command.words.iter().any(|word| is_option(word) || is_separator(word));
    !command.sql
        && !command.code
        && command.words.first().is_some_and(|word| {
            is_program(word.split('=').next_back().unwrap_or(word)) || is_assignment(word)
        })
        && (named || looks())
}

/// Returns the words of a call that is a command; `None` for any other call.
pub(super) fn command_of(call: &Call<'_>) -> Option<Vec<String>> {
    match &call.arguments {
        Arguments::Command(command) if is_command_line(command) => Some(command.words.clone()),
        Arguments::Command(_) => None,
        Arguments::Object(map) => argument_list(map).map(|(_, words)| words),
    }
}
