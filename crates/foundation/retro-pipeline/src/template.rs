//! Checks and renders one template.
//!
//! A template never gets the text of a variable. It gets an object that renders as a placeholder: a number between two
//! characters of the private use area, which no template may contain. The placeholders are replaced in the finished text. So a
//! template can place a variable, leave it out or ask if it is empty, and nothing else: text that was cut out of a placeholder
//! is no placeholder, and the rendering fails.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};

use crate::inspection::{TAKES_APART, find_mistakes};
use crate::name::PromptName;
use crate::problem::PromptProblem;

/// Maximum size of the text of a prompt, in bytes: some ten pages, far more than a model follows.
pub(crate) const PROMPT_BYTES_MAX: usize = 32 * 1024;
/// Maximum size of a prompt with its facts, in bytes. The facts are bounded themselves; a template may repeat them.
const RENDERED_BYTES_MAX: usize = 512 * 1024;
/// Begin and end of a placeholder.
const MARKS: [char; 2] = ['\u{E000}', '\u{E001}'];
/// Instructions that a rendering may execute, each of which may allocate some 64 bytes. The shipped prompts need about 60.
const FUEL: u64 = 20_000;
/// Maximum number of typing errors at which a name counts as misspelt.
const TYPOS_MAX: usize = 3;

/// A variable, as a template sees it.
#[derive(Debug)]
struct Placeholder {
    index: usize,
    is_empty: bool,
}

impl Object for Placeholder {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        !self.is_empty
    }

    fn render(self: &Arc<Self>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}{}", MARKS[0], self.index, MARKS[1])
    }
}

/// Checks the text of a prompt, and renders it with sample facts: once with all variables and once with those alone that are
/// never empty. Fails with all mistakes, by line; those that only a rendering shows are found once there are no others.
pub(crate) fn check_template(prompt: PromptName, text: &str) -> Result<(), Vec<PromptProblem>> {
    let problem = |line, sentence: String| PromptProblem { prompt, line, sentence };
    let one = |line, sentence: String| Err(vec![problem(line, sentence)]);
    if text.trim().is_empty() {
        return one(1, "the prompt is empty; delete the file to have the shipped one".to_owned());
    }
    if text.len() > PROMPT_BYTES_MAX {
        return one(
            1,
            format!("the prompt has {} bytes; at most {PROMPT_BYTES_MAX} are allowed", text.len()),
        );
    }
    if let Some(at) = text.find(MARKS) {
        let found = u32::from(text[at..].chars().next().unwrap_or_default());
        return one(
            line_of(text, at),
            format!("has the character U+{found:X}, which is reserved; remove it"),
        );
    }
    let environment = build_environment();
    let template = environment.template_from_named_str(prompt.file_name(), text);
    let template = template.map_err(|error| vec![to_problem(prompt, &error)])?;
    let mistakes = find_mistakes(prompt, &template, |name| describe_unknown(prompt, name));
    if !mistakes.is_empty() {
        return Err(mistakes.into_iter().map(|(line, sentence)| problem(line, sentence)).collect());
    }
    let sample = |all: bool| {
        let variables = prompt.variables().iter().filter(|one| all || !one.may_be_empty);
        variables.map(|one| (one.name, format!("sample of {}", one.name))).collect()
    };
    let mut problems: Vec<_> = [true, false]
        .into_iter()
        .filter_map(|all| render_template(prompt, text, &sample(all)).err())
        .collect();
    problems.dedup();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Renders a template with the facts of a run.
pub(crate) fn render_template(
    prompt: PromptName,
    text: &str,
    facts: &BTreeMap<&'static str, String>,
) -> Result<String, PromptProblem> {
    let variables = prompt.variables();
    let texts: Vec<&str> =
        variables.iter().map(|one| facts.get(one.name).map_or("", String::as_str)).collect();
    let context: BTreeMap<&str, Value> = variables
        .iter()
        .enumerate()
        .map(|(index, one)| {
            (one.name, Value::from_object(Placeholder { index, is_empty: texts[index].is_empty() }))
        })
        .collect();
    let environment = build_environment();
    let rendered = environment
        .template_from_named_str(prompt.file_name(), text)
        .and_then(|template| template.render(Value::from(context)));
    let rendered = rendered.map_err(|error| to_problem(prompt, &error))?;
    fill_placeholders(&rendered, &texts).map_err(|sentence| PromptProblem { prompt, line: 1, sentence })
}

fn build_environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment
}

/// Replaces the placeholders. Fails with a sentence if one was cut apart, or the result is too large.
fn fill_placeholders(rendered: &str, texts: &[&str]) -> Result<String, String> {
    let cut = || TAKES_APART.to_owned();
    let mut parts = rendered.split(MARKS[0]);
    let mut out = parts.next().unwrap_or_default().to_owned();
    if out.contains(MARKS[1]) {
        return Err(cut());
    }
    for part in parts {
        let (index, rest) =
            part.split_once(MARKS[1]).filter(|(_, rest)| !rest.contains(MARKS[1])).ok_or_else(cut)?;
        let index: usize = index.parse().map_err(|_| cut())?;
        out.push_str(texts.get(index).ok_or_else(cut)?);
        out.push_str(rest);
        if out.len() > RENDERED_BYTES_MAX {
            return Err(format!(
                "the prompt with its facts has more than {RENDERED_BYTES_MAX} bytes; use fewer variables, each once"
            ));
        }
    }
    Ok(out.trim().to_owned())
}

fn describe_unknown(prompt: PromptName, unknown: &str) -> String {
    let known = prompt.variables();
    if known.is_empty() {
        return format!(
            "uses `{unknown}`; the prompt is always the same and has no variables, those are for {}",
            name_prompt_with_variables(prompt)
        );
    }
    let nearest = known.iter().map(|one| (strsim::damerau_levenshtein(unknown, one.name), one.name)).min();
    let meant = match nearest {
        Some((typos, name)) if typos <= TYPOS_MAX.min(unknown.len() / 3).max(1) => {
            format!("; did you mean `{name}`?")
        }
        _ => String::new(),
    };
    let all: Vec<_> = known.iter().map(|one| one.name).collect();
    format!("unknown variable `{unknown}`{meant} (variables: {})", all.join(", "))
}

/// Names the file of the same pipeline whose prompt has variables.
fn name_prompt_with_variables(prompt: PromptName) -> &'static str {
    let all = PromptName::of_pipeline(prompt.pipeline());
    all.iter().find(|one| !one.variables().is_empty()).map_or("another prompt", |one| one.file_name())
}

fn to_problem(prompt: PromptName, error: &Error) -> PromptProblem {
    let detail = error.detail().map_or(String::new(), |detail| format!(": {detail}"));
    let sentence = match error.kind() {
        ErrorKind::OutOfFuel => "the prompt takes too long to render; use no loops".to_owned(),
        kind => format!("{kind}{detail}"),
    };
    PromptProblem { prompt, line: error.line().unwrap_or(1), sentence }
}

fn line_of(text: &str, byte: usize) -> usize {
    text[..byte].matches('\n').count() + 1
}
