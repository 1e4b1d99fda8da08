//! Describes in which parts a call that succeeded differs from a failing one, in ways that may hold in other runs.
//!
//! Every part is described several times, from the exact value to the mere presence of a parameter. Which
//! description is the lesson is not decided here: a contrast takes the most specific one in which the runs
//! agree. A description that holds in one run only is harmless, because no other run shares it.

mod code;
mod command_line;
mod commands;
mod first_call;
mod leaves;
mod options;
mod shape;
mod texts;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use retro_core::calls::{ChangedPart, FORM_CHARS_MAX, FORMS_MAX, PARTS_MAX, VOLATILE_MARK};
use serde_json::{Map, Value};

use super::arguments::{Arguments, Command};
use super::call::Call;
use super::quote::first_chars;

pub(super) use command_line::words_of;
use command_line::{argument_list, is_command_line};
pub(super) use commands::{SEGMENT_SLOT, is_same_goal, shared_words};
use first_call::describe_first_call;
pub(super) use first_call::first_label;
pub(super) use leaves::NESTING_MAX;
use leaves::{find_reshaped, flatten, flatten_above, name_of_path};
pub(super) use shape::call_shape;

/// Maximum number of new names in a statement whose suppliers are noted.
const SUPPLIERS_MAX: usize = 4;
/// Maximum number of characters of an answer in which values are searched for.
const ANSWER_CHARS_MAX: usize = 20_000;
/// Minimum length of a value that is searched for in other texts, in characters. Shorter ones occur everywhere.
const VALUE_CHARS_MIN: usize = 3;

/// Texts of the run in which a new value may have its origin.
#[derive(Clone, Copy)]
pub(super) struct ValueOrigins<'c> {
    /// What the agent was told to do.
    pub(super) task: &'c str,
    /// Answer of the failing call.
    pub(super) error: &'c str,
    /// Arguments of the failing call, as the log has them.
    pub(super) failing: &'c str,
    /// Calls before the one that succeeded, the newest first.
    pub(super) earlier: &'c [&'c Call<'c>],
}

/// What differs in a call that succeeded.
#[derive(Debug, Default)]
pub(super) struct CallDifference<'c> {
    /// The parts.
    pub(super) parts: Vec<ChangedPart>,
    /// Earlier calls whose answers hold new values.
    pub(super) suppliers: Vec<&'c Call<'c>>,
    /// New values that are long enough to be found in other calls.
    pub(super) values: Vec<String>,
}

/// Compares a failing call with a later one of the same tool. Returns `None` if they differ in too much.
pub(super) fn compare_calls<'c>(
    failing: &Call<'_>,
    worked: &Call<'_>,
    origins: ValueOrigins<'c>,
) -> Option<CallDifference<'c>> {
    let mut difference = CallDifference::default();
    let (before, after) = (&failing.arguments, &worked.arguments);
    match (before, after) {
        (Arguments::Command(a), Arguments::Command(b))
            if !is_command_line(a) && !a.sql && !a.code && a.parameters.is_some() =>
        {
            let (a, b) = (a.parameters.as_ref()?, b.parameters.as_ref()?);
            compare_parameters(a, b, origins, &mut difference);
        }
        (Arguments::Command(a), Arguments::Command(b)) => {
            if a.text != b.text {
                compare_texts(a, b, origins, &mut difference);
            }
            let settings =
                |command: &Command| command.parameters.as_ref().map(|map| without_command(map, command));
            let (a, b) = (settings(a).unwrap_or_default(), settings(b).unwrap_or_default());
            compare_parameters(&a, &b, origins, &mut difference);
        }
        (Arguments::Object(a), Arguments::Object(b)) => compare_parameters(a, b, origins, &mut difference),
        _ => return None,
    }
    difference.parts.retain(|part| part.slot.chars().count() <= FORM_CHARS_MAX);
    for part in &mut difference.parts {
        part.forms.retain(|form| form.chars().count() <= FORM_CHARS_MAX);
        part.forms.dedup();
        part.forms.truncate(FORMS_MAX);
    }
    (difference.parts.len() <= PARTS_MAX).then_some(difference)
}

/// Returns how much two calls of one tool have in common, in per cent. A parameter with another value counts half.
pub(super) fn similarity(a: &Call<'_>, b: &Call<'_>) -> usize {
    match (&a.arguments, &b.arguments) {
        (Arguments::Command(a), Arguments::Command(b)) => commands::shared_words(&a.words, &b.words),
        (Arguments::Object(a), Arguments::Object(b)) => {
            if let (Some(a), Some(b)) = (argument_list(a), argument_list(b)) {
                return commands::shared_words(&a.1, &b.1);
            }
            let (a, b) = (flatten(a), flatten(b));
            let all = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))).count().max(1);
            let shared: usize =
                a.iter().filter_map(|(key, value)| Some(if b.get(key)? == value { 2 } else { 1 })).sum();
            shared * 50 / all
        }
        _ => 0,
    }
}

fn without_command(map: &Map<String, Value>, command: &Command) -> Map<String, Value> {
    let is_command = |value: &Value| value.as_str().is_some_and(|text| text.contains(&command.text));
    map.iter()
        .filter(|(_, value)| !is_command(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn compare_texts<'c>(a: &Command, b: &Command, origins: ValueOrigins<'c>, found: &mut CallDifference<'c>) {
    if a.sql || b.sql || a.code || b.code {
        // Another statement is another way to say what is wanted, which no other run shares. What it names may come
        // from earlier answers: a table from one, a column from another.
        let new = b.words.iter().filter(|word| !a.words.contains(word));
        let names = new.map(|word| word.trim_matches(['`', '"', '\'']));
        found.suppliers.extend(names.filter_map(|name| origins.find_supplier(name)).take(SUPPLIERS_MAX));
        if found.add_keywords(&a.text, &b.text, origins) {
            return;
        }
        let holds_text = |map: &Map<String, Value>| {
            let mut names =
                map.iter().filter(|(_, value)| value.as_str().is_some_and(|text| text.contains(&b.text)));
            names.next().map(|(name, _)| name.clone())
        };
        match b.parameters.as_ref().and_then(holds_text) {
            Some(name) if found.add_pieces(&name, "", &a.text, &b.text, origins) => {}
            _ => found.parts.push(plain_part("statement".to_owned(), Vec::new())),
        }
        return;
    }
    commands::compare_words(&a.words, &b.words, origins, found);
}

fn compare_parameters<'c>(
    a: &Map<String, Value>,
    b: &Map<String, Value>,
    origins: ValueOrigins<'c>,
    found: &mut CallDifference<'c>,
) {
    if let (Some((key, before)), Some((other, after))) = (argument_list(a), argument_list(b))
        && key == other
    {
        if before != after {
            commands::compare_words(&before, &after, origins, found);
        }
        let rest = |map: &Map<String, Value>| -> Map<String, Value> {
            map.iter()
                .filter(|(name, _)| **name != key)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        return compare_parameters(&rest(a), &rest(b), origins, found);
    }
    let reshaped = find_reshaped(a, b);
    compare_leaves(&flatten_above(a, &reshaped), &flatten_above(b, &reshaped), origins, found);
}

fn compare_leaves<'c>(
    a: &BTreeMap<String, &Value>,
    b: &BTreeMap<String, &Value>,
    origins: ValueOrigins<'c>,
    found: &mut CallDifference<'c>,
) {
    let removed: Vec<_> = a.iter().filter(|(path, _)| !b.contains_key(*path)).collect();
    let names: BTreeSet<String> = a.keys().map(|path| name_of_path(path)).collect();
    let mut renamed = Vec::new();
    for (path, value) in b.iter().filter(|(path, value)| a.get(*path) != Some(value)) {
        let (before, name) = (a.get(path).copied(), name_of_path(path));
        let old =
            removed.iter().find(|(old, was)| before.is_none() && *was == value && !renamed.contains(old));
        renamed.extend(old.map(|(old, _)| *old));
        // What is done to the items of a list is done once.
        if found.parts.iter().any(|part| part.slot == name) {
            continue;
        }
        found.add_value(&name, before, value, origins);
        let Some(part) = found.parts.last_mut() else { continue };
        if let Some((old, _)) = old {
            part.avoid = Some(format!("with `{}`", name_of_path(old)));
            // The value is the same as before: only the name is the lesson.
            part.forms.retain(|form| form.starts_with("with "));
        } else if before.is_none() && names.contains(&name) {
            // Another item of a list, whose items had the parameter before.
            part.forms.retain(|form| !form.starts_with("with "));
        }
    }
    for (path, _) in removed.iter().filter(|(path, _)| !renamed.contains(path)) {
        let name = name_of_path(path);
        if found.parts.iter().any(|part| part.slot == name) {
            continue;
        }
        let form = values::is_name_of_parameter(&name).then(|| format!("without `{name}`"));
        let dropped = true;
        found.parts.push(ChangedPart { dropped, ..plain_part(name, form.into_iter().collect()) });
    }
}

impl<'c> CallDifference<'c> {
    /// Returns `true` if a call is given a new value, such as the name of a file that it makes.
    pub(super) fn is_prepared_by(&self, call: &Call<'_>) -> bool {
        self.values.iter().any(|value| contains_value(call.raw, value))
    }

    /// Adds the keyword arguments that are new in source code. Returns `false` if there are none.
    fn add_keywords(&mut self, before: &str, after: &str, origins: ValueOrigins<'c>) -> bool {
        let keywords = code::new_keywords(before, after);
        for one in &keywords {
            let (function, key, text) = (&one.function, &one.key, format!("{}={}", one.key, one.value));
            let value = one.value.trim_matches(['\'', '"']);
            let is_answered = origins.error_names(value) || origins.find_supplier(value).is_some();
            let mut forms = Vec::new();
            if values::is_shareable(&text) && !is_answered {
                let mark = if origins.task_names(value) { VOLATILE_MARK.to_string() } else { String::new() };
                forms.push(format!("{mark}`{function}` with `{text}`"));
            }
            forms.push(format!("`{function}` with `{key}`"));
            self.parts.push(plain_part(format!("{function} {key}="), forms));
        }
        !keywords.is_empty()
    }

    /// Adds the pieces in which two texts of one parameter or program differ. `argument` says that it is an argument of the
    /// program `name`. Returns `false` if the texts have too little in common.
    fn add_pieces(
        &mut self,
        name: &str,
        argument: &str,
        before: &str,
        after: &str,
        origins: ValueOrigins<'_>,
    ) -> bool {
        let pieces = texts::changed_pieces(before, after);
        for piece in &pieces {
            self.add_piece(&format!("`{name}`{argument}"), name, piece, before, origins);
        }
        !pieces.is_empty()
    }

    /// Adds the items that only one of two lists has. Returns `false` if the lists have too little in common.
    fn add_items(
        &mut self,
        name: &str,
        before: &[Value],
        after: &[Value],
        origins: ValueOrigins<'_>,
    ) -> bool {
        let items = texts::changed_items(before, after);
        let text = Value::Array(before.to_vec()).to_string();
        for item in &items {
            self.add_piece(&format!("`{name}`"), name, item, &text, origins);
        }
        !items.is_empty()
    }

    fn add_piece(
        &mut self,
        subject: &str,
        name: &str,
        piece: &texts::Piece,
        before: &str,
        origins: ValueOrigins<'_>,
    ) {
        // What an answer or the task chose is not stated.
        let is_known = |text: &str| {
            origins.error_demands(Some(before), text)
                || origins.find_supplier(text).is_some()
                || origins.task_names(text)
        };
        let mut forms = piece.describe(is_known);
        if forms.is_empty()
            && !piece.removed.is_empty()
            && let Some(quoted) = origins.quote_from_error(&piece.added)
        {
            forms.push(format!("containing what is named in the error, {quoted}"));
        }
        let forms = forms.into_iter().map(|form| format!("{subject} {form}"));
        let mut part = plain_part(format!("{name} text {}", piece.first_word()), forms.collect());
        part.dropped = piece.added.is_empty();
        self.parts.push(part);
    }

    fn add_new_value(&mut self, value: &str) {
        if value.chars().count() >= VALUE_CHARS_MIN {
            self.values.push(value.to_owned());
        }
    }

    /// Adds the part that a parameter has another value, or a value at all.
    fn add_value(&mut self, path: &str, before: Option<&Value>, after: &Value, origins: ValueOrigins<'c>) {
        let text = values::text_of(after);
        let supplier = origins.find_supplier(&text).filter(|_| !values::is_plain_choice(after));
        if !values::is_name_of_parameter(path) {
            self.parts.push(plain_part(path.to_owned(), Vec::new()));
            return;
        }
        if let (Some(Value::String(before)), Value::String(after)) = (before, after)
            && !values::is_shareable(after)
            && (self.add_keywords(before, after, origins)
                || self.add_pieces(path, "", before, after, origins))
        {
            return;
        }
        if let (Some(Value::Array(before)), Value::Array(after)) = (before, after)
            && self.add_items(path, before, after, origins)
        {
            return;
        }
        let forms = values::describe_value(path, before, after, origins, supplier);
        self.add_new_value(&text);
        if let Some(before) = before {
            self.add_keywords(&values::text_of(before), &text, origins);
        }
        let avoid = before
            .filter(|before| values::is_shareable(&values::text_of(before)))
            .map(|before| format!("`{path}` = `{}`", values::text_of(before)));
        self.suppliers.extend(supplier);
        self.parts.push(ChangedPart {
            slot: path.to_owned(),
            forms,
            words: Vec::new(),
            avoid,
            dropped: false,
        });
    }
}

impl<'c> ValueOrigins<'c> {
    /// Returns the newest earlier call whose answer contains a value.
    pub(super) fn find_supplier(&self, value: &str) -> Option<&'c Call<'c>> {
        let named = value.chars().count() >= VALUE_CHARS_MIN;
        let supplies = |call: &&&Call<'_>| contains_value(first_chars(call.answer, ANSWER_CHARS_MAX), value);
        named.then(|| self.earlier.iter().find(supplies).copied())?
    }

    /// Returns `true` if the error names a new value, or a piece of it that the old value did not have. Whoever writes an
    /// error could otherwise choose what a lesson tells an agent to give, and an agent can read it in the error.
    fn error_demands(&self, before: Option<&str>, value: &str) -> bool {
        // What the failing call said itself, an error may repeat.
        let is_new = |piece: &str| {
            before.is_none_or(|before| !contains_value(before, piece)) && !contains_value(self.failing, piece)
        };
        let is_named = |piece: &str| piece.chars().count() >= VALUE_CHARS_MIN && self.error_names(piece);
        self.error_names(value) || pieces_of(value).any(|piece| is_new(piece) && is_named(piece))
    }

    /// Returns a value as a quotation of the error that names it. Returns `None` if the error does not name it, or if
    /// it may not be quoted. What the tool said stands in a lesson as its words, never as ours.
    fn quote_from_error(&self, value: &str) -> Option<String> {
        let is_quotable = values::is_shareable(value) && !value.contains(['“', '”', '`']);
        (is_quotable && self.error_names(value)).then(|| format!("“{value}”"))
    }

    /// Returns `true` if the error names a value.
    fn error_names(&self, value: &str) -> bool {
        contains_value(first_chars(self.error, ANSWER_CHARS_MAX), value)
    }

    /// Returns `true` if an answer before a call, or the error, has the words of its command in a row: then somebody else
    /// wrote the command.
    fn dictate(&self, command: &str, call: Option<&Call<'_>>) -> bool {
        let place = |call: &Call<'_>| (call.turn, call.call_index);
        let is_before = |one: &&&Call<'_>| call.is_none_or(|call| place(one) < place(call));
        let answers = self.earlier.iter().filter(is_before).map(|one| one.answer);
        answers.chain([self.error]).any(|answer| first_chars(answer, ANSWER_CHARS_MAX).contains(command))
    }

    /// Returns `true` if the task names a value, or a part of it such as a folder.
    fn task_names(&self, value: &str) -> bool {
        let named = |part: &str| part.chars().count() >= VALUE_CHARS_MIN && contains_value(self.task, part);
        named(value) || pieces_of(value).any(named)
    }
}

/// Creates a part in which a value, an option or an operand differs.
fn plain_part(slot: String, forms: Vec<String>) -> ChangedPart {
    ChangedPart { slot, forms, words: Vec::new(), avoid: None, dropped: false }
}

/// Returns the words within a value, such as the folders of a path.
fn pieces_of(value: &str) -> impl Iterator<Item = &str> {
    value.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').filter(|piece| !piece.is_empty())
}

/// Returns `true` if a text contains a value as a word of its own.
pub(super) fn contains_value(text: &str, value: &str) -> bool {
    let joins = |neighbour: Option<char>, edge: Option<char>| {
        neighbour.is_some_and(char::is_alphanumeric) && edge.is_some_and(char::is_alphanumeric)
    };
    !value.is_empty()
        && text.match_indices(value).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + value.len()..]);
            !joins(before.chars().next_back(), value.chars().next())
                && !joins(after.chars().next(), value.chars().next_back())
        })
}

/// Returns the parts that calls were made before the failing call was repeated.
pub(super) fn first_parts<'c>(
    calls: impl IntoIterator<Item = &'c Call<'c>>,
    failing: &Call<'_>,
    origins: ValueOrigins<'_>,
) -> Vec<ChangedPart> {
    let mut parts: Vec<ChangedPart> = Vec::new();
    for call in calls {
        if let Some(part) = describe_first_call(call, failing.tool, origins)
            && !parts.contains(&part)
        {
            parts.push(part);
        }
    }
    parts
}
