//! Reads the arguments of a call: the leaves by path, and the words of commands.

use std::collections::BTreeMap;

use serde_json::Value;

/// Returns the leaves of arguments by dotted path. A list is a leaf, unless it contains objects.
pub(super) fn flatten_arguments(arguments: &Value) -> BTreeMap<String, &Value> {
    fn collect<'v>(path: &str, value: &'v Value, out: &mut BTreeMap<String, &'v Value>) {
        let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match value {
            Value::Object(map) => {
                map.iter().for_each(|(key, item)| collect(&below(key), item, out));
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                items.iter().enumerate().for_each(|(at, item)| collect(&below(&at.to_string()), item, out));
            }
            leaf => {
                out.insert(path.to_owned(), leaf);
            }
        }
    }
    let mut out = BTreeMap::new();
    collect("", arguments, &mut out);
    out
}

/// Returns `true` if a name is a path, its last part, or an object that contains it. The name does not say which item of
/// a list is meant.
pub(super) fn is_path_of(path: &str, name: &str) -> bool {
    let bare = |path: &str| -> String {
        let is_place = |part: &&str| part.chars().all(|c| c.is_ascii_digit());
        path.split('.').filter(|part| !is_place(part)).collect::<Vec<_>>().join(".")
    };
    let is_same = |path: &str, name: &str| {
        path == name
            || path.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
            || path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
    };
    is_same(path, name) || is_same(&bare(path), name)
}

/// Returns the value with a dotted name, which does not say which item of a list is meant.
pub(super) fn value_named<'v>(arguments: &'v Value, name: &str) -> Option<&'v Value> {
    match arguments {
        Value::Array(items) => items.iter().find_map(|item| value_named(item, name)),
        _ => match name.split_once('.') {
            Some((first, rest)) => value_named(arguments.get(first)?, rest),
            None => arguments.get(name),
        },
    }
}

/// Returns the words of every command in some arguments: of texts, and of lists of texts.
pub(super) fn command_words(arguments: &Value) -> Vec<Vec<String>> {
    flatten_arguments(arguments).into_values().filter_map(split_command).collect()
}

pub(super) fn split_command(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(text.split_whitespace().map(str::to_owned).collect()),
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// Returns the words of a value that is a command: a list of texts, or a text with a blank.
pub(super) fn words_of_command(value: &Value) -> Option<Vec<String>> {
    split_command(value).filter(|words| value.is_array() || words.len() > 1)
}

/// Returns `true` if a phrase is among some words. A lesson may state a quoted argument without its quotes.
pub(super) fn contains_words(words: &[String], phrase: &str) -> bool {
    let phrase: Vec<&str> = phrase.split_whitespace().map(without_quotes).collect();
    !phrase.is_empty()
        && words
            .windows(phrase.len())
            .any(|some| some.iter().zip(&phrase).all(|(a, b)| without_quotes(a) == *b))
}

/// Returns a word without the quotes of the shell around it.
pub(super) fn without_quotes(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

/// Returns `true` if a command begins one of its parts with the first word of a phrase and has the others in their
/// order: `git push` is part of `git -C app push`.
pub(super) fn contains_in_order(words: &[String], phrase: &str) -> bool {
    let phrase: Vec<&str> = phrase.split_whitespace().collect();
    let Some((program, rest)) = phrase.split_first() else { return false };
    let is_separator = |word: &str| matches!(word, "&&" | "||" | ";" | "|");
    // Assignments and programs that run another one stand before it.
    let is_before_program = |word: &str| word.contains('=') || matches!(word, "sudo" | "env");
    let begins = |at: usize| {
        let mut before = words[..at].iter().rev().map(String::as_str);
        before.find(|word| !is_before_program(word)).is_none_or(is_separator)
    };
    // Where the program is installed does not count, unless the phrase says it.
    let names = |word: &str| {
        word == *program || (!program.contains('/') && word.rsplit('/').next() == Some(*program))
    };
    words.iter().enumerate().filter(|(at, word)| names(word) && begins(*at)).any(|(at, _)| {
        let mut following = words[at + 1..].iter().take_while(|word| !is_separator(word));
        rest.iter().all(|wanted| following.any(|word| word.trim_matches(['"', '\'']) == *wanted))
    })
}

pub(super) fn is_option(word: &str, option: &str) -> bool {
    word == option || word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
}
