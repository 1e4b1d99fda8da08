//! Compares what a lesson tells an agent to do, in structure, with the change that is the remedy in the world.

mod arguments;

use std::collections::BTreeMap;

use serde_json::Value;

use arguments::{
    command_words, contains_in_order, contains_words, flatten_arguments, is_option, is_path_of, value_named,
    without_quotes, words_of_command,
};

use crate::closed_loop::form::leads_to;
use crate::closed_loop::lesson::{Element, Lesson, format_value};
use crate::closed_loop::world::{Values, placeholder_names};

/// Number of examples with which a form is checked.
const EXAMPLES: u32 = 12;

/// A call as a world's file writes it, with placeholders.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannedCall<'w> {
    pub(crate) tool: &'w str,
    pub(crate) arguments: &'w Value,
}

/// The change from a call that fails to calls that succeed.
#[derive(Debug, Clone)]
pub(crate) struct Remedy<'w> {
    pub(crate) wrong: PlannedCall<'w>,
    pub(crate) right: PlannedCall<'w>,
    /// Calls that must precede the right one.
    pub(crate) first: Vec<PlannedCall<'w>>,
    /// `true` if the right call works only some time after the wrong one.
    pub(crate) waits: bool,
    /// Sources of the values of the placeholders; `None` if there are none.
    pub(crate) values: Option<&'w Values>,
}

/// Result of comparing a lesson with a remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// The lesson states the whole remedy.
    Whole,
    /// Everything that the lesson states is part of the remedy, but it is not all of it.
    Part,
    /// The lesson has no structure that could be compared.
    Unknown,
    /// The lesson is about another tool, or states something that is not part of the remedy.
    Against,
}

/// One thing in which the right call differs from the wrong one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Edit {
    /// The parameter with this path was added, removed or changed.
    Parameter(String),
    /// This word of a command was added, or removed if nothing was added.
    Word(String),
    /// Another tool is called.
    Tool,
    /// The preceding call with this index.
    First(usize),
    /// Nothing but time: the same call succeeds later.
    Again,
}

/// What one element of a lesson says about the remedy.
enum Fit {
    /// The element states these edits.
    States(Vec<Edit>),
    /// The element is about the remedy, but its form cannot be compared.
    Related,
    /// Nothing can be said.
    Unknown,
    /// The element is not part of the remedy.
    Wrong,
}

impl Remedy<'_> {
    /// Compares the structure of a lesson with the remedy. Letter case counts.
    pub(crate) fn compare(&self, lesson: &Lesson) -> Agreement {
        if lesson.tool.as_deref().is_some_and(|tool| !self.names().iter().any(|name| name == tool)) {
            return Agreement::Against;
        }
        if lesson.avoid.iter().any(|element| matches!(self.fit(element), Fit::States(_))) {
            return Agreement::Against;
        }
        let mut stated = Vec::new();
        let mut related = false;
        for element in &lesson.prefer {
            match self.fit(element) {
                Fit::States(edits) => stated.extend(edits),
                Fit::Related => related = true,
                Fit::Unknown => {}
                Fit::Wrong => return Agreement::Against,
            }
        }
        // "`b` instead of `a`" states both.
        for element in lesson.avoid.iter().filter_map(Element::opposite) {
            if let Fit::States(edits) = self.fit(&element) {
                stated.extend(edits);
            }
        }
        let edits = self.edits();
        match (stated.is_empty(), related) {
            (true, false) => Agreement::Unknown,
            (false, _) if edits.iter().all(|edit| stated.contains(edit)) => Agreement::Whole,
            _ => Agreement::Part,
        }
    }

    /// Returns the names by which a lesson can name the calls: the tools, and the programs of commands.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = vec![self.wrong.tool.to_owned(), self.right.tool.to_owned()];
        for call in [self.wrong, self.right] {
            let commands = flatten_arguments(call.arguments).into_values().filter_map(words_of_command);
            names.extend(commands.filter_map(|words| words.into_iter().next()));
        }
        names
    }

    /// Returns the arguments of an agent that uses another value than the right one, because the lesson states it
    /// for a parameter of the remedy. Returns `None` if the lesson states no such value.
    pub(crate) fn with_stated_value(&self, lesson: &Lesson) -> Option<Value> {
        if lesson.tool.as_deref().is_some_and(|tool| tool != self.wrong.tool) {
            return None;
        }
        let edits = self.edits();
        let right = flatten_arguments(self.right.arguments);
        lesson.prefer.iter().find_map(|element| {
            let Element::Value(name, stated) = element else { return None };
            let edited = |path: &&String| edits.contains(&Edit::Parameter((*path).clone()));
            let path = right.keys().filter(|path| is_path_of(path, name)).find(edited)?;
            if format_value(right[path]) == *stated {
                return None;
            }
            let mut arguments = self.right.arguments.clone();
            // A number stays a number, so that only the value differs.
            let value = serde_json::from_str(stated).ok().filter(|_| !right[path].is_string());
            *arguments.pointer_mut(&format!("/{}", path.replace('.', "/")))? =
                value.unwrap_or_else(|| Value::String(stated.clone()));
            Some(arguments)
        })
    }

    fn edits(&self) -> Vec<Edit> {
        let mut edits: Vec<Edit> = (0..self.first.len()).map(Edit::First).collect();
        if self.right.tool != self.wrong.tool {
            // The arguments of another tool are another form; the tool is what has to be known.
            edits.push(Edit::Tool);
            return edits;
        }
        let (wrong, right) =
            (flatten_arguments(self.wrong.arguments), flatten_arguments(self.right.arguments));
        for (path, value) in &right {
            match wrong.get(path) {
                Some(before) if before == value => {}
                Some(before) => edits.extend(value_edits(path, before, value)),
                None => edits.push(Edit::Parameter(path.clone())),
            }
        }
        edits.extend(wrong.keys().filter(|path| !right.contains_key(*path)).cloned().map(Edit::Parameter));
        if edits.is_empty() {
            edits.push(Edit::Again);
        }
        edits
    }

    fn fit(&self, element: &Element) -> Fit {
        let (wrong, right) =
            (flatten_arguments(self.wrong.arguments), flatten_arguments(self.right.arguments));
        let at = |arguments: &BTreeMap<String, &Value>, name: &str| -> Vec<String> {
            arguments.keys().filter(|path| is_path_of(path, name)).cloned().collect()
        };
        let only = |paths: Vec<String>, other: Vec<String>| {
            if paths.is_empty() || !other.is_empty() {
                Fit::Wrong
            } else {
                Fit::States(paths.into_iter().map(Edit::Parameter).collect())
            }
        };
        match element {
            Element::Parameter(name) => only(at(&right, name), at(&wrong, name)),
            Element::NoParameter(name) => only(at(&wrong, name), at(&right, name)),
            Element::Value(name, value) => fit_value(&wrong, &right, name, value),
            Element::Form(name, form) => self.fit_form(&wrong, &right, name, form),
            Element::ArgumentForm(_, form) => self.fit_argument_form(form),
            Element::ArgumentOrigin(_, source) => match self.fit_first(source) {
                Fit::States(mut edits) => {
                    let filled =
                        |edit: &Edit| matches!(edit, Edit::Word(word) if !placeholder_names(word).is_empty());
                    edits.extend(self.edits().into_iter().filter(filled));
                    Fit::States(edits)
                }
                _ => Fit::Unknown,
            },
            Element::Pause if self.waits => Fit::States(vec![Edit::Again]),
            Element::Pause => Fit::Wrong,
            Element::Origin(name, source) => match self.fit_first(source) {
                // The call before is stated by an element of its own. Here it says where the value is from.
                Fit::States(mut edits) => {
                    let changed =
                        at(&right, name).into_iter().filter(|path| wrong.get(path) != right.get(path));
                    edits.extend(changed.map(Edit::Parameter));
                    Fit::States(edits)
                }
                _ => Fit::Unknown,
            },
            Element::Option(option) => self.fit_option(option, self.right, self.wrong),
            Element::OptionValue(option, value) => self.fit_option_value(option, value),
            Element::NoOption(option) => self.fit_option(option, self.wrong, self.right),
            Element::Program(program) => {
                let runs = |call: PlannedCall<'_>| {
                    command_words(call.arguments).iter().any(|words| contains_in_order(words, program))
                };
                if runs(self.right) && !runs(self.wrong) { Fit::States(self.edits()) } else { Fit::Wrong }
            }
            Element::Tool(tool) if *tool == self.right.tool && *tool != self.wrong.tool => {
                Fit::States(vec![Edit::Tool])
            }
            Element::Tool(_) => Fit::Wrong,
            Element::First(label) => self.fit_first(label),
            Element::SameCall => match self.edits().as_slice() {
                [Edit::Again] => Fit::States(vec![Edit::Again]),
                // After a preparation the same call succeeds, so the element alone is not wrong.
                edits if edits.iter().all(|edit| matches!(edit, Edit::First(_))) => Fit::Unknown,
                _ => Fit::Wrong,
            },
            Element::Text(text) => {
                let contains = |call: PlannedCall<'_>| {
                    command_words(call.arguments).iter().any(|words| contains_words(words, text))
                };
                if contains(self.right) && !contains(self.wrong) {
                    Fit::States(
                        self.edits()
                            .into_iter()
                            .filter(|edit| matches!(edit, Edit::Word(word) if text.contains(word.as_str())))
                            .collect(),
                    )
                } else {
                    Fit::Unknown
                }
            }
        }
    }

    fn fit_option(&self, option: &str, with: PlannedCall<'_>, without: PlannedCall<'_>) -> Fit {
        let words_of = |call: PlannedCall<'_>| -> Vec<String> {
            command_words(call.arguments)
                .into_iter()
                .flatten()
                .filter(|word| is_option(word, option))
                .collect()
        };
        let words = words_of(with);
        if words.is_empty() {
            return self.fit_keyword(option, with, without);
        }
        if !words_of(without).is_empty() {
            return Fit::Wrong;
        }
        Fit::States(words.into_iter().map(Edit::Word).collect())
    }

    /// Fits a keyword argument of source code, such as `encoding='latin-1'`. It is the whole change of a text if the texts
    /// are equal without it.
    fn fit_keyword(&self, keyword: &str, with: PlannedCall<'_>, without: PlannedCall<'_>) -> Fit {
        let (with, without) = (flatten_arguments(with.arguments), flatten_arguments(without.arguments));
        let bare =
            |text: &str| -> String { text.chars().filter(|c| !c.is_whitespace() && *c != ',').collect() };
        let found = with.iter().find_map(|(path, value)| {
            let (text, other) = (value.as_str()?, without.get(path)?.as_str()?);
            let is_new = text.contains(keyword) && !other.contains(keyword);
            is_new.then(|| (path, *value, without[path], bare(&text.replacen(keyword, "", 1)) == bare(other)))
        });
        match found {
            Some((path, value, before, true)) => Fit::States(value_edits(path, before, value)),
            Some(_) => Fit::Related,
            None => Fit::Wrong,
        }
    }

    fn fit_option_value(&self, option: &str, value: &str) -> Fit {
        let joined = format!("{option}={value}");
        let phrase: Vec<&str> = std::iter::once(option).chain(value.split_whitespace()).collect();
        let words_with = |call: PlannedCall<'_>| -> Vec<String> {
            let mut found = Vec::new();
            for words in command_words(call.arguments) {
                found.extend(words.iter().filter(|word| **word == joined).cloned());
                let is_phrase = |some: &&[String]| {
                    some.iter()
                        .zip(&phrase)
                        .all(|(word, wanted)| without_quotes(word) == without_quotes(wanted))
                };
                // In a list of words, a value with blanks is one word.
                let is_pair = |two: &&[String]| two[0] == option && without_quotes(&two[1]) == value;
                found.extend(words.windows(2).filter(is_pair).flatten().cloned());
                // All words, because the option alone may have been there with another value.
                found.extend(words.windows(phrase.len()).filter(is_phrase).flatten().cloned());
            }
            found
        };
        let words = words_with(self.right);
        if words.is_empty() || !words_with(self.wrong).is_empty() {
            return Fit::Wrong;
        }
        Fit::States(words.into_iter().map(Edit::Word).collect())
    }

    fn fit_form(
        &self,
        wrong: &BTreeMap<String, &Value>,
        right: &BTreeMap<String, &Value>,
        name: &str,
        form: &str,
    ) -> Fit {
        if form == "as a list"
            && let Some(fit) = self.fit_list_of_objects(name)
        {
            return fit;
        }
        let mut changed =
            right.iter().filter(|(path, value)| is_path_of(path, name) && wrong.get(*path) != Some(*value));
        let Some((path, value)) = changed.next() else { return Fit::Wrong };
        if let Some(before) = wrong.get(path)
            && let Some(leads) = self.leads_in_examples(form, before, value)
        {
            return if leads { Fit::States(value_edits(path, before, value)) } else { Fit::Wrong };
        }
        match form.strip_prefix("as ").and_then(type_test) {
            None => Fit::Related,
            // The value of a placeholder can have any type.
            Some(_) if value.as_str().is_some_and(|text| !placeholder_names(text).is_empty()) => Fit::Related,
            Some(is_type) if !is_type(value) => Fit::Wrong,
            Some(is_type) if wrong.get(path).is_some_and(|before| !is_type(before)) => Fit::Related,
            Some(_) => Fit::Wrong,
        }
    }

    /// Fits the form "as a list" to a list of objects, whose leaves alone do not show the list. Returns `None` if the remedy
    /// has no such list under this name.
    fn fit_list_of_objects(&self, name: &str) -> Option<Fit> {
        let right = value_named(self.right.arguments, name)?;
        let items = right.as_array().filter(|items| items.iter().any(Value::is_object))?;
        let wrong = value_named(self.wrong.arguments, name).filter(|value| !value.is_array())?;
        let edits = self.edits().into_iter();
        let within = |edit: &Edit| matches!(edit, Edit::Parameter(path) if is_path_of(path, name));
        Some(match items.as_slice() {
            [only] if only == wrong => Fit::States(edits.filter(within).collect()),
            _ => Fit::Related,
        })
    }

    /// Fits a form to the words of a command that are new in it.
    fn fit_argument_form(&self, form: &str) -> Fit {
        let words = |call: PlannedCall<'_>| -> Vec<String> {
            command_words(call.arguments).into_iter().flatten().collect()
        };
        let (wrong, right) = (words(self.wrong), words(self.right));
        let (old, new): (Vec<&String>, Vec<&String>) = (
            wrong.iter().filter(|word| !right.contains(word)).collect(),
            right.iter().filter(|word| !wrong.contains(word)).collect(),
        );
        let value = |word: &String| Value::String(word.clone());
        let leads = |word: &&&String| {
            old.iter().any(|before| self.leads_in_examples(form, &value(before), &value(word)) == Some(true))
        };
        let edits: Vec<Edit> = new.iter().filter(leads).map(|word| Edit::Word((*word).clone())).collect();
        if edits.is_empty() { Fit::Wrong } else { Fit::States(edits) }
    }

    /// Returns `true` if a form leads from one value to another in every example, with the placeholders filled. Returns
    /// `None` if that cannot be told.
    fn leads_in_examples(&self, form: &str, before: &Value, after: &Value) -> Option<bool> {
        let Some(values) = self.values else { return leads_to(form, before, after) };
        let mut examples = (0..EXAMPLES).map(|number| {
            let drawn = values.draw_values(&["example", &number.to_string()]);
            leads_to(form, &drawn.fill_arguments(before), &drawn.fill_arguments(after))
        });
        examples.try_fold(true, |all, leads| Some(all && leads?))
    }

    fn fit_first(&self, label: &str) -> Fit {
        let is_named = |call: &PlannedCall<'_>| {
            // The name of a shell before another call of the same shell says nothing.
            let by_tool = call.tool == label && call.tool != self.wrong.tool;
            by_tool
                || names_call(call, label)
                || calls_function(call, label)
                || command_words(call.arguments).iter().any(|words| contains_in_order(words, label))
        };
        if let Some(at) = self.first.iter().position(is_named) {
            return Fit::States(vec![Edit::First(at)]);
        }
        // A command may contain its own preparation: `npm ci && npm test`.
        if is_named(&self.right) && !is_named(&self.wrong) { Fit::States(self.edits()) } else { Fit::Wrong }
    }
}

fn fit_value(
    wrong: &BTreeMap<String, &Value>,
    right: &BTreeMap<String, &Value>,
    name: &str,
    value: &str,
) -> Fit {
    let holds = |arguments: &BTreeMap<String, &Value>| -> Vec<String> {
        let equal = |(path, found): (&String, &&Value)| {
            (is_path_of(path, name) && format_value(found) == value).then(|| path.clone())
        };
        arguments.iter().filter_map(equal).collect()
    };
    let (paths, before) = (holds(right), holds(wrong));
    if paths.is_empty() || !before.is_empty() {
        return Fit::Wrong;
    }
    let edits_at = |path: &String| match wrong.get(path) {
        Some(value) => value_edits(path, value, right[path]),
        None => vec![Edit::Parameter(path.clone())],
    };
    Fit::States(paths.iter().flat_map(edits_at).collect())
}

/// Returns the test for a JSON type that is named in plain words.
fn type_test(words: &str) -> Option<fn(&Value) -> bool> {
    Some(match words {
        "a number" => Value::is_number,
        "a string" => Value::is_string,
        "a list" => Value::is_array,
        "an object" => Value::is_object,
        "true or false" => Value::is_boolean,
        _ => return None,
    })
}

/// Returns the edits between two values of a parameter: the words of a command, otherwise the parameter.
fn value_edits(path: &str, before: &Value, after: &Value) -> Vec<Edit> {
    let (Some(before), Some(after)) = (words_of_command(before), words_of_command(after)) else {
        return vec![Edit::Parameter(path.to_owned())];
    };
    let new = |words: &[String], than: &[String]| -> Vec<Edit> {
        let mut found = Vec::new();
        for (at, word) in words.iter().enumerate().filter(|(_, word)| !than.contains(word)) {
            // The value after a new option belongs to the option.
            let of_option = at > 0
                && !word.starts_with('-')
                && words[at - 1].starts_with('-')
                && !than.contains(&words[at - 1]);
            if !of_option {
                found.push(Edit::Word(word.clone()));
            }
        }
        found
    };
    let added = new(&after, &before);
    let edits = if added.is_empty() { new(&before, &after) } else { added };
    // Only the order of the words differs.
    if edits.is_empty() { vec![Edit::Parameter(path.to_owned())] } else { edits }
}

/// Returns `true` if a label is the tool of a call, followed by words of what the call is given.
fn names_call(call: &PlannedCall<'_>, label: &str) -> bool {
    let mut words = label.split_whitespace();
    let texts: Vec<String> = flatten_arguments(call.arguments).into_values().map(format_value).collect();
    words.next() == Some(call.tool)
        && label.contains(' ')
        && words.all(|word| texts.iter().any(|text| text.split_whitespace().any(|own| own.ends_with(word))))
}

/// Returns `true` if a call is given source code that calls a function, as in `install.packages('lme4')`.
fn calls_function(call: &PlannedCall<'_>, name: &str) -> bool {
    let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let is_called = |text: &str| {
        let opened = format!("{name}(");
        text.match_indices(&opened).any(|(at, _)| !text[..at].ends_with(is_inner))
    };
    flatten_arguments(call.arguments).into_values().any(|value| is_called(&format_value(value)))
}

#[cfg(test)]
mod tests;
