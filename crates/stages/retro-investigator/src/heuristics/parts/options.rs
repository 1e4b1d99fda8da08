//! Splits the words after a program into options with their values, and operands, by the conventions of command lines.

/// Returns `true` if a word is an option.
pub(super) fn is_option(word: &str) -> bool {
    word.len() > 1
        && word.starts_with('-')
        && word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Word of a command with the option that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    /// Name of the option; empty for an operand.
    pub(super) option: String,
    /// Value of the option, or the operand; empty for an option without a value.
    pub(super) value: String,
    /// `true` if option and value are one word, joined by `=`.
    pub(super) joined: bool,
    /// Index among the operands.
    pub(super) place: usize,
}

impl Argument {
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

/// Splits the words after a program into options with their values, and operands. Which options take a value is not
/// known: the word after an option counts as its value if a subcommand came before and the word is no path.
pub(super) fn parse_arguments(words: &[String], others: &[String]) -> Vec<Argument> {
    let mut found: Vec<Argument> = Vec::new();
    let mut place = 0;
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if !is_option(word) {
            found.push(Argument { option: String::new(), value: word.clone(), joined: false, place });
            place += 1;
            continue;
        }
        if let Some((option, value)) = word.split_once('=') {
            found.push(Argument {
                option: option.to_owned(),
                value: value.to_owned(),
                joined: true,
                place: 0,
            });
            continue;
        }
        let is_new = |word: &String| !others.contains(word);
        let is_value = words.peek().is_some_and(|next| {
            !is_option(next) && ((place > 0 && !next.contains('/')) || (is_new(word) && is_new(next)))
        });
        let value = if is_value { words.next().cloned().unwrap_or_default() } else { String::new() };
        found.push(Argument { option: word.clone(), value, joined: false, place: 0 });
    }
    found
}

/// Separates an option from the word after it if that word is an operand of the other command: the option takes no
/// value.
pub(super) fn split_flags(arguments: Vec<Argument>, others: &[Argument]) -> Vec<Argument> {
    let is_operand = |value: &str| others.iter().any(|one| one.option.is_empty() && one.value == value);
    let mut split = Vec::with_capacity(arguments.len());
    for one in arguments {
        if one.option.is_empty() || one.joined || one.value.is_empty() || !is_operand(&one.value) {
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
