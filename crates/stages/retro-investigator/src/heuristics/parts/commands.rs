//! Describes in which words two commands differ: programs, options with their values, and operands.
//!
//! Only the conventions of command lines are known here, no programs: words that begin with `-` are options, the
//! first word of a part between `&&`, `;` or `|` is a program, and what stands before an equal command is run
//! first.

use std::collections::BTreeSet;

use retro_core::calls::{
    COMMAND_WORDS_MAX, ChangedPart, FIRST_SLOT, FORM_CHARS_MAX, VOLATILE_MARK, label_of_words,
};
use retro_gate::is_plain_name;
use serde_json::{Map, Value};

use super::super::arguments::{Arguments, Command, basename, is_assignment};
use super::super::call::Call;
use super::super::lookup;
use super::options::{Argument, is_option, parse_arguments, split_flags};
use super::values::{describe_text_edit, is_shareable, states_value};
use super::{CallDifference, ValueOrigins, plain_part};

/// Maximum length of a subcommand, in bytes.
const SUBCOMMAND_CHARS_MAX: usize = 24;
/// Minimum number of words of a command which an answer has in a row that is not a coincidence.
const DICTATED_WORDS_MIN: usize = 3;
/// Minimum affinity of two parts of a command line that do the same work, and what the same program adds to it.
const AFFINITY_MIN: usize = 30;
const SAME_PROGRAM: usize = 40;

/// Returns the share of distinct words that two commands have in common, in per cent. Where the program is installed
/// does not count.
pub(in super::super) fn shared_words(a: &[String], b: &[String]) -> usize {
    let set = |words: &[String]| -> BTreeSet<String> {
        let program = words.first().map(|word| basename(word).to_lowercase());
        program.into_iter().chain(words.iter().skip(1).map(|word| word.to_lowercase())).collect()
    };
    let (a, b) = (set(a), set(b));
    a.intersection(&b).count() * 100 / a.union(&b).count().max(1)
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

fn is_program(word: &str) -> bool {
    let name = basename(word);
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.+-".contains(c))
}

fn is_separator(word: &str) -> bool {
    matches!(word, "&&" | "||" | ";" | "|" | "&")
}

/// Part of a command line between two separators.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    /// Variable assignments before the program.
    assignments: Vec<String>,
    /// Program and its words.
    words: Vec<String>,
    /// `true` if the segment gets the output of the one before it.
    piped: bool,
}

impl Segment {
    fn program(&self) -> &str {
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

fn split_segments(words: &[String]) -> Vec<Segment> {
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

/// Adds the parts in which two commands differ.
pub(super) fn compare_words<'c>(
    before: &[String],
    after: &[String],
    origins: ValueOrigins<'c>,
    found: &mut CallDifference<'c>,
) {
    let (a, b) = (split_segments(before), split_segments(after));
    let mut used = vec![false; a.len()];
    let matches: Vec<Option<usize>> = b
        .iter()
        .map(|segment| {
            let best = (0..a.len()).filter(|at| !used[*at]).map(|at| (affinity(&a[at], segment), at));
            // Two single commands do the same work, even with other words.
            let score_min = if a.len() == 1 && b.len() == 1 { 0 } else { AFFINITY_MIN };
            let (_, at) = best
                .filter(|(score, _)| *score >= score_min)
                .max_by_key(|(score, at)| (*score, usize::MAX - at))?;
            used[at] = true;
            Some(at)
        })
        .collect();
    for (at, segment) in b.iter().enumerate() {
        match matches[at] {
            Some(old) => SegmentComparison { before: &a[old], after: segment, origins }.add_parts(found),
            None if segment.piped => {
                found.parts.push(plain_part(format!("pipe {}", segment.program()), Vec::new()));
            }
            None => {
                found.parts.extend(describe_command(&segment.words, origins, None));
            }
        }
    }
    for (segment, _) in a.iter().zip(&used).filter(|(_, used)| !**used) {
        let mut part = plain_part(format!("part {}", segment.program()), Vec::new());
        part.dropped = true;
        found.parts.push(part);
    }
}

/// Returns how much two segments have in common, in per cent, with a bonus for the same program.
fn affinity(a: &Segment, b: &Segment) -> usize {
    let same = if a.program() == b.program() { SAME_PROGRAM } else { 0 };
    shared_words(&a.words, &b.words) + same
}

/// Two segments that do the same work.
struct SegmentComparison<'s, 'c> {
    before: &'s Segment,
    after: &'s Segment,
    origins: ValueOrigins<'c>,
}

impl<'c> SegmentComparison<'_, 'c> {
    fn add_parts(&self, found: &mut CallDifference<'c>) {
        let program = self.after.program().to_owned();
        if !is_plain_name(&program) {
            found.parts.push(plain_part("command".to_owned(), Vec::new()));
            return;
        }
        let new = self.after.assignments.iter().filter(|one| !self.before.assignments.contains(one));
        for assignment in new {
            let name = assignment.split('=').next().unwrap_or_default();
            let mut forms = Vec::new();
            let (_, value) = assignment.split_once('=').unwrap_or_default();
            if is_shareable(assignment) && !self.origins.error_demands(None, value) {
                forms.push(format!("{}`{program}` with `{assignment}`", self.mark(assignment)));
            }
            forms.push(format!("`{program}` with `{name}`"));
            found.parts.push(plain_part(format!("{program} {name}="), forms));
        }
        let mut after_words: &[String] = &self.after.words[1..];
        if self.before.program() == program && self.before.words[0] != self.after.words[0] {
            // The same program, installed in another place.
            let path = &self.after.words[0];
            let forms = is_shareable(path).then(|| format!("program `{path}`")).into_iter().collect();
            found.parts.push(plain_part("program".to_owned(), forms));
        }
        if self.before.program() != program {
            let old = self.before.program();
            // A program before the whole command, as `bundle exec`, or another program for the same work.
            let wrapped = self
                .after
                .words
                .iter()
                .position(|word| basename(word) == old)
                .filter(|at| *at > 0 && self.before.words.get(1..) == self.after.words.get(at + 1..));
            let text = match wrapped {
                Some(at) => {
                    after_words = &self.after.words[at + 1..];
                    self.after.words[..=at].join(" ")
                }
                None => self.after.words[0].clone(),
            };
            let mut part = plain_part("program".to_owned(), Vec::new());
            if is_shareable(&text) {
                part.forms.push(format!("program `{text}`"));
            }
            // A program before another is no other program.
            part.avoid = (wrapped.is_none() && is_plain_name(old)).then(|| format!("program `{old}`"));
            found.parts.push(part);
        }
        let before_words = &self.before.words[1..];
        let (old, new) =
            (parse_arguments(before_words, after_words), parse_arguments(after_words, before_words));
        let (old, new) = (split_flags(old.clone(), &new), split_flags(new, &old));
        self.compare_arguments(&program, &old, &new, found);
    }

    fn compare_arguments(
        &self,
        program: &str,
        old: &[Argument],
        new: &[Argument],
        found: &mut CallDifference<'c>,
    ) {
        let is_kept = |one: &Argument, among: &[Argument]| {
            among.iter().any(|other| other.option == one.option && other.value == one.value)
        };
        let added: Vec<&Argument> = new.iter().filter(|one| !is_kept(one, old)).collect();
        let mut removed: Vec<&Argument> = old.iter().filter(|one| !is_kept(one, new)).collect();
        if added.is_empty() && removed.is_empty() && old != new {
            let moved = new.iter().zip(old).find(|(one, other)| one != other).map(|(one, _)| one.text());
            let form =
                moved.filter(|text| is_shareable(text)).map(|text| format!("`{text}` in another place"));
            found.parts.push(plain_part(format!("{program} order"), form.into_iter().collect()));
            return;
        }
        for one in added {
            let same = |other: &&Argument| match one.option.is_empty() {
                false => other.name() == one.name(),
                true => other.option.is_empty() && (other.place == one.place || removed.len() == 1),
            };
            let was = removed.iter().position(same).map(|at| removed.remove(at));
            self.add_argument(program, was, one, found);
        }
        for one in removed {
            let (slot, text) = match one.option.is_empty() {
                true => (format!("{program} operand"), one.value.clone()),
                false if one.repeated => (format!("{program} {}", one.name()), one.text()),
                false => (format!("{program} {}", one.option), one.option.clone()),
            };
            let forms = is_shareable(&text).then(|| format!("`{program}` without `{text}`"));
            let mut part = plain_part(slot, forms.into_iter().collect());
            part.dropped = true;
            found.parts.push(part);
        }
    }

    fn add_argument(
        &self,
        program: &str,
        was: Option<&Argument>,
        one: &Argument,
        found: &mut CallDifference<'c>,
    ) {
        let value = one.value.trim_matches(['"', '\'']);
        if let Some(was) = was.filter(|_| !is_shareable(value))
            && found.add_pieces(program, " with an argument", &was.value, &one.value, self.origins)
        {
            return;
        }
        let supplier = if value.is_empty() { None } else { self.origins.find_supplier(value) };
        found.suppliers.extend(supplier);
        found.add_new_value(value);
        let text = one.text();
        let mut forms = Vec::new();
        let is_subcommand = one.option.is_empty()
            && one.place == 0
            && value.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == ':');
        let slot = if !one.option.is_empty() {
            format!("{program} {}", one.name())
        } else if is_subcommand {
            format!("{program} subcommand")
        } else {
            format!("{program} operand")
        };
        let old_value = was.map(|was| was.value.as_str());
        // A value that an answer of this run chose is not stated.
        let is_answered = supplier.is_some() || self.origins.error_demands(old_value, value);
        if is_shareable(&text) && is_subcommand {
            forms.push(format!("program `{program} {text}`"));
        } else if is_shareable(&text) && !is_answered {
            forms.push(format!("{}`{program}` with `{text}`", self.mark(value)));
        } else if (was.is_some() || one.repeated)
            && !one.option.is_empty()
            && let Some(quoted) = self.origins.quote_from_error(value)
        {
            forms.push(format!("`{program}` with `{}` as named in the error, {quoted}", one.option));
        }
        if let Some(was) = was.filter(|_| !is_subcommand) {
            let edit =
                describe_text_edit(&was.value, value).filter(|edit| !(is_answered && states_value(edit)));
            forms.extend(edit.map(|edit| format!("`{program}` with an argument {edit}")));
        }
        match supplier.and_then(first_label) {
            Some(label) if one.option.is_empty() => {
                forms.push(format!("`{program}` with a value from `{label}`"));
            }
            Some(label) => forms.push(format!("`{program}` with `{}` from `{label}`", one.option)),
            None => {}
        }
        // The value differs between runs, and the option is the lesson if the failing command lacks it.
        let states_answer = one.repeated && is_answered;
        if !one.option.is_empty() && was.is_none() && !one.value.is_empty() && !states_answer {
            let name = one.name();
            forms.extend(is_shareable(&name).then(|| format!("`{program}` with `{name}`")));
        }
        let avoid =
            was.map(Argument::text).filter(|text| is_shareable(text)).map(|text| match is_subcommand {
                true => format!("program `{program} {text}`"),
                false => format!("`{program}` with `{text}`"),
            });
        found.parts.push(ChangedPart { slot, forms, words: Vec::new(), avoid, dropped: false });
    }

    fn mark(&self, value: &str) -> String {
        if self.origins.task_names(value) { VOLATILE_MARK.to_string() } else { String::new() }
    }
}

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

/// Returns `true` if two calls of one tool do the same kind of work: commands with the same program and subcommand, or
/// other calls that say to do the same.
pub(in super::super) fn is_same_goal(a_call: &Call<'_>, b_call: &Call<'_>) -> bool {
    let last_command = |call: &Call<'_>| {
        let mut words = split_segments(&command_of(call)?).pop()?.words;
        words[0] = basename(&words[0]).to_owned();
        Some(words)
    };
    let goal =
        |words: &[String]| label_of_words(words).split(' ').take(2).map(str::to_owned).collect::<Vec<_>>();
    match (last_command(a_call), last_command(b_call)) {
        (Some(a), Some(b)) => goal(&a) == goal(&b) || adds_words(&a, &b) || adds_words(&b, &a),
        (a, b) => a.is_none() && b.is_none() && operation_of(a_call) == operation_of(b_call),
    }
}

/// Names of parameters that say what a call does.
const OPERATION_NAMES: [&str; 6] = ["command", "cmd", "function", "operation", "action", "method"];

/// Returns the first word of the parameter that says what a call does; `None` if there is none.
fn operation_of<'c>(call: &'c Call<'_>) -> Option<&'c str> {
    let map = call.arguments.parameters()?;
    let text = OPERATION_NAMES.iter().find_map(|name| map.get(*name)?.as_str())?;
    text.split_whitespace().next()
}

/// Returns `true` if some words are others with words added in between, and begin with the same program.
fn adds_words(some: &[String], others: &[String]) -> bool {
    let mut rest = some.iter();
    some.first() == others.first() && others.iter().all(|wanted| rest.any(|word| word == wanted))
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
        && !command.program
        && command.words.first().is_some_and(|word| {
            is_program(word.split('=').next_back().unwrap_or(word)) || is_assignment(word)
        })
        && (named || looks())
}

fn command_of(call: &Call<'_>) -> Option<Vec<String>> {
    match &call.arguments {
        Arguments::Command(command) if is_command_line(command) => Some(command.words.clone()),
        Arguments::Command(_) => None,
        Arguments::Object(map) => argument_list(map).map(|(_, words)| words),
    }
}

/// Returns the part that a command was run first, with its words. Words that the task names are marked. A command that
/// fetches, redirects or substitutes something has no words: a lesson must not repeat it.
fn describe_command(
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
