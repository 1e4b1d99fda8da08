//! Describes in which words two commands differ: programs, options with their values, and operands.
//!
//! Only the conventions of command lines are known here, no programs: words that begin with `-` are options, the
//! first word of a part between `&&`, `;` or `|` is a program, and what stands before an equal command is run
//! first.

use std::collections::BTreeSet;

use retro_core::calls::{ChangedPart, SUBCOMMAND_SLOT, VOLATILE_MARK, label_of_words};
use retro_gate::is_plain_name;

use super::super::arguments::basename;
use super::super::call::Call;
use super::command_line::{Segment, command_of, split_segments};
use super::first_call::{describe_command, first_label};
use super::options::{Argument, parse_arguments, split_flags};
use super::values::{describe_text_edit, is_shareable, states_value};
use super::{CallDifference, ValueOrigins, plain_part};

/// Beginning of the slot of a part of a command line that is no longer there.
pub(in super::super) const SEGMENT_SLOT: &str = "part ";
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
            Some(old) if a[old] == *segment => {}
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
        let mut part = plain_part(format!("{SEGMENT_SLOT}{}", segment.program()), Vec::new());
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
        if let Some(was) = was.filter(|_| !is_shareable(&one.text()))
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
            format!("{program}{SUBCOMMAND_SLOT}")
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
