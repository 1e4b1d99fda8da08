//! Builds the machine-readable remedy of a lesson from fields that an agent or a model states. Whoever states them
//! writes no sentence: only plain names, values and calls are accepted, and the sentence is ours.

use retro_gate::is_plain_name;
use serde::{Deserialize, Serialize};

/// Maximum length of an argument's value, in characters.
const VALUE_CHARS_MAX: usize = 64;
/// Maximum number of words of a call that is to come first.
const CALL_WORDS_MAX: usize = 4;

/// What is to be changed in a call, according to an agent or a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SavedChange {
    /// `argument` gets the value `good`, instead of `bad` if that is given.
    SetArgument,
    /// `argument` was missing.
    AddArgument,
    /// `argument` is left out.
    DropArgument,
    /// The tool `good` is called instead.
    UseTool,
    /// `good` is called first: a tool, or a command of up to four words.
    CallFirst,
}

/// Error for a field of a lesson that an agent states.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct LessonFieldError {
    /// Name of the field.
    pub field: &'static str,
    /// What is the matter with it, and what to do.
    pub problem: String,
}

impl LessonFieldError {
    /// Creates the error for a field.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}

/// Fields that say what is to be changed in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatedFields<'f> {
    /// What is to be changed in the call.
    pub change: SavedChange,
    /// Tool whose call is to be changed.
    pub tool: &'f str,
    /// Program of a command whose option `argument` is; `None` if it is a named parameter of the tool.
    pub program: Option<&'f str>,
    /// Argument that is to be changed.
    pub argument: Option<&'f str>,
    /// Value of the argument that failed.
    pub bad: Option<&'f str>,
    /// Value of the argument that works, or the tool or the call.
    pub good: Option<&'f str>,
}

/// Returns the form of what is to be done, as in [`LessonCue::prefer`](super::LessonCue::prefer), and what it replaces.
/// Fails if a field is missing, or is no plain name or value: whoever states the fields must not be able to write a
/// sentence.
pub fn stated_form(fields: &StatedFields<'_>) -> Result<(String, Option<String>), LessonFieldError> {
    named("tool", Some(fields.tool))?;
    let argument = || named("argument", fields.argument);
    if let Some(program) = fields.program {
        return option_form(named("tool", Some(program))?, fields);
    }
    Ok(match fields.change {
        SavedChange::SetArgument => {
            let (argument, good) = (argument()?, value("good", fields.good)?);
            let bad = fields.bad.map(|bad| value("bad", Some(bad))).transpose()?;
            (format!("`{argument}` = `{good}`"), bad.map(|bad| format!("`{argument}` = `{bad}`")))
        }
        SavedChange::AddArgument => (format!("with `{}`", argument()?), None),
        SavedChange::DropArgument => (format!("without `{}`", argument()?), None),
        SavedChange::UseTool => (format!("tool `{}`", named("good", fields.good)?), None),
        SavedChange::CallFirst => (format!("first `{}`", call("good", fields.good)?), None),
    })
}

/// Returns the form of a change of an option of a program.
fn option_form(
    program: &str,
    fields: &StatedFields<'_>,
) -> Result<(String, Option<String>), LessonFieldError> {
    let option = option_name(fields.argument)?;
    let with = |text: &str| Ok(format!("`{program}` with `{option} {}`", value("good", Some(text))?));
    Ok(match fields.change {
        SavedChange::SetArgument => {
            let bad = fields.bad.map(|bad| value("bad", Some(bad))).transpose()?;
            let avoid = bad.map(|bad| format!("`{program}` with `{option} {bad}`"));
            (with(given("good", fields.good)?)?, avoid)
        }
        SavedChange::AddArgument => match fields.good {
            Some(good) => (with(good)?, None),
            None => (format!("`{program}` with `{option}`"), None),
        },
        SavedChange::DropArgument => (format!("`{program}` without `{option}`"), None),
        SavedChange::UseTool | SavedChange::CallFirst => {
            return Err(LessonFieldError::new("change", "is not about an option"));
        }
    })
}

/// Returns the name of an option: hyphens and a plain name, or a single letter.
fn option_name(argument: Option<&str>) -> Result<&str, LessonFieldError> {
    let text = given("argument", argument)?;
    let name = text.trim_start_matches('-');
    let is_letter = name.len() == 1 && name.chars().all(|c| c.is_ascii_alphanumeric());
    let problem = "is no option: hyphens and a plain name";
    if text.starts_with('-') && (is_letter || is_plain_name(name)) {
        Ok(text)
    } else {
        Err(LessonFieldError::new("argument", problem))
    }
}

fn given<'f>(field: &'static str, text: Option<&'f str>) -> Result<&'f str, LessonFieldError> {
    text.ok_or_else(|| LessonFieldError::new(field, "is missing; this change needs it"))
}

/// Returns a name of a tool or an argument.
fn named<'f>(field: &'static str, text: Option<&'f str>) -> Result<&'f str, LessonFieldError> {
    let text = given(field, text)?;
    let problem = "is no plain name: letters, digits and `_.-/:`, no sentence and no address";
    if is_plain_name(text) { Ok(text) } else { Err(LessonFieldError::new(field, problem)) }
}

/// Returns a value of an argument: one word, which is a number, a date or a plain name.
fn value<'f>(field: &'static str, text: Option<&'f str>) -> Result<&'f str, LessonFieldError> {
    let text = given(field, text)?;
    let is_word = (1..=VALUE_CHARS_MAX).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/:+@#".contains(c));
    let is_plain = !text.chars().any(char::is_alphabetic) || is_plain_name(text.trim_start_matches('#'));
    let problem = format!("is no plain value: one word of at most {VALUE_CHARS_MAX} characters, no address");
    if is_word && is_plain { Ok(text) } else { Err(LessonFieldError::new(field, problem)) }
}

/// Returns a call: a tool, or a program with a few words.
fn call<'f>(field: &'static str, text: Option<&'f str>) -> Result<&'f str, LessonFieldError> {
    let text = given(field, text)?;
    let words: Vec<&str> = text.split(' ').collect();
    let is_plain = |word: &&str| is_plain_name(word.trim_start_matches('-'));
    let problem = format!("is no plain call: a tool, or a command of at most {CALL_WORDS_MAX} plain words");
    let fits = words.len() <= CALL_WORDS_MAX && words.iter().all(is_plain);
    if fits { Ok(text) } else { Err(LessonFieldError::new(field, problem)) }
}
