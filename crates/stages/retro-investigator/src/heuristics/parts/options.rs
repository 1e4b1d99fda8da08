//! Splits the words after a program into options with their values, and operands, by the conventions of command lines.

use std::collections::{BTreeMap, BTreeSet};

/// Returns `true` if a word is an option.
pub(super) fn is_option(word: &str) -> bool {
    word.len() > 1
        && word.starts_with('-')
        && word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Returns `true` if a word is a path, and no setting or text that contains one.
fn is_path(word: &str) -> bool {
    word.contains('/') && !word.contains(['=', '"', '\'', ' '])
}

/// Word of a command with the option that it belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Argument {
    /// Name of the option; empty for an operand.
    pub(super) option: String,
    /// Value of the option, or the operand; empty for an option without a value.
    pub(super) value: String,
    /// `true` if option and value are one word, joined by `=`.
    pub(super) joined: bool,
    /// `true` if the option is given several times, each time with a value.
    pub(super) repeated: bool,
    /// Index among the operands.
    pub(super) place: usize,
}

impl Argument {
    /// Returns the name of what is given: of an option that is given several times, with what stands before the `=` of
    /// its value, as in `-co BIGTIFF=YES`.
    pub(super) fn name(&self) -> String {
        match self.setting() {
            Some(setting) => format!("{} {setting}", self.option),
            None => self.option.clone(),
        }
    }

    /// Returns the name within the value of an option that is given several times, or the whole value.
    fn setting(&self) -> Option<&str> {
        let value = self.value.trim_matches(['"', '\'']);
        let name = value.split_once('=').or_else(|| value.split_once(": ")).map_or(value, |(name, _)| name);
        self.repeated.then_some(name)
    }

    /// Returns the words as they stand in the command.
    pub(super) fn text(&self) -> String {
        match (self.option.is_empty(), self.value.is_empty()) {
            (true, _) => self.value.clone(),
            (false, true) => self.option.clone(),
            (false, false) if self.joined => format!("{}={}", self.option, self.value),
            (false, false) => format!("{} {}", self.option, self.value),
        }
    }
}

/// Returns the options that are given several times, each time with another value: `-e A=1 -e B=2`.
fn repeated_options<'w>(words: &'w [String]) -> BTreeSet<&'w str> {
    let mut values: BTreeMap<&'w str, Vec<&'w str>> = BTreeMap::new();
    for (at, word) in words.iter().enumerate().filter(|(_, word)| is_option(word)) {
        let next = words.get(at + 1).map(String::as_str).filter(|next| !is_option(next));
        let (option, value) = word.split_once('=').unwrap_or((word, next.unwrap_or_default()));
        values.entry(option).or_default().push(value);
    }
    let differ = |values: &[&str]| {
        values.len() > 1
            && !values.contains(&"")
            && values.iter().collect::<BTreeSet<_>>().len() == values.len()
    };
    values.into_iter().filter(|(_, values)| differ(values)).map(|(option, _)| option).collect()
}

/// Splits the words after a program into options with their values, and operands. Which options take a value is not
/// known: the word after an option counts as its value if a subcommand came before and the word is no path, or if the
/// option is given several times, each time with another word after it.
pub(super) fn parse_arguments(words: &[String], others: &[String]) -> Vec<Argument> {
    let repeated: BTreeSet<&str> =
        repeated_options(words).into_iter().chain(repeated_options(others)).collect();
    let mut found: Vec<Argument> = Vec::new();
    let mut place = 0;
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if !is_option(word) {
            found.push(Argument { value: word.clone(), place, ..Argument::default() });
            place += 1;
            continue;
        }
        if let Some((option, value)) = word.split_once('=') {
            found.push(Argument {
                option: option.to_owned(),
                value: value.to_owned(),
                joined: true,
                repeated: repeated.contains(option),
                place: 0,
            });
            continue;
        }
        let is_repeated = repeated.contains(word.as_str());
        let is_new = |word: &String| !others.contains(word);
        let is_value = words.peek().is_some_and(|next| {
            !is_option(next)
                && (is_repeated || (place > 0 && !is_path(next)) || (is_new(word) && is_new(next)))
        });
        let value = if is_value { words.next().cloned().unwrap_or_default() } else { String::new() };
        found.push(Argument {
            option: word.clone(),
            repeated: is_repeated && !value.is_empty(),
            value,
            ..Argument::default()
        });
    }
    found
}

/// Separates an option from the word after it if that word is an operand of the other command: the option takes no
/// value.
pub(super) fn split_flags(arguments: Vec<Argument>, others: &[Argument]) -> Vec<Argument> {
    let is_operand = |value: &str| others.iter().any(|one| one.option.is_empty() && one.value == value);
    let mut split = Vec::with_capacity(arguments.len());
    for one in arguments {
        let is_whole = one.option.is_empty() || one.joined || one.repeated || one.value.is_empty();
        if is_whole || !is_operand(&one.value) {
            split.push(one);
            continue;
        }
        split.push(Argument { value: String::new(), ..one.clone() });
        split.push(Argument { option: String::new(), ..one });
    }
    let operands = split.iter_mut().filter(|one| one.option.is_empty());
    operands.enumerate().for_each(|(place, one)| one.place = place);
    split
}
